//! The DWARF sections of a file, of its supplementary file, and of split files; not parsed yet.

use crate::image::bytes::ImageBytes;
use gimli::{DwarfSections, EndianSlice, RunTimeEndian};
use object::{Object, ObjectSection};
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a section during a read.
pub(super) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// Maximum size of a decompressed section: a compressed section may claim any size.
const SECTION_LIMIT: u64 = 8 << 30;

/// The reason why debug information cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DebugError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("is not an intact ELF file: {0}")]
    Malformed(#[from] object::Error),
    #[error("has malformed DWARF: {0}")]
    Dwarf(#[from] gimli::Error),
    /// The parser panicked. It is a third-party library and must not end the report.
    #[error("has malformed DWARF")]
    Panicked,
}

/// One section: a part of the mapped file, or decompressed.
pub(super) enum SectionBytes {
    Empty,
    InFile(Arc<ImageBytes>, Range<usize>),
    Unpacked(Vec<u8>),
}

impl SectionBytes {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            SectionBytes::Empty => &[],
            SectionBytes::InFile(file, range) => file.get(range.clone()).unwrap_or(&[]),
            SectionBytes::Unpacked(bytes) => bytes,
        }
    }

    fn load(
        file: &object::File<'_>,
        bytes: &Arc<ImageBytes>,
        name: &str,
    ) -> Result<SectionBytes, DebugError> {
        let Some(section) = file.section_by_name(name) else { return Ok(SectionBytes::Empty) };
        let packed = section.compressed_file_range()?;
        if packed.uncompressed_size > SECTION_LIMIT {
            return Ok(SectionBytes::Empty);
        }
        match section.uncompressed_data()? {
            Cow::Owned(unpacked) => Ok(SectionBytes::Unpacked(unpacked)),
            Cow::Borrowed(_) => {
                let Some((offset, size)) = section.file_range() else { return Ok(SectionBytes::Empty) };
                Ok(SectionBytes::InFile(
                    Arc::clone(bytes),
                    offset as usize..offset.saturating_add(size) as usize,
                ))
            }
        }
    }
}

/// The sections of one file.
pub(super) struct DebugFile {
    pub(super) sections: DwarfSections<SectionBytes>,
    pub(super) endian: RunTimeEndian,
}

impl DebugFile {
    /// The sections of a program, library or separate debug file.
    pub(super) fn open(path: &Path) -> Result<DebugFile, DebugError> {
        DebugFile::open_by(path, |id| Some(id.name()))
    }

    /// The sections of a split file, whose names end in `.dwo`.
    pub(super) fn open_split(path: &Path) -> Result<DebugFile, DebugError> {
        DebugFile::open_by(path, gimli::SectionId::dwo_name)
    }

    fn open_by(
        path: &Path,
        name: impl Fn(gimli::SectionId) -> Option<&'static str>,
    ) -> Result<DebugFile, DebugError> {
        let bytes = Arc::new(ImageBytes::open(path)?);
        let file = object::File::parse(&**bytes)?;
        let endian = endian(&file);
        let load =
            |id| name(id).map_or(Ok(SectionBytes::Empty), |name| SectionBytes::load(&file, &bytes, name));
        Ok(DebugFile { sections: DwarfSections::load(load)?, endian })
    }
}

/// Split units gathered in one file (`.dwp`).
pub(super) struct PackageFile {
    sections: gimli::DwarfPackageSections<SectionBytes>,
    endian: RunTimeEndian,
}

impl PackageFile {
    pub(super) fn open(path: &Path) -> Result<PackageFile, DebugError> {
        let bytes = Arc::new(ImageBytes::open(path)?);
        let file = object::File::parse(&**bytes)?;
        let load = |id: gimli::SectionId| {
            id.dwo_name().map_or(Ok(SectionBytes::Empty), |name| SectionBytes::load(&file, &bytes, name))
        };
        Ok(PackageFile { sections: gimli::DwarfPackageSections::load(load)?, endian: endian(&file) })
    }

    pub(super) fn borrow(&self) -> gimli::Result<gimli::DwarfPackage<Slice<'_>>> {
        let endian = self.endian;
        self.sections
            .borrow(|section| EndianSlice::new(section.bytes(), endian), EndianSlice::new(&[], endian))
    }
}

fn endian(file: &object::File<'_>) -> RunTimeEndian {
    if file.is_little_endian() {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    }
}
