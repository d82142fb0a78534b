//! The machine code of an image, with the names of what it calls.

use super::Symbolizer;
use crate::address_spaces::{ImageId, ImageKind};
use crate::disassembly::{disassemble, DisassemblyError, Flow, Instruction, Syntax};
use crate::image::ImageAddress;
use crate::routine::{DataPlace, RoutineKind};
use object::Architecture;
use std::ops::Range;

impl Symbolizer {
    /// Disassembles a range of an image, usually `start..start + size` of a [`Routine`](crate::Routine).
    /// Jumps, calls and rip-relative operands carry the name of what they lead to.
    ///
    /// # Errors
    ///
    /// [`DisassemblyError`] if the image's code is not available, or its architecture is not supported.
    pub fn disassemble(
        &mut self,
        image: ImageId,
        range: Range<ImageAddress>,
        syntax: Syntax,
    ) -> Result<Vec<Instruction>, DisassemblyError> {
        let start = range.start;
        let description = self.spaces.image(image);
        let (name, path, kind) = (description.name.clone(), description.path.clone(), description.kind);
        let Some(loaded) = self.load_code(image) else {
            let cause = match kind {
                ImageKind::File | ImageKind::Vdso => {
                    let of_image = self.problems.iter().find(|problem| problem.subject == path);
                    of_image
                        .map_or_else(|| "it could not be opened".to_owned(), |problem| problem.to_string())
                }
                ImageKind::JitMap => {
                    "compiled code was lost with its process; its map file has names only".to_owned()
                }
                ImageKind::Kernel | ImageKind::KernelModule => {
                    "the kernel's code is not available, only names; use `perf annotate` with /proc/kcore as root"
                        .to_owned()
                }
                ImageKind::Anonymous => "this memory is not mapped from a file".to_owned(),
            };
            return Err(DisassemblyError::NoCode { image: name, cause });
        };
        if loaded.architecture != Architecture::X86_64 {
            let architecture = format!("{:?}", loaded.architecture);
            return Err(DisassemblyError::Architecture { image: name, architecture });
        }
        let code = loaded.bytes_at(range);
        if code.is_empty() {
            let cause = format!("the file has no bytes at {start}");
            return Err(DisassemblyError::NoCode { image: name, cause });
        }
        let mut instructions = disassemble(code, start, syntax);
        for instruction in &mut instructions {
            instruction.comment = self.comment(image, instruction);
        }
        Ok(instructions)
    }

    fn comment(&mut self, image: ImageId, instruction: &Instruction) -> Option<String> {
        if let Flow::Call(Some(target)) | Flow::Jump(Some(target)) | Flow::ConditionalJump(target) =
            instruction.flow
        {
            return self.code_comment(image, target).map(|name| format!("<{name}>"));
        }
        let target = instruction.rip_relative_target()?;
        let named = match self.name_data(image, target).place {
            DataPlace::Variable { name, offset: 0, .. } => Some(name.to_string()),
            DataPlace::Variable { name, offset, .. } => Some(format!("{name}+{offset:#x}")),
            _ => None,
        };
        Some(match named {
            Some(name) => format!("# {target} <{name}>"),
            None => format!("# {target}"),
        })
    }

    fn code_comment(&mut self, image: ImageId, target: ImageAddress) -> Option<String> {
        let resolved = self.name_in_image(image, target);
        let routine = self.routine(resolved.routine);
        match (routine.kind, resolved.offset) {
            (RoutineKind::UnknownInImage | RoutineKind::UnknownAddress, _) => None,
            (_, 0) => Some(routine.name.clone()),
            (_, offset) => Some(format!("{}+{offset:#x}", routine.name)),
        }
    }
}
