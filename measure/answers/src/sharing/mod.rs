//! Contended cache lines: the cores and bytes involved, and the predicted effect of another layout.
//!
//! ```text
//!  samples ──> LineCensus   every contended line with its counts           (first walk: small, all lines)
//!     └──────> LineStudy    the worst lines, access by access              (second walk: only those)
//!                  ├─> verdict   true, false or mixed sharing, and how that is known
//!                  ├─> pairs     which routine waits for which
//!                  ├─> movement  to and fro between writers, or from one writer to readers
//!                  └─> layout    bytes that belong together; replay: the misses that another layout leaves
//! ```
//!
//! Two walks, because a capture may touch millions of lines, of which only a few are studied in detail: memory
//! grows with the contended lines, not with the samples.
//!
//! What this module is *not* for: naming lines and routines (`measure/symbols`), and misses that no other core
//! caused (`why`).

mod census;
mod layout;
mod line;
mod movement;
mod replay;
mod role;
mod study;
mod verdict;

#[cfg(test)]
mod tests;

pub use census::{LineCensus, LineCounts};
pub use layout::{ByteRange, GroupKind, LayoutGroup};
pub use line::LineId;
pub use movement::{Movement, MovementKind};
pub use replay::{Basis, Effect};
pub use role::{Role, Roles};
pub use study::{Fight, InstructionAccess, LineAccess, LineDetail, LineStudy, OtherSide};
pub use verdict::{Evidence, LineVerdict, SharingKind};
