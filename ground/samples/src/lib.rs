//! The ground floor of Hardmeter: what a memory sample *is*, and the file it is kept in.
//!
//! Each part has one purpose:
//!
//! * the **model** ([`model`]): plain types with units in their names, shared by every other room;
//! * the **container** ([`perf_data`]): reader and writer of Linux's `perf.data`, so that `perf`, samply and
//!   hotspot open what we record and we open what they record;
//! * the **trace** ([`arm_spe`]) inside of it that Arm's processors write and every reader has to decode;
//! * the **notes** ([`sidecar`]) beside a capture: what perf.data has no place for;
//! * the **object notes** ([`object_notes`]): what the addresses of a profiled server were at the time;
//! * the **machine** ([`machine`]): the geometry of caches and TLBs that samples are read against.
//!
//! What this crate is *not* for: it opens no event source (that is `capture`), gives no address a name (that is
//! `attribution`) and draws no conclusion (that is `analysis`). It depends on no other room.
//!
//! # Design constraints
//!
//! * *One model for every source.* A sample of the software PMU has the fields of a PEBS record; what only a
//!   simulator knows rides in [`model::SimulatedDetail`] and is `None` elsewhere.
//! * *Bytes from a file are hostile.* Decoding never panics and never allocates by a length it has not checked.
//! * *Nothing is silently lost.* Unknown data-source bits are kept raw, unknown records are counted.

pub mod arm_spe;
pub mod machine;
pub mod model;
pub mod object_notes;
pub mod perf_data;
pub mod sidecar;
