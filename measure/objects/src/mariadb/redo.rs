//! The redo log buffer of InnoDB: two buffers of one size, one after the other, in a mapping of their own.
//!
//! ```text
//!   variables of the program:  ... | buffer | ... | buffer that is being written | ... | size |
//!                                      └──> | D bytes | D bytes | <──┘
//! ```
//! No symbol names the variables. What is taken for them: two addresses of pages within 512 bytes of one another, that
//! are the halves of one mapping, and a variable with the size of a half. A server with another layout has none here.

use super::attach::Server;
use crate::process_memory::{Mapping, Mappings};
use hardmeter_samples::model::VirtualAddress;
use std::collections::HashSet;
use std::ops::Range;

/// Words that may lie between the two addresses.
const NEAR: usize = 64;
/// The smallest log buffer that a server takes (`innodb_log_buffer_size`), and what sizes are multiples of.
const LEAST: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Maximum size of a program's variables.
const SECTION_LIMIT: u64 = 256 << 20;

/// The addresses of the redo log buffers; `None` unless exactly one place fits.
pub(super) fn log_buffers(server: &Server, mappings: &Mappings) -> Option<Range<u64>> {
    let sections = server.program.image.sections.iter();
    let variables = sections.filter(|section| matches!(section.name.as_str(), ".bss" | ".data"));
    let mut words = Vec::new();
    for section in variables.filter(|section| section.end.saturating_sub(section.start) <= SECTION_LIMIT) {
        let mut bytes = vec![0; section.end.saturating_sub(section.start) as usize];
        let got = server.memory.read_part(server.program.loaded(section.start), &mut bytes);
        words.extend(bytes[..got].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
    }
    halves(&words, |address| mappings.at(VirtualAddress(address)))
}

/// The one mapping whose halves two near words point to, and whose half's size is a word.
fn halves<'m>(words: &[u64], mapping_at: impl Fn(u64) -> Option<&'m Mapping>) -> Option<Range<u64>> {
    let mut found: HashSet<(u64, u64)> = HashSet::new();
    for (index, word) in words.iter().enumerate() {
        if *word < PAGE || !word.is_multiple_of(PAGE) {
            continue;
        }
        let Some(mapping) = mapping_at(*word).filter(|mapping| mapping.writable && mapping.file().is_none())
        else {
            continue;
        };
        let (start, length) = (mapping.start.0, mapping.length().0);
        let half = length / 2;
        let other = match *word {
            lower if lower == start => start + half,
            upper if upper == start + half => start,
            _ => continue,
        };
        let fits = half >= LEAST && half.is_multiple_of(PAGE) && length == 2 * half;
        let near = &words[index.saturating_sub(NEAR)..(index + NEAR).min(words.len())];
        if fits && near.contains(&other) && words.contains(&half) {
            found.insert((start, start + length));
        }
    }
    let (start, end) = *found.iter().next().filter(|_| found.len() == 1)?;
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_halves_of_a_mapping_and_their_size_are_the_log_buffers() {
        let mappings = Mappings::parse(
            "10000000-12000000 rw-p 00000000 00:00 0 \n20000000-21000000 rw-p 00000000 00:00 0 \n",
        );
        let at = |address| mappings.at(VirtualAddress(address));
        let size = 16 << 20;
        assert_eq!(halves(&[7, 0x1100_0000, 5, 0x1000_0000, size], at), Some(0x1000_0000..0x1200_0000));
        assert_eq!(halves(&[7, 0x1100_0000, 5, 0x1000_0000], at), None, "no variable has the size");
        assert_eq!(halves(&[0x1100_0000, 0x1000_1000, size], at), None, "not the halves");
        let mut apart = vec![0; 200];
        (apart[0], apart[199], apart[100]) = (0x1100_0000, 0x1000_0000, size);
        assert_eq!(halves(&apart, at), None, "too far from one another");
        let two = [0x1100_0000, 0x1000_0000, size, 0x2000_0000, 0x2080_0000, 8 << 20];
        assert_eq!(halves(&two, at), None, "two places look like them");
    }
}
