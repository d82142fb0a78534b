//! SPLiT's analyzer: reads what libsplit measured in the servers, finds out which kinds of requests pollute the caches and which
//! suffer, says on which cores each should run, and proves, by its own on and off epochs, that it helps, or stops.
//!
//! ```text
//!  app-*.segment ──> segment ──> Snapshot ──┐                    ┌──> view: top, report, metrics, JSON
//!  (libsplit)                               ├──> scores ──> Workload ──> policy ──> Plan ──> segment ──> app-*.segment
//!  a recorded trace ──> simulate ───────────┘                    │                     ^
//!                                  Machine (hwloc) ──────────────┘       guard: on, off, on ... is it better?
//! ```
//!
//! What this crate is *not* for: it moves no thread itself (libsplit does, in the servers), and it knows no server. Policies are pure
//! functions: what they would do on 128 cores is asked of the simulator.

pub mod daemon;
pub mod guard;
pub mod machine;
pub mod model;
pub mod policy;
pub mod scores;
pub mod segment;
pub mod simulate;
pub mod state;
pub mod trace;
pub mod view;
