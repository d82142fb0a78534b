//! Procedure linkage stubs: the few instructions through which a call leaves its image.
//!
//! ```text
//!   .plt.sec:  endbr64 ; bnd jmp *slot(%rip)      the slot, in .got, has a relocation that names it:
//!   .plt:              jmp *slot(%rip) ; push; jmp      slot -> "memcpy"  =>  the stub is "memcpy@plt"
//! ```
//!
//! Linkers write no symbols for these stubs.

use object::elf;
use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget, SymbolFlags,
};
use std::collections::HashMap;
use std::ops::Range;

/// One stub, or the linkage header at the start of `.plt` (name `None`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PltStub {
    pub range: Range<u64>,
    pub name: Option<String>,
}

/// All stubs of an image, by address.
#[derive(Debug, Default)]
pub(crate) struct PltStubs(Vec<PltStub>);

impl PltStubs {
    pub(crate) fn read(file: &object::File<'_>) -> PltStubs {
        let mut stubs = Vec::new();
        let mut slots = None;
        for section in file.sections() {
            let Ok(name) = section.name() else { continue };
            let step = match name {
                ".plt.got" => 8,
                ".plt" | ".plt.sec" | ".iplt" => 16,
                _ => continue,
            };
            let Ok(data) = section.data() else { continue };
            if file.architecture() != Architecture::X86_64 {
                // Stubs of other architectures are recognised as stubs, without names.
                let range = section.address()..section.address().saturating_add(section.size());
                stubs.push(PltStub { range, name: None });
                continue;
            }
            // `.plt.got` with control-flow protection has 16-byte stubs: endbr64 comes first.
            let step = if data.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 16 } else { step };
            let slots = slots.get_or_insert_with(|| slot_names(file));
            for (index, code) in data.chunks(step).enumerate() {
                let start = section.address().wrapping_add((index * step) as u64);
                let name = slot_of(code, start).and_then(|slot| slots.get(&slot)).cloned();
                stubs.push(PltStub { range: start..start.wrapping_add(code.len() as u64), name });
            }
        }
        stubs.sort_by_key(|stub| stub.range.start);
        PltStubs(stubs)
    }

    pub(crate) fn find(&self, address: u64) -> Option<&PltStub> {
        let position = self.0.partition_point(|stub| stub.range.start <= address).checked_sub(1)?;
        Some(&self.0[position]).filter(|stub| stub.range.contains(&address))
    }
}

/// Names of the functions whose addresses the dynamic linker writes, by slot.
fn slot_names(file: &object::File<'_>) -> HashMap<u64, String> {
    let mut names = HashMap::new();
    let (Some(relocations), Some(symbols)) = (file.dynamic_relocations(), file.dynamic_symbol_table()) else {
        return names;
    };
    let mut choosers = None;
    for (slot, relocation) in relocations {
        let name = match relocation.target() {
            RelocationTarget::Symbol(index) => {
                symbols.symbol_by_index(index).ok().and_then(|symbol| symbol.name().ok()).map(str::to_owned)
            }
            // A function of the image itself with several implementations: the relocation holds the address of the
            // resolver function, which has the name.
            RelocationTarget::Absolute => {
                let choosers = choosers.get_or_insert_with(|| chooser_names(file));
                choosers.get(&(relocation.addend() as u64)).cloned()
            }
            _ => None,
        };
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            names.insert(slot, name);
        }
    }
    names
}

/// Indirect functions (`STT_GNU_IFUNC`) by address: `memcpy` has several implementations and one name.
fn chooser_names(file: &object::File<'_>) -> HashMap<u64, String> {
    let is_chooser = |symbol: &object::read::Symbol<'_, '_>| match symbol.flags() {
        SymbolFlags::Elf { st_info, .. } => st_info.st_type() == elf::STT_GNU_IFUNC,
        _ => false,
    };
    let symbols = file.symbols().chain(file.dynamic_symbols()).filter(is_chooser);
    let mut names: Vec<(u64, String)> =
        symbols.filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned()))).collect();
    // Of several names prefer those without an underscore, then the alphabetically first.
    names.sort_by_key(|(address, name)| (*address, name.starts_with('_'), name.clone()));
    names.dedup_by_key(|(address, _)| *address);
    names.into_iter().collect()
}

/// The slot that a stub jumps through: the target of its `jmp *displacement(%rip)` (ff 25), which may follow
/// an endbr64 and a bnd prefix.
fn slot_of(code: &[u8], start: u64) -> Option<u64> {
    let position = match code {
        [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, ..] => 5,
        [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, ..] => 4,
        [0xf2, 0xff, 0x25, ..] => 1,
        [0xff, 0x25, ..] => 0,
        _ => return None,
    };
    let displacement = i32::from_le_bytes(code.get(position + 2..position + 6)?.try_into().ok()?);
    Some(start.wrapping_add(position as u64 + 6).wrapping_add(displacement as i64 as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_of_debian_postgres_second_stub() {
        // ce030: ff 25 2a 0e 7b 00  jmp *0x7b0e2a(%rip)  # 87ee60, as objdump prints it.
        let code = [0xff, 0x25, 0x2a, 0x0e, 0x7b, 0, 0x68, 0, 0, 0, 0, 0xe9, 0xe0, 0xff, 0xff, 0xff];
        assert_eq!(slot_of(&code, 0xce030), Some(0x87ee60));
        assert_eq!(slot_of(&code[..4], 0xce030), None);
        // The header of .plt pushes first: it belongs to no function.
        assert_eq!(slot_of(&[0xff, 0x35, 0x2a, 0x0e, 0x7b, 0], 0xce020), None);
    }
}
