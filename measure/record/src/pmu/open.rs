//! Opens events for all threads and CPUs of a target.
//!
//! The kernel refuses a ring for an inherited event that follows its thread over all CPUs, so each event is opened
//! once per thread *and* CPU:
//!
//! ```text
//!               CPU 0      CPU 1
//! thread 17   event a,b  event a,b
//! thread 18   event a,b  event a,b
//!                 |          |
//!               ring 0     ring 1     one ring per CPU, for any number of threads and events
//! ```

use super::attributes::{concede, Concession, KernelFeatures};
use super::syscall::{self, Place};
use hardmeter_samples::perf_data::abi::{attr_flag, PerfEventAttr};
use std::io;
use std::os::fd::OwnedFd;

/// The reason why an event could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open event {event}: {reason}")]
pub struct OpenError {
    /// The event's name.
    pub event: String,
    /// The kernel's error in words.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
    /// The kernel's answer.
    pub errno: i32,
}

impl OpenError {
    /// Whether the machine lacks the event, rather than the user a right or a file.
    pub fn is_missing_hardware(&self) -> bool {
        matches!(self.errno, libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO)
    }

    /// Explains the kernel's error.
    pub fn explain(event: &str, attr: &PerfEventAttr, place: Place, errno: i32) -> OpenError {
        let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
            .map_or_else(|_| "unknown".to_string(), |level| level.trim().to_string());
        let hardware = !matches!(attr.event_type, 1 | 2 | 5);
        let (reason, remedy) = match errno {
            libc::EBADF | libc::EINVAL if place.cgroup.is_some() => (
                "its hierarchy has no controller perf_event".to_string(),
                "mount it, or name a cgroup of version 2".to_string(),
            ),
            libc::EACCES | libc::EPERM => {
                let whom = if place.thread.is_none() { "the whole system" } else { "this process" };
                (
                    format!("no right to profile {whom} (perf_event_paranoid is {paranoid})"),
                    match place.thread {
                        None => "run it with sudo, or: sudo sysctl kernel.perf_event_paranoid=0".to_string(),
                        Some(_) => "run it with sudo or as the owner of the process, or: \
                                    sudo sysctl kernel.perf_event_paranoid=1"
                            .to_string(),
                    },
                )
            }
            libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO if hardware => {
                match super::sysfs::has_core_pmu() {
                    true => (
                        "this machine's PMU does not offer it".to_string(),
                        "see `hardmeter events`, or use --source simulated".to_string(),
                    ),
                    false => (
                        "this machine has no PMU".to_string(),
                        "use --source simulated or --source timer; `hardmeter doctor` shows more".to_string(),
                    ),
                }
            }
            libc::EINVAL => (
                "the kernel does not accept this encoding".to_string(),
                "check the terms with `hardmeter events`, or ask for less precision (:p)".to_string(),
            ),
            libc::ESRCH => {
                ("its process has ended".to_string(), "start it again, then profile it".to_string())
            }
            libc::EMFILE | libc::ENFILE => (
                "too many open files: every thread and CPU needs one per event".to_string(),
                "raise the limit (ulimit -n 65536), or record fewer events".to_string(),
            ),
            libc::EBUSY => (
                "another tool holds the PMU".to_string(),
                "stop the other profiler, or the NMI watchdog: sudo sysctl kernel.nmi_watchdog=0".to_string(),
            ),
            libc::ENOSPC => (
                "no debug register is free".to_string(),
                "watch fewer addresses: x86 has four registers".to_string(),
            ),
            libc::ENOSYS => (
                "this kernel has no perf_event_open, or a container forbids it".to_string(),
                "run outside the container, or allow the call in its seccomp profile".to_string(),
            ),
            other => (io::Error::from_raw_os_error(other).to_string(), "see `hardmeter doctor`".to_string()),
        };
        OpenError { event: event.to_string(), reason, remedy, errno }
    }
}

/// Determines which attribute bits this kernel supports, with a dummy event.
pub fn kernel_features() -> KernelFeatures {
    use hardmeter_samples::perf_data::abi::sample_type;
    let own = Place { thread: Some(0), cpu: None, cgroup: None };
    let accepts = |change: &dyn Fn(&mut PerfEventAttr)| {
        // Any user may open PERF_COUNT_SW_DUMMY in user mode, so that a refusal concerns the bit.
        let mut attr = PerfEventAttr::new(1, 9);
        attr.flags = attr_flag::DISABLED | attr_flag::EXCLUDE_KERNEL | attr_flag::EXCLUDE_HV;
        change(&mut attr);
        syscall::open(&attr, own).is_ok()
    };
    KernelFeatures {
        build_id: accepts(&|attr| attr.flags |= attr_flag::MMAP | attr_flag::MMAP2 | attr_flag::BUILD_ID),
        weight_struct: accepts(&|attr| attr.sample_type = sample_type::WEIGHT_STRUCT),
        clockid: accepts(&|attr| {
            attr.flags |= attr_flag::USE_CLOCKID;
            attr.clockid = libc::CLOCK_MONOTONIC;
        }),
    }
}

/// An accepted attribute, with the concessions made.
#[derive(Debug)]
pub struct Negotiated {
    /// The first opened event.
    pub first: OwnedFd,
    /// The attribute it was opened with.
    pub attr: PerfEventAttr,
    /// The concessions made.
    pub concessions: Vec<Concession>,
}

/// Opens an event for one thread and CPU; makes one concession after the other until the kernel accepts it.
///
/// # Errors
///
/// The kernel's error number, if it refuses even the least demanding variant.
pub fn negotiate(attr: &PerfEventAttr, place: Place) -> Result<Negotiated, i32> {
    negotiate_by(attr, |attr| {
        syscall::open(attr, place).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
    })
    .map(|(first, attr, concessions)| Negotiated { first, attr, concessions })
}

/// The negotiation itself, with any opener.
fn negotiate_by<T>(
    attr: &PerfEventAttr,
    mut open: impl FnMut(&PerfEventAttr) -> Result<T, i32>,
) -> Result<(T, PerfEventAttr, Vec<Concession>), i32> {
    let mut attr = *attr;
    let mut concessions: Vec<Concession> = Vec::new();
    // Report the first refusal: the later attempts request less, and may fail for other reasons.
    let mut refused = None;
    loop {
        match open(&attr) {
            Ok(opened) => return Ok((opened, attr, concessions)),
            Err(errno) => {
                let first = *refused.get_or_insert(errno);
                let (weaker, concession) = concede(&attr, errno).ok_or(first)?;
                // Of several reductions in precision, report only the last one.
                concessions
                    .retain(|known| std::mem::discriminant(known) != std::mem::discriminant(&concession));
                concessions.push(concession);
                attr = weaker;
            }
        }
    }
}

/// Raises the limit of open files of this process to its hard limit. The command was forked before and keeps the
/// old limit.
pub fn raise_file_limit() {
    // SAFETY: plain structures in and out.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_samples::perf_data::abi::sample_type;

    fn precise() -> PerfEventAttr {
        let mut attr = PerfEventAttr::new(4, 0x8d1);
        attr.flags = 3 << attr_flag::PRECISE_IP_SHIFT;
        attr.sample_type = sample_type::PHYS_ADDR | sample_type::IP;
        attr
    }

    #[test]
    fn a_user_on_a_pmu_of_precision_one_gets_both_concessions_once() {
        let answer = negotiate_by(&precise(), |attr| {
            if attr.sample_type & sample_type::PHYS_ADDR != 0 {
                Err(libc::EACCES)
            } else if attr.precise_ip() > 1 {
                Err(libc::EOPNOTSUPP)
            } else {
                Ok(attr.precise_ip())
            }
        });
        let (opened, _, concessions) = answer.expect("agrees in the end");
        assert_eq!(opened, 1);
        assert_eq!(concessions, [Concession::PhysicalAddress, Concession::Precision { granted: 1 }]);
    }

    #[test]
    fn the_first_refusal_is_the_one_reported() {
        let mut answers =
            [libc::EACCES, libc::EOPNOTSUPP, libc::EINVAL, libc::EINVAL, libc::EINVAL].into_iter();
        let answer = negotiate_by(&precise(), |_| Err::<(), i32>(answers.next().expect("ends in time")));
        assert_eq!(answer.map(drop), Err(libc::EACCES));
    }

    #[test]
    fn this_kernel_takes_a_clock() {
        match syscall::open(&PerfEventAttr::new(1, 9), Place { thread: Some(0), cpu: None, cgroup: None }) {
            Ok(_) => assert!(kernel_features().clockid), // every kernel since 4.1
            Err(error) => println!("skipped: {error}"),
        }
    }
}
