//! Where code lies, and what it is called: the questions this room asks of `attribution`.

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

/// An address in an image's own numbering, as `objdump` prints it. It is the same in every process and every run,
/// wherever the loader put the image. Outside any image it is the address as the program saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageAddress(pub u64);

impl fmt::Display for ImageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Serialize for ImageAddress {
    // As text: JSON's numbers lose bits above 2^53.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One instruction's place: which image, and where in it. It is the same in every process that maps the image,
/// and is found without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The image.
    pub image: ImageId,
    /// The position in the image's file; outside any image, the address as the program saw it.
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

/// What the code at a place is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Routine {
    /// A routine with a name.
    Named(Arc<str>),
    /// A routine whose name the image does not carry, such as "static function in postgres". Never a neighbour's
    /// name.
    Nameless(Arc<str>),
    /// No routine is known here, and why: no mapping, the image could not be read, kernel addresses hidden.
    Unknown(Arc<str>),
}

impl Routine {
    /// The name, or the honest phrase in its place.
    pub fn text(&self) -> &str {
        match self {
            Routine::Named(text) | Routine::Nameless(text) | Routine::Unknown(text) => text,
        }
    }

    /// Whether the routine is identified: by name, or as a static function of its image.
    pub fn is_identified(&self) -> bool {
        !matches!(self, Routine::Unknown(_))
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
    /// The file, as the compiler recorded it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Knows the address spaces of a capture and the names in its images.
///
/// [`observe`](CodeMap::observe) and [`place`](CodeMap::place) are called per record and must be fast; the naming
/// methods are called once per distinct place.
pub trait CodeMap {
    /// Takes note of a mapping, a fork, an exec or an exit, in order of time.
    fn observe(&mut self, record: &Record<'_>);
    /// Where an address lies, as the process saw it now.
    fn place(&mut self, pid: Option<Pid>, address: VirtualAddress, mode: CpuMode) -> Place;
    /// The image, `None` for [`ImageId::NONE`].
    fn image(&self, image: ImageId) -> Option<Image>;
    /// The address that is shown for a place.
    fn address(&mut self, place: Place) -> ImageAddress;
    /// The routine at a place.
    fn routine(&mut self, place: Place) -> Routine;
    /// The source line at a place, where debug information tells.
    fn line(&mut self, place: Place) -> Option<SourceLine>;
}
