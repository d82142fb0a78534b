//! The object at a sampled data address: relation and block, lock, or variable.
//!
//! ```text
//!                    ┌─ facts of the notes beside the capture (ObjectNotes), by address, state and time
//!  pid, address ────>├─ the heap block, where the software PMU saw the allocation
//!  time, states      ├─ the symbol tables (DataMap): a global variable, a section
//!                    └─ the mapping: stack, heap, shared memory, a file
//! ```
//!
//! The first source with a more specific name than "heap" or "shared memory" answers. Each answer has its
//! source, and whether the object was certainly there at the time of the sample ([`Object::stable`]).
//!
//! What this module is *not* for: it does not read a server's memory (`measure/objects` does, while
//! recording) and is independent of the server: it has only classes, names and ranges.

mod data_map;
mod findings;
mod formula;
mod index;
mod marks;
mod partitions;
mod patterns;
mod processes;
mod range_tree;
mod table;
mod texts;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;

pub use data_map::{DataArea, DataMap, OperandField};
pub use findings::{Besides, BesidesKind, ObjectFinding};
pub use formula::{Formula, FormulaError};
pub use index::ObjectIndex;
pub use marks::CodeMarks;
pub use table::{ObjectCount, ObjectCoverage, ObjectLevel, ObjectRow, ObjectTable};

use hardmeter_samples::model::VirtualAddress;
use hardmeter_samples::object_notes::ObjectPath;
use serde::Serialize;

/// The source of an object's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectSource {
    /// The side file on objects: the recorder observed the server's memory at the time.
    Notes,
    /// The software PMU recorded the allocation of the heap block.
    Allocation,
    /// A symbol table.
    Symbols,
    /// The kind of memory that was mapped there, or nothing known.
    Mapping,
}

/// The object at a sampled data address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Its names, in the numbering of the [`ObjectIndex`] that answered.
    pub path: ObjectPath,
    /// The start of the whole object that contains this part.
    pub origin: VirtualAddress,
    /// The source of the name.
    pub source: ObjectSource,
    /// True if the object was certainly there at the time of the sample: by the server's state in the sample,
    /// or by observations before and after. False for an address without a name.
    pub stable: bool,
}
