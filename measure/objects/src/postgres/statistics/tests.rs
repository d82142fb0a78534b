//! Synthetic statistics, in this process's memory and in files: an area of two segments with a table of three
//! entries.

use super::dynamic::{DynamicArea, Pointer};
use super::table::{entries, Shape};
use crate::postgres::attach::Server;
use crate::postgres::layout::Layout;
use crate::postgres::shared::buffers::Buffers;
use crate::postgres::shared::index::{Area, Areas};
use crate::process_memory::ProcessMemory;
use crate::program::{Image, Program};
use hardmeter_samples::model::{ByteCount, Pid, VirtualAddress};
use std::path::PathBuf;

const LENGTH: usize = 64 << 10;
const SHAPE: Shape = Shape { entry: 32, lock: 16, kind: 73 };
/// Offsets of the table, its buckets and its items.
const TABLE: u64 = 8192;
const BUCKETS: u64 = 16384;
const ITEM: u64 = 20480;
const FILE: u32 = 77_660;
const SET_ASIDE: u32 = 77_661;
const LIST: u32 = 88_880;

/// This process as the server: its data in a temporary folder, the area at the beginning of `room`.
struct Made {
    server: Server,
    folder: tempfile::TempDir,
    room: Vec<u8>,
}

impl Made {
    fn new() -> Made {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("pg_dynshmem")).expect("made");
        let room = vec![0; 2 * LENGTH];
        let base = VirtualAddress(room.as_ptr() as u64);
        // The second half is what the server reserves for segments.
        let aside = Area {
            name: "Preallocated DSM".into(),
            start: VirtualAddress(base.0 + LENGTH as u64),
            size: ByteCount(LENGTH as u64),
        };
        let none = VirtualAddress(0);
        let server = Server {
            memory: ProcessMemory::open(Pid(std::process::id() as i32)).expect("we run"),
            program: Program { path: PathBuf::new(), image: Image::default(), bias: 0 },
            layout: Layout::of(15).expect("known"),
            version: "15".into(),
            data: folder.path().to_owned(),
            segment: base..VirtualAddress(base.0 + 2 * LENGTH as u64),
            dynamic_segments: (LIST, (none, 0)),
            buffers: Buffers {
                blocks: none,
                descriptors: none,
                count: 0,
                block_size: 8192,
                stride: 64,
                tag_valid: 0,
            },
            locks: none,
            processes: none,
            areas: Areas::new(vec![aside]),
            remarks: Vec::new(),
        };
        let mut made = Made { server, folder, room };
        made.put(0, &0x0ce2_6608u32.to_le_bytes());
        made.put(16, &(1u64 << 20).to_le_bytes());
        made.put(60 + 4, &FILE.to_le_bytes());
        made.put(60 + 8, &SET_ASIDE.to_le_bytes());
        made.make_table();
        made
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.room[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    fn word(&mut self, at: u64, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    /// Three entries: two in one bucket, the second in a file; the third in the reserved pages.
    fn make_table(&mut self) {
        self.word(TABLE, TABLE);
        self.put(TABLE + 8, &0x75ff_6a20u32.to_le_bytes());
        for partition in 0..128 {
            self.put(TABLE + 16 + partition * 24, &73u16.to_le_bytes());
        }
        self.word(TABLE + 16 + 16, 2);
        self.word(TABLE + 16 + 127 * 24 + 16, 1);
        self.put(TABLE + 16 + 128 * 24, &73u32.to_le_bytes());
        self.word(TABLE + 16 + 128 * 24 + 8, 7);
        self.word(TABLE + 16 + 128 * 24 + 16, BUCKETS);
        self.word(BUCKETS + 3 * 8, ITEM);
        self.word(BUCKETS + 127 * 8, 2 << 40 | 4096);
        self.word(ITEM, 1 << 40 | 100);
        self.put(ITEM + 16, &[1; 32]);

        let mut file = vec![0; 200];
        file[0..4].copy_from_slice(&(0x0ce2_6608u32 ^ 1).to_le_bytes());
        file[116..148].fill(2);
        self.store(FILE, &file);
        // The list has two pages from the third on.
        let mut list = vec![0; 16 + 2 * 40];
        list[0..4].copy_from_slice(&0x9a50_3d32u32.to_le_bytes());
        list[4..8].copy_from_slice(&2u32.to_le_bytes());
        let item = &mut list[16 + 40..];
        item[0..4].copy_from_slice(&SET_ASIDE.to_le_bytes());
        item[4..8].copy_from_slice(&2u32.to_le_bytes());
        item[8..16].copy_from_slice(&2u64.to_le_bytes());
        item[16..24].copy_from_slice(&2u64.to_le_bytes());
        self.store(LIST, &list);
        let aside = LENGTH as u64 + 2 * 4096;
        self.put(aside, &(0x0ce2_6608u32 ^ 2).to_le_bytes());
        self.put(aside + 4096 + 16, &[3; 32]);
    }

    fn store(&self, handle: u32, bytes: &[u8]) {
        std::fs::write(self.folder.path().join(format!("pg_dynshmem/mmap.{handle}")), bytes)
            .expect("written");
    }

    /// First byte of each entry that is kept, or the reason for none.
    fn entries(&self, keep: &dyn Fn(&[u8]) -> bool) -> Result<Vec<u8>, String> {
        let start = self.server.segment.start;
        let mut area = DynamicArea::open(&self.server, start..VirtualAddress(start.0 + LENGTH as u64))?;
        let found = entries(&mut area, Pointer(TABLE), SHAPE, keep)?;
        let mut firsts: Vec<u8> = found.chunks_exact(32).map(|entry| entry[0]).collect();
        firsts.sort_unstable();
        Ok(firsts)
    }

    fn reason(&self) -> String {
        self.entries(&|_| true).expect_err("refused")
    }
}

#[test]
fn a_table_in_memory_in_a_file_and_in_what_was_set_aside() {
    let made = Made::new();
    assert_eq!(made.entries(&|_| true), Ok(vec![1, 2, 3]));
    assert_eq!(made.entries(&|entry| entry[31] == 2), Ok(vec![2]));
}

#[test]
fn what_does_not_look_right_is_refused_with_the_reason() {
    let refused = |change: &dyn Fn(&mut Made), told: &str| {
        let mut made = Made::new();
        change(&mut made);
        let reason = made.reason();
        assert!(reason.contains(told), "{reason}");
    };
    refused(&|made| made.word(0, 0), "their area of 65536 bytes");
    refused(&|made| made.word(TABLE, 0), "their table has an unexpected header");
    refused(&|made| made.word(TABLE + 8, 0), "their table has an unexpected header");
    refused(&|made| made.put(TABLE + 16 + 24, &74u16.to_le_bytes()), "not of kind 73");
    refused(&|made| made.word(TABLE + 16 + 128 * 24 + 8, 60), "2^60 buckets");
    refused(&|made| made.word(TABLE + 16 + 128 * 24 + 16, 65_000), "does not lie in its segment");
    refused(&|made| made.word(TABLE + 16 + 16, 4000), "says 4001 entries and has 3");
    // A circular chain, and links to invalid places.
    refused(&|made| made.word(ITEM, ITEM), "has more than it says");
    refused(&|made| made.word(ITEM, 3 << 40), "segment 3 of their area is not there");
    refused(&|made| made.word(ITEM, u64::MAX), "there is no segment 16777215");
    refused(&|made| made.store(FILE, &[0; 200]), "segment 1 of their area has an unexpected header");
    refused(&|made| made.store(FILE, &(0x0ce2_6608u32 ^ 1).to_le_bytes()), "segment 1 cannot be read");
    let missing = "segment 1 of their area cannot be read (";
    refused(
        &|made| std::fs::remove_file(made.folder.path().join("pg_dynshmem/mmap.77660")).expect("gone"),
        missing,
    );
    refused(&|made| made.store(LIST, &[0; 96]), "is in a list that has an unexpected header");
    let mut list = vec![0; 96];
    list[0..4].copy_from_slice(&0x9a50_3d32u32.to_le_bytes());
    refused(&|made| made.store(LIST, &list), "is not in the list of segments");
}
