//! Finds the class of a C++ object by its pointer to a virtual table:
//!
//! ```text
//!   object: | table ──┐ ...        table: | distance | type ──┐ | function | function ...
//!                     └──────────────────────────────────────────^ (the pointer)
//!                                  type:  | table of the type's own class | name ──> "11ha_innobase"
//! ```
//! These names are in every program that uses exceptions across libraries, stripped ones too.

use crate::process_memory::ProcessMemory;
use crate::program::Program;
use hardmeter_samples::model::VirtualAddress;
use std::collections::HashMap;

/// Names of classes by the addresses of virtual tables; `None`: not a virtual table.
#[derive(Debug, Default)]
pub(super) struct ClassNames {
    known: HashMap<VirtualAddress, Option<String>>,
}

/// Limit of remembered addresses.
const MOST: usize = 100_000;

/// `11ha_innobase` or `N3foo3barE`: nested names with their lengths. Templates and other forms have no name
/// here.
fn plain(mangled: &str) -> Option<String> {
    let nested = mangled.strip_prefix('N').and_then(|rest| rest.strip_suffix('E'));
    let mut rest = nested.unwrap_or(mangled);
    let mut names = Vec::new();
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length: usize = rest[..digits].parse().ok()?;
        let name = rest.get(digits..digits.checked_add(length)?)?;
        let fits = name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
        if !fits || name.is_empty() {
            return None;
        }
        names.push(name);
        rest = &rest[digits + length..];
    }
    let whole = names.len() == 1 || nested.is_some() && names.len() > 1;
    whole.then(|| names.join("::"))
}

impl ClassNames {
    /// The class whose virtual table this is.
    pub fn class_of(
        &mut self,
        memory: &ProcessMemory,
        program: &Program,
        table: VirtualAddress,
    ) -> Option<String> {
        let in_constants = |address: VirtualAddress| {
            let section = program.image.section_at(program.own(address));
            section
                .is_some_and(|section| section.name.starts_with(".data.rel.ro") || section.name == ".rodata")
        };
        if !table.0.is_multiple_of(8) || !in_constants(table) {
            return None;
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let read = || {
            let kind = memory.pointer(VirtualAddress(table.0.checked_sub(8)?)).ok()?;
            let name = memory.pointer(VirtualAddress(kind.0.checked_add(8)?)).ok()?;
            if !in_constants(kind) || !in_constants(name) {
                return None;
            }
            plain(&memory.text(name, 200).ok()?)
        };
        self.known.entry(table).or_insert_with(read).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_are_read_and_others_are_none() {
        assert_eq!(plain("11ha_innobase").as_deref(), Some("ha_innobase"));
        assert_eq!(plain("N3foo3barE").as_deref(), Some("foo::bar"));
        for other in ["", "11ha_innobas", "3a-b", "0", "N3fooE3", "St9exception", "9999999999999999999999x"] {
            assert_eq!(plain(other), None, "{other}");
        }
    }
}
