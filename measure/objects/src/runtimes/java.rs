//! Java (HotSpot): the heap and the code cache, by the tables that the virtual machine exports about itself.
//!
//! ```text
//!   gHotSpotVMStructs ──> | type name | field name | ... | static? | offset | address |  x n, ended by a null name
//!   Universe::_collectedHeap ──> CollectedHeap: _reserved { _start, _word_size }
//!   CodeCache::_low_bound .. _high_bound
//! ```
//! These tables are made for debuggers and are in every build, so no offsets by version are needed.

use super::runtime::Runtime;
use crate::bytes::{u32_at, u64_at};
use crate::found::Found;
use crate::process_memory::{Mapping, Mappings, ProcessMemory};
use crate::program::{files_of, Program};
use hardmeter_samples::model::VirtualAddress;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

/// Entries of the table, at most: a virtual machine has some two thousand.
const MOST_ENTRIES: u64 = 20_000;
/// Bytes of an entry, at most.
const ENTRY_LIMIT: u64 = 512;
/// Maximum size of a heap (48-bit addresses).
const HEAP_LIMIT: u64 = 1 << 47;
/// Bytes of a name in the table.
const NAME_LIMIT: usize = 64;

/// A field by the table: a static one has an address, another an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Static(u64),
    Offset(u64),
}

/// The facts about a Java virtual machine that the address of an object is resolved by.
pub(super) struct Java {
    fields: HashMap<(&'static str, &'static str), Field>,
    heap: Option<Range<u64>>,
    code: Option<Range<u64>>,
}

const WANTED: [(&str, &str); 6] = [
    ("Universe", "_collectedHeap"),
    ("CollectedHeap", "_reserved"),
    ("MemRegion", "_start"),
    ("MemRegion", "_word_size"),
    ("CodeCache", "_low_bound"),
    ("CodeCache", "_high_bound"),
];

impl Java {
    /// Looks for a Java virtual machine among the libraries of a process.
    pub fn recognise(memory: &ProcessMemory, mappings: &Mappings) -> Option<Java> {
        let named = |path: &Path| path.file_name().is_some_and(|name| name == "libjvm.so");
        let library = files_of(mappings, named).into_iter().next()?;
        let machine = Program::loaded_from(memory, mappings, library)?;
        let fields = fields_of(memory, &machine)?;
        let mut java = Java { fields, heap: None, code: None };
        java.read(memory);
        // The heap is created shortly after the library is loaded; until then no address has an object.
        java.heap.is_some().then_some(java)
    }

    fn static_word(&self, owner: &'static str, field: &'static str, memory: &ProcessMemory) -> Option<u64> {
        match self.fields.get(&(owner, field))? {
            Field::Static(at) => memory.u64(VirtualAddress(*at)).ok().filter(|word| *word != 0),
            Field::Offset(_) => None,
        }
    }

    fn offset(&self, owner: &'static str, field: &'static str) -> Option<u64> {
        match self.fields.get(&(owner, field))? {
            Field::Offset(offset) => Some(*offset),
            Field::Static(_) => None,
        }
    }

    fn read(&mut self, memory: &ProcessMemory) {
        self.heap = self.heap_range(memory).or(self.heap.take());
        let bound = |field| self.static_word("CodeCache", field, memory);
        let code = bound("_low_bound").zip(bound("_high_bound")).map(|(low, high)| low..high);
        self.code = code
            .filter(|code| code.start < code.end && code.end - code.start < HEAP_LIMIT)
            .or(self.code.take());
    }

    fn heap_range(&self, memory: &ProcessMemory) -> Option<Range<u64>> {
        let heap = self.static_word("Universe", "_collectedHeap", memory)?;
        let region = heap.checked_add(self.offset("CollectedHeap", "_reserved")?)?;
        let word =
            |field| memory.u64(VirtualAddress(region.checked_add(self.offset("MemRegion", field)?)?)).ok();
        let (start, words) = (word("_start")?, word("_word_size")?);
        let length = words.checked_mul(8).filter(|length| (1..HEAP_LIMIT).contains(length))?;
        (start != 0).then_some(start..start.checked_add(length)?)
    }
}

/// The wanted fields by the table of the virtual machine.
fn fields_of(
    memory: &ProcessMemory,
    machine: &Program,
) -> Option<HashMap<(&'static str, &'static str), Field>> {
    let word = |symbol: &str| memory.u64(machine.address(symbol)?).ok();
    let at = |name: &str| word(&format!("gHotSpotVMStructEntry{name}"));
    let table = word("gHotSpotVMStructs").filter(|table| *table != 0)?;
    let (kind, field) = (at("TypeNameOffset")?, at("FieldNameOffset")?);
    let (is_static, offset, address) = (at("IsStaticOffset")?, at("OffsetOffset")?, at("AddressOffset")?);
    let stride = at("ArrayStride").filter(|stride| (1..=ENTRY_LIMIT).contains(stride))?;
    let mut fields = HashMap::new();
    let mut entry = vec![0; stride as usize];
    for number in 0..MOST_ENTRIES {
        if memory.read(VirtualAddress(table.checked_add(number * stride)?), &mut entry).is_err() {
            break;
        }
        let word = |at: u64| u64_at(&entry, at as usize);
        let owner = word(kind)?;
        if owner == 0 {
            break;
        }
        let text = |at: u64| memory.text(VirtualAddress(at), NAME_LIMIT).unwrap_or_default();
        let (owner, name) = (text(owner), text(word(field)?));
        let Some(wanted) = WANTED.iter().find(|wanted| **wanted == (owner.as_str(), name.as_str())) else {
            continue;
        };
        let value = match u32_at(&entry, is_static as usize)? {
            0 => Field::Offset(word(offset)?),
            _ => Field::Static(word(address)?),
        };
        fields.insert(*wanted, value);
    }
    Some(fields)
}

impl Runtime for Java {
    fn describe(&self) -> String {
        "Java (HotSpot)".into()
    }

    fn look(&mut self, memory: &ProcessMemory, _mappings: &Mappings) {
        self.read(memory);
    }

    fn at(&mut self, _memory: &ProcessMemory, _mapping: &Mapping, address: VirtualAddress) -> Option<Found> {
        let within = |range: &Option<Range<u64>>, class: &'static str, name: &'static str| {
            let range = range.as_ref().filter(|range| range.contains(&address.0))?;
            Some(Found::new(class, VirtualAddress(range.start), range.end - range.start).named(name))
        };
        within(&self.heap, "Java heap", "objects")
            .or_else(|| within(&self.code, "compiled code", "code cache"))
    }

    fn remarks(&self, memory: &ProcessMemory) -> Vec<String> {
        super::runtime::without_map(
            memory,
            "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit (JDK 17 or later)",
        )
    }
}
