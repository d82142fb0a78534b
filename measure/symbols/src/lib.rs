//! Maps an address of a capture to a name: routine, source line, instruction, global variable.
//!
//! Out of scope: reading captures (`hardmeter-samples`), counting (`hardmeter-answers`).
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
//! * **No wrong names.** A stripped distribution binary has names of exported functions only. An address between
//!   two of them belongs to a static function whose range is in the unwind information; it is described by its
//!   place, "static function 2 before LWLockShmemSize", and never has its neighbour's name. A file of another build
//!   than the one that ran is not used.
//! * **Fast.** Five million samples are looked up in a second: one binary search finds the mapping, one hash
//!   lookup the routine. Files are mapped once, on the first address in them; DWARF is parsed only for lines.
//! * **Robust.** Missing data are recorded in [`Problems`] with a remedy, and lookups use the rest. Malformed files
//!   give incomplete answers, not panics.
//!
//! ```
//! use hardmeter_symbols::{disassemble, ImageAddress, Syntax};
//!
//! // mov rax, [rdi + 8]; ret
//! let code = [0x48, 0x8b, 0x47, 0x08, 0xc3];
//! let instructions = disassemble(&code, ImageAddress(0x1000), Syntax::Intel);
//! assert_eq!(instructions.len(), 2);
//! assert_eq!(instructions[0].memory.len(), 1);
//! assert_eq!(instructions[0].next(), ImageAddress(0x1004));
//! ```

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
