//! The executable of a running process: its exported symbols, and its load address.
//!
//! ```text
//!   /proc/PID/maps:  55d0c0a00000-...  00000000  /usr/lib/postgresql/15/bin/postgres
//!   load bias        55d0c0a00000 (of the first byte of the file; 0 for an executable that is not relocated)
//!   symbol           NBuffers 875f7c (the image's own numbering, as objdump prints)  ->  55d0c1275f7c
//! ```
//!
//! A distribution's server is stripped, but it exports its functions and variables to extensions, so
//! `.dynsym` has thousands of names. The `.symtab` of an unstripped one is read, too.
//!
//! `/proc/PID/exe` is not used: under the software PMU it is the simulator, and the server is a file that it
//! mapped.

use crate::bytes::u32_at;
use crate::process_memory::{Mapping, Mappings, MemoryError, ProcessMemory};
use hardmeter_samples::model::{ByteCount, VirtualAddress};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{elf, Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind, SymbolKind};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a program could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The process could not be read.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// No mapped executable exports the required symbols.
    #[error("process {pid} is not a {wanted}: none of its executables exports {missing}")]
    NotThis {
        /// The process.
        pid: hardmeter_samples::model::Pid,
        /// The expected program.
        wanted: &'static str,
        /// A symbol that is missing in all.
        missing: String,
    },
    /// The file could not be read.
    #[error("{} cannot be read: {source}; the server's program must be readable", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// The kind of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SymbolClass {
    /// Code.
    Function,
    /// A variable.
    Variable,
}

/// A symbol of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSymbol {
    /// Its name.
    pub name: String,
    /// Its address in the image's own numbering.
    pub address: u64,
    /// Its size; 0 if the file does not have it.
    pub size: u64,
    /// Its kind.
    pub class: SymbolClass,
    /// The source file of a static symbol, if the program has it.
    pub file: Option<String>,
}

/// A section with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSection {
    /// Its name: `.data`, `.bss`, `.data.rel.ro`, `.rodata`, `.got` ...
    pub name: String,
    /// First address in the image's own numbering.
    pub start: u64,
    /// First address after it.
    pub end: u64,
}

/// The contents of one executable file.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// Sorted by address.
    symbols: Vec<ProgramSymbol>,
    /// By name; of several with one name, the first with a size.
    by_name: HashMap<String, usize>,
    /// All loaded sections without code.
    pub sections: Vec<DataSection>,
    /// The code, in the image's own numbering.
    pub text: std::ops::Range<u64>,
    /// The bytes of the code.
    pub code: Vec<u8>,
    /// Beginnings of functions, with and without names, from the table for unwinding.
    pub function_starts: Vec<u64>,
    /// True if it has `.symtab`, that is, names of static functions and variables, too.
    pub has_static_names: bool,
    /// The beginning of each loaded segment of the file: file offset and address.
    segments: Vec<(u64, u64, u64)>,
}

/// Executables of servers are tens of megabytes; with debug information, a few hundred.
const FILE_LIMIT: u64 = 2 << 30;

impl Image {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ProgramError`] if the file cannot be read, is too large, or is not a 64-bit ELF file.
    pub fn read(path: &Path) -> Result<Image, ProgramError> {
        Image::parse_file(path, &read_file(path, FILE_LIMIT)?)
    }

    /// Reads an ELF file from memory; `path` names it in errors.
    pub(crate) fn parse_file(path: &Path, bytes: &[u8]) -> Result<Image, ProgramError> {
        let fault = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        Image::parse(bytes)
            .map_err(|error| ProgramError::File { path: path.to_owned(), source: fault(error) })
    }

    /// Reads an ELF file from memory.
    ///
    /// # Errors
    ///
    /// An error if the bytes are not a little-endian 64-bit ELF file.
    pub fn parse(bytes: &[u8]) -> Result<Image, object::Error> {
        // Only the host's architecture: layouts of others would need other tables.
        elf::FileHeader64::<object::LittleEndian>::parse(bytes)?;
        let file = object::File::parse(bytes)?;
        let mut image = Image { has_static_names: file.symbols().next().is_some(), ..Image::default() };
        // Static symbols follow the name of their file.
        let mut source: Option<String> = None;
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let class = match symbol.kind() {
                SymbolKind::File => {
                    source = symbol.name().ok().map(str::to_string).filter(|name| !name.is_empty());
                    continue;
                }
                SymbolKind::Text => SymbolClass::Function,
                SymbolKind::Data => SymbolClass::Variable,
                _ => continue,
            };
            let Ok(name) = symbol.name() else { continue };
            if symbol.is_undefined() || symbol.address() == 0 {
                continue;
            }
            let name = name.split('@').next().unwrap_or(name).to_string();
            let file = source.clone().filter(|_| symbol.is_local());
            image.symbols.push(ProgramSymbol {
                name,
                address: symbol.address(),
                size: symbol.size(),
                class,
                file,
            });
        }
        image.symbols.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        image.symbols.dedup();
        for (index, symbol) in image.symbols.iter().enumerate() {
            let known = image.by_name.entry(symbol.name.clone()).or_insert(index);
            if image.symbols[*known].size == 0 {
                *known = index;
            }
        }
        for section in file.sections() {
            let (start, end) = (section.address(), section.address().saturating_add(section.size()));
            if start == 0 || section.kind() == SectionKind::Tls {
                continue;
            }
            let name = section.name().unwrap_or("").to_string();
            if name == ".eh_frame_hdr" {
                image.function_starts =
                    section.data().map_or(Vec::new(), |bytes| unwind_starts(bytes, start));
            }
            if section.kind() != SectionKind::Text {
                image.sections.push(DataSection { name, start, end });
            } else if name == ".text" {
                image.text = start..end;
                image.code = section.data().map(<[u8]>::to_vec).unwrap_or_default();
            }
        }
        image.segments = file
            .segments()
            .map(|segment| (segment.file_range().0, segment.address(), segment.size()))
            .collect();
        Ok(image)
    }

    /// A symbol by its name.
    pub fn symbol(&self, name: &str) -> Option<&ProgramSymbol> {
        self.by_name.get(name).map(|index| &self.symbols[*index])
    }

    /// All symbols, in the order of their addresses.
    pub fn symbols(&self) -> &[ProgramSymbol] {
        &self.symbols
    }

    /// The variable or function that contains an address in the image's own numbering.
    pub fn symbol_at(&self, address: u64) -> Option<&ProgramSymbol> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        // Aliases begin at the same address, and a small symbol may be inside a large one: examines a few
        // before it.
        self.symbols[..after].iter().rev().take(16).find(|symbol| address - symbol.address < symbol.size)
    }

    /// The section that contains an address in the image's own numbering.
    pub fn section_at(&self, address: u64) -> Option<&DataSection> {
        self.sections.iter().find(|section| (section.start..section.end).contains(&address))
    }

    /// The load bias, from one mapping of its file.
    fn bias(&self, mapping: &Mapping) -> Option<u64> {
        // Segments are mapped by whole pages: a mapping begins up to a page before the segment.
        let page = page_size();
        let offset = mapping.offset.0;
        self.segments.iter().find_map(|(file, address, _)| {
            (file / page * page == offset).then(|| mapping.start.0.wrapping_sub(address / page * page))
        })
    }
}

/// The size of this machine's pages: 4, 16 or 64 KB.
fn page_size() -> u64 {
    // SAFETY: no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// An executable as loaded into a process.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its path in the process.
    pub path: PathBuf,
    /// Its contents.
    pub image: Image,
    /// The load bias: the difference from the image's own addresses.
    pub bias: u64,
}

impl Program {
    /// Finds the executable of a process that exports all of `symbols`; `wanted` names it in errors.
    ///
    /// # Errors
    ///
    /// [`ProgramError::NotThis`] if no executable of the process exports them; [`MemoryError::Denied`] if it may
    /// not be read.
    pub fn find(
        memory: &ProcessMemory,
        mappings: &Mappings,
        wanted: &'static str,
        symbols: &[&str],
    ) -> Result<Program, ProgramError> {
        let mut fault = None;
        let mut seen: Vec<&Path> = Vec::new();
        for mapping in mappings.iter() {
            let Some(path) = mapping.file() else { continue };
            // There are many large libraries, and none is a server.
            if seen.contains(&path) || path.to_string_lossy().contains(".so") {
                continue;
            }
            seen.push(path);
            let file = memory.file(path);
            let replaced = mapping.name.ends_with(" (deleted)");
            let own = PathBuf::from(format!("/proc/{}/exe", memory.pid()));
            // After an upgrade there is another file at the path; the running one is still available through
            // the kernel.
            let file = if replaced || !file.exists() { own } else { file };
            if !is_elf(&file) {
                continue;
            }
            let image = match Image::read(&file) {
                Ok(image) => image,
                Err(error) => {
                    fault = Some(error);
                    continue;
                }
            };
            if symbols.iter().all(|name| image.symbol(name).is_some()) {
                if let Some(bias) = mappings
                    .iter()
                    .filter(|mapping| mapping.file() == Some(path))
                    .find_map(|map| image.bias(map))
                {
                    return Ok(Program { path: path.to_owned(), image, bias });
                }
            }
        }
        // Since Linux 6.16 a profiler may list mappings without a right to read the memory.
        if fault.is_none() && !memory.may_be_read() {
            return Err(MemoryError::Denied { pid: memory.pid() }.into());
        }
        let missing = symbols.first().copied().unwrap_or("anything").to_string();
        Err(fault.unwrap_or(ProgramError::NotThis { pid: memory.pid(), wanted, missing }))
    }

    /// The executable of a process that fits; libraries do not count.
    pub(crate) fn main(
        memory: &ProcessMemory,
        mappings: &Mappings,
        fits: impl Fn(&Image) -> bool,
    ) -> Option<Program> {
        let executables = files_of(mappings, |path| !path.to_string_lossy().contains(".so"));
        executables
            .into_iter()
            .find_map(|path| Program::loaded_from(memory, mappings, path).filter(|it| fits(&it.image)))
    }

    /// A file that a process has mapped, as a program or a library.
    pub(crate) fn loaded_from(memory: &ProcessMemory, mappings: &Mappings, path: &Path) -> Option<Program> {
        let file = memory.file(path);
        let image = is_elf(&file).then(|| Image::read(&file).ok())??;
        let own = mappings.iter().filter(|mapping| mapping.file() == Some(path));
        let bias = own.filter_map(|mapping| image.bias(mapping)).next()?;
        Some(Program { path: path.to_owned(), image, bias })
    }

    /// Where a symbol lies in the process.
    pub fn address(&self, name: &str) -> Option<VirtualAddress> {
        self.image.symbol(name).map(|symbol| self.loaded(symbol.address))
    }

    /// The address of a symbol in the process, and its size.
    pub fn extent(&self, name: &str) -> Option<(VirtualAddress, ByteCount)> {
        self.image.symbol(name).map(|symbol| (self.loaded(symbol.address), ByteCount(symbol.size)))
    }

    /// Converts an address in the image's own numbering to the process's.
    pub fn loaded(&self, address: u64) -> VirtualAddress {
        VirtualAddress(address.wrapping_add(self.bias))
    }

    /// Converts an address in the process's numbering to the image's own.
    pub fn own(&self, address: VirtualAddress) -> u64 {
        address.0.wrapping_sub(self.bias)
    }
}

/// The files with code that a process has mapped, each once.
pub(crate) fn files_of(mappings: &Mappings, wanted: impl Fn(&Path) -> bool) -> Vec<&Path> {
    let mut files: Vec<&Path> = Vec::new();
    for path in mappings.iter().filter(|mapping| mapping.executable).filter_map(Mapping::file) {
        if wanted(path) && !files.contains(&path) {
            files.push(path);
        }
    }
    files
}

/// How many bytes of addresses an ELF file takes when it is loaded, zeroed variables included.
pub fn loaded_size(path: &Path) -> Option<u64> {
    /// Program headers follow the header of the file.
    const HEAD: u64 = 4096;
    if !is_elf(path) {
        return None;
    }
    let mut head = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(fs::File::open(path).ok()?, HEAD), &mut head).ok()?;
    let header = elf::FileHeader64::<object::LittleEndian>::parse(head.as_slice()).ok()?;
    let loaded =
        header.program_headers(object::LittleEndian, head.as_slice()).ok()?.iter().filter_map(|segment| {
            let (kind, at) = (segment.p_type(object::LittleEndian), segment.p_vaddr(object::LittleEndian));
            (kind == elf::PT_LOAD).then(|| at.saturating_add(segment.p_memsz(object::LittleEndian)))
        });
    loaded.max()
}

/// The sorted table of `.eh_frame_hdr`: for each function its start and its entry, both relative to the section.
fn unwind_starts(bytes: &[u8], address: u64) -> Vec<u64> {
    /// Version 1, count as an unsigned word, table of signed words relative to the section: the form that
    /// linkers write.
    const FORM: [u8; 3] = [1, 0x03, 0x3b];
    let form = (bytes.first(), bytes.get(2), bytes.get(3));
    if form != (Some(&FORM[0]), Some(&FORM[1]), Some(&FORM[2])) {
        return Vec::new();
    }
    let count = u32_at(bytes, 8).unwrap_or(0) as usize;
    let table = bytes.get(12..).unwrap_or(&[]);
    let start = |entry: &[u8]| {
        let distance = u32_at(entry, 0).map_or(0, |word| word as i32);
        address.wrapping_add_signed(i64::from(distance))
    };
    table.chunks_exact(8).take(count).map(start).collect()
}

/// The bytes of a file, at most `most`.
pub(crate) fn read_file(path: &Path, most: u64) -> Result<Vec<u8>, ProgramError> {
    let fault = |source| ProgramError::File { path: path.to_owned(), source };
    if fs::metadata(path).map_err(fault)?.len() > most {
        return Err(fault(io::Error::other(format!("it is larger than {} MB", most >> 20))));
    }
    fs::read(path).map_err(fault)
}

/// True if a path is an ordinary file that begins like an executable or library.
pub(crate) fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    // A mapped device must not be opened for reading.
    fs::metadata(path).is_ok_and(|data| data.is_file())
        && fs::File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut magic)).is_ok()
        && magic == elf::ELFMAG
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_samples::model::Pid;

    /// A function whose address shows whether the load bias is right.
    #[no_mangle]
    pub extern "C" fn hardmeter_objects_landmark() {}

    #[test]
    fn our_own_program_is_found_and_its_load_address_is_right() {
        let memory = ProcessMemory::open(Pid(std::process::id() as i32)).expect("we run");
        let mappings = memory.mappings().expect("maps");
        let program =
            Program::find(&memory, &mappings, "test", &["hardmeter_objects_landmark"]).expect("found");
        let landmark = hardmeter_objects_landmark as *const () as u64;
        assert_eq!(program.address("hardmeter_objects_landmark"), Some(VirtualAddress(landmark)));
        let own = program.own(VirtualAddress(landmark));
        assert!(program.image.text.contains(&own));
        assert!(program.image.function_starts.contains(&own));
        assert_eq!(program.image.symbol_at(own).map(|symbol| symbol.class), Some(SymbolClass::Function));
        let end = program.image.sections.iter().map(|section| section.end).max();
        assert_eq!(loaded_size(&program.path), end, "zeroed variables come last");
        let missing = Program::find(&memory, &mappings, "PostgreSQL", &["no_such_symbol"]);
        assert!(matches!(missing, Err(ProgramError::NotThis { .. })));
    }

    #[test]
    fn what_is_no_executable_is_refused() {
        assert!(Image::parse(b"").is_err());
        assert!(Image::parse(b"\x7fELF\x02\x01\x01").is_err());
        assert!(Image::parse(&[0x55; 4096]).is_err());
    }
}
