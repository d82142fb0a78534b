//! Statements for samples of the kernel: the static probes (USDT) of a server, as uprobes of the same recording.
//! Between two marks of a process, its samples belong to the statement of the first mark.
//!
//! ```text
//!  server's executable              tracefs                              rings of the recording
//!  .note.stapsdt ──note──> probe ──tracefs──> hardmeter_PID/statement ──KernelSource──> tracepoint samples, text in RAW
//!                            └──without tracefs: uprobe PMU ──────────> samples with the register of the text
//! ```
//!
//! Effect on the server: while the recording runs, the *kernel* keeps a breakpoint in the profiled processes' copy
//! of the executable's text, at a `nop` intended for it, and increments the probe's semaphore in their data,
//! without which the server skips the probe. Hardmeter does not write to the server, and both are removed when the
//! events are closed, even if the recorder dies. Each mark costs the server a trap into the kernel: about 3 us of
//! its time in a virtual machine, so that pgbench -S, whose transactions take 23 us, lost a quarter of its
//! throughput (n=12, 95 %: 20 to 34 %). So statements are recorded only on request.
//!
//! * [`note`] and [`argument`] parse the executable's description of its probes; [`servers`] interprets them.
//! * [`tracefs`] registers and removes their names in the kernel; [`tracing_data`] describes them to perf.

pub mod argument;
mod install;
pub mod note;
pub mod servers;
pub mod tracefs;
pub mod tracing_data;

pub use install::{check, ProbeEvent, StatementProbes, UsdtError};
