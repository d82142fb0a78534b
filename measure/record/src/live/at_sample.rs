//! Readers of a server process at the moment when it is sampled: one thread a CPU, woken by each sample.
//!
//! ```text
//!   sampled process   ──runs──┐ timer interrupt: sample            ┌──runs on──
//!   reader, this CPU          └─ wakes up, reads the process ──────┘
//!                                        └──> Reading (CPU, time of the sample) ──> LiveSource::drain
//! ```
//! With real-time priority the reader runs before the process that was sampled on its CPU, so it sees the
//! state at the sample. Without the right to that priority, the reader may be late; each reading has the
//! start of its statement, and one that began after the sample is not used.
//!
//! Invariants:
//! 1. A reader reads processes of the target only, and writes to no process.
//! 2. A reader holds no lock while it reads.
//! 3. All readers have ended when [`Readers`] is dropped.

use super::state::{Executed, StatementRules};
use crate::kept_rights::KeptRights;
use crate::rings::RingWatch;
use crate::threads::block_signals;
use hardmeter_samples::model::{Pid, Timestamp};
use hardmeter_samples::perf_data::abi::record_type;
use std::collections::HashSet;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

/// The lowest of the real-time priorities: before all ordinary processes.
const PRIORITY: i32 = 1;
/// The maximum number of waiting readings: some seconds of one CPU.
const MOST: usize = 100_000;

/// The values read at one sample.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) cpu: u32,
    pub(super) time: Timestamp,
    pub(super) executed: Executed,
}

/// The state shared by all readers.
#[derive(Default)]
struct Shared {
    rules: RwLock<Option<Arc<StatementRules>>>,
    target: RwLock<HashSet<Pid>>,
    readings: Mutex<Vec<Reading>>,
    refused: AtomicU64,
    /// CPU time of all readers, in nanoseconds, and the number of their readings.
    spent: AtomicU64,
    looks: AtomicU64,
    ordinary: AtomicBool,
    stopping: AtomicBool,
}

/// The readers of all CPUs.
pub(super) struct Readers {
    shared: Arc<Shared>,
    wake: Vec<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Starts a reader for each watched ring. Call it before rights are dropped: the readers keep the right
    /// to read.
    ///
    /// # Errors
    /// The system's error if a thread or a descriptor cannot be created.
    pub(super) fn start(watches: Vec<(u32, RingWatch)>) -> std::io::Result<Readers> {
        let shared = Arc::new(Shared::default());
        let mut readers = Readers { shared: shared.clone(), wake: Vec::new(), threads: Vec::new() };
        let (ready, started) = std::sync::mpsc::channel();
        for (cpu, watch) in watches {
            let wake = event_descriptor()?;
            let stop = wake.try_clone()?;
            let (shared, ready) = (shared.clone(), ready.clone());
            readers.wake.push(wake);
            let thread = std::thread::Builder::new().name(format!("reader-{cpu}")).spawn(move || {
                let rights = KeptRights::keep();
                block_signals();
                if !prefer(cpu) {
                    shared.ordinary.store(true, Ordering::Relaxed);
                }
                let _ = ready.send(());
                Reader { cpu, watch, stop, shared, rights }.run();
            })?;
            readers.threads.push(thread);
        }
        for _ in &readers.threads {
            let _ = started.recv(); // each has its rights and its priority
        }
        Ok(readers)
    }

    /// Sets what is read from now on.
    pub(super) fn set_rules(&self, rules: Option<StatementRules>) {
        *write(&self.shared.rules) = rules.map(Arc::new);
    }

    /// Sets the processes that are read from now on.
    pub(super) fn set_target(&self, target: impl Iterator<Item = Pid>) {
        let target: HashSet<Pid> = target.collect();
        if *read(&self.shared.target) != target {
            *write(&self.shared.target) = target;
        }
    }

    /// Returns the values read since the last call.
    pub(super) fn take(&self) -> Vec<Reading> {
        std::mem::take(&mut *self.shared.readings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of times that a process could not be read.
    pub(super) fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Average CPU time of one reading, in nanoseconds.
    pub(super) fn cost_of_a_look(&self) -> f64 {
        let looks = self.shared.looks.load(Ordering::Relaxed);
        self.shared.spent.load(Ordering::Relaxed) as f64 / looks.max(1) as f64
    }

    /// True if a reader has no real-time priority.
    pub(super) fn may_be_late(&self) -> bool {
        self.shared.ordinary.load(Ordering::Relaxed)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        for wake in &self.wake {
            let one = 1u64.to_ne_bytes();
            // SAFETY: eight bytes of this function's stack.
            unsafe { libc::write(wake.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // a reader that panicked has reported it
        }
    }
}

/// One reader.
struct Reader {
    cpu: u32,
    watch: RingWatch,
    stop: OwnedFd,
    shared: Arc<Shared>,
    rights: KeptRights,
}

impl Reader {
    fn run(mut self) {
        let entry = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut waiting = [entry(self.watch.descriptor()), entry(self.stop.as_raw_fd())];
        let mut before = thread_time();
        while !self.shared.stopping.load(Ordering::Relaxed) {
            // SAFETY: a local array, with its length.
            let ready = unsafe { libc::poll(waiting.as_mut_ptr(), waiting.len() as libc::nfds_t, -1) };
            if ready < 0 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                return;
            }
            // SAFETY: no preconditions.
            if unsafe { libc::geteuid() } != 0 {
                self.rights.limit(); // root rights were dropped in the meantime
            }
            self.look();
            let now = thread_time();
            self.shared.spent.fetch_add(now - std::mem::replace(&mut before, now), Ordering::Relaxed);
            self.shared.looks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reads the process of the newest sample. The state at older ones no longer exists.
    fn look(&mut self) {
        let mut newest = None;
        self.watch.see(|record| newest = sample_of(record).or(newest));
        let Some((pid, time)) = newest else { return };
        let rules = read(&self.shared.rules).clone();
        let Some(rules) = rules else { return };
        if !read(&self.shared.target).contains(&pid) {
            return;
        }
        match rules.read(pid) {
            Ok(executed) => {
                let reading = Reading { cpu: self.cpu, time, executed };
                let mut readings = self.shared.readings.lock().unwrap_or_else(PoisonError::into_inner);
                if readings.len() < MOST {
                    readings.push(reading);
                }
            }
            Err(_) => {
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Process and time of a sample with the fields `IDENTIFIER IP TID TIME` first.
fn sample_of(record: &[u8]) -> Option<(Pid, Timestamp)> {
    let kind = u32::from_ne_bytes(*record.first_chunk()?);
    let pid = i32::from_ne_bytes(record.get(24..28)?.try_into().ok()?);
    let time = u64::from_ne_bytes(record.get(32..40)?.try_into().ok()?);
    (kind == record_type::SAMPLE).then_some((Pid(pid), Timestamp(time)))
}

/// CPU time of the calling thread in nanoseconds.
pub(super) fn thread_time() -> u64 {
    // SAFETY: `time` has room for one time.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// Binds the calling thread to one CPU, with priority over ordinary processes; true if both were granted.
fn prefer(cpu: u32) -> bool {
    // SAFETY: plain structures on this stack; 0 is the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize % libc::CPU_SETSIZE as usize, &mut set);
        let placed = libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set) == 0;
        let parameters = libc::sched_param { sched_priority: PRIORITY };
        let first = libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters);
        placed && first == 0
    }
}

fn event_descriptor() -> std::io::Result<OwnedFd> {
    // SAFETY: the new descriptor has no other owner.
    unsafe {
        match libc::eventfd(0, libc::EFD_CLOEXEC) {
            -1 => Err(std::io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_names_its_process_and_time_and_other_records_do_not() {
        let mut record = record_type::SAMPLE.to_ne_bytes().to_vec();
        record.extend([0; 20]);
        record.extend(17i32.to_ne_bytes());
        record.extend(18i32.to_ne_bytes());
        record.extend(100u64.to_ne_bytes());
        assert_eq!(sample_of(&record), Some((Pid(17), Timestamp(100))));
        assert!((0..record.len()).all(|length| sample_of(&record[..length]).is_none()));
        record[0] = record_type::MMAP2 as u8;
        assert_eq!(sample_of(&record), None);
    }

    #[test]
    fn readers_end_when_they_are_dropped() {
        let readers = Readers::start(Vec::new()).expect("nothing to start");
        readers.set_target([Pid(1)].into_iter());
        readers.set_rules(None);
        assert!(readers.take().is_empty());
        assert_eq!(readers.refused(), 0);
    }
}
