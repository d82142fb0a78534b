//! Variables, structs and fields from DWARF, for a data address or a memory operand.
//!
//! It answers two questions, and reads nothing else of DWARF (`image::lines` reads lines):
//!
//! ```text
//!   address 0x4048 of the image  ──> variable whose range holds it ──────> stats.counters[3].hits
//!   instruction `mov 8(%rax),%ecx`
//!     └ what is in %rax here?
//!        1. a variable, says its location list          (location.rs)
//!        2. what an earlier instruction put there       (registers.rs)
//!           `mov -0x18(%rbp),%rax` loads the variable p at that place of the frame
//!     └ p points to struct node; byte 8 of it ────────────────────────────> struct node: count
//! ```
//!
//! * `sections`, `units`, `index`: files, units, and one pass over all of them, on the first question.
//! * `shape`, `path`: the structure of types, and the path from an offset to a field.
//! * `location`, `frame`: locations of variables at an instruction; `registers`, `effects`, `state`, `values`: the
//!   contents of registers.
//!
//! A question without an answer has one of the reasons [`NoField`]; [`FieldTally`] counts them. DWARF is untrusted
//! input: each walk is bounded by a count, never by the nesting of the file.

mod effects;
mod frame;
mod index;
mod location;
mod path;
mod registers;
mod sections;
mod shape;
mod state;
mod table;
mod units;
mod values;

pub(crate) use table::TypeTable;

use hardmeter_samples::model::ByteCount;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The variable or type that contains a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FieldOwner {
    /// A named variable: global, static, or in the frame of a function.
    Variable {
        /// Its name.
        name: Arc<str>,
        /// Its type in C's syntax.
        type_name: Arc<str>,
    },
    /// Memory reached by a pointer with a known type.
    Pointee {
        /// The type, for example `struct node`.
        type_name: Arc<str>,
    },
}

/// How a field was identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldEvidence {
    /// The address lies in the variable.
    Address,
    /// Debug information: the variable in the operand's register at the instruction.
    Location,
    /// Data flow: an earlier instruction of the same function, without a jump target in between, wrote the pointer
    /// into the register.
    Followed,
}

/// A field of a variable or type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataField {
    /// The owner.
    pub owner: FieldOwner,
    /// Size of the owner; 0 if open (a pointer to an array of unknown length).
    pub owner_size: ByteCount,
    /// The path to the field, for example `counters[3].hits`. `[*]`: an element whose index is computed at run
    /// time. Empty: the owner is not a struct. Bit fields that share bytes are written `a|b`.
    pub path: Arc<str>,
    /// The type of the field; empty for padding.
    pub type_name: Arc<str>,
    /// Offset of the field in the owner.
    pub start: ByteCount,
    /// Size of the field.
    pub size: ByteCount,
    /// The requested offset in the owner.
    pub offset: ByteCount,
    /// How it was identified.
    pub evidence: FieldEvidence,
}

impl fmt::Display for DataField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            FieldOwner::Variable { name, .. } if self.path.is_empty() => f.write_str(name),
            FieldOwner::Variable { name, .. } if self.path.starts_with('[') => {
                write!(f, "{name}{}", self.path)
            }
            FieldOwner::Variable { name, .. } => write!(f, "{name}.{}", self.path),
            FieldOwner::Pointee { type_name } if self.path.is_empty() => f.write_str(type_name),
            FieldOwner::Pointee { type_name } => write!(f, "{type_name}: {}", self.path),
        }
    }
}

/// The reason why there is no field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum NoField {
    /// Nothing is mapped there, or no file.
    #[error("the address lies in no file")]
    NoImage,
    /// The file has no `.debug_info`, and no separate debug file was found.
    #[error("no debug information: install the -dbgsym package or compile with -g")]
    NoDebugInformation,
    /// Its debug information is damaged.
    #[error("the debug information is damaged")]
    DamagedDebugInformation,
    /// Only x86-64 instructions are followed.
    #[error("not x86-64 code")]
    OtherArchitecture,
    /// No function of the debug information contains the instruction: a unit compiled without -g, assembler, a
    /// stub.
    #[error("the instruction is in no function with debug information")]
    NoFunction,
    /// The instruction uses no memory: skid, or a sample of another event.
    #[error("the instruction uses no memory")]
    NoMemoryOperand,
    /// `push`, `pop`, `call`, `ret`: the stack itself.
    #[error("a stack operation")]
    StackOperation,
    /// A place in the function's frame outside of variables: a saved register, an intermediate result.
    #[error("a place in the frame without a variable")]
    NamelessFrame,
    /// A variable of the thread (`%fs`).
    #[error("thread-local memory")]
    ThreadLocal,
    /// The address does not come from a traceable register (vector gathers).
    #[error("the operand has no base register")]
    NoRegister,
    /// No known variable is in the register or at the address.
    #[error("no variable is known there")]
    NoVariable,
    /// The register holds a pointer to an unknown type (`void *`, an opaque struct), or no pointer.
    #[error("the pointer has no usable type")]
    NoType,
    /// The displacement exceeds the size of the pointer's type.
    #[error("the offset lies outside of the type")]
    BadOffset,
}

/// Counts of found fields and of reasons for missing ones, printed below a table of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldTally {
    found: u64,
    missing: BTreeMap<NoField, u64>,
}

impl FieldTally {
    /// Counts an answer for this number of samples.
    pub fn add<T>(&mut self, answer: &Result<T, NoField>, samples: u64) {
        match answer {
            Ok(_) => self.found += samples,
            Err(reason) => *self.missing.entry(*reason).or_default() += samples,
        }
    }

    /// Samples with a field.
    pub fn found(&self) -> u64 {
        self.found
    }

    /// All samples.
    pub fn total(&self) -> u64 {
        self.found + self.missing.values().sum::<u64>()
    }

    /// Samples without a field, by reason, the most frequent first.
    pub fn missing(&self) -> Vec<(NoField, u64)> {
        let mut counts: Vec<_> = self.missing.iter().map(|(reason, count)| (*reason, *count)).collect();
        counts.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), *reason));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tally_adds_up_and_puts_the_most_frequent_reason_first() {
        let mut tally = FieldTally::default();
        tally.add(&Ok(()), 52);
        tally.add::<()>(&Err(NoField::NoType), 8);
        tally.add::<()>(&Err(NoField::BadOffset), 30);
        tally.add::<()>(&Err(NoField::NoType), 10);
        assert_eq!((tally.found(), tally.total()), (52, 100));
        assert_eq!(tally.missing(), [(NoField::BadOffset, 30), (NoField::NoType, 18)]);
    }
}
