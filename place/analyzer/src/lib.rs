//! SPLiT's analyzer: reads libsplit's measurements in the servers, finds which kinds of requests pollute the
//! caches and which suffer, decides on which cores each runs, and keeps that only while epochs with and
//! without it prove that it helps.
//!
//! ```text
//!  app-*.segment ──> segment ──> Snapshot ──┐                    ┌──> view: top, report, metrics, JSON
//!  (libsplit)                               ├──> scores ──> Workload ──> policy ──> Plan ──> segment ──> app-*.segment
//!  a recorded trace ──> simulate ───────────┘                    │                     ^
//!                                  Machine (hwloc) ──────────────┘       guard: on, off, on ... does it help?
//! ```
//!
//! Out of scope: moving threads (libsplit does that, in the servers), knowledge of a particular server.
//! Policies are pure functions, so the simulator can run them on machines of 128 cores.
//!
//! ```
//! use hardmeter_split::simulate::machine;
//!
//! let machine = machine::parse("16x2,l2=2M,l3=32M/8").expect("cores x threads, caches");
//! assert_eq!(machine.source, "simulated: 16x2,l2=2M,l3=32M/8");
//! assert!(machine::parse("16x2,l4=2M").is_err());
//! ```

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
