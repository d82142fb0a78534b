//! The memory sample: its model, and the files that hold samples.
//!
//! Each part has one purpose:
//!
//! * the **model** ([`model`]): plain types with units in their names, shared by all other crates;
//! * the **container** ([`perf_data`]): reader and writer of Linux's `perf.data`, so that `perf`, samply and
//!   hotspot open Hardmeter's captures and Hardmeter opens theirs;
//! * the **trace** ([`arm_spe`]) of Arm processors inside it, which every reader has to decode;
//! * the **side file** ([`sidecar`]) of a capture: what perf.data has no field for;
//! * the **side file of objects** ([`object_notes`]): what the addresses of a profiled server were at the time;
//! * the **machine** ([`machine`]): the geometry of caches and TLBs that samples are compared with.
//!
//! Out of scope: event sources (`measure/record`), names of addresses (`measure/symbols`), conclusions
//! (`measure/answers`). It depends on no other crate of the workspace.
//!
//! # Design constraints
//!
//! * *One model for every source.* A sample of the software PMU has the fields of a PEBS record; additional data of
//!   the simulator are in [`model::SimulatedDetail`], which is `None` for other sources.
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
