//! Where code lies, and its names: the interface that answers need of `measure/symbols`.

use hardmeter_samples::model::{CpuMode, FileOffset, Pid, Record, VirtualAddress};
use serde::{Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// Number of an executable image (a program, a library, the kernel) within one analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId(pub u32);

impl ImageId {
    /// No image: the address lay in no known mapping.
    pub const NONE: ImageId = ImageId(u32::MAX);
}

/// An address in the image's own numbering, as `objdump` prints it: the same in every process and run,
/// independent of the load address. Outside any image it is the virtual address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageAddress(pub u64);

impl fmt::Display for ImageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Serialize for ImageAddress {
    // As text: JSON numbers lose bits above 2^53.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The place of an instruction: image and offset. It is the same in every process that maps the image, and is
/// found without opening the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The image.
    pub image: ImageId,
    /// The offset in the image's file; outside any image, the virtual address.
    pub offset: FileOffset,
}

/// An image as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Path, or a bracketed name such as `[kernel]`.
    pub path: String,
    /// Its build id in hexadecimal, where known.
    pub build_id: Option<String>,
}

/// The name of the code at a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Routine {
    /// A routine with a name.
    Named(Arc<str>),
    /// A routine without a name in the image's symbols, such as "static function 2 before XLogFlush"; never the name
    /// of a neighbour.
    Nameless(Arc<str>),
    /// No routine is known; the text is the reason: no mapping, unreadable image, hidden kernel addresses.
    Unknown(Arc<str>),
}

impl Routine {
    /// The name, or for an unnamed or unknown routine a phrase that says so.
    pub fn text(&self) -> &str {
        match self {
            Routine::Named(text) | Routine::Nameless(text) | Routine::Unknown(text) => text,
        }
    }
}

impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Routine::Named(text) => f.write_str(text),
            Routine::Nameless(text) | Routine::Unknown(text) => write!(f, "[{text}]"),
        }
    }
}

/// A line of source code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SourceLine {
    /// The source file, as the compiler recorded it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The address spaces of a capture and the names in its images.
///
/// [`observe`](CodeMap::observe) and [`place`](CodeMap::place) are called per record and must be fast; the
/// naming methods are called once per distinct place.
pub trait CodeMap {
    /// Processes a mapping, fork, exec or exit; call in order of time.
    fn observe(&mut self, record: &Record<'_>);
    /// The place of an address in the process's current address space.
    fn place(&mut self, pid: Option<Pid>, address: VirtualAddress, mode: CpuMode) -> Place;
    /// The image, `None` for [`ImageId::NONE`].
    fn image(&self, image: ImageId) -> Option<Image>;
    /// The address that is shown for a place.
    fn address(&mut self, place: Place) -> ImageAddress;
    /// The routine at a place.
    fn routine(&mut self, place: Place) -> Routine;
    /// The source line at a place, if debug information has it.
    fn line(&mut self, place: Place) -> Option<SourceLine>;
}
