//! Node: the heap of V8, by the space that each page's header names.
//!
//! ```text
//!   page (256 KB, aligned; of a large object: longer):  | size | flags | heap | area | ... | owner ──┐ | ...
//!   space:                                              | virtual table ──> "OldSpace" | ...    <────┘
//! ```
//! The owner is not looked for at an offset: it is the one word of the header that leads to a virtual table of a V8
//! space, and the program exports those by their names.

use super::runtime::Runtime;
use crate::bytes::u64_at;
use crate::found::Found;
use crate::process_memory::{Mapping, Mappings, ProcessMemory};
use crate::program::Program;
use hardmeter_samples::model::VirtualAddress;
use std::collections::{BTreeMap, HashMap};

/// The alignment of V8's pages.
const PAGE: u64 = 256 << 10;
/// Bytes of a header that are read.
const HEADER: usize = 256;
/// Maximum size of a large object.
const LARGEST: u64 = 1 << 40;
/// Most places that one check reads for headers: 16 GB of heap.
const MOST_PLACES: usize = 65_536;
/// Before the name of a class: Itanium's mangling of a virtual table of `v8::internal`.
const MANGLED: &str = "_ZTVN2v88internal";

/// The facts about a V8 heap that the address of an object is resolved by.
pub(super) struct Node {
    /// Names of spaces by the pointer to their virtual tables.
    tables: HashMap<u64, &'static str>,
    /// Pages by their first address: the end, and the space.
    pages: BTreeMap<u64, (u64, &'static str)>,
}

/// The name of a space, by its class.
fn space_name(class: &str) -> Option<&'static str> {
    Some(match class {
        "SemiSpaceNewSpace" | "SemiSpace" | "NewSpace" | "PagedNewSpace" | "PagedSpaceForNewSpace" => {
            "new space"
        }
        "OldSpace" => "old space",
        "CodeSpace" => "code space",
        "SharedSpace" => "shared space",
        "ReadOnlySpace" | "SharedReadOnlySpace" => "read-only space",
        "CompactionSpace" => "old space",
        "NewLargeObjectSpace" => "new large objects",
        "OldLargeObjectSpace" | "SharedLargeObjectSpace" => "large objects",
        "CodeLargeObjectSpace" => "large code objects",
        _ => return None,
    })
}

impl Node {
    /// Looks for V8 among the executables of a process.
    pub fn recognise(memory: &ProcessMemory, mappings: &Mappings) -> Option<Node> {
        let program = Program::main(memory, mappings, |image| {
            image.symbols().iter().any(|symbol| symbol.name.starts_with("_ZTVN2v88internal8OldSpaceE"))
        })?;
        let tables = program.image.symbols().iter().filter_map(|symbol| {
            let class = symbol.name.strip_prefix(MANGLED)?.strip_suffix('E')?;
            let digits = class.bytes().take_while(u8::is_ascii_digit).count();
            let name = space_name(&class[digits..])?;
            // Objects point behind the distance and the type.
            Some((program.loaded(symbol.address).0 + 16, name))
        });
        Some(Node { tables: tables.collect(), pages: BTreeMap::new() })
    }

    /// The page that begins with this header: its length, and the space.
    fn page(&self, memory: &ProcessMemory, header: &[u8]) -> Option<(u64, &'static str)> {
        let length = u64_at(header, 0)?;
        if length < 4096 || !length.is_multiple_of(4096) || length > LARGEST {
            return None;
        }
        let words = header.as_chunks::<8>().0.iter().skip(1).map(|word| u64::from_le_bytes(*word));
        let mut spaces = words.filter(|word| *word > PAGE && word.is_multiple_of(8)).filter_map(|word| {
            let table = memory.u64(VirtualAddress(word)).ok()?;
            self.tables.get(&table).copied()
        });
        Some((length, spaces.next_back()?))
    }

    fn page_at(&mut self, memory: &ProcessMemory, start: u64) -> Option<(u64, &'static str)> {
        let mut header = [0; HEADER];
        memory.read(VirtualAddress(start), &mut header).ok()?;
        let (length, space) = self.page(memory, &header)?;
        self.pages.insert(start, (start.checked_add(length)?, space));
        Some((start + length, space))
    }

    fn known(&self, address: u64) -> Option<Found> {
        let (start, (end, space)) = self.pages.range(..=address).next_back()?;
        let found = Found::new("V8 heap", VirtualAddress(*start), end - start);
        (address < *end).then(|| found.named(*space))
    }
}

impl Runtime for Node {
    fn describe(&self) -> String {
        "Node (V8)".into()
    }

    fn look(&mut self, memory: &ProcessMemory, mappings: &Mappings) {
        let private = |mapping: &&Mapping| mapping.readable && !mapping.shared && mapping.file().is_none();
        let places: Vec<VirtualAddress> = mappings
            .iter()
            .filter(private)
            .flat_map(|mapping| {
                (mapping.start.0.next_multiple_of(PAGE)..mapping.end.0).step_by(PAGE as usize)
            })
            .take(MOST_PLACES)
            .map(VirtualAddress)
            .collect();
        let (headers, fine) = memory.read_pieces(&places, HEADER);
        let read = places.iter().zip(headers.chunks_exact(HEADER)).zip(fine).filter(|(_, fine)| *fine);
        self.pages = read
            .filter_map(|((start, header), _)| {
                let (length, space) = self.page(memory, header)?;
                Some((start.0, (start.0.checked_add(length)?, space)))
            })
            .collect();
    }

    fn at(&mut self, memory: &ProcessMemory, mapping: &Mapping, address: VirtualAddress) -> Option<Found> {
        // A page may have been mapped or unmapped since the last reading.
        let start = address.0 / PAGE * PAGE;
        match self.page_at(memory, start) {
            Some((end, _)) if address.0 < end => {}
            _ => {
                let large = self.pages.range(..start).next_back().map(|(start, _)| *start)?;
                self.page_at(memory, large)?;
            }
        }
        let found = self.known(address.0)?;
        Some(if mapping.executable { found.named("code") } else { found })
    }

    fn remarks(&self, memory: &ProcessMemory) -> Vec<String> {
        super::runtime::without_map(memory, "node --perf-basic-prof")
    }
}
