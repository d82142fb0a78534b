//! Polls the connections: one epoll set, edge-triggered.
//!
//! A level-triggered set would report each connection once more after it was read. Therefore the receiver of an
//! event must read until the socket is empty (a short read has emptied it).

use crate::time::Micros;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::Timespec;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;

/// An event of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    /// The number that it was added with.
    pub number: usize,
    /// It is writable again.
    pub writable: bool,
    /// It has bytes or an end to read.
    pub readable: bool,
    /// The other side has closed it: read to the end.
    pub closed: bool,
}

/// See the module.
pub(super) struct Poll {
    set: OwnedFd,
    events: Vec<Event>,
    /// Whether the kernel supports nanosecond timeouts (epoll_pwait2, Linux 5.11); else milliseconds.
    precise: bool,
}

const READ: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
/// Maximum number of events per call; the others follow in the next call.
const AT_ONCE: usize = 64;

impl Poll {
    pub fn new() -> Result<Poll, Errno> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poll { set, events: Vec::with_capacity(AT_ONCE), precise: true })
    }

    /// Adds a connection, which is reported when it is readable. Closing the socket removes it.
    pub fn add(&self, socket: &OwnedFd, number: usize) -> Result<(), Errno> {
        epoll::add(&self.set, socket, EventData::new_u64(number as u64), READ)
    }

    /// Sets whether to report when a connection becomes writable.
    pub fn watch_writing(&self, socket: &OwnedFd, number: usize, watch: bool) -> Result<(), Errno> {
        let flags = if watch { READ | EventFlags::OUT } else { READ };
        epoll::modify(&self.set, socket, EventData::new_u64(number as u64), flags)
    }

    /// Waits at most this long; `None`: until an event. A signal ends it early.
    pub fn wait(&mut self, time: Option<Micros>) -> Result<(), Errno> {
        self.events.clear();
        let waited = match time {
            Some(time) if self.precise && time > Micros::ZERO => self.wait_precisely(time),
            _ => self.wait_roughly(time),
        };
        match waited {
            Err(Errno::INTR) => Ok(()),
            other => other,
        }
    }

    /// The event at an index of the last wait.
    pub fn ready(&self, place: usize) -> Option<Ready> {
        let event = self.events.get(place)?;
        let flags = event.flags;
        let closed = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        Some(Ready {
            number: event.data.u64() as usize,
            writable: flags.contains(EventFlags::OUT),
            readable: flags.contains(EventFlags::IN) || closed,
            closed,
        })
    }

    fn wait_roughly(&mut self, time: Option<Micros>) -> Result<(), Errno> {
        let time = time.map(timespec);
        epoll::wait(&self.set, rustix::buffer::spare_capacity(&mut self.events), time.as_ref()).map(drop)
    }

    /// rustix waits in whole milliseconds unless it is compiled for kernels from 5.11 on.
    fn wait_precisely(&mut self, time: Micros) -> Result<(), Errno> {
        let time = timespec(time);
        let time = libc::timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec };
        let room = self.events.spare_capacity_mut();
        // SAFETY: the set is open; the kernel writes at most `room.len()` events, whose layout is that of the kernel's
        // epoll_event on every architecture (rustix::event::epoll::Event); the time outlives the call; no signal mask.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.set.as_fd().as_raw_fd(),
                room.as_mut_ptr(),
                room.len() as libc::c_int,
                &raw const time,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if let Ok(count) = usize::try_from(count) {
            // SAFETY: the kernel has written this number of events.
            unsafe { self.events.set_len(count) };
            return Ok(());
        }
        match std::io::Error::last_os_error().raw_os_error() {
            // An older kernel, or a sandbox that does not know the call.
            Some(libc::ENOSYS | libc::EPERM) => {
                self.precise = false;
                self.wait_roughly(Some(Micros(time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000)))
            }
            code => Err(Errno::from_raw_os_error(code.unwrap_or(libc::EIO))),
        }
    }
}

fn timespec(time: Micros) -> Timespec {
    Timespec { tv_sec: (time.0 / 1_000_000) as i64, tv_nsec: (time.0 % 1_000_000 * 1_000) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn connections_are_told_of_once_whether_the_kernel_waits_precisely_or_roughly() {
        for precise in [true, false] {
            let mut poll = Poll { precise, ..Poll::new().unwrap() };
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            let socket = OwnedFd::from(ours.try_clone().unwrap());
            poll.add(&socket, 7).unwrap();
            poll.wait(Some(Micros(300))).unwrap();
            assert!(poll.ready(0).is_none(), "nothing happened");

            theirs.write_all(b"hello").unwrap();
            poll.wait(Some(Micros::seconds(60))).unwrap();
            let ready = poll.ready(0).expect("bytes came");
            assert_eq!((ready.number, ready.readable, ready.writable, ready.closed), (7, true, false, false));
            assert!(poll.ready(1).is_none());
            // An edge is reported once, read or not.
            poll.wait(Some(Micros::ZERO)).unwrap();
            assert!(poll.ready(0).is_none());
            assert_eq!(ours.read(&mut [0; 9]).unwrap(), 5);

            poll.watch_writing(&socket, 7, true).unwrap();
            poll.wait(Some(Micros::seconds(60))).unwrap();
            assert!(poll.ready(0).expect("there is room").writable);
            poll.watch_writing(&socket, 7, false).unwrap();
            drop(theirs);
            poll.wait(None).unwrap();
            assert!(poll.ready(0).expect("the other end is gone").closed);
        }
    }
}
