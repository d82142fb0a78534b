//! PostgreSQL, read from outside. Major versions 15 to 18, on x86-64.
//!
//! ```text
//!   observer ──> attach       which server, which version; the test of its layout
//!            ──> shared       objects in shared memory; blocks: the content of buffers over time
//!            ──> catalog      names of relations and columns
//!            ──> page         parts of a page
//!            ──> private      memory contexts
//!            ──> marks        code of operators and phases; libraries: code of extensions
//!            ──> statistics   the server's own counters: transactions, rows
//! ```

mod attach;
mod blocks;
mod catalog;
pub mod layout;
mod libraries;
mod marks;
mod observer;
mod page;
mod private;
mod processes;
mod shared;
mod statistics;

pub(crate) use observer::Postgres;
#[cfg(fuzzing)]
pub(crate) use {page::fuzz::name_parts, private::fuzz::walk_contexts};

use blocks::BufferPart;
use hardmeter_samples::model::StateId;
use hardmeter_samples::object_notes::StateKey;
use shared::buffers::Tag;

/// The state that a sample carries of the block that it touched: the tag of its buffer.
pub(crate) const BLOCK_STATE: StateId = StateId(1);
/// The same for the descriptor that it touched.
pub(crate) const DESCRIPTOR_STATE: StateId = StateId(2);

/// The state on which a fact about a buffer depends.
fn state_key(part: BufferPart, tag: &Tag) -> StateKey {
    let id = if part == BufferPart::Descriptor { DESCRIPTOR_STATE } else { BLOCK_STATE };
    StateKey { id, bytes: tag.bytes().to_vec() }
}
