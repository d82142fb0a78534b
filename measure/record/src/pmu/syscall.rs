//! The system call `perf_event_open` and what is done with its descriptors.

use hardmeter_samples::perf_data::abi::PerfEventAttr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// `PERF_FLAG_FD_CLOEXEC`: the profiled command must not inherit our descriptors.
const FLAG_CLOEXEC: libc::c_ulong = 8;
/// `PERF_FLAG_PID_CGROUP`: the process number is a descriptor of a cgroup's folder.
const FLAG_PID_CGROUP: libc::c_ulong = 4;

// ioctl numbers of include/uapi/linux/perf_event.h: _IO('$', n), _IOR('$', 7, u64), _IOW('$', 6, char *).
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_ID: libc::c_ulong = 0x8008_2407;

/// The thread, or the cgroup, and the CPU that an event is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// A thread, or `None` for all that run on the CPU.
    pub thread: Option<i32>,
    /// A CPU, or `None` for any.
    pub cpu: Option<u32>,
    /// Without a thread: the descriptor of a cgroup's folder, for its processes alone. It must be open while the event is
    /// opened.
    pub cgroup: Option<RawFd>,
}

/// Opens one event.
///
/// # Errors
///
/// The error of `perf_event_open`.
pub fn open(attr: &PerfEventAttr, place: Place) -> io::Result<OwnedFd> {
    let mut attr = *attr;
    let cpu = place.cpu.map_or(-1, |cpu| cpu as libc::c_int);
    // SAFETY: `attr` has the layout of the kernel's structure (tested in its crate) and contains its size; the
    // kernel may write the size back.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_mut(&mut attr),
            place.cgroup.or(place.thread).unwrap_or(-1) as libc::pid_t,
            cpu,
            -1 as libc::c_int,
            FLAG_CLOEXEC | place.cgroup.map_or(0, |_| FLAG_PID_CGROUP),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just made for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

fn ioctl(fd: BorrowedFd<'_>, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: each request of this file takes an integer, or a pointer that its caller keeps valid.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Starts an event, and the copies that children inherited.
///
/// # Errors
///
/// The error of the `ioctl`.
pub fn enable(fd: BorrowedFd<'_>) -> io::Result<()> {
    ioctl(fd, IOC_ENABLE, 0)
}

/// Stops an event, and the copies that children inherited.
///
/// # Errors
///
/// The error of the `ioctl`.
pub fn disable(fd: BorrowedFd<'_>) -> io::Result<()> {
    ioctl(fd, IOC_DISABLE, 0)
}

/// Redirects an event's records to the ring of another.
///
/// # Errors
///
/// The error of the `ioctl`.
pub fn redirect(fd: BorrowedFd<'_>, leader: BorrowedFd<'_>) -> io::Result<()> {
    ioctl(fd, IOC_SET_OUTPUT, leader.as_raw_fd() as libc::c_ulong)
}

/// The id by which records name this event.
///
/// # Errors
///
/// The error of the `ioctl`.
pub fn id(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut id = 0u64;
    ioctl(fd, IOC_ID, std::ptr::from_mut(&mut id) as libc::c_ulong)?;
    Ok(id)
}

/// A counter's value and the time it had a hardware counter to itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Events counted while running.
    pub value: u64,
    /// Nanoseconds for which the event was enabled.
    pub enabled: u64,
    /// Nanoseconds for which it was on a counter; less than `enabled` if events were multiplexed.
    pub running: u64,
}

impl std::ops::AddAssign for Reading {
    fn add_assign(&mut self, other: Reading) {
        self.value += other.value;
        self.enabled += other.enabled;
        self.running += other.running;
    }
}

impl std::ops::SubAssign for Reading {
    /// What was counted since an earlier reading.
    fn sub_assign(&mut self, earlier: Reading) {
        self.value = self.value.saturating_sub(earlier.value);
        self.enabled = self.enabled.saturating_sub(earlier.enabled);
        self.running = self.running.saturating_sub(earlier.running);
    }
}

impl Reading {
    /// The count, scaled from the time in which the event was counted to the whole time. `None` if it never ran.
    pub fn scaled(&self) -> Option<u64> {
        match (self.enabled, self.running) {
            (0, _) => Some(self.value),
            (_, 0) => None,
            (enabled, running) if running >= enabled => Some(self.value),
            (enabled, running) => {
                Some((self.value as u128 * enabled as u128 / running as u128).min(u64::MAX as u128) as u64)
            }
        }
    }

    /// The share of the time it was on a counter, 0 to 1.
    pub fn running_share(&self) -> f64 {
        if self.enabled == 0 {
            return 1.0;
        }
        (self.running as f64 / self.enabled as f64).min(1.0)
    }
}

/// Reads a counter that was opened with `TOTAL_TIME_ENABLED | TOTAL_TIME_RUNNING` as its read format.
///
/// # Errors
///
/// The error of `read`, or one of kind `UnexpectedEof` if the counter gives too few bytes.
pub fn read(fd: BorrowedFd<'_>) -> io::Result<Reading> {
    let mut words = [0u64; 3];
    // SAFETY: the buffer holds the 24 bytes requested.
    let length = unsafe { libc::read(fd.as_raw_fd(), words.as_mut_ptr().cast(), 24) };
    match length {
        24 => Ok(Reading { value: words[0], enabled: words[1], running: words[2] }),
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(Reading::default()), // a pinned event in error state reads as end of file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_ran_a_quarter_of_the_time_is_scaled_by_four() {
        let reading = Reading { value: 250, enabled: 4_000, running: 1_000 };
        assert_eq!(reading.scaled(), Some(1_000));
        assert_eq!(reading.running_share(), 0.25);
        assert_eq!(Reading { value: 7, enabled: 10, running: 10 }.scaled(), Some(7));
        assert_eq!(Reading { value: 0, enabled: 10, running: 0 }.scaled(), None);
        assert_eq!(Reading::default().scaled(), Some(0));
        // No overflow on counts of days.
        let long = Reading { value: 1 << 62, enabled: 1 << 50, running: 1 << 49 };
        assert_eq!(long.scaled(), Some(1 << 63));
    }
}
