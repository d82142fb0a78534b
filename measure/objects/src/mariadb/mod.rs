//! MariaDB, read from outside, on x86-64. It uses no table of offsets: the needed structures are recognised
//! in the running server and verified there, so the same code works for several versions (tested with 10.11).
//!
//! ```text
//!   observer ──> attach       which server, which version; where a session keeps its statement: accessors (code)
//!            ──> pool         the buffer pool's frames and descriptors, found by what they point to
//!            ──> page         what a page says of itself, and its parts
//!            ──> dictionary   names of tables, indexes and tablespaces: InnoDB's own tables, read as pages
//!            ──> threads      stacks and sessions; mem_root: what a session allocated for its statement
//!            ──> roles        what a thread is for, by the function that it began with
//!            ──> redo         InnoDB's log buffers
//!            ──> heap         blocks of malloc; names: classes of C++ objects, by their virtual tables
//! ```
//!
//! Invariants:
//! 1. A page is named by the header in its frame; a fact about it holds only for samples that carry the same
//!    header ([`PAGE_STATE`]), or at times when the frame's descriptor agreed.
//! 2. Unrecognised memory is "private memory of unknown kind"; there are no guesses.

mod attach;
mod code;
mod dictionary;
mod heap;
mod names;
mod observer;
mod page;
mod pool;
mod redo;
mod roles;
mod threads;

pub(crate) use observer::MariaDb;
#[cfg(fuzzing)]
pub(crate) use page::name_parts;

use hardmeter_samples::model::StateId;

/// The state that a sample carries of the page that it touched: its number in its tablespace, and the
/// tablespace, both from the page.
pub(crate) const PAGE_STATE: StateId = StateId(1);
