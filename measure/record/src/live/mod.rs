//! Samples of a running server's time at its loads, without a PMU: source `live`.
//!
//! ```text
//!   cpu-clock, one per CPU ──registers──> LiveSource ──ip, registers──> LoadFinder (brought by the caller)
//!                                             │  ^                          │
//!                self-test at start ──period──┘  └── load, data address ────┘
//!                                             ├─> event `stall`      at the load, with its data address
//!    readers, one per CPU ──statement────────>┴─> event `other-cpu`  everything else
//! ```
//!
//! Invariants:
//! 1. Events are of CPUs, never of tasks: a task's timer is programmed at each context switch, which costs a server
//!    that switches twice per query a quarter of its time (see [`Members`](crate::pmu)).
//! 2. A sample of the target becomes exactly one sample of one of the two events.
//! 3. The profiled processes are read through `/proc`, their programs' files and `process_vm_readv`; nothing is written to
//!    them.

mod at_sample;
mod calibrate;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod chase;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "no_chase.rs"]
mod chase;
mod source;
mod state;
mod statements;
mod waits;

pub use calibrate::{calibrate, cost_of_timer_sample, Budget, Calibration, LiveError};
pub use source::{Finding, LiveSource, LoadFinder, MakeLoadFinder};
