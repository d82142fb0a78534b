//! The memory sample: its model, and the files that hold samples.
//!
//! Each part has one purpose:
//!
//! * the **model** ([`model`]): plain types with units in their names, shared by all other crates;
//! * the **container** ([`perf_data`]): reader and writer of Linux's `perf.data`, so that `perf`, samply and
//!   hotspot open what we record and we open what they record;
//! * the **trace** ([`arm_spe`]) inside it that Arm's processors write and every reader has to decode;
//! * the **side file** ([`sidecar`]) of a capture: what perf.data has no field for;
//! * the **side file of objects** ([`object_notes`]): what the addresses of a profiled server were at the time;
//! * the **machine** ([`machine`]): the geometry of caches and TLBs that samples are compared with.
//!
//! Out of scope: event sources (`measure/record`), names of addresses (`measure/symbols`), conclusions
//! (`measure/answers`). It depends on no other crate of the workspace.
//!
//! # Design constraints
//!
//! * *One model for every source.* A sample of the software PMU has the fields of a PEBS record; what only a
//!   simulator knows is in [`model::SimulatedDetail`] and is `None` elsewhere.
//! * *Files are untrusted input.* Decoding never panics and never allocates by a length it has not checked.
//! * *Nothing is lost silently.* Unknown data-source bits are kept raw, unknown records are counted.

pub mod arm_spe;
mod core_model;
pub mod machine;
pub mod machine_latency;
pub mod model;
pub mod object_notes;
pub mod perf_data;
pub mod sidecar;
