//! Results of lookups: routines, data places.

use crate::address_spaces::ImageId;
use crate::image::ImageAddress;
use hardmeter_samples::model::FileOffset;
use std::fmt;
use std::sync::Arc;

/// The place of an address: the same in every process that maps the image, and found without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The image; `None` if nothing is mapped.
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

/// How a routine was identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoutineKind {
    /// A symbol covers the address.
    Function,
    /// A procedure linkage stub: the jump to a function of another image.
    PltStub,
    /// Unwind information has a function here without a symbol: a static function of a stripped binary, or a part
    /// of a function that the compiler moved out as cold.
    StaticFunction,
    /// The image is known, the function is not.
    UnknownInImage,
    /// The image is unknown.
    UnknownAddress,
}

/// A piece of code with a name, or with a description in place of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routine {
    /// How it was identified.
    pub kind: RoutineKind,
    /// The image it is in.
    pub image: Option<ImageId>,
    /// The display name: demangled, or for example "static function 2 before LWLockShmemSize".
    pub name: String,
    /// The linker's name, if there is one.
    pub linkage_name: Option<String>,
    /// Its first address.
    pub start: ImageAddress,
    /// Its length in bytes; 0 if unknown.
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
    /// The routine; [`Symbolizer::routine`](crate::Symbolizer::routine) has its name.
    pub routine: RoutineId,
    /// The distance from the routine's start, in bytes.
    pub offset: u64,
    /// The image.
    pub image: Option<ImageId>,
    /// The address within the image, as `objdump` prints it. For the kernel, for just-in-time compiled code and
    /// without an image: the virtual address. For an unreadable image: the file offset.
    pub address: ImageAddress,
}

/// The object that contains a data address.
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
    /// A mapped area without symbols: heap, stack, shared memory, a data file. The image has its name.
    Area,
    /// Not in the capture's mappings.
    Unknown,
}

/// The answer to a data address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResolvedData {
    /// The image or area.
    pub image: Option<ImageId>,
    /// The address within the image; for an area, the offset in it.
    pub address: Option<ImageAddress>,
    /// The place.
    pub place: DataPlace,
}

impl ResolvedData {
    pub(crate) const UNKNOWN: ResolvedData =
        ResolvedData { image: None, address: None, place: DataPlace::Unknown };
}
