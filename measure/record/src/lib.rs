//! Sources of samples: the processor's PMU, the software PMU, and the kernel's timer.
//!
//! ```text
//! hardware PMU, software events, timer   pmu  ──ring per CPU──┐
//!                                                             ├─ source ── session ──> hardmeter.data
//! timer and registers: loads          live ── on pmu ─────────┤               └──────> hardmeter.data.json
//! simulated hierarchy under Valgrind  softpmu ──one ring──────┘
//! ```
//!
//! * [`session`] records or counts from beginning to end; the commands call it.
//! * [`events`] parses the names of events and maps them to those of each processor.
//! * [`pmu`] opens events by `perf_event_open`; [`rings`] reads what they write; [`softpmu`] drives the simulator;
//!   [`live`] finds the loads that timer samples waited for.
//! * [`usdt`] records statements through a server's own probes.
//! * [`latency`] measures how long this machine's caches, memory and cores take.
//! * [`overhead`] compares a workload that is measured with one that is not.
//! * [`doctor`] tests what works on this machine, and names the remedy for the rest.
//!
//! Out of scope: reading captures (`ground/samples`), naming addresses (`measure/symbols`), conclusions
//! (`measure/answers`).
//!
//! # Design constraints
//!
//! * *The recorder is cheap.* It sleeps until a ring has 64 KiB, copies bytes, and never decodes a field it does
//!   not count.
//! * *Least privilege.* Root is given up once the events are open, before a command runs or a file is created. A
//!   profiled process is never written to.
//! * *Complete reports.* Every concession made to open an event (precision, kernel mode, physical addresses) is
//!   reported and stored with the capture; a source is tested by using it, not by guessing.
//!
//! ```
//! use hardmeter_record::events::parse_events;
//!
//! let events = parse_events("l2-miss/period=50/,coherence-miss:u")?;
//! assert_eq!(events.len(), 2);
//! assert_eq!(events[1].name, "coherence-miss");
//! assert!(parse_events("l2-miss/period=").is_err());
//! # Ok::<(), hardmeter_record::events::EventSyntaxError>(())
//! ```

pub mod cgroup;
mod cycle;
pub mod doctor;
pub mod events;
pub mod ghosts;
mod kept_rights;
pub mod latency;
pub mod live;
pub mod overhead;
pub mod pmu;
pub mod privileges;
pub mod rings;
pub mod session;
pub mod simulated;
pub mod softpmu;
pub mod source;
pub mod target;
mod threads;
pub mod usdt;
pub mod workload;
