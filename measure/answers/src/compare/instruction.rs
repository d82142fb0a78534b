//! Normalises instructions and functions, so that they stay the same when code is moved or recompiled.

use crate::code::Place;
use crate::instructions::Instructions;
use crate::symbols::SymbolNames;
use hardmeter_samples::model::Register;
use hardmeter_symbols::{Flow, Instruction, RoutineId, RoutineKind, Syntax};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Larger routines are not decoded completely.
const LARGEST_ROUTINE: u64 = 1 << 20;

/// An instruction without the parts that change when code moves: targets of jumps, distances to data, places
/// in the stack frame.
///
/// ```text
///   mov 0x8(%rdi),%rax               mov 0x8(%rdi),%rax        offsets within structures stay
///   mov 0x18(%rsp),%rbx              mov *(%rsp),%rbx
///   call 0x4616d0 <LWLockRelease>    call LWLockRelease
///   jne 0x4616f4                     jne *
///   lea 0x2f01(%rip),%rax            lea table(%rip),%rax      the variable where it has a name, else *
/// ```
pub(super) fn normalised(instruction: &Instruction) -> String {
    let mnemonic = instruction.text.split(' ').next().unwrap_or_default();
    match instruction.flow {
        Flow::Call(Some(_)) => return format!("{mnemonic} {}", callee(instruction).unwrap_or("*")),
        Flow::Jump(Some(_)) | Flow::ConditionalJump(_) => return format!("{mnemonic} *"),
        _ => {}
    }
    let written = instruction.memory.iter().find_map(|operand| Some((operand, operand.text.clone()?)));
    let Some((operand, span)) = written else { return squeezed(&instruction.text) };
    let absolute = operand.base.is_none() && operand.index.is_none() && !operand.segment_base;
    let replaced = match operand.base {
        Some(Register::Rip) => format!("{}(%rip)", variable(instruction).unwrap_or("*")),
        Some(Register::Rsp | Register::Rbp) => {
            let text = &instruction.text[span.clone()];
            let registers = text.find('(').map_or("", |at| &text[at..]);
            format!("*{registers}")
        }
        _ if absolute => "*".to_string(),
        _ => return squeezed(&instruction.text),
    };
    let text = &instruction.text;
    squeezed(&format!("{}{replaced}{}", &text[..span.start], &text[span.end..]))
}

/// One blank between mnemonic and operands.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `LWLockRelease` from the comment `<LWLockRelease>`; `None` for a place in place of a name.
fn callee(instruction: &Instruction) -> Option<&str> {
    let name = instruction.comment.as_deref()?.strip_prefix('<')?.strip_suffix('>')?;
    (!name.contains("+0x") && !name.starts_with("static function ")).then_some(name)
}

/// `table+0x8` from the comment `# 0x404060 <table+0x8>`.
fn variable(instruction: &Instruction) -> Option<&str> {
    instruction.comment.as_deref()?.split_once('<')?.1.strip_suffix('>')
}

/// Instructions and functions of one capture, each decoded once.
#[derive(Default)]
pub(super) struct Code {
    instructions: Instructions,
    texts: FxHashMap<Place, Option<Arc<str>>>,
    bodies: FxHashMap<RoutineId, Option<Arc<str>>>,
}

impl Code {
    /// The normalised instruction at a place, if its code is available.
    pub(super) fn text(&mut self, names: &mut SymbolNames, place: Place) -> Option<Arc<str>> {
        if let Some(known) = self.texts.get(&place) {
            return known.clone();
        }
        let text = self.decode(names, place);
        self.texts.insert(place, text.clone());
        text
    }

    fn decode(&mut self, names: &mut SymbolNames, place: Place) -> Option<Arc<str>> {
        let instruction = self.instructions.at(names, place)?;
        Some(normalised(&instruction).into())
    }

    /// The identity of a function without a name in another build: its normalised instructions.
    pub(super) fn nameless(&mut self, names: &mut SymbolNames, place: Place) -> Option<Arc<str>> {
        let resolved = names.resolved(place)?;
        if names.symbolizer().routine(resolved.routine).kind != RoutineKind::StaticFunction {
            return None;
        }
        if let Some(known) = self.bodies.get(&resolved.routine) {
            return known.clone();
        }
        let body = body(names, resolved.image, resolved.routine);
        self.bodies.insert(resolved.routine, body.clone());
        body
    }
}

fn body(
    names: &mut SymbolNames,
    image: Option<hardmeter_symbols::ImageId>,
    routine: RoutineId,
) -> Option<Arc<str>> {
    let routine = names.symbolizer().routine(routine);
    let (start, size) = (routine.start, routine.size);
    if size == 0 || size > LARGEST_ROUTINE {
        return None;
    }
    let mut end = start;
    end.0 = end.0.checked_add(size)?;
    let code = names.symbolizer().disassemble(image?, start..end, Syntax::Att).ok()?;
    let mut hasher = FxHasher::default();
    for instruction in &code {
        normalised(instruction).hash(&mut hasher);
    }
    Some(format!("static function of {} instructions, {:016x}", code.len(), hasher.finish()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_symbols::{disassemble, ImageAddress};

    fn texts(code: &[u8], at: u64) -> Vec<String> {
        disassemble(code, ImageAddress(at), Syntax::Att).iter().map(normalised).collect()
    }

    #[test]
    fn moved_code_is_the_same_text() {
        // mov 0x8(%rdi),%rax; mov 0x18(%rsp),%rbx; jne +2; mov 0x1000(%rip),%rax; call +0; mov %fs:0x28,%rax
        let code = [
            &[0x48, 0x8b, 0x47, 0x08][..],
            &[0x48, 0x8b, 0x5c, 0x24, 0x18],
            &[0x75, 0x02],
            &[0x48, 0x8b, 0x05, 0x00, 0x10, 0x00, 0x00],
            &[0xe8, 0x00, 0x00, 0x00, 0x00],
            &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0x00, 0x00, 0x00],
        ]
        .concat();
        let expected = [
            "mov 0x8(%rdi),%rax",
            "mov *(%rsp),%rbx",
            "jne *",
            "mov *(%rip),%rax",
            "call *",
            "mov %fs:0x28,%rax",
        ];
        assert_eq!(texts(&code, 0x1000), expected);
        assert_eq!(texts(&code, 0x7000), expected, "wherever it lies");
        // mov 0x20(%rsp),%rbx: another frame, the same access.
        assert_eq!(texts(&[0x48, 0x8b, 0x5c, 0x24, 0x20], 0), ["mov *(%rsp),%rbx"]);
    }

    #[test]
    fn names_of_what_is_called_and_used_stay() {
        let mut code =
            disassemble(&[0xe8, 0, 0, 0, 0, 0x48, 0x8b, 0x05, 0, 0x10, 0, 0], ImageAddress(0), Syntax::Att);
        code[0].comment = Some("<LWLockRelease>".into());
        code[1].comment = Some("# 0x404060 <table+0x8>".into());
        assert_eq!(normalised(&code[0]), "call LWLockRelease");
        assert_eq!(normalised(&code[1]), "mov table+0x8(%rip),%rax");
        for place in ["<static function 2 before XLogFlush>", "<static function in postgres (+0x1ea7b0)>"] {
            code[0].comment = Some(place.into());
            assert_eq!(normalised(&code[0]), "call *", "a place is not a name");
        }
    }
}
