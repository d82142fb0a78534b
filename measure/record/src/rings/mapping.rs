//! A ring in memory shared with the kernel.

use super::{for_each_record, unread, RingError};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

// Offsets in struct perf_event_mmap_page (include/uapi/linux/perf_event.h): the interface guarantees that the
// fields from data_head on start at 1 KiB.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
const DATA_OFFSET: usize = 1040;
const DATA_SIZE: usize = 1048;

/// One mapping, unmapped when dropped.
struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// The mapping is plain memory without ties to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, offset: usize, length: usize) -> io::Result<Mapping> {
        Mapping::protected(fd, offset, length, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn protected(fd: BorrowedFd<'_>, offset: usize, length: usize, protection: i32) -> io::Result<Mapping> {
        // SAFETY: a fresh mapping at an address that the kernel chooses overlaps no other mapping.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { base: NonNull::new(base.cast()).expect("mmap never answers null"), length })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= self.length && offset.is_multiple_of(8));
        // SAFETY: inside the mapping, aligned, and shared with the other writer only through atomic accesses.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Bytes that the writer does not overwrite until the tail has moved past them.
    ///
    /// SAFETY: the caller must not use the slice after publishing a tail beyond its start.
    unsafe fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        assert!(offset.checked_add(length).is_some_and(|end| end <= self.length));
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset), length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; no reference outlives the owner.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// The page size of this machine.
fn page_size() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// The record ring of one event (and of all events redirected to it).
pub struct Ring {
    mapping: Mapping,
    data_offset: usize,
    capacity: usize,
    scratch: Vec<u8>,
}

impl Ring {
    /// Maps the ring of a perf event with a data area of `capacity` bytes, a power of two of at least a page.
    ///
    /// # Errors
    ///
    /// The system's error, usually `EPERM` if more memory would be locked than `perf_event_mlock_kb` allows.
    pub fn map(fd: BorrowedFd<'_>, capacity: usize) -> io::Result<Ring> {
        let mapping = Mapping::new(fd, 0, page_size() + capacity)?;
        // Kernels before 4.1 have zero in both fields: the data area follows the first page.
        let (offset, size) = (
            mapping.word(DATA_OFFSET).load(Ordering::Relaxed) as usize,
            mapping.word(DATA_SIZE).load(Ordering::Relaxed) as usize,
        );
        let (data_offset, capacity) = if size == 0 { (page_size(), capacity) } else { (offset, size) };
        Ok(Ring { mapping, data_offset, capacity, scratch: Vec::new() })
    }

    /// Passes every unread record to `sink` and frees its space; returns the bytes read.
    ///
    /// If the sink fails, no space of this pass is freed: the records can be read again.
    ///
    /// # Errors
    ///
    /// The error of `sink`, or [`RingError`] if the ring was overrun or holds a broken record.
    pub fn drain<E: From<RingError>>(
        &mut self,
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let tail = self.mapping.word(DATA_TAIL).load(Ordering::Relaxed); // only we write it
        let head = self.mapping.word(DATA_HEAD).load(Ordering::Acquire);
        if head == tail {
            return Ok(0);
        }
        let pieces = unread(tail, head, self.capacity)?;
        // SAFETY: the kernel does not write between tail and head; the slices end with this call, before the new
        // tail is published.
        let consumed = unsafe {
            let first = self.mapping.bytes(self.data_offset + pieces.first.0, pieces.first.1);
            let second = self.mapping.bytes(self.data_offset, pieces.second);
            for_each_record(first, second, &mut self.scratch, sink)?
        };
        self.mapping.word(DATA_TAIL).store(tail + consumed as u64, Ordering::Release);
        Ok(consumed)
    }
}

/// A second view of a ring that consumes nothing: for a thread that processes records while they are written.
pub struct RingWatch {
    fd: OwnedFd,
    mapping: Mapping,
    data_offset: usize,
    capacity: usize,
    /// Position up to which records were processed.
    seen: u64,
    copy: Vec<u8>,
}

impl RingWatch {
    /// Watches the ring of an event from its current end on. `ring` is the consuming view.
    ///
    /// # Errors
    ///
    /// The system's error if the ring cannot be mapped once more.
    pub fn new(fd: BorrowedFd<'_>, ring: &Ring) -> io::Result<RingWatch> {
        let mapping = Mapping::protected(fd, 0, ring.mapping.length, libc::PROT_READ)?;
        let seen = mapping.word(DATA_HEAD).load(Ordering::Acquire);
        let (data_offset, capacity) = (ring.data_offset, ring.capacity);
        Ok(RingWatch { fd: fd.try_clone_to_owned()?, mapping, data_offset, capacity, seen, copy: Vec::new() })
    }

    /// A descriptor that becomes readable when records are written, at the event's wakeup interval.
    pub fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Passes the records written since the last call to `sink`. Overwritten or damaged ones are skipped: the
    /// consuming view reports them.
    pub fn see(&mut self, mut sink: impl FnMut(&[u8])) {
        let head = self.mapping.word(DATA_HEAD).load(Ordering::Acquire);
        let from = std::mem::replace(&mut self.seen, head);
        let Ok(pieces) = unread(from, head, self.capacity) else { return };
        self.copy.clear();
        // SAFETY: inside the mapping. Bytes overwritten during the copy are detected below.
        unsafe {
            let area = self.mapping.base.as_ptr().add(self.data_offset);
            let (start, length) = pieces.first;
            self.copy.reserve(length + pieces.second);
            std::ptr::copy_nonoverlapping(area.add(start), self.copy.as_mut_ptr(), length);
            std::ptr::copy_nonoverlapping(area, self.copy.as_mut_ptr().add(length), pieces.second);
            self.copy.set_len(length + pieces.second);
        }
        let now = self.mapping.word(DATA_HEAD).load(Ordering::Acquire);
        if now.wrapping_sub(from) > self.capacity as u64 {
            return;
        }
        let _ = for_each_record(&self.copy, &[], &mut Vec::new(), |record| -> Result<(), RingError> {
            sink(record);
            Ok(())
        });
    }
}
