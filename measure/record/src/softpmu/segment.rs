//! The recorder's view of the shared segment: the counterpart of `measure/simulate/sim/segment.h`, which documents
//! it.
//!
//! The tool refuses a segment whose version or header size differs from what it was compiled with, and the C header
//! asserts the offsets below at compile time: a difference cannot go unnoticed.

use super::SoftPmuError;
use crate::rings;
use hardmeter_samples::model::{Cycles, StateId, StateRule, StatementId};
use hardmeter_samples::sidecar::Statement;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{fchown, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

mod layout;

use layout::*;
pub(super) use layout::{
    Config, CoreConfig, FLAG_CAUSES, FLAG_HUGE_PAGES, FLAG_INTERLEAVE, FLAG_REUSE, FLAG_TLB_FLUSH_SWITCH,
    REUSE_BUCKETS, REUSE_ONE_LINE_IN,
};

/// Totals of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub events: [u64; EVENTS],
    pub cycles: Cycles,
    pub switches: u64,
    pub processes: u32,
    pub frames_exhausted: bool,
    pub walks_all_huge: u64,
    pub walks_shared_huge: u64,
    pub exposed_cycles: Cycles,
    pub prefetched: u64,
    pub prefetched_late: u64,
    pub dependent: u64,
}

/// A mapped segment and its file, which is removed on drop.
pub(super) struct Segment {
    path: PathBuf,
    file: File,
    base: *mut u8,
    size: usize,
    ring_size: usize,
    scratch: Vec<u8>,
}

// The mapping is shared memory by design; everything that both sides change is atomic.
unsafe impl Send for Segment {}

impl Segment {
    /// Size of the ring in bytes: at 400 bytes per sample, 20,000 samples between two drains.
    const RING_SIZE: usize = 8 << 20;

    /// Creates a segment for `config`. The file is sparse: only used pages take memory.
    pub fn create(config: Config, heap_size: usize) -> Result<Segment, SoftPmuError> {
        let size = RING_OFFSET + Self::RING_SIZE + heap_size;
        let (path, file) = create_file()?;
        let io = |source| SoftPmuError::Segment { path: path.clone(), source };
        file.set_len(size as u64).map_err(io)?;
        // SAFETY: a fresh shared mapping of a file we own; the address is the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io(std::io::Error::last_os_error()));
        }
        let segment = Segment {
            path: path.clone(),
            file,
            base: base.cast(),
            size,
            ring_size: Self::RING_SIZE,
            scratch: Vec::new(),
        };
        // SAFETY: no other process has the file yet; a file of zeroes is a valid Header.
        let header = unsafe { &mut *segment.base.cast::<Header>() };
        header.magic = MAGIC;
        header.version = VERSION;
        header.header_size = std::mem::size_of::<Header>() as u32;
        header.segment_size = size as u64;
        header.ring_size = Self::RING_SIZE as u64;
        header.config = config;
        header.control.0.recorder_pid.store(std::process::id(), Ordering::Release);
        Ok(segment)
    }

    fn header(&self) -> &Header {
        // SAFETY: mapped for as long as self lives; the other side changes atomics only.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// The path by which the tool opens it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Removes its name.
    pub fn forget_name(&self) {
        let _ = std::fs::remove_file(&self.path); // it is removed at the end at the latest
    }

    /// Allows a server that runs as another user to open it.
    pub fn give_to(&self, user: u32, group: u32) -> Result<(), SoftPmuError> {
        fchown(&self.file, Some(user), Some(group))
            .map_err(|source| SoftPmuError::Segment { path: self.path.clone(), source })
    }

    /// Switches simulation on or off, for every attached process from its next time slice.
    pub fn set_measuring(&self, on: bool) {
        self.header().control.0.measuring.store(u32::from(on), Ordering::Release);
    }

    /// Passes the records written since the last call; each call frees the ring's bytes.
    pub fn drain<E: From<rings::RingError>>(
        &mut self,
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let ring_size = self.ring_size;
        let head = self.header().ring_head.0.load(Ordering::Acquire);
        let tail = self.header().ring_tail.0.load(Ordering::Relaxed);
        let unread = rings::unread(tail, head, ring_size)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        // SAFETY: the ring lies within the mapping (its size is constant), and writers do not touch the bytes
        // between tail and head until the tail moves.
        let (first, second) = unsafe {
            let ring = self.base.add(RING_OFFSET);
            (
                std::slice::from_raw_parts(ring.add(unread.first.0), unread.first.1),
                std::slice::from_raw_parts(ring, unread.second),
            )
        };
        let consumed = rings::for_each_record(first, second, &mut scratch, sink);
        self.scratch = scratch;
        let consumed = consumed?;
        self.header().ring_tail.0.store(tail + consumed as u64, Ordering::Release);
        Ok(consumed)
    }

    /// Sets the rules executed at every later sample, replacing earlier ones; at most [`StateRule::MOST`].
    pub fn set_state_rules(&mut self, rules: &[StateRule]) {
        // SAFETY: mapped while self exists. No process reads rules beyond their number, which is 0 while they are
        // written.
        unsafe {
            let states = std::ptr::addr_of_mut!((*self.base.cast::<Header>()).states.0);
            let number = &(*states).number;
            number.store(0, Ordering::SeqCst);
            // The simulator reads during the sample itself: it need not check whether a statement is a later one.
            let late =
                |rule: &&StateRule| matches!(rule, StateRule::Word { id: StateId::STATEMENT_START, .. });
            let rules: Vec<&StateRule> =
                rules.iter().filter(|rule| !late(rule)).take(StateRule::MOST).collect();
            let count = rules.len();
            for (index, rule) in rules.into_iter().enumerate() {
                std::ptr::addr_of_mut!((*states).rules[index]).write_volatile(RawStateRule::new(rule));
            }
            number.store(count as u32, Ordering::Release);
        }
    }

    /// The statements that samples named so far, by their hashes.
    pub fn statements(&self) -> Vec<Statement> {
        let at = self.header().control.0.statements.load(Ordering::Acquire) as usize;
        let Some(table) = self.table::<RawStatement>(at, STATEMENTS) else { return Vec::new() };
        let mut statements: Vec<Statement> = table
            .iter()
            .filter_map(|slot| {
                let length = slot.length.load(Ordering::Acquire) as usize;
                // Length 0: the process that had the slot died before the text was complete.
                let text = (length > 0).then(|| &slot.text[..length.min(STATEMENT_TEXT)])?;
                Some(Statement {
                    id: StatementId(slot.hash.load(Ordering::Relaxed)),
                    text: String::from_utf8_lossy(text).into_owned(),
                })
            })
            .collect();
        statements.sort_by_key(|statement| statement.id);
        statements
    }

    /// Reuse distances, summed over cores: first uses, and uses by bucket. `None` if they were not measured.
    pub fn reuse(&self, cores: usize) -> Option<(u64, [u64; REUSE_BUCKETS])> {
        let at = self.header().control.0.reuse.load(Ordering::Acquire) as usize;
        let (mut cold, mut buckets) = (0, [0; REUSE_BUCKETS]);
        for core in self.table::<ReuseCounts>(at, cores)? {
            cold += core.cold.load(Ordering::Relaxed);
            for (total, bucket) in buckets.iter_mut().zip(&core.buckets) {
                *total += bucket.load(Ordering::Relaxed);
            }
        }
        Some((cold, buckets))
    }

    /// A table in the segment at an offset; `None` at offset 0, or if it would not lie within.
    fn table<T>(&self, at: usize, count: usize) -> Option<&[T]> {
        let bytes = count.checked_mul(std::mem::size_of::<T>())?;
        let fits =
            at != 0 && at.is_multiple_of(std::mem::align_of::<T>()) && at.checked_add(bytes)? <= self.size;
        // SAFETY: within the mapping and aligned; the callers' types are plain numbers, for which any bits are
        // valid.
        fits.then(|| unsafe { std::slice::from_raw_parts(self.base.add(at).cast::<T>(), count) })
    }

    /// Number of processes that ever attached or were forked.
    pub fn attached(&self) -> u32 {
        self.header().control.0.attached.load(Ordering::Acquire)
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        let header = self.header();
        let mut totals = Totals {
            processes: self.attached(),
            frames_exhausted: header.control.0.frames_exhausted.load(Ordering::Relaxed) != 0,
            ..Totals::default()
        };
        for core in &header.results.0.counts {
            for (total, count) in totals.events.iter_mut().zip(&core.events) {
                *total += count.load(Ordering::Relaxed);
            }
            totals.cycles.0 += core.cycles.load(Ordering::Relaxed);
            totals.switches += core.switches.load(Ordering::Relaxed);
            totals.walks_all_huge += core.walks_all_huge.load(Ordering::Relaxed);
            totals.walks_shared_huge += core.walks_shared_huge.load(Ordering::Relaxed);
            totals.exposed_cycles.0 += core.exposed_cycles.load(Ordering::Relaxed);
            totals.prefetched += core.prefetched.load(Ordering::Relaxed);
            totals.prefetched_late += core.prefetched_late.load(Ordering::Relaxed);
            totals.dependent += core.dependent.load(Ordering::Relaxed);
        }
        totals
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // A program that waits for space in the ring cannot take a signal: release it. It may not detect the
        // recorder's death, since an unreaped process still exists.
        self.header().control.0.recorder_pid.store(0, Ordering::Release);
        // SAFETY: base and size are those of the mapping made in create().
        unsafe { libc::munmap(self.base.cast(), self.size) };
        // Attached processes keep the memory; no other process can attach any more.
        let _ = std::fs::remove_file(&self.path);
    }
}

const NAME: &str = "hardmeter-";

/// Removes the segments of killed recorders, which waste memory. Programs that still run on one keep it.
fn sweep(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let recorder =
            name.to_str().and_then(|name| name.strip_prefix(NAME)?.split_once('-')?.0.parse::<u32>().ok());
        if recorder.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Another user's remains: that user's next recording removes it.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Creates a file that only its owner can open: in a memory file system if there is one, else among temporary
/// files.
fn create_file() -> Result<(PathBuf, File), SoftPmuError> {
    let shared_memory = Path::new("/dev/shm");
    let folder = if shared_memory.is_dir() { shared_memory.to_path_buf() } else { std::env::temp_dir() };
    sweep(&folder);
    for attempt in 0..100u32 {
        let name = format!("{NAME}{}-{attempt}", std::process::id());
        let path = folder.join(name);
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
            Err(source) => return Err(SoftPmuError::Segment { path, source }),
        }
    }
    let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
    Err(SoftPmuError::Segment { path: folder, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_samples::model::{ByteCount, StateId, VirtualAddress};

    fn segment() -> Segment {
        Segment::create(Config::new([None; 4], [None; 3]), 8 << 20).expect("a segment")
    }

    /// The words of the segment at `offset`, in the tool's layout.
    fn words(segment: &mut Segment, offset: usize) -> *mut u64 {
        assert!(offset.is_multiple_of(8) && offset < segment.size);
        // SAFETY: within the mapping.
        unsafe { segment.base.add(offset).cast() }
    }

    #[test]
    fn rules_lie_where_the_tool_reads_them() {
        let mut segment = segment();
        let address = VirtualAddress;
        let rules = [
            StateRule::Statement { pointer: address(0x10), last: None },
            StateRule::Word { id: StateId(4), base: address(0x20), offset: Some(ByteCount(24)), length: 4 },
            StateRule::Entry {
                id: StateId(5),
                region: address(0x30),
                size: ByteCount(8192 * 16),
                stride: ByteCount(8192),
                table: address(0x40),
                table_stride: ByteCount(64),
                length: 20,
            },
            StateRule::ThreadStatement {
                session: -0x68,
                text: ByteCount(0x70),
                connection: ByteCount(0x3f18),
            },
            StateRule::Page {
                id: StateId(6),
                region: address(0x10000),
                size: ByteCount(1 << 20),
                page: ByteCount(1 << 14),
                words: [4, 34, 24, 64, 68, 70],
            },
        ];
        segment.set_state_rules(&rules);
        // kind and id, base, size, stride, table, table_stride, offset, indirect and length; from byte 12936 on.
        let at = words(&mut segment, 12928);
        // SAFETY: the header is larger.
        let raw: Vec<u64> = (0..41).map(|index| unsafe { at.add(index).read() }).collect();
        assert_eq!(raw[0], 5);
        assert_eq!(raw[1..9], [1, 0x10, 0, 0, 0, 0, 0, 0]);
        assert_eq!(raw[9..17], [2 | 4 << 32, 0x20, 0, 0, 0, 0, 24, 1 | 4 << 32]);
        assert_eq!(raw[17..25], [3 | 5 << 32, 0x30, 8192 * 16, 8192, 0x40, 64, 0, 20 << 32]);
        assert_eq!(raw[25..33], [4, -0x68i64 as u64, 0, 0, 0x3f18, 0, 0x70, 0]);
        assert_eq!(
            raw[33..41],
            [5 | 6 << 32, 0x10000, 1 << 20, 1 << 14, 0x0040_0018_0022_0004, 0x0046_0044, 0, 24 << 32]
        );
        segment.set_state_rules(&vec![rules[0]; 100]);
        // SAFETY: as above.
        assert_eq!(unsafe { at.read() }, StateRule::MOST as u64);
    }

    #[test]
    fn statements_are_read_when_their_texts_are_whole() {
        let mut segment = segment();
        assert_eq!(segment.statements(), []);
        let table = RING_OFFSET + Segment::RING_SIZE;
        segment.header().control.0.statements.store(table as u64, Ordering::Relaxed);
        let mut put = |slot: usize, hash: u64, length: u64, text: u64| {
            let at = words(&mut segment, table + slot * 1024);
            // SAFETY: a slot has 128 words.
            unsafe {
                at.write(hash);
                at.add(1).write(length);
                at.add(2).write(text);
            }
        };
        put(7, 70, 8, u64::from_le_bytes(*b"SELECT ?"));
        put(8, 60, 0, u64::from_le_bytes(*b"SELE\0\0\0\0")); // its process died
        put(4095, 5, 5, u64::from_le_bytes(*b"BEGIN\0\0\0"));
        let statement = |hash, text: &str| Statement { id: StatementId(hash), text: text.to_string() };
        assert_eq!(segment.statements(), [statement(5, "BEGIN"), statement(70, "SELECT ?")]);
    }

    #[test]
    fn reuse_is_summed_over_cores_and_unknown_where_it_does_not_fit() {
        let mut segment = segment();
        assert_eq!(segment.reuse(2), None);
        let at = RING_OFFSET + Segment::RING_SIZE;
        segment.header().control.0.reuse.store(at as u64, Ordering::Relaxed);
        for core in 0..2 {
            let counts = words(&mut segment, at + core * 904);
            // SAFETY: within the heap.
            unsafe {
                counts.write(1);
                counts.add(1 + 3).write(10 + core as u64);
            }
        }
        let (cold, buckets) = segment.reuse(2).expect("counts");
        assert_eq!((cold, buckets[3], buckets.iter().sum::<u64>()), (2, 21, 21));
        assert_eq!(segment.reuse(1 << 40), None);
        segment.header().control.0.reuse.store(u64::MAX - 7, Ordering::Relaxed);
        assert_eq!(segment.reuse(1), None);
    }

    #[test]
    fn only_segments_of_dead_recorders_are_swept_away() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut child = std::process::Command::new("true").spawn().expect("runs");
        let dead = child.id();
        child.wait().expect("ends");
        let own = std::process::id();
        let names =
            [format!("{NAME}{dead}-0"), format!("{NAME}{own}-0"), "hardmeter-notes".into(), "other".into()];
        for name in &names {
            std::fs::write(folder.path().join(name), b"").expect("file");
        }
        sweep(folder.path());
        let left: Vec<bool> = names.iter().map(|name| folder.path().join(name).exists()).collect();
        assert_eq!(left, [false, true, true, true]);
    }
}
