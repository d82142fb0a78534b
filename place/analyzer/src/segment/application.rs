//! One application's segment.

use super::convert;
use super::layout::{
    self, Commands, Counters, CpuLine, Header, Identity, Layout, RawRecord, Settings, Thread,
};
use super::mapping::{Mapping, Plain, Shared};
use crate::model::{Actuation, AppId, Class, CodeId, CpuSet, Record};
use crate::state;
use hardmeter_samples::model::Cycles;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{fence, Ordering};

// SAFETY: atomics only.
unsafe impl Shared for Settings {}
unsafe impl Shared for Counters {}
unsafe impl Shared for layout::Admission {}
unsafe impl Shared for layout::Request {}
unsafe impl Shared for Commands {}
unsafe impl Shared for layout::Decision {}
unsafe impl Shared for Thread {}
unsafe impl Shared for CpuLine {}
// SAFETY: integers and floats only, in whole words.
unsafe impl Plain for Identity {}

/// The reason why a segment is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The file cannot be opened.
    #[error("{0}")]
    Unreachable(String),
    /// It was written by another version of libsplit.
    #[error("it is of version {0} of the segment, this analyzer is of version {1}: restart the server with the libsplit of this analyzer")]
    Version(u32, u32),
    /// Its header contradicts itself or the file.
    #[error("{0}")]
    Malformed(String),
    /// It was left by an earlier boot.
    #[error("it is of another boot of this machine")]
    OtherBoot,
    /// It shrank while it was mapped.
    #[error("the file shrank while it was in use")]
    Shrunk,
}

/// The decision to write for a kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Its class.
    pub class: Class,
    /// How it is placed.
    pub actuation: Actuation,
    /// The share of its sections that is probed: 0 none, 1 all, n: one of 2^(n-1).
    pub wants_probes: u8,
    /// Its cycles come from the thread's CPU clock.
    pub uses_cpu_clock: bool,
    /// The expected cycles of its next section.
    pub expected: Cycles,
    /// Its class queue.
    pub queue: u32,
    /// Its processors; empty: anywhere.
    pub cpus: CpuSet,
    /// Time slice of threads that work on it, in microseconds; 0: unchanged.
    pub slice_us: u32,
    /// True if they give way to all others, if their rights allow it.
    pub background: bool,
    /// True if its requests ask for one of the application's places before they run.
    pub admit: bool,
}

/// A thread in a segment's table, unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadSeen {
    /// Its number.
    pub tid: u32,
    /// Start time in clock ticks since boot: distinguishes it from a later thread with that number.
    pub started_ticks: u64,
    /// The latest kind with a time slice that it worked on.
    pub code: CodeId,
    /// True if it has a time slice of the library's now.
    pub sliced: bool,
}

/// Data that an application reports about itself, without its statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The application.
    pub app: AppId,
    /// Its display name.
    pub name: String,
    /// The interval of analysis that it requests, in milliseconds; 0: none.
    pub interval_ms: u32,
    /// True if it measures.
    pub collecting: bool,
    /// True if its threads may be moved.
    pub placing: bool,
    /// The back-end that measures.
    pub backend: &'static str,
    /// The facilities that it lacks.
    pub without: Vec<&'static str>,
    /// The maximum number of kinds.
    pub kinds: u32,
}

/// An open segment.
#[derive(Debug)]
pub struct Application {
    path: PathBuf,
    file: File,
    pub(super) identity: Identity,
    pub(super) layout: Layout,
    pub(super) mapping: Mapping,
    name: String,
    /// The last content read of each record: used while a record is being written.
    pub(super) last: HashMap<(u32, u32), Record>,
    /// Records with an owner: its sequence, its owner, and the time since when.
    pub(super) stuck: HashMap<(u32, u32), (u32, u32, u64)>,
    pub(super) written: HashMap<CodeId, Decision>,
}

impl Application {
    /// Opens and checks a segment. `app`: the id in its name.
    ///
    /// # Errors
    ///
    /// [`Refusal`] with what is wrong: version, size, boot, owner.
    pub fn open(path: &Path, app: AppId) -> Result<Application, Refusal> {
        Application::open_on(path, app, &boot_id())
    }

    pub(crate) fn open_on(path: &Path, app: AppId, boot: &str) -> Result<Application, Refusal> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            // O_NONBLOCK: a pipe with that name must not block.
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
            .open(path)
            .map_err(unreachable)?;
        let metadata = file.metadata().map_err(unreachable)?;
        if !metadata.is_file() || metadata.nlink() > 1 {
            return Err(Refusal::Malformed("it is not a file of that one name".into()));
        }
        if metadata.len() < layout::HEADER_SIZE {
            return Err(Refusal::Malformed(format!("it has {} bytes, less than a header", metadata.len())));
        }
        let identity = {
            let header = Mapping::new(&file, layout::HEADER_SIZE, false).map_err(unreachable)?;
            let identity = header.copy::<Identity>(0);
            if header.spoilt() {
                return Err(Refusal::Shrunk);
            }
            identity
        };
        let layout = check(&identity, app, metadata.len(), boot)?;
        let mapping = Mapping::new(&file, layout.size, true).map_err(unreachable)?;
        Ok(Application {
            path: path.to_owned(),
            file,
            name: convert::printable(&identity.name),
            identity,
            layout,
            mapping,
            last: HashMap::new(),
            stuck: HashMap::new(),
            written: HashMap::new(),
        })
    }

    /// The application.
    pub fn app(&self) -> AppId {
        AppId(self.identity.app_id)
    }

    /// Display name: "mariadb (3f2a)".
    pub fn title(&self) -> String {
        let name = if self.name.is_empty() { "unnamed" } else { &self.name };
        format!("{name} ({})", self.app())
    }

    /// Cycles of the time stamp counter in a second.
    pub fn cycles_per_second(&self) -> u64 {
        self.identity.cycles_per_second
    }

    pub(super) fn settings(&self) -> &Settings {
        self.mapping.at(offset_of!(Header, settings) as u64)
    }

    pub(super) fn counters(&self) -> &Counters {
        self.mapping.at(offset_of!(Header, counters) as u64)
    }

    fn commands(&self) -> &Commands {
        self.mapping.at(offset_of!(Header, commands) as u64)
    }

    /// True if the path still names this file.
    pub(super) fn is_at_its_path(&self) -> bool {
        let ours = self.file.metadata();
        let there = std::fs::symlink_metadata(&self.path);
        match (ours, there) {
            (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
            _ => false,
        }
    }

    /// True if no process of the application runs: none holds its lock. The lock is taken for an instant, so
    /// a starting process rarely finds it taken.
    pub(super) fn is_dead(&self) -> bool {
        let dead = self.lock();
        if dead {
            self.unlock();
        }
        dead
    }

    fn lock(&self) -> bool {
        // SAFETY: the descriptor is open.
        unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
    }

    fn unlock(&self) {
        // SAFETY: the descriptor is open.
        unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_UN) };
    }

    /// Removes the file if the application is dead and the path still names it.
    pub(super) fn remove_if_dead(&self) -> std::io::Result<bool> {
        if !self.lock() {
            return Ok(false);
        }
        let removed = if self.is_at_its_path() { std::fs::remove_file(&self.path) } else { Ok(()) };
        self.unlock();
        removed.map(|()| true)
    }

    /// Sections that ended, on all processors: shows whether there is activity.
    pub fn sections(&self) -> u64 {
        (0..self.layout.cpus).map(|cpu| self.sections_on(cpu)).fold(0, u64::wrapping_add)
    }

    pub(super) fn sections_on(&self, cpu: u32) -> u64 {
        self.mapping.at::<CpuLine>(self.layout.cpu(cpu)).sections.load(Ordering::Relaxed)
    }

    /// True if it measures, and its threads may be moved.
    pub fn lets_itself_be_placed(&self) -> bool {
        let settings = self.settings();
        settings.collect.load(Ordering::Relaxed) != 0 && settings.place.load(Ordering::Relaxed) != 0
    }

    /// The data that the application reports about itself.
    pub fn facts(&self) -> Facts {
        let settings = self.settings();
        let without = settings.without.load(Ordering::Relaxed);
        let names = [
            (1, "rseq"),
            (2, "PMU"),
            (4, "probe"),
            (8, "machine.segment"),
            (16, "time slices (Linux before 6.12)"),
            (32, "the right to change time slices"),
            (64, "the right to run long kinds in the background (RLIMIT_NICE below 20)"),
            (128, "the background (each of its processes is a scheduling group: kernel.sched_autogroup_enabled)"),
        ];
        Facts {
            app: self.app(),
            name: self.name.clone(),
            interval_ms: self.interval_ms(),
            collecting: settings.collect.load(Ordering::Relaxed) != 0,
            placing: settings.place.load(Ordering::Relaxed) != 0,
            backend: match settings.backend.load(Ordering::Relaxed) {
                1 => "pmu",
                2 => "probe",
                _ => "none",
            },
            without: names.iter().filter(|(bit, _)| without & bit != 0).map(|(_, name)| *name).collect(),
            kinds: self.layout.kinds,
        }
    }

    /// The interval of analysis that it requests, in milliseconds; 0: none.
    pub fn interval_ms(&self) -> u32 {
        self.settings().analysis_interval_ms.load(Ordering::Relaxed)
    }

    /// The number of threads whose affinity is narrowed now. Reads a line for each entry of the table.
    pub fn narrowed(&self) -> u32 {
        let thread = size_of::<Thread>() as u64;
        let narrowed = (0..u64::from(self.layout.threads))
            .map(|index| self.mapping.at::<Thread>(self.layout.tables.threads_at + index * thread))
            .filter(|thread| {
                thread.tid.load(Ordering::Relaxed) != 0 && thread.narrowed.load(Ordering::Relaxed) != 0
            });
        narrowed.count() as u32
    }

    /// Threads that worked on a kind with a time slice.
    pub fn threads(&self) -> Vec<ThreadSeen> {
        let thread = size_of::<Thread>() as u64;
        (0..u64::from(self.layout.threads))
            .filter_map(|index| {
                let thread = self.mapping.at::<Thread>(self.layout.tables.threads_at + index * thread);
                let seen = ThreadSeen {
                    tid: thread.tid.load(Ordering::Relaxed),
                    started_ticks: thread.started_ticks.load(Ordering::Relaxed),
                    code: CodeId(thread.code.load(Ordering::Relaxed)),
                    sliced: thread.sliced.load(Ordering::Relaxed) != 0,
                };
                (seen.tid != 0 && (1..self.layout.kinds).contains(&seen.code.0)).then_some(seen)
            })
            .collect()
    }

    /// The number of changes of a time slice.
    pub fn slices(&self) -> u64 {
        self.counters().slices.load(Ordering::Relaxed)
    }

    /// Writes a kind's decision if it has changed. Returns true if it had.
    pub fn decide(&mut self, code: CodeId, decision: &Decision) -> bool {
        if code.0 >= self.layout.kinds || self.written.get(&code) == Some(decision) {
            return false;
        }
        let place = self.mapping.at::<layout::Decision>(self.layout.decision(code.0));
        // Odd already: an analyzer died here, and there is no other writer.
        let odd = place.sequence.load(Ordering::Relaxed) | 1;
        place.sequence.store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        place.class.store(decision.class as u8, Ordering::Relaxed);
        place.actuation.store(decision.actuation as u8, Ordering::Relaxed);
        place.wants_probes.store(decision.wants_probes, Ordering::Relaxed);
        place.uses_cpu_clock.store(decision.uses_cpu_clock.into(), Ordering::Relaxed);
        place.expected_cycles.store(decision.expected.0, Ordering::Relaxed);
        place.queue.store(decision.queue, Ordering::Relaxed);
        place.slice_us.store(decision.slice_us, Ordering::Relaxed);
        place.background.store(decision.background.into(), Ordering::Relaxed);
        place.admit.store(decision.admit.into(), Ordering::Relaxed);
        let mut mask = [0_u64; layout::MASK_WORDS];
        for cpu in decision.cpus.0.iter().filter(|cpu| cpu.0 < layout::CPUS_MAX) {
            mask[cpu.0 as usize / 64] |= 1 << (cpu.0 % 64);
        }
        for (word, value) in place.cpu_mask.iter().zip(mask) {
            word.store(value, Ordering::Relaxed);
        }
        place.sequence.store(odd.wrapping_add(1), Ordering::Release);
        self.written.insert(code, decision.clone());
        true
    }

    /// Sets how many requests of kinds with [`Decision::admit`] may run at once; 0: any number.
    pub fn admit(&self, places: u32) {
        self.commands().places.store(places, Ordering::Release);
    }

    /// The queue of long requests now, and its counters.
    pub fn admission(&self) -> state::Admission {
        let relaxed = Ordering::Relaxed;
        let counters: &layout::Admission = self.mapping.at(offset_of!(Header, admission) as u64);
        let mut admission = state::Admission {
            places: self.commands().places.load(relaxed),
            waits: counters.waits.load(relaxed),
            waited_seconds: counters.waited_ns.load(relaxed) as f64 / 1e9,
            longest_wait_seconds: counters.longest_wait_ns.load(relaxed) as f64 / 1e9,
            late: counters.late.load(relaxed),
            for_others: counters.for_others.load(relaxed),
            exempt: counters.exempt.load(relaxed),
            unlimited: self.counters().unlimited.load(relaxed),
            ..state::Admission::default()
        };
        let request = size_of::<layout::Request>() as u64;
        for index in 0..u64::from(layout::REQUESTS) {
            let request: &layout::Request = self.mapping.at(self.layout.tables.requests_at + index * request);
            match (request.owner.load(relaxed), request.state.load(relaxed)) {
                (0, _) => {}
                (_, layout::REQUEST_WAITS) => admission.waiting += 1,
                (_, layout::REQUEST_RUNS) => admission.running += 1,
                _ => {}
            }
        }
        admission
    }

    /// Writes a heartbeat.
    pub fn beat(&self, now_ns: u64) {
        self.commands().heartbeat_ns.store(now_ns, Ordering::Release);
    }

    /// Takes the segment over, perhaps from an analyzer that died: nothing is placed until the next decision.
    pub fn take_over(&mut self, policy: u32, trace_every: u32) {
        let commands = self.commands();
        commands.placement_on.store(0, Ordering::Release);
        commands.places.store(0, Ordering::Relaxed);
        commands.analyzer_pid.store(std::process::id(), Ordering::Relaxed);
        commands.analyzer_version.store(layout::SEGMENT_VERSION, Ordering::Relaxed);
        commands.policy.store(policy, Ordering::Relaxed);
        commands.trace_every.store(trace_every, Ordering::Relaxed);
        self.written.clear();
    }

    /// Placement on or off, from this epoch on.
    pub fn place(&self, on: bool, epoch: u64) {
        let commands = self.commands();
        commands.epoch.store(epoch, Ordering::Relaxed);
        commands.placement_on.store(on.into(), Ordering::Release);
    }

    /// Sets the valid generation of the probe's sets; 0: none.
    pub fn publish_probe(&self, generation: u64) {
        self.commands().probe_generation.store(generation, Ordering::Release);
    }

    /// The analyzer ends: placement stops at once, without waiting for a missing heartbeat.
    pub fn let_go(&self) {
        let commands = self.commands();
        commands.placement_on.store(0, Ordering::Release);
        commands.heartbeat_ns.store(0, Ordering::Release);
        commands.analyzer_pid.store(0, Ordering::Relaxed);
    }

    /// Collecting off, or on again, for the whole application: `hardmeter split off`.
    pub fn collect(&self, on: bool) {
        self.settings().collect.store(on.into(), Ordering::Release);
    }
}

fn unreachable(error: std::io::Error) -> Refusal {
    let remedy = match error.kind() {
        std::io::ErrorKind::PermissionDenied => ": run the analyzer as the user of that server, or as root",
        _ => "",
    };
    Refusal::Unreachable(format!("it cannot be opened for reading and writing ({error}){remedy}"))
}

/// Checks that the header is exactly what libsplit writes for its sizes.
pub(super) fn check(identity: &Identity, app: AppId, length: u64, boot: &str) -> Result<Layout, Refusal> {
    let malformed = |what: String| Err(Refusal::Malformed(what));
    if identity.magic != layout::SEGMENT_MAGIC {
        return malformed("it is not a segment of libsplit".into());
    }
    if identity.version != layout::SEGMENT_VERSION {
        return Err(Refusal::Version(identity.version, layout::SEGMENT_VERSION));
    }
    if convert::printable(&identity.boot_id) != boot {
        return Err(Refusal::OtherBoot);
    }
    if identity.app_id != app.0 {
        return malformed(format!("its header names application {:x}", identity.app_id));
    }
    let Some(layout) = Layout::of(identity.kinds, identity.cpus, identity.threads, identity.traces) else {
        return malformed(format!(
            "sizes out of range: {} kinds, {} CPUs, {} threads, {} traces",
            identity.kinds, identity.cpus, identity.threads, identity.traces
        ));
    };
    let said = [
        ("the header's size", identity.header_size.into(), layout::HEADER_SIZE),
        ("a record's size", identity.record_size.into(), size_of::<RawRecord>() as u64),
        ("the place of kinds", identity.tables.kinds_at, layout.tables.kinds_at),
        ("the place of decisions", identity.tables.decisions_at, layout.tables.decisions_at),
        ("the place of threads", identity.tables.threads_at, layout.tables.threads_at),
        ("the place of requests", identity.tables.requests_at, layout.tables.requests_at),
        ("the number of requests", identity.requests.into(), layout::REQUESTS.into()),
        ("the place of CPUs", identity.tables.cpus_at, layout.tables.cpus_at),
        ("the place of records", identity.tables.records_at, layout.tables.records_at),
        ("the place of traces", identity.tables.traces_at, layout.tables.traces_at),
        ("the size", identity.size, layout.size),
    ];
    for (what, theirs, ours) in said {
        if theirs != ours {
            return malformed(format!("{what} is {theirs}, not {ours}"));
        }
    }
    if length < layout.size {
        return malformed(format!("the file has {length} bytes, not {}", layout.size));
    }
    if !(1_000_000..1_000_000_000_000).contains(&identity.cycles_per_second) {
        return malformed(format!("{} cycles a second is not a clock rate", identity.cycles_per_second));
    }
    Ok(layout)
}

/// The kernel's id of this boot.
pub(super) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
