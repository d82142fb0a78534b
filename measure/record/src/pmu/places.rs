//! One event in all its places, and the ring of each CPU that they write to.

use super::attributes::{Concession, Modes};
use super::open::{self, Negotiated, OpenError};
use super::plan::PlannedEvent;
use super::syscall::{self, Place};
use crate::rings::Ring;
use hardmeter_samples::perf_data::abi::{attr_flag, PerfEventAttr};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// Data area of one ring. 512 KiB is what an unprivileged user may lock per CPU (perf_event_mlock_kb).
const RING_CAPACITY: usize = 512 << 10;
/// Size of a ring that also receives statement texts, which only root records: 100,000 marks per second and CPU are
/// 12 MB (measured with pgbench -S -M prepared), and the recorder competes for the CPU with the writers.
const RING_WITH_STATEMENTS: usize = 4 << 20;
/// Size of all rings together, at most, that root takes. Events of whole CPUs receive every process's names and mappings:
/// at a load of 30 on two CPUs, with short programs one after the other, the recorder was late for 512 KiB twice in 80 s.
const RINGS_OF_ROOT: usize = 64 << 20;
/// The least to go on with, where other recorders hold locked memory.
const RING_MINIMUM: usize = 128 << 10;
/// Bytes in a ring that wake the recorder: about once per second for the timer at 1 kHz. The rest of the ring, at
/// least half of it, buffers records until the recorder runs.
pub(super) const WAKEUP_WATERMARK: usize = RING_MINIMUM / 2;

/// One event in all its places.
pub(super) struct OpenEvent {
    pub(super) name: String,
    pub(super) attr: PerfEventAttr,
    pub(super) descriptors: Vec<OwnedFd>,
    /// Thread and CPU of each descriptor.
    pub(super) places: Vec<Place>,
    pub(super) ids: Vec<u64>,
    pub(super) concessions: Vec<Concession>,
}

/// One CPU's ring, and who writes into it.
pub(super) struct CpuRing {
    pub(super) ring: Ring,
    /// Descriptors of all threads on this CPU: a live one is used to wait for the ring.
    pub(super) writers: Vec<RawFd>,
    /// The first writer that has not hung up.
    pub(super) current: usize,
}

/// The rings while events are opened.
pub(super) struct Rings {
    capacity: usize,
    of_cpus: HashMap<u32, CpuRing>,
}

impl Rings {
    /// No rings yet. `texts`: whether they will also receive statement texts.
    pub(super) fn new(texts: bool) -> Rings {
        // SAFETY: no preconditions.
        let is_root = unsafe { libc::geteuid() } == 0;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let capacity = match (texts, is_root) {
            (true, _) => RING_WITH_STATEMENTS,
            (false, true) => capacity_of_root(processors),
            (false, false) => RING_CAPACITY,
        };
        Rings { capacity, of_cpus: HashMap::new() }
    }

    /// The rings, by CPU.
    pub(super) fn into_rings(self) -> Vec<CpuRing> {
        let mut rings: Vec<(u32, CpuRing)> = self.of_cpus.into_iter().collect();
        rings.sort_unstable_by_key(|(cpu, _)| *cpu);
        rings.into_iter().map(|(_, ring)| ring).collect()
    }
}

/// The size of a ring, of as many as there are processors.
fn capacity_of_root(processors: usize) -> usize {
    let share = (RINGS_OF_ROOT / processors).clamp(RING_CAPACITY, RING_WITH_STATEMENTS);
    1 << share.ilog2()
}

/// Opens an event for all threads and CPUs; the first that exists determines the concessions.
pub(super) fn open_everywhere(
    planned: &PlannedEvent,
    attr: &PerfEventAttr,
    places: Vec<Place>,
    rings: &mut Rings,
) -> Result<OpenEvent, OpenError> {
    let name = &planned.request.name;
    let mut places = places.into_iter();
    let mut event = None;
    let mut gone = None;
    // The first one that exists determines the concessions for all.
    for place in places.by_ref() {
        match open::negotiate(attr, place) {
            Ok(Negotiated { first, attr, concessions }) => {
                let modes = granted_modes(&attr, planned.modes);
                let mut opened = OpenEvent {
                    name: planned.request.recorded_name(modes),
                    attr,
                    descriptors: Vec::new(),
                    places: Vec::new(),
                    ids: Vec::new(),
                    concessions,
                };
                attach(&mut opened, first, place, rings).map_err(|error| mapping_error(name, &error))?;
                event = Some(opened);
                break;
            }
            Err(libc::ESRCH) => gone = Some(place),
            Err(errno) => return Err(OpenError::explain(name, attr, place, errno)),
        }
    }
    let Some(mut event) = event else {
        let place = gone.unwrap_or(Place { thread: None, cpu: None, cgroup: None });
        return Err(OpenError::explain(name, attr, place, libc::ESRCH));
    };
    for place in places {
        match syscall::open(&event.attr, place) {
            Ok(descriptor) => {
                attach(&mut event, descriptor, place, rings).map_err(|error| mapping_error(name, &error))?;
            }
            // The thread has ended meanwhile, or the CPU went offline.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) => {}
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                return Err(OpenError::explain(name, &event.attr, place, errno));
            }
        }
    }
    Ok(event)
}

/// Adds an opened descriptor to its event and to the ring of its CPU, which it makes if it is the first.
fn attach(event: &mut OpenEvent, descriptor: OwnedFd, place: Place, rings: &mut Rings) -> io::Result<()> {
    let cpu = place.cpu.unwrap_or(0);
    match rings.of_cpus.get_mut(&cpu) {
        Some(ring) => {
            // SAFETY: the leader belongs to an event that lives as long as the ring.
            let leader = unsafe { std::os::fd::BorrowedFd::borrow_raw(ring.writers[0]) };
            syscall::redirect(descriptor.as_fd(), leader)?;
            ring.writers.push(descriptor.as_raw_fd());
        }
        None => {
            let mut capacity = rings.capacity;
            let ring = loop {
                match Ring::map(descriptor.as_fd(), capacity) {
                    Ok(ring) => break ring,
                    // Above the limit of locked memory: a smaller ring may fit.
                    Err(error) if error.raw_os_error() == Some(libc::EPERM) && capacity > RING_MINIMUM => {
                        capacity /= 2;
                    }
                    Err(error) => return Err(error),
                }
            };
            rings.of_cpus.insert(cpu, CpuRing { ring, writers: vec![descriptor.as_raw_fd()], current: 0 });
        }
    }
    event.ids.push(syscall::id(descriptor.as_fd())?);
    event.descriptors.push(descriptor);
    event.places.push(place);
    Ok(())
}

fn mapping_error(event: &str, error: &io::Error) -> OpenError {
    OpenError {
        event: event.to_string(),
        reason: format!("its ring buffer cannot be mapped: {error}"),
        remedy:
            "other profilers hold locked memory: stop them, or: sudo sysctl kernel.perf_event_mlock_kb=16384"
                .to_string(),
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    }
}

fn granted_modes(attr: &PerfEventAttr, wanted: Modes) -> Modes {
    Modes {
        user: wanted.user && !attr.has(attr_flag::EXCLUDE_USER),
        kernel: wanted.kernel && !attr.has(attr_flag::EXCLUDE_KERNEL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_root_share_their_memory() {
        let sizes = [1, 2, 24, 48, 128, 1_024].map(|processors| capacity_of_root(processors) >> 10);
        assert_eq!(sizes, [4_096, 4_096, 2_048, 1_024, 512, 512]);
    }
}
