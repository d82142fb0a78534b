//! Segments for tests, with libsplit's layout.

use super::layout::{
    Identity, Layout, RawRecord, HEADER_SIZE, KIND_READY, LABEL_LENGTH, REQUESTS, SEGMENT_MAGIC,
    SEGMENT_VERSION,
};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub(crate) const BOOT: &str = "11111111-2222-3333-4444-555555555555";

/// A segment that a test fills like an application.
pub(crate) struct Made {
    pub path: PathBuf,
    pub file: File,
    pub layout: Layout,
}

pub(crate) fn identity(layout: &Layout, app: u32) -> Identity {
    let mut name = [0; 32];
    name[..4].copy_from_slice(b"test");
    let mut boot_id = [0; 40];
    boot_id[..BOOT.len()].copy_from_slice(BOOT.as_bytes());
    Identity {
        magic: SEGMENT_MAGIC,
        version: SEGMENT_VERSION,
        header_size: HEADER_SIZE as u32,
        size: layout.size,
        app_id: app,
        related_app_id: 0,
        key_type: 1,
        kinds: layout.kinds,
        cpus: layout.cpus,
        threads: layout.threads,
        traces: layout.traces,
        record_size: size_of::<RawRecord>() as u32,
        requests: REQUESTS,
        reserved: 0,
        tables: layout.tables,
        made_ns: 1,
        cycles_per_second: 2_700_000_000,
        name,
        boot_id,
    }
}

/// The bytes of a structure.
pub(crate) fn bytes<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: T is a plain structure without padding that matters; its bytes are only written to a file.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

impl Made {
    /// A segment with eight kinds on two processors; kinds 1 to 3 are ready.
    pub fn new(folder: &Path, app: u32) -> Made {
        let layout = Layout::of(8, 2, 4, 4).expect("sane");
        let path = folder.join(format!("app-{app:x}.segment"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("new");
        file.set_len(layout.size).expect("long");
        let made = Made { path, file, layout };
        made.put(0, bytes(&identity(&layout, app)));
        for (code, label) in [(1, "(other)"), (2, "/a"), (3, "/b")] {
            let at = made.layout.kind(code);
            made.put(at, &KIND_READY.to_le_bytes());
            made.put(at + 8, &u64::from(code).to_le_bytes());
            made.put(at + 24, &(label.len() as u32).to_le_bytes());
            let label_at = std::mem::offset_of!(super::layout::Kind, label) as u64;
            let mut padded = [0; LABEL_LENGTH];
            padded[..label.len()].copy_from_slice(label.as_bytes());
            made.put(at + label_at, &padded);
        }
        for cpu in 0..2 {
            made.sections(cpu, 1);
        }
        made
    }

    pub fn put(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, at).expect("written");
    }

    pub fn get<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.file.read_exact_at(&mut bytes, at).expect("read");
        bytes
    }

    pub fn sections(&self, cpu: u32, sections: u64) {
        let at = self.layout.cpu(cpu) + std::mem::offset_of!(super::layout::CpuLine, sections) as u64;
        self.put(at, &sections.to_le_bytes());
    }

    /// A number of sections, with their cycles.
    pub fn record(&self, cpu: u32, code: u32, count: u64, cycles: u64) {
        // SAFETY: every pattern of bits is a record.
        let mut raw: RawRecord = unsafe { std::mem::zeroed() };
        raw.sequence = 2;
        raw.count = count;
        raw.exact = count;
        raw.elapsed_cycles = count * cycles;
        let squares = u128::from(count) * u128::from(cycles * cycles);
        let squares = [squares as u64, (squares >> 64) as u64];
        raw.after[0] = super::layout::After { count, cycles: count * cycles, squares };
        self.put(self.layout.record(cpu, code), bytes(&raw));
    }
}

/// Pseudo-random numbers: SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
