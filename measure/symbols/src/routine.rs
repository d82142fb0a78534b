//! What a lookup answers: routines, data places.

use crate::address_spaces::ImageId;
use crate::image::ImageAddress;
use hardmeter_samples::model::FileOffset;
use std::fmt;
use std::sync::Arc;

/// Where an address lies: the same in every process that maps the image, and known without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The image; `None` where nothing is mapped.
    pub image: Option<ImageId>,
    /// The position in the image's file. For the kernel, for memory without a file and outside all images:
    /// the address itself.
    pub offset: FileOffset,
}

/// The number of a routine within its [`Symbolizer`](crate::Symbolizer): equal numbers, same routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutineId(pub(crate) u32);

impl RoutineId {
    /// Position in [`Symbolizer::routines`](crate::Symbolizer::routines).
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How much is known of a routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoutineKind {
    /// A symbol covers the address.
    Function,
    /// A procedure linkage stub: the jump to a function of another image.
    PltStub,
    /// Unwind information bounds a function here, but no symbol names it: a static function of a stripped
    /// binary, or the part of a function that the compiler put aside as seldom run.
    StaticFunction,
    /// The image is known, the function is not.
    UnknownInImage,
    /// Not even the image is known.
    UnknownAddress,
}

/// A piece of code with a name, or with an honest substitute for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routine {
    /// How much is known.
    pub kind: RoutineKind,
    /// The image it is in.
    pub image: Option<ImageId>,
    /// The name to print: demangled, or for example "static function in postgres (+0x1234)".
    pub name: String,
    /// The name as the linker knows it, where there is one.
    pub linkage_name: Option<String>,
    /// Its first address.
    pub start: ImageAddress,
    /// Its length in bytes; 0 where not known.
    pub size: u64,
}

impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The answer to a code address. Small and `Copy`: one is made for each sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resolved {
    /// The routine; its name is with [`Symbolizer::routine`](crate::Symbolizer::routine).
    pub routine: RoutineId,
    /// The distance from the routine's start, in bytes.
    pub offset: u64,
    /// The image.
    pub image: Option<ImageId>,
    /// The address within the image, as `objdump` prints it. For the kernel, for just-in-time compiled code
    /// and where no image is known: the address itself. For an image that cannot be read: the file offset.
    pub address: ImageAddress,
}

/// What a data address lies in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DataPlace {
    /// A variable with a symbol.
    Variable {
        /// Its name, demangled.
        name: Arc<str>,
        /// Distance from its start.
        offset: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// A section of a file, where no symbol covers the address (static variables of stripped binaries).
    Section {
        /// For example `.bss`.
        name: Arc<str>,
    },
    /// A mapped area without symbols: heap, stack, shared memory, a data file. The image names it.
    Area,
    /// Nothing that the capture tells of.
    Unknown,
}

/// The answer to a data address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResolvedData {
    /// The image or area.
    pub image: Option<ImageId>,
    /// The address within the image; for an area, the offset in it.
    pub address: Option<ImageAddress>,
    /// What is there.
    pub place: DataPlace,
}

impl ResolvedData {
    pub(crate) const UNKNOWN: ResolvedData =
        ResolvedData { image: None, address: None, place: DataPlace::Unknown };
}
