//! What a sampled data address was: which relation and block, which lock, which variable.
//!
//! ```text
//!                    ┌─ facts of the notes beside the capture (ObjectNotes), by address, state and time
//!  pid, address ────>├─ the heap block, where the software PMU saw the allocation
//!  time, states      ├─ the symbol tables (DataMap): a global variable, a section
//!                    └─ the mapping: stack, heap, shared memory, a file
//! ```
//!
//! The first that knows more than "heap" or "shared memory" answers. Each answer says where it comes from, and
//! whether it was surely so at the moment of the sample ([`Object::stable`]).
//!
//! What this module is *not* for: it reads no server's memory (that is the room `objects`, while recording) and knows
//! no server: everything is classes, names and ranges.

mod data_map;
mod formula;
mod index;
mod marks;
mod processes;
mod range_tree;
mod table;
mod texts;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;

pub use data_map::{DataArea, DataMap, OperandField};
pub use formula::{Formula, FormulaError};
pub use index::ObjectIndex;
pub use marks::CodeMarks;
pub use table::{ObjectCount, ObjectCoverage, ObjectFinding, ObjectLevel, ObjectRow, ObjectTable};

use hardmeter_samples::model::VirtualAddress;
use hardmeter_samples::object_notes::ObjectPath;
use serde::Serialize;

/// Who told what an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectSource {
    /// The notes beside the capture: somebody who knew the server looked at the time.
    Notes,
    /// The software PMU saw the heap block being allocated.
    Allocation,
    /// A symbol table.
    Symbols,
    /// The kind of memory that was mapped there; or nobody.
    Mapping,
}

/// What a sampled data address was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Its names, in the numbering of the [`ObjectIndex`] that answered.
    pub path: ObjectPath,
    /// Where the whole object begins of which this is a part.
    pub origin: VirtualAddress,
    /// Who told.
    pub source: ObjectSource,
    /// Whether it was surely so at the moment of the sample: the server's state read with the sample says so, or it
    /// was seen to be so before and after. An address without any name is never stable.
    pub stable: bool,
}
