//! Information about machine and recording: perf's feature sections.
//!
//! The same bytes are in a section of a file or in a `HEADER_FEATURE` record of a pipe; this module handles both.

use super::abi::{misc, record_type, PerfEventAttr, ATTR_SIZE_MINIMUM, RECORD_HEADER_SIZE};
use super::bytes::{text_until_zero, Cursor};
use super::events::EventAttributes;
use crate::model::{ByteCount, CpuMode, Pid, Timestamp};

/// Numbers of the feature sections read or written here (perf's `HEADER_*`).
pub(super) mod feature {
    pub const TRACING_DATA: u32 = 1;
    pub const BUILD_ID: u32 = 2;
    pub const HOSTNAME: u32 = 3;
    pub const OSRELEASE: u32 = 4;
    pub const VERSION: u32 = 5;
    pub const ARCH: u32 = 6;
    pub const NRCPUS: u32 = 7;
    pub const CPUDESC: u32 = 8;
    pub const CPUID: u32 = 9;
    pub const TOTAL_MEM: u32 = 10;
    pub const CMDLINE: u32 = 11;
    pub const EVENT_DESC: u32 = 12;
    pub const NUMA_TOPOLOGY: u32 = 14;
    /// Positions of the `AUXTRACE` records.
    pub const AUXTRACE: u32 = 18;
    pub const CACHE: u32 = 20;
    pub const SAMPLE_TIME: u32 = 21;
    pub const MEM_TOPOLOGY: u32 = 22;
    /// Bits of the header's feature bitmap.
    pub const COUNT: u32 = 256;
}

/// Byte order of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endianness {
    /// x86-64, arm64, riscv64, ppc64le. The only supported order; the other one has its own error.
    #[default]
    Little,
}

/// The form of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureForm {
    /// A seekable file: attributes first, features last.
    #[default]
    File,
    /// A pipe's stream: attributes and features are records.
    Pipe,
}

/// One cache of the recorded machine (`HEADER_CACHE`, from sysfs).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheDescription {
    /// 1, 2, 3.
    pub level: u32,
    /// Bytes per line.
    pub line_size: u32,
    /// Number of sets.
    pub sets: u32,
    /// Lines per set.
    pub ways: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// In the form of sysfs, for example `32K`.
    pub size: String,
    /// The logical processors that share it, for example `0-1`.
    pub cpus: String,
}

/// One node of memory (`HEADER_NUMA_TOPOLOGY`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryNode {
    /// Its number.
    pub number: u32,
    /// Its memory.
    pub total: ByteCount,
    /// Free memory at the time.
    pub free: ByteCount,
    /// The logical processors on it, for example `0-1`.
    pub cpus: String,
    /// Its position in physical memory (`HEADER_MEM_TOPOLOGY`): numbers of blocks of
    /// [`CaptureHeader::memory_block`] bytes.
    pub blocks: Vec<u64>,
}

/// The build id of a file that was mapped during the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildId {
    /// The process, or `Pid(-1)` for all.
    pub pid: Pid,
    /// Kernel or user file.
    pub mode: CpuMode,
    /// Usually 20 bytes.
    pub id: Vec<u8>,
    /// The file.
    pub path: String,
}

/// All data of a capture besides its records. Every field is optional: recorders differ in what they write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureHeader {
    /// File or pipe.
    pub form: CaptureForm,
    /// Byte order.
    pub endianness: Endianness,
    /// The recorder did not finish: features are missing, and the last record may be truncated.
    pub unfinished: bool,
    /// Host name.
    pub hostname: Option<String>,
    /// Kernel release.
    pub os_release: Option<String>,
    /// The recorder's version: perf's, or `hardmeter` and its version.
    pub recorder_version: Option<String>,
    /// Architecture, for example `x86_64`.
    pub architecture: Option<String>,
    /// Processors online.
    pub cpus_online: Option<u32>,
    /// Processors present.
    pub cpus_available: Option<u32>,
    /// The processor's name.
    pub cpu_description: Option<String>,
    /// Vendor, family, model, stepping.
    pub cpu_id: Option<String>,
    /// Main memory.
    pub total_memory: Option<ByteCount>,
    /// The recorder's command line.
    pub command_line: Vec<String>,
    /// The caches of all processors, shared ones once.
    pub caches: Vec<CacheDescription>,
    /// Nodes of memory; `perf c2c` refuses a file without them.
    pub memory_nodes: Vec<MemoryNode>,
    /// Bytes in a block of physical memory, where it is known which node has which.
    pub memory_block: Option<ByteCount>,
    /// Build ids of mapped files.
    pub build_ids: Vec<BuildId>,
    /// Time of the first and the last sample.
    pub sample_time: Option<(Timestamp, Timestamp)>,
    /// The layouts of tracepoints, in the form of `trace.dat` of 2009: perf refuses a file with tracepoints but
    /// without them. Copied unread.
    pub tracing_data: Option<Vec<u8>>,
}

impl CaptureHeader {
    /// Decodes a feature. `None` if it is damaged, which then counts as absent.
    pub(super) fn decode_feature(&mut self, number: u32, bytes: &[u8]) -> Option<()> {
        let mut cursor = Cursor::new(bytes);
        match number {
            feature::HOSTNAME => self.hostname = Some(cursor.header_string()?),
            feature::OSRELEASE => self.os_release = Some(cursor.header_string()?),
            feature::VERSION => self.recorder_version = Some(cursor.header_string()?),
            feature::ARCH => self.architecture = Some(cursor.header_string()?),
            feature::NRCPUS => {
                // perf's own document has the two in the wrong order; its code writes "available" first.
                self.cpus_available = Some(cursor.u32()?);
                self.cpus_online = Some(cursor.u32()?);
            }
            feature::CPUDESC => self.cpu_description = Some(cursor.header_string()?),
            feature::CPUID => self.cpu_id = Some(cursor.header_string()?),
            feature::TOTAL_MEM => self.total_memory = Some(ByteCount(cursor.u64()?.saturating_mul(1024))),
            feature::CMDLINE => self.command_line = cursor.header_strings()?,
            feature::CACHE => self.caches = decode_caches(cursor)?,
            feature::NUMA_TOPOLOGY => self.memory_nodes = decode_nodes(cursor)?,
            // After the previous one, because its number is larger.
            feature::MEM_TOPOLOGY => self.memory_block = Some(decode_blocks(cursor, &mut self.memory_nodes)?),
            feature::SAMPLE_TIME => {
                // `perf record -z` does not read its own samples and writes two zeros.
                let times = (Timestamp(cursor.u64()?), Timestamp(cursor.u64()?));
                self.sample_time = Some(times).filter(|times| times.1 .0 != 0);
            }
            feature::BUILD_ID => self.build_ids = decode_build_ids(bytes),
            _ => {}
        }
        Some(())
    }

    /// The features to write, by number, in ascending order as the format requires.
    pub(super) fn encode_features(&self, events: &[EventAttributes]) -> Vec<(u32, Vec<u8>)> {
        let mut features = Vec::new();
        if let Some(layouts) = &self.tracing_data {
            features.push((feature::TRACING_DATA, layouts.clone()));
        }
        if !self.build_ids.is_empty() {
            features.push((feature::BUILD_ID, encode_build_ids(&self.build_ids)));
        }
        let texts = [
            (feature::HOSTNAME, &self.hostname),
            (feature::OSRELEASE, &self.os_release),
            (feature::VERSION, &self.recorder_version),
            (feature::ARCH, &self.architecture),
            (feature::CPUDESC, &self.cpu_description),
            (feature::CPUID, &self.cpu_id),
        ];
        for (number, text) in texts {
            if let Some(text) = text {
                let mut bytes = Vec::new();
                push_string(&mut bytes, text);
                features.push((number, bytes));
            }
        }
        if let (Some(available), Some(online)) = (self.cpus_available, self.cpus_online) {
            features.push((feature::NRCPUS, [available.to_le_bytes(), online.to_le_bytes()].concat()));
        }
        if let Some(memory) = self.total_memory {
            features.push((feature::TOTAL_MEM, (memory.0 / 1024).to_le_bytes().to_vec()));
        }
        if !self.command_line.is_empty() {
            let mut bytes = (self.command_line.len() as u32).to_le_bytes().to_vec();
            self.command_line.iter().for_each(|word| push_string(&mut bytes, word));
            features.push((feature::CMDLINE, bytes));
        }
        features.push((feature::EVENT_DESC, encode_event_descriptions(events)));
        if !self.caches.is_empty() {
            features.push((feature::CACHE, encode_caches(&self.caches)));
        }
        if !self.memory_nodes.is_empty() {
            features.push((feature::NUMA_TOPOLOGY, encode_nodes(&self.memory_nodes)));
        }
        if let Some(block) = self.memory_block {
            features.push((feature::MEM_TOPOLOGY, encode_blocks(block, &self.memory_nodes)));
        }
        if let Some((first, last)) = self.sample_time {
            features.push((feature::SAMPLE_TIME, [first.0.to_le_bytes(), last.0.to_le_bytes()].concat()));
        }
        features.sort_by_key(|feature| feature.0);
        features
    }
}

/// perf pads strings in its header to 64 bytes.
const STRING_ALIGNMENT: usize = 64;

fn push_string(bytes: &mut Vec<u8>, text: &str) {
    let length = (text.len() + 1).next_multiple_of(STRING_ALIGNMENT);
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    let start = bytes.len();
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(start + length, 0);
}

fn decode_caches(mut cursor: Cursor<'_>) -> Option<Vec<CacheDescription>> {
    let _version = cursor.u32()?;
    let count = cursor.u32()?;
    (0..count)
        .map(|_| {
            Some(CacheDescription {
                level: cursor.u32()?,
                line_size: cursor.u32()?,
                sets: cursor.u32()?,
                ways: cursor.u32()?,
                kind: cursor.header_string()?,
                size: cursor.header_string()?,
                cpus: cursor.header_string()?,
            })
        })
        .collect()
}

fn encode_caches(caches: &[CacheDescription]) -> Vec<u8> {
    let mut bytes = 1u32.to_le_bytes().to_vec();
    bytes.extend_from_slice(&(caches.len() as u32).to_le_bytes());
    for cache in caches {
        for number in [cache.level, cache.line_size, cache.sets, cache.ways] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for text in [&cache.kind, &cache.size, &cache.cpus] {
            push_string(&mut bytes, text);
        }
    }
    bytes
}

fn decode_nodes(mut cursor: Cursor<'_>) -> Option<Vec<MemoryNode>> {
    let count = cursor.u32()?;
    (0..count)
        .map(|_| {
            Some(MemoryNode {
                number: cursor.u32()?,
                total: ByteCount(cursor.u64()?.saturating_mul(1024)),
                free: ByteCount(cursor.u64()?.saturating_mul(1024)),
                cpus: cursor.header_string()?,
                blocks: Vec::new(),
            })
        })
        .collect()
}

fn encode_nodes(nodes: &[MemoryNode]) -> Vec<u8> {
    let mut bytes = (nodes.len() as u32).to_le_bytes().to_vec();
    for node in nodes {
        bytes.extend_from_slice(&node.number.to_le_bytes());
        bytes.extend_from_slice(&(node.total.0 / 1024).to_le_bytes());
        bytes.extend_from_slice(&(node.free.0 / 1024).to_le_bytes());
        push_string(&mut bytes, &node.cpus);
    }
    bytes
}

/// The blocks of each node: a bit map, preceded by its size in bits, which is written twice.
fn decode_blocks(mut cursor: Cursor<'_>, nodes: &mut [MemoryNode]) -> Option<ByteCount> {
    let _version = cursor.u64()?;
    let block = ByteCount(cursor.u64()?);
    for _ in 0..cursor.u64()? {
        let number = cursor.u64()?;
        let _size = cursor.u64()?;
        let bits = cursor.u64()?;
        let words = cursor.words(bits.div_ceil(64))?;
        if let Some(node) = nodes.iter_mut().find(|node| u64::from(node.number) == number) {
            let set = |bit: &u64| u64::from_le_bytes(words[(bit / 64) as usize]) >> (bit % 64) & 1 != 0;
            node.blocks = (0..bits).filter(set).collect();
        }
    }
    Some(block)
}

fn encode_blocks(block: ByteCount, nodes: &[MemoryNode]) -> Vec<u8> {
    let mut words = vec![1, block.0, nodes.len() as u64];
    for node in nodes {
        let bits = node.blocks.iter().max().map_or(0, |last| last + 1);
        words.extend([u64::from(node.number), bits, bits]);
        let start = words.len();
        words.resize(start + bits.div_ceil(64) as usize, 0);
        node.blocks.iter().for_each(|bit| words[start + (bit / 64) as usize] |= 1 << (bit % 64));
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Build ids are a sequence of records; the first damaged one ends the list.
fn decode_build_ids(bytes: &[u8]) -> Vec<BuildId> {
    let mut entries = Vec::new();
    let mut rest = bytes;
    while let Some((header, _)) = rest.split_first_chunk::<RECORD_HEADER_SIZE>() {
        let misc_field = u16::from_le_bytes([header[4], header[5]]);
        let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
        if size < RECORD_HEADER_SIZE {
            break;
        }
        let Some((entry, next)) = rest.split_at_checked(size) else { break };
        let Some(entry) = decode_build_id(misc_field, &entry[RECORD_HEADER_SIZE..]) else { break };
        entries.push(entry);
        rest = next;
    }
    entries
}

/// One build id, from a section's entry or a `HEADER_BUILD_ID` record's body.
pub(super) fn decode_build_id(misc_field: u16, body: &[u8]) -> Option<BuildId> {
    let mut cursor = Cursor::new(body);
    let pid = Pid(cursor.u32()? as i32);
    let id = cursor.bytes(24)?;
    // Without the flag the length is unknown, and 20 bytes are assumed.
    let length = if misc_field & misc::BUILD_ID_SIZE != 0 { usize::from(id[20]).min(20) } else { 20 };
    Some(BuildId {
        pid,
        mode: CpuMode::from_misc(misc_field),
        id: id[..length].to_vec(),
        path: text_until_zero(cursor.rest()),
    })
}

fn encode_build_ids(build_ids: &[BuildId]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in build_ids {
        let mode = if entry.mode == CpuMode::Kernel { misc::KERNEL } else { misc::USER };
        // A path longer than a record can hold is truncated, as the kernel does.
        let path = &entry.path.as_bytes()[..entry.path.len().min(4095)];
        let path_length = (path.len() + 1).next_multiple_of(STRING_ALIGNMENT);
        let size = RECORD_HEADER_SIZE + 4 + 24 + path_length;
        bytes.extend_from_slice(&record_type::HEADER_BUILD_ID.to_le_bytes());
        bytes.extend_from_slice(&(mode | misc::BUILD_ID_SIZE).to_le_bytes());
        bytes.extend_from_slice(&(size as u16).to_le_bytes());
        bytes.extend_from_slice(&entry.pid.0.to_le_bytes());
        let length = entry.id.len().min(20);
        let mut id = [0u8; 24];
        id[..length].copy_from_slice(&entry.id[..length]);
        id[20] = length as u8;
        bytes.extend_from_slice(&id);
        let start = bytes.len();
        bytes.extend_from_slice(path);
        bytes.resize(start + path_length, 0);
    }
    bytes
}

/// The events with their names (`HEADER_EVENT_DESC`).
pub(super) fn decode_event_descriptions(bytes: &[u8]) -> Option<Vec<EventAttributes>> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.u32()?;
    let attr_size = cursor.u32()?;
    if (attr_size as usize) < ATTR_SIZE_MINIMUM {
        return None;
    }
    (0..count)
        .map(|_| {
            let attr = PerfEventAttr::from_bytes(cursor.bytes(attr_size.into())?);
            let id_count = cursor.u32()?;
            let name = cursor.header_string()?;
            let ids = cursor.words(id_count.into())?.iter().map(|word| u64::from_le_bytes(*word)).collect();
            Some(EventAttributes { name, attr, ids })
        })
        .collect()
}

fn encode_event_descriptions(events: &[EventAttributes]) -> Vec<u8> {
    let mut bytes = (events.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&(PerfEventAttr::SIZE as u32).to_le_bytes());
    for event in events {
        bytes.extend_from_slice(&event.attr.to_bytes());
        bytes.extend_from_slice(&(event.ids.len() as u32).to_le_bytes());
        push_string(&mut bytes, &event.name);
        event.ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_back_as_written() {
        let header = CaptureHeader {
            hostname: Some("db1".into()),
            os_release: Some("6.1.0".into()),
            recorder_version: Some("hardmeter 0.1.0".into()),
            architecture: Some("x86_64".into()),
            cpus_online: Some(2),
            cpus_available: Some(4),
            cpu_description: Some("A processor".into()),
            cpu_id: Some("GenuineIntel,6,85,4".into()),
            total_memory: Some(ByteCount(4096 * 1024)),
            command_line: vec!["hardmeter".into(), "record".into()],
            caches: vec![CacheDescription {
                level: 1,
                line_size: 64,
                sets: 64,
                ways: 8,
                kind: "Data".into(),
                size: "32K".into(),
                cpus: "0-1".into(),
            }],
            build_ids: vec![BuildId {
                pid: Pid(-1),
                mode: CpuMode::User,
                id: vec![0xab; 20],
                path: "/usr/lib/postgresql/15/bin/postgres".into(),
            }],
            sample_time: Some((Timestamp(5), Timestamp(9))),
            ..CaptureHeader::default()
        };
        let events = vec![EventAttributes {
            name: "l1d-miss".into(),
            attr: PerfEventAttr::new(4, 1),
            ids: vec![3, 4],
        }];
        let mut back = CaptureHeader::default();
        let mut events_back = None;
        let mut last = 0;
        for (number, bytes) in header.encode_features(&events) {
            assert!(number > last, "features must ascend");
            last = number;
            assert_eq!(back.decode_feature(number, &bytes), Some(()));
            if number == feature::EVENT_DESC {
                events_back = decode_event_descriptions(&bytes);
            }
        }
        assert_eq!(back, header);
        assert_eq!(events_back, Some(events));
    }

    #[test]
    fn a_cut_feature_counts_as_absent() {
        let mut bytes = Vec::new();
        push_string(&mut bytes, "host");
        let mut header = CaptureHeader::default();
        assert_eq!(header.decode_feature(feature::HOSTNAME, &bytes[..20]), None);
        assert_eq!(header.hostname, None);
    }
}
