//! An address of a capture becomes a name: routine, source line, instruction, global variable.
//!
//! Not for reading captures (`hardmeter-samples`) and not for counting anything (`hardmeter-answers`).
//!
//! ```text
//!   Mmap, Comm, Fork ──> AddressSpaces ──┐
//!   pid + address ───────────────────────┴─> image + address in it ──> routine      Symbolizer::lookup
//!                                                                  ├─> variable     Symbolizer::lookup_data
//!                                                                  ├─> its field    Symbolizer::variable_field
//!                                                                  ├─> field used   Symbolizer::operand_field
//!                                                                  ├─> source lines Symbolizer::lines
//!                                                                  └─> instructions Symbolizer::disassemble
//!   pid + address + registers ──────────────> the load that was waited for            StallFinder::find
//! ```
//!
//! Design constraints:
//!
//! * **Honest.** A stripped distribution binary names its exported functions only. An address between two of
//!   them belongs to a static function whose range unwind information tells; it is called "static function in
//!   postgres (+0x1234)" and never by its neighbour's name. A file of another build than the one that ran gives
//!   no names.
//! * **Fast.** Five million samples are looked up in a second: one binary search finds the mapping, one hash
//!   lookup the routine. Files are mapped once, on the first address in them; DWARF is parsed only for lines.
//! * **Never in the way.** What is missing is noted in [`Problems`] with its remedy, and the lookup answers
//!   with what is left. Hostile files make poor answers, not panics.

#![deny(missing_docs)]

mod address_spaces;
mod build_id;
mod demangle;
mod disassembly;
mod effective_address;
mod image;
mod jit;
mod kernel;
mod problem;
mod routine;
mod source;
mod stall;
mod symbolizer;
mod types;
mod vdso;

pub use address_spaces::{AddressSpaces, ImageDescription, ImageId, ImageKind, MappedAddress};
pub use build_id::BuildId;
pub use demangle::demangle;
pub use disassembly::{disassemble, Access, DisassemblyError, Flow, Instruction, MemoryOperand, Syntax};
pub use effective_address::{NotComputable, RegisterMoment};
pub use image::lines::SourceFrame;
pub use image::ImageAddress;
pub use problem::{Problem, ProblemKind, Problems};
pub use routine::{DataPlace, Place, Resolved, ResolvedData, Routine, RoutineId, RoutineKind};
pub use source::{SourceFiles, SourceOptions};
pub use stall::{NoAddress, NoBlame, StallFinder, StalledLoad};
pub use symbolizer::{Symbolizer, SymbolizerOptions};
pub use types::{DataField, FieldEvidence, FieldOwner, FieldTally, NoField};
