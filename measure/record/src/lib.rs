//! Where samples come from: the processor's PMU, the software PMU, or the kernel's timer.
//!
//! ```text
//! hardware PMU, software events, timer   pmu  ──ring per CPU──┐
//!                                                             ├─ source ── session ──> hardmeter.data
//! timer and registers: loads          live ── on pmu ─────────┤               └──────> hardmeter.data.json
//! simulated hierarchy under Valgrind  softpmu ──one ring──────┘
//! ```
//!
//! * [`session`] records or counts from beginning to end; it is what the commands call.
//! * [`events`] says what users may write for an event, and what each processor calls it.
//! * [`pmu`] opens events by `perf_event_open`; [`rings`] reads what they write; [`softpmu`] drives the simulator;
//!   [`live`] finds the loads behind samples of time.
//! * [`usdt`] has a server's own probes tell of statements.
//! * [`doctor`] finds out what works on this machine, and what mends the rest.
//!
//! What this crate is *not* for: it does not look into captures (that is `samples`), gives no address a name
//! (`attribution`) and does not judge (`analysis`).
//!
//! # Design constraints
//!
//! * *The recorder is cheap.* It sleeps until a ring has 64 KiB, copies bytes, and never decodes a field it does
//!   not count.
//! * *Least privilege.* Root is given up once the events are open, before a command runs or a file is made. A profiled
//!   process is never written to.
//! * *Honest.* What was given up to open an event (precision, kernel mode, physical addresses) is told and kept with
//!   the capture; a source is found to work by using it, not by guessing.

pub mod doctor;
pub mod events;
pub mod live;
pub mod pmu;
pub mod privileges;
pub mod rings;
pub mod session;
pub mod simulated;
pub mod softpmu;
pub mod source;
pub mod target;
pub mod usdt;
pub mod workload;
