//! Identifies addresses outside shared memory, by their mappings: stack, variables of the program, libraries.

use crate::found::Found;
use crate::process_memory::{Mapping, Mappings};
use crate::program::{Program, SymbolClass};
use hardmeter_samples::model::VirtualAddress;
use std::path::Path;

/// The meaning of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// Known by the mapping alone.
    Known(Found),
    /// Memory that the process allocated, to be identified by its contents.
    Private(Mapping),
    /// No memory is mapped there.
    Nothing,
}

impl Region {
    /// True if it is the same from the start of the process on: its program, its stack.
    pub fn is_lasting(&self) -> bool {
        const LASTING: [&str; 7] = [
            "global variable",
            "static variable",
            "constants",
            "linkage table",
            "program",
            "stack",
            "kernel page",
        ];
        matches!(self, Region::Known(found) if LASTING.contains(&found.class.as_ref()))
    }
}

/// Space below the stack pointer that a function may use without moving it.
const RED_ZONE: u64 = 128;

/// The region of an address of a process. `loaded_size` returns the number of bytes of a library's image,
/// from its first mapping on.
pub(crate) fn region_of(
    program: &Program,
    mappings: &Mappings,
    stack_pointer: Option<VirtualAddress>,
    address: VirtualAddress,
    loaded_size: &mut dyn FnMut(&Path) -> Option<u64>,
) -> Region {
    let Some(mapping) = mappings.at(address) else { return Region::Nothing };
    let whole = |class: &'static str| Found::new(class, mapping.start, mapping.length().0);
    let file = mapping.file();
    if file.is_none_or(|file| file == program.path) && !mapping.shared {
        if let Some(found) = variable(program, address) {
            return Region::Known(found);
        }
    }
    let on_stack = |pointer: VirtualAddress| {
        mapping.contains(pointer) && address.0 >= pointer.0.saturating_sub(RED_ZONE) && file.is_none()
    };
    if mapping.name == "[stack]" || !mapping.shared && stack_pointer.is_some_and(on_stack) {
        return Region::Known(whole("stack").named("main thread"));
    }
    let base_name = |mapping: &Mapping| {
        let name = mapping.file().and_then(|file| file.file_name());
        name.map(|name| name.to_string_lossy().into_owned())
    };
    if let Some(name) = base_name(mapping) {
        if mapping.name.starts_with("/dev/shm/PostgreSQL.") {
            return Region::Known(whole("dynamic shared memory").named(name));
        }
        if mapping.shared {
            return Region::Known(whole("shared memory").named(mapping.name.clone()));
        }
        let part = if mapping.executable {
            "code"
        } else if mapping.writable {
            "variables"
        } else {
            "constants"
        };
        let class = if file == Some(&program.path) { "program" } else { "library" };
        return Region::Known(Found { part: part.into(), ..whole(class).named(name) });
    }
    if mapping.shared {
        return Region::Known(whole("shared memory").named("anonymous"));
    }
    if mapping.name.starts_with("[v") {
        return Region::Known(whole("kernel page").named(mapping.name.clone()));
    }
    // The zeroed variables of a library follow its file without a gap; but unrelated memory may do so, too.
    let before = mapping.start.0.checked_sub(1).and_then(|before| mappings.at(VirtualAddress(before)));
    if let Some(library) = before.filter(|before| before.writable && before.name.contains(".so")) {
        let path = library.file();
        let first = mappings.iter().find(|first| first.file() == path && first.offset.0 == 0);
        let end = first.zip(path.and_then(loaded_size)).map(|(first, size)| first.start.0 + size);
        if let (Some(end), Some(name)) = (end.filter(|end| address.0 < *end), base_name(library)) {
            let length = end.min(mapping.end.0) - mapping.start.0;
            let found = Found::new("library", mapping.start, length).named(name);
            return Region::Known(Found { part: "variables".into(), ..found });
        }
    }
    Region::Private(mapping.clone())
}

/// The variable of the program that contains an address, or the exported one before it.
fn variable(program: &Program, address: VirtualAddress) -> Option<Found> {
    let own = program.own(address);
    let image = &program.image;
    let section = image.section_at(own)?;
    if let Some(symbol) = image.symbol_at(own).filter(|symbol| symbol.class == SymbolClass::Variable) {
        let found = Found::new("global variable", program.loaded(symbol.address), symbol.size.max(1));
        return Some(found.named(symbol.name.clone()));
    }
    let class = match section.name.as_str() {
        ".data" | ".bss" | ".tm_clone_table" => "static variable",
        ".rodata" | ".data.rel.ro" | ".data.rel.ro.local" | ".eh_frame" | ".eh_frame_hdr" => "constants",
        _ => "linkage table",
    };
    // Variables are in the order of the source files: the exported neighbour shows where to search.
    let symbols = image.symbols();
    let after = symbols.partition_point(|symbol| symbol.address <= own);
    let inside = |address: u64| (section.start..section.end).contains(&address);
    let before = symbols[..after].last().filter(|symbol| inside(symbol.address));
    let start = before.map_or(section.start, |symbol| (symbol.address + symbol.size).max(section.start));
    let end = symbols.get(after).map_or(section.end, |symbol| symbol.address.min(section.end));
    let instance = before.map_or_else(|| "first".to_string(), |symbol| format!("after {}", symbol.name));
    let name = program.path.file_name().map_or("program".into(), |name| name.to_string_lossy().into_owned());
    let start = start.min(own);
    let found = Found::new(class, program.loaded(start), end.max(own + 1) - start);
    Some(found.named(name).instance(instance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Image;
    use std::path::PathBuf;

    fn mappings() -> Mappings {
        Mappings::parse(
            "1000-2000 rw-p 00001000 fe:01 7 /bin/postgres\n\
             5000-6000 rw-p 00000000 00:00 0 [heap]\n\
             10000-11000 rw-p 00000000 fe:01 8 /lib/libc.so.6\n\
             11000-12000 rw-p 00000000 00:00 0 \n\
             20000-30000 rw-p 00000000 00:00 0 \n\
             40000-50000 rw-s 00000000 00:19 3 /dev/shm/PostgreSQL.77\n\
             7ff000-800000 rw-p 00000000 00:00 0 [stack]\n",
        )
    }

    #[test]
    fn by_what_is_mapped() {
        let program = Program { path: PathBuf::from("/bin/postgres"), image: Image::default(), bias: 0 };
        let mappings = mappings();
        let region = |address, pointer: Option<u64>| match region_of(
            &program,
            &mappings,
            pointer.map(VirtualAddress),
            VirtualAddress(address),
            &mut |_: &Path| Some(0x1800),
        ) {
            Region::Known(found) => format!("{}/{}/{}", found.class, found.name, found.part),
            Region::Private(mapping) => format!("private {}", mapping.name),
            Region::Nothing => "nothing".into(),
        };
        assert_eq!(region(0x1010, None), "program/postgres/variables");
        assert_eq!(region(0x5010, None), "private [heap]");
        assert_eq!(region(0x10010, None), "library/libc.so.6/variables");
        assert_eq!(region(0x11010, None), "library/libc.so.6/variables");
        assert_eq!(region(0x11800, None), "private ", "the image of the library ends there");
        assert_eq!(region(0x40010, None), "dynamic shared memory/PostgreSQL.77/");
        assert_eq!(region(0x7ff010, None), "stack/main thread/");
        assert_eq!(region(0x900000, None), "nothing");
        // Under a simulator the stack has no name; the stack pointer identifies it.
        assert_eq!(region(0x28000, None), "private ");
        assert_eq!(region(0x28000, Some(0x28010)), "stack/main thread/");
        assert_eq!(region(0x27000, Some(0x28010)), "private ");
    }
}
