//! Statements for samples of the kernel: the static probes (USDT) that a server carries, as uprobes of the same
//! recording. Between the marks of a process, its samples belong to the statement that the first mark names.
//!
//! ```text
//!  server's executable              tracefs                              rings of the recording
//!  .note.stapsdt ──note──> probe ──tracefs──> hardmeter_PID/statement ──KernelSource──> tracepoint samples, text in RAW
//!                            └──without tracefs: uprobe PMU ──────────> samples with the register of the text
//! ```
//!
//! What this does to the server, since a profiler should say so: while the recording runs, the *kernel* keeps a
//! breakpoint in the profiled processes' copy of the executable's text, at a `nop` that is there for this purpose, and
//! counts up the probe's semaphore in their data, without which the server skips the probe. Hardmeter does not write to
//! the server, and both are removed when the events are closed, even if the recorder dies. Each mark costs
//! the server a trap into the kernel: about 3 us of its time in a virtual machine, so that pgbench -S, whose transactions
//! take 23 us, lost a quarter of its throughput (n=12, 95 %: 20 to 34 %). So statements are only recorded when asked for.
//!
//! * [`note`] and [`argument`] read what the executable says of its probes; [`servers`] says what they mean.
//! * [`tracefs`] names them to the kernel, and takes the names away again; [`tracing_data`] describes them to perf.

pub mod argument;
mod install;
pub mod note;
pub mod servers;
pub mod tracefs;
pub mod tracing_data;

pub use install::{check, ProbeEvent, StatementProbes, UsdtError};
