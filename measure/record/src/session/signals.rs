//! Ctrl-C and similar signals as descriptors to wait for, so that the file is completed however the recording ends.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The first terminating signal since [`Caught::install`]; 0: none.
static CAUGHT: AtomicI32 = AtomicI32::new(0);

/// While this exists, terminating signals are recorded and do not end the process: a restarted server must be
/// restored first. Unlike a blocked signal, a caught one is not inherited by programs started meanwhile.
pub struct Caught {
    before: Vec<(libc::c_int, libc::sigaction)>,
}

impl Caught {
    /// Installs the handlers.
    pub fn install() -> Caught {
        extern "C" fn note(signal: libc::c_int) {
            let _ = CAUGHT.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
        }
        CAUGHT.store(0, Ordering::Relaxed);
        let handler: extern "C" fn(libc::c_int) = note;
        let install = |signal: &libc::c_int| {
            // SAFETY: plain structures in and out; the handler only stores to an atomic.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                let mut before: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as libc::sighandler_t;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(*signal, &action, &mut before);
                (*signal, before)
            }
        };
        Caught { before: ENDING.iter().map(install).collect() }
    }

    /// The received signal, if any.
    pub fn signal() -> Option<i32> {
        Some(CAUGHT.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // SAFETY: the action that was there before.
            unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
    }
}

/// While this exists, SIGINT, SIGTERM and SIGHUP do not end the process but make a descriptor readable.
pub struct Signals {
    descriptor: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals and opens the descriptor.
    pub fn block() -> io::Result<Signals> {
        // SAFETY: plain structures in and out; the descriptor is new.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in ENDING {
                libc::sigaddset(&mut set, signal);
            }
            if libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            let descriptor = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { descriptor: OwnedFd::from_raw_fd(descriptor), before })
        }
    }

    /// Readable after a signal.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// The received signal, if any.
    pub fn take(&self) -> Option<i32> {
        // SAFETY: the buffer holds one structure.
        unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            let read = libc::read(self.descriptor.as_raw_fd(), std::ptr::from_mut(&mut info).cast(), size);
            (read == size as isize).then_some(info.ssi_signo as i32)
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the mask that was there before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// Waits until one of the descriptors is readable or the time is over. Returns, for each, whether it is readable
/// and whether it has hung up.
pub fn wait(descriptors: &[RawFd], timeout: std::time::Duration) -> io::Result<Vec<(bool, bool)>> {
    let mut polled: Vec<libc::pollfd> =
        descriptors.iter().map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    let milliseconds = timeout.as_millis().min(i32::MAX as u128) as libc::c_int;
    // SAFETY: the list and its length.
    let status = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
    if status < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(vec![(false, false); descriptors.len()]);
    }
    let has = |revents: libc::c_short, bits: libc::c_short| revents & bits != 0;
    Ok(polled
        .iter()
        .map(|fd| {
            (has(fd.revents, libc::POLLIN), has(fd.revents, libc::POLLHUP | libc::POLLERR | libc::POLLNVAL))
        })
        .collect())
}
