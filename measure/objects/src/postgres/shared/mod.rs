//! Objects in the main segment of shared memory.

pub(crate) mod buffers;
pub(crate) mod index;
mod locks;
pub(crate) mod places;
pub(crate) mod processes;

pub(crate) use locks::field_part;
