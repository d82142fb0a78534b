//! One ELF file: its segments, symbols and unwind ranges, read once.

pub(crate) mod bytes;
pub(crate) mod lines;
pub(crate) mod locate;
mod mini_debug;
pub(crate) mod plt;
pub(crate) mod symbols;
pub(crate) mod unwind;

use crate::build_id::BuildId;
use crate::demangle::demangle;
use bytes::ImageBytes;
use hardmeter_samples::model::FileOffset;
use object::{elf, Architecture, Object, ObjectSection, ObjectSegment, SectionFlags, SegmentFlags};
use plt::PltStubs;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use symbols::{Symbol, SymbolCollector, SymbolTable, TableKind};
use unwind::UnwindRanges;

/// An address in an image's own numbering, before loading: what `nm` and `objdump` print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageAddress(pub u64);

impl fmt::Display for ImageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The reason why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("is not an intact ELF file: {0}")]
    Malformed(#[from] object::Error),
    /// Not an ELF file: a data file, which programs map, too.
    #[error("is not an ELF file")]
    NotElf,
    #[error("is of build {found}, but build {expected} ran")]
    OtherBuild { found: String, expected: BuildId },
}

/// Page size for matching mappings and segments. Larger pages are multiples of it.
const PAGE: u64 = 4096;
/// Page sizes of other machines: AArch64 has these two as well.
const LARGER_PAGES: [u64; 2] = [16 << 10, 64 << 10];

/// A part of the file that is loaded as one piece (`PT_LOAD`).
#[derive(Clone, Copy, Debug)]
struct Segment {
    file_start: u64,
    file_size: u64,
    address: u64,
    memory_size: u64,
    executable: bool,
}

/// A section that occupies memory.
#[derive(Clone, Debug)]
struct Section {
    range: Range<u64>,
    name: String,
}

/// An ELF file, ready for questions.
#[derive(Debug)]
pub(crate) struct Image {
    bytes: Arc<ImageBytes>,
    /// The path of the file.
    pub(crate) path: PathBuf,
    pub(crate) build_id: Option<BuildId>,
    pub(crate) architecture: Architecture,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    pub(crate) functions: SymbolTable,
    pub(crate) variables: SymbolTable,
    pub(crate) unwind: UnwindRanges,
    pub(crate) plt: PltStubs,
    /// Whether a full symbol table was found; without it static functions have no names.
    pub(crate) has_static_names: bool,
    /// The file with line information.
    pub(crate) debug_file: Option<PathBuf>,
}

impl Image {
    /// Opens an image file. Nothing but the identity is read before [`Image::load`].
    pub(crate) fn open(path: &Path, expected: Option<&BuildId>) -> Result<Arc<ImageBytes>, ImageError> {
        let bytes = Arc::new(ImageBytes::open(path)?);
        check_build(&bytes, expected)?;
        Ok(bytes)
    }

    /// Reads segments, symbols and unwind ranges; searches separate debug files with `locator`.
    pub(crate) fn load(
        path: &Path,
        bytes: Arc<ImageBytes>,
        locator: &locate::Locator,
    ) -> Result<Image, ImageError> {
        let file = object::File::parse(&**bytes)?;
        let unwind = UnwindRanges::read(&file);
        let plt = PltStubs::read(&file);
        let build_id = file.build_id().ok().flatten().and_then(BuildId::new);
        let mut collector = SymbolCollector::default();
        let mut has_static_names = file.symbol_table_is_useful();
        let mut debug_file = has_lines(&file).then(|| path.to_owned());
        if has_static_names {
            collector.add(&bytes, TableKind::Full);
        }
        collector.add(&bytes, TableKind::Dynamic);
        if !has_static_names || debug_file.is_none() {
            if let Some((debug_path, debug_bytes)) = locator.debug_file(path, &file, build_id.as_ref()) {
                if let Ok(debug) = object::File::parse(&**debug_bytes) {
                    if debug_file.is_none() && has_lines(&debug) {
                        debug_file = Some(debug_path);
                    }
                    if !has_static_names && debug.symbol_table_is_useful() {
                        has_static_names = true;
                        collector.add(&debug_bytes, TableKind::Full);
                    }
                }
            }
        }
        if !has_static_names {
            if let Some(unpacked) = mini_debug::unpack(&file) {
                has_static_names = true;
                collector.add(&Arc::new(ImageBytes::Owned(unpacked)), TableKind::Full);
            }
        }
        let (functions, variables) = collector.finish(&unwind);
        Ok(Image {
            path: path.to_owned(),
            build_id,
            architecture: file.architecture(),
            segments: segments(&file),
            sections: sections(&file),
            functions,
            variables,
            unwind,
            plt,
            has_static_names,
            debug_file,
            bytes: Arc::clone(&bytes),
        })
    }

    /// Reads the data needed to decode code: segments and unwind ranges, no symbols.
    pub(crate) fn load_code(bytes: Arc<ImageBytes>) -> Result<Image, ImageError> {
        let file = object::File::parse(&**bytes)?;
        Ok(Image {
            path: PathBuf::new(),
            build_id: None,
            architecture: file.architecture(),
            segments: segments(&file),
            sections: Vec::new(),
            functions: SymbolTable::default(),
            variables: SymbolTable::default(),
            unwind: UnwindRanges::read(&file),
            plt: PltStubs::default(),
            has_static_names: false,
            debug_file: None,
            bytes: Arc::clone(&bytes),
        })
    }

    /// The address of a byte of the file. Code and data segments may share a page of the file, which is then mapped
    /// twice; `executable` selects the mapping.
    pub(crate) fn address_of(&self, offset: FileOffset, executable: bool) -> Option<ImageAddress> {
        let matches = |slack: u64| {
            move |segment: &&Segment| {
                let start = segment.file_start.saturating_sub(segment.file_start % PAGE * slack);
                let end = segment.file_start.saturating_add(segment.file_size);
                let end = if slack == 0 { end } else { end.saturating_add(PAGE - 1) / PAGE * PAGE };
                (start..end).contains(&offset.0)
            }
        };
        let alike = |segment: &&Segment| segment.executable == executable;
        // The rest of a page behind data is .bss, and belongs to the segment that begins last.
        let nearest = |segment: &&Segment| (segment.file_start <= offset.0, segment.file_start);
        let segments = || self.segments.iter();
        let segment = segments()
            .filter(alike)
            .find(matches(0))
            .or_else(|| segments().find(matches(0)))
            .or_else(|| segments().filter(alike).filter(matches(1)).max_by_key(nearest))
            .or_else(|| segments().filter(matches(1)).max_by_key(nearest))?;
        Some(ImageAddress(offset.0.wrapping_sub(segment.file_start).wrapping_add(segment.address)))
    }

    /// The address of the first byte of a mapping. Mappings begin at whole pages, mostly before their segment.
    pub(crate) fn address_of_mapping(&self, offset: FileOffset, executable: bool) -> Option<ImageAddress> {
        let alike = || self.segments.iter().filter(|segment| segment.executable == executable);
        let begins_here = |page: u64| {
            let segment =
                alike().find(|segment| segment.file_start - segment.file_start % page == offset.0)?;
            Some(ImageAddress(segment.address.wrapping_sub(segment.file_start % page)))
        };
        // A part of a segment, split by a change of its protection, has its own offset.
        let is_part = || {
            let holds = |segment: &Segment| {
                (segment.file_start..segment.file_start.saturating_add(segment.file_size)).contains(&offset.0)
            };
            alike().any(holds)
        };
        let by_larger_pages = || {
            let larger = || LARGER_PAGES.into_iter().find_map(begins_here);
            (!is_part()).then(larger).flatten()
        };
        begins_here(PAGE).or_else(by_larger_pages).or_else(|| self.address_of(offset, executable))
    }

    /// Whether an address lies in a segment, `.bss` included.
    pub(crate) fn contains(&self, address: ImageAddress) -> bool {
        self.segments.iter().any(|segment| {
            let offset = address.0.wrapping_sub(segment.address);
            offset < segment.memory_size
        })
    }

    /// The file, to read more of it.
    pub(crate) fn parse(&self) -> object::Result<object::File<'_>> {
        object::File::parse(&**self.bytes)
    }

    /// The section that contains an address.
    pub(crate) fn section_name(&self, address: ImageAddress) -> Option<&str> {
        let section = self.sections.iter().find(|section| section.range.contains(&address.0))?;
        Some(&section.name)
    }

    /// Where a function without a symbol lies: "2 before LWLockShmemSize", the second such function before the next
    /// one with a name. Compilers mostly emit the static functions of a file before its exported ones, so the name is
    /// of the same file: in 9 of the 9 static functions of Debian's PostgreSQL 15 that lead its profiles. With no
    /// name behind it in its section, "2 after NAME"; `None` if the section has no name at all.
    pub(crate) fn position_of_nameless(&self, range: Range<u64>) -> Option<String> {
        let section = &self.sections.iter().find(|section| section.range.contains(&range.start))?.range;
        let here = |symbol: &&Symbol| section.contains(&symbol.start);
        let (symbol, side, functions) = match self.functions.next(range.end).filter(here) {
            Some(symbol) => (symbol, "before", range.start..symbol.start),
            None => {
                let symbol = self.functions.previous(range.start).filter(here)?;
                (symbol, "after", symbol.end..range.end)
            }
        };
        let number = self.unwind.count(functions);
        Some(format!("{number} {side} {}", demangle(&self.functions.name(symbol))))
    }

    /// The bytes of a range of addresses, cut where the file has no more.
    pub(crate) fn bytes_at(&self, range: Range<ImageAddress>) -> &[u8] {
        let segment = self.segments.iter().find(|segment| {
            let offset = range.start.0.wrapping_sub(segment.address);
            offset < segment.file_size
        });
        let Some(segment) = segment else { return &[] };
        let offset = range.start.0 - segment.address;
        let length = range.end.0.saturating_sub(range.start.0).min(segment.file_size - offset);
        let Ok(start) = usize::try_from(segment.file_start.saturating_add(offset)) else { return &[] };
        let end = start.saturating_add(length as usize).min(self.bytes.len());
        self.bytes.get(start..end).unwrap_or(&[])
    }
}

/// Refuses a file of another build, or without a build id; without an expected build id, accepts any file.
pub(crate) fn check_build(bytes: &ImageBytes, expected: Option<&BuildId>) -> Result<(), ImageError> {
    if !bytes.starts_with(&object::elf::ELFMAG) {
        return Err(ImageError::NotElf);
    }
    let file = object::File::parse(&**bytes)?;
    let Some(expected) = expected else { return Ok(()) };
    let found = file.build_id().ok().flatten().and_then(BuildId::new);
    match found {
        Some(found) if found.is_same_build(expected) => Ok(()),
        Some(found) => Err(ImageError::OtherBuild { found: found.to_string(), expected: expected.clone() }),
        None => Err(ImageError::OtherBuild { found: "(without id)".to_owned(), expected: expected.clone() }),
    }
}

trait UsefulSymbols {
    fn symbol_table_is_useful(&self) -> bool;
}

impl UsefulSymbols for object::File<'_> {
    fn symbol_table_is_useful(&self) -> bool {
        use object::ObjectSymbol;
        self.symbols().any(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.is_definition())
    }
}

fn has_lines(file: &object::File<'_>) -> bool {
    // dwz keeps .debug_info; a file stripped by --strip-debug has none of these.
    ["debug_info", "zdebug_info"].iter().any(|name| {
        let section = file.section_by_name(&format!(".{name}"));
        section.is_some_and(|section| section.size() > 0)
    })
}

fn segments(file: &object::File<'_>) -> Vec<Segment> {
    let of = |segment: object::read::Segment<'_, '_>| {
        let (file_start, file_size) = segment.file_range();
        let flags = match segment.flags() {
            SegmentFlags::Elf { p_flags, .. } => p_flags,
            _ => elf::ProgramFlags(0),
        };
        Segment {
            file_start,
            file_size,
            address: segment.address(),
            memory_size: segment.size(),
            executable: flags.contains(elf::PF_X),
        }
    };
    file.segments().map(of).collect()
}

/// Sections that occupy memory, except thread-local ones: `.tbss` has an address range but no memory.
fn sections(file: &object::File<'_>) -> Vec<Section> {
    file.sections()
        .filter(|section| {
            let flags = section_flags(section);
            flags.contains(elf::SHF_ALLOC) && !flags.contains(elf::SHF_TLS)
        })
        .filter(|section| section.size() > 0)
        .map(|section| Section {
            range: section.address()..section.address().saturating_add(section.size()),
            name: section.name().unwrap_or("").to_owned(),
        })
        .collect()
}

fn section_flags(section: &object::read::Section<'_, '_>) -> elf::SectionFlags {
    match section.flags() {
        SectionFlags::Elf { sh_flags, .. } => sh_flags,
        _ => elf::SectionFlags(0),
    }
}

pub(crate) fn is_executable_section(section: &object::read::Section<'_, '_>) -> bool {
    section_flags(section).contains(elf::SHF_EXECINSTR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two segments as Debian's arm64 programs have them, which are linked for pages of up to 64 KB.
    fn image() -> Image {
        let segment = |file_start, file_size, address, executable| Segment {
            file_start,
            file_size,
            address,
            memory_size: file_size,
            executable,
        };
        Image {
            path: PathBuf::new(),
            build_id: None,
            architecture: Architecture::Aarch64,
            segments: vec![
                segment(0, 0x1b_20ca, 0x40_0000, true),
                segment(0x1b_9850, 0x8cc8, 0x5c_9850, false),
            ],
            sections: Vec::new(),
            functions: SymbolTable::default(),
            variables: SymbolTable::default(),
            unwind: UnwindRanges::default(),
            plt: PltStubs::default(),
            has_static_names: false,
            debug_file: None,
            bytes: Arc::new(ImageBytes::Owned(Vec::new())),
        }
    }

    #[test]
    fn mappings_begin_at_whole_pages_of_any_size() {
        let image = image();
        let address =
            |offset, executable| image.address_of_mapping(FileOffset(offset), executable).map(|at| at.0);
        assert_eq!(address(0, true), Some(0x40_0000));
        for (page, offset, start) in
            [(4, 0x1b_9000, 0x5c_9000), (16, 0x1b_8000, 0x5c_8000), (64, 0x1b_0000, 0x5c_0000)]
        {
            assert_eq!(address(offset, false), Some(start), "pages of {page} KB");
        }
        assert_eq!(address(0x1b_a000, false), Some(0x5c_a000), "a part with another protection");
    }
}
