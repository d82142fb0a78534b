//! A mapped file of another process, which is not trusted: its bytes may change at any read, and the file may
//! shrink.
//!
//! A read beyond the end of a shrunk file raises SIGBUS. The daemon must survive this, so a handler replaces
//! the whole mapping by zero pages and records that it is spoilt; the reader continues, reads zeros, and
//! checks [`Mapping::spoilt`] before it uses the result. (Wayland's compositors guard their clients' buffers
//! the same way.) Faults elsewhere are passed to the previous handler.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once};

/// The maximum number of segments mapped at a time, as a limit for a folder full of hostile files.
pub(crate) const MAPPINGS_MAX: usize = 256;

/// A mapping known to the handler. `start` 0: unused.
struct Guarded {
    start: AtomicUsize,
    length: AtomicUsize,
    spoilt: AtomicBool,
}

static GUARDED: [Guarded; MAPPINGS_MAX] = [const {
    Guarded { start: AtomicUsize::new(0), length: AtomicUsize::new(0), spoilt: AtomicBool::new(false) }
}; MAPPINGS_MAX];
/// Held to change which entries of `GUARDED` are used; never by the handler.
static CHANGING: Mutex<()> = Mutex::new(());
static INSTALL: Once = Once::new();
static mut BEFORE: MaybeUninit<libc::sigaction> = MaybeUninit::uninit();

/// Structures where every bit pattern is valid and every field is an atomic.
///
/// # Safety
/// The type must have these properties.
pub(crate) unsafe trait Shared {}

/// Structures where every bit pattern is valid, with a size and an alignment that are multiples of eight
/// bytes.
///
/// # Safety
/// The type must have these properties.
pub(crate) unsafe trait Plain: Copy {}

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *mut u8,
    length: usize,
    place: usize,
}

// SAFETY: the memory is shared with other processes anyway, and accessed by atomics only.
unsafe impl Send for Mapping {}
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of a file that is at least that long; for writing too if requested.
    pub fn new(file: &File, length: u64, writable: bool) -> io::Result<Mapping> {
        let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        INSTALL.call_once(install);
        let _changing = CHANGING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let place = GUARDED
            .iter()
            .position(|guarded| guarded.start.load(Ordering::Relaxed) == 0)
            .ok_or_else(|| io::Error::other(format!("more than {MAPPINGS_MAX} segments")))?;
        let rights = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let guarded = &GUARDED[place];
        guarded.spoilt.store(false, Ordering::Relaxed);
        guarded.length.store(length, Ordering::Relaxed);
        guarded.start.store(start as usize, Ordering::Release);
        Ok(Mapping { start: start.cast(), length, place })
    }

    /// True if the file shrank: then nothing read since the last call that returned `false` is valid.
    pub fn spoilt(&self) -> bool {
        GUARDED[self.place].spoilt.load(Ordering::Acquire)
    }

    fn checked(&self, at: u64, size: usize, alignment: usize) -> *mut u8 {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let fits = at.checked_add(size).is_some_and(|end| end <= self.length);
        // Offsets come from Layout, whose size was checked against the mapping's.
        assert!(fits && at.is_multiple_of(alignment), "offset {at} of a segment of {} bytes", self.length);
        // SAFETY: within the mapping.
        unsafe { self.start.add(at) }
    }

    /// The structure at an offset.
    pub fn at<T: Shared>(&self, at: u64) -> &T {
        let place = self.checked(at, size_of::<T>(), align_of::<T>());
        // SAFETY: within the mapping and aligned; T has atomics only, and lives as long as the mapping.
        unsafe { &*place.cast::<T>() }
    }

    /// A copy of the structure at an offset, word by word; other processes may write meanwhile.
    pub fn copy<T: Plain>(&self, at: u64) -> T {
        const { assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() >= 8) };
        let place = self.checked(at, size_of::<T>(), 8).cast::<AtomicU64>();
        let mut copy = MaybeUninit::<T>::uninit();
        let words = copy.as_mut_ptr().cast::<u64>();
        for word in 0..size_of::<T>() / 8 {
            // SAFETY: both are within T's size; the source is read as atomics.
            unsafe { words.add(word).write((*place.add(word)).load(Ordering::Relaxed)) };
        }
        // SAFETY: all its words are written, and every pattern of bits is a valid T.
        unsafe { copy.assume_init() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let _changing = CHANGING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: this mapping; no references into it are left.
        unsafe { libc::munmap(self.start.cast(), self.length) };
        GUARDED[self.place].start.store(0, Ordering::Release);
    }
}

fn install() {
    // SAFETY: called once; the handler only does async-signal-safe operations, on a thread's alternate stack
    // if it has one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, (&raw mut BEFORE).cast());
    }
}

extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo.
    let fault = unsafe { (*info).si_addr() } as usize;
    for guarded in &GUARDED {
        let start = guarded.start.load(Ordering::Acquire);
        let length = guarded.length.load(Ordering::Relaxed);
        if start == 0 || fault < start || fault - start >= length {
            continue;
        }
        // SAFETY: replaces this process's own mapping by zero pages at the same address.
        let replaced = unsafe {
            let errno = libc::__errno_location();
            let saved = *errno;
            let replaced = libc::mmap(
                start as *mut libc::c_void,
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            );
            *errno = saved;
            replaced
        };
        if replaced != libc::MAP_FAILED {
            guarded.spoilt.store(true, Ordering::Release);
            return;
        }
    }
    // SAFETY: restores the previous handler; a fault outside the mappings is raised again and reaches it.
    unsafe {
        let before = (&raw const BEFORE).cast::<libc::sigaction>();
        let handler = (*before).sa_sigaction;
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN || (*before).sa_flags & libc::SA_SIGINFO == 0
        {
            libc::signal(signal, libc::SIG_DFL);
        } else {
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(handler);
            handler(signal, info, context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[repr(C, align(64))]
    #[derive(Clone, Copy)]
    struct Words([u64; 8]);
    // SAFETY: words only.
    unsafe impl Plain for Words {}

    #[test]
    fn a_file_that_shrinks_under_us_reads_as_zeros_and_is_said() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[0xab; 3 * 4096]).expect("written");
        let mapping = Mapping::new(&file, 3 * 4096, true).expect("mapped");
        assert_eq!(mapping.copy::<Words>(2 * 4096).0, [0xabab_abab_abab_abab; 8]);
        assert!(!mapping.spoilt());
        file.set_len(4096).expect("shrunk");
        assert_eq!(mapping.copy::<Words>(2 * 4096).0, [0; 8]);
        assert!(mapping.spoilt());
        // Another mapping is unaffected.
        file.set_len(3 * 4096).expect("grown");
        let other = Mapping::new(&file, 3 * 4096, false).expect("mapped");
        assert_eq!(other.copy::<Words>(0).0, [0xabab_abab_abab_abab; 8]);
        assert!(!other.spoilt());
    }

    #[test]
    fn places_are_used_again() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(4096).expect("long");
        for _ in 0..2 * MAPPINGS_MAX {
            Mapping::new(&file, 4096, false).expect("mapped");
        }
    }
}
