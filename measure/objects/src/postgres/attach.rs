//! Finds the server of a process and its version, and tests that it matches its layout table.
//!
//! No program is run and no query is sent: the version is in the data folder's PG_VERSION, and as text in the
//! program. A server that does not pass the test is refused: names from a wrong layout would be worse than no
//! names.

use super::layout::{Layout, Missing, MAJORS};
use super::shared::buffers::Buffers;
use super::shared::index::Areas;
use crate::error::AttachError;
use crate::process_memory::{parent_of, Mappings, ProcessMemory};
use crate::program::Program;
use hardmeter_samples::model::{Pid, VirtualAddress};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

/// Symbols that a PostgreSQL server exports in all versions.
const LANDMARKS: [&str; 6] =
    ["BufferBlocks", "BufferDescriptors", "NBuffers", "MainLWLockArray", "ProcGlobal", "MaxBackends"];

/// A server that passed the test.
#[derive(Debug)]
pub(crate) struct Server {
    /// The memory of its first process.
    pub memory: ProcessMemory,
    /// Its program.
    pub program: Program,
    /// The layout of its version.
    pub layout: Layout,
    /// The version in full: "15.18".
    pub version: String,
    /// Its data folder, as seen through `/proc`.
    pub data: PathBuf,
    /// The main segment of shared memory.
    pub segment: Range<VirtualAddress>,
    /// The list of its dynamic segments: its handle, a random number chosen whenever shared memory is
    /// created, and the place of that handle: the variable that points to the header, and the offset in it.
    pub dynamic_segments: (u32, (VirtualAddress, u64)),
    /// The shared buffers.
    pub buffers: Buffers,
    /// The locks of the main array.
    pub locks: VirtualAddress,
    /// The header of the array of processes.
    pub processes: VirtualAddress,
    /// The named areas of the segment.
    pub areas: Areas,
    /// Properties that could not be determined, although the rest could.
    pub remarks: Vec<String>,
}

/// The first process of the server to which a process belongs: the topmost with the same program mapped.
fn first_process(pid: Pid, program: &Program) -> Pid {
    /// A server's tree of processes is not deeper.
    const DEPTH: usize = 64;
    let mut first = pid;
    for _ in 0..DEPTH {
        let Some(parent) = parent_of(first) else { break };
        let mappings = ProcessMemory::open(parent).and_then(|memory| memory.mappings());
        let same = |mappings: &Mappings| mappings.iter().any(|map| map.file() == Some(&program.path));
        if !mappings.is_ok_and(|mappings| same(&mappings)) {
            break;
        }
        first = parent;
    }
    first
}

/// The text "15.18" after "PostgreSQL " in the program's constants.
fn version_in(memory: &ProcessMemory, program: &Program) -> Option<String> {
    const MARK: &[u8] = b"PostgreSQL ";
    /// Constants of a server are about two megabytes.
    const MOST: u64 = 64 << 20;
    let section = program.image.sections.iter().find(|section| section.name == ".rodata")?;
    let mut bytes = vec![0; (section.end - section.start).min(MOST) as usize];
    let got = memory.read_part(program.loaded(section.start), &mut bytes);
    bytes.truncate(got);
    bytes.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK).find_map(|(at, _)| {
        let rest = &bytes[at + MARK.len()..];
        let end = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'a'..=b'z'))?;
        let version = std::str::from_utf8(&rest[..end]).ok()?;
        // "PostgreSQL 15.18 on x86_64..." or "PostgreSQL 15.18 (Debian ...) on ..."; not "PostgreSQL 8.2 and newer".
        let after = &rest[end..rest.len().min(end + 256)];
        let after = &after[..after.iter().position(|byte| *byte == 0).unwrap_or(after.len())];
        let whole =
            after.windows(4).any(|window| window == b" on ") && after.windows(4).any(|w| w == b"-bit");
        (whole && version.starts_with(|c: char| c.is_ascii_digit())).then(|| version.to_string())
    })
}

impl Server {
    /// Finds the server to which a process belongs.
    pub fn attach(pid: Pid) -> Result<Server, AttachError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(AttachError::Machine);
        }
        let memory = ProcessMemory::open(pid)?;
        let program = Program::find(&memory, &memory.mappings()?, "PostgreSQL server", &LANDMARKS)?;
        let memory = ProcessMemory::open(first_process(pid, &program))?;
        let mappings = memory.mappings()?;

        let data = PathBuf::from(format!("/proc/{}/cwd", memory.pid()));
        let path = data.join("PG_VERSION");
        let text = fs::read_to_string(&path).map_err(|source| AttachError::Version { path, source })?;
        let found = text.trim().to_string();
        let known = MAJORS.map(|major| major.to_string()).join(", ");
        let layout = found.parse().ok().and_then(Layout::of);
        let Some(layout) = layout else { return Err(AttachError::UnknownMajor { found, known }) };
        let mut remarks = Vec::new();
        let version = match version_in(&memory, &program) {
            Some(version) if version.split(|c: char| !c.is_ascii_digit()).next() != Some(found.as_str()) => {
                let reason = format!("its program says that it is {version}");
                return Err(AttachError::SelfTest { major: layout.major, reason });
            }
            Some(version) => version,
            None => {
                remarks
                    .push("the program does not say its version; that of the data folder was taken".into());
                found
            }
        };
        Server::examine(memory, program, layout, version, data, &mappings, remarks)
    }

    /// The self-test, and the data that it finds.
    fn examine(
        memory: ProcessMemory,
        program: Program,
        layout: Layout,
        version: String,
        data: PathBuf,
        mappings: &Mappings,
        mut remarks: Vec<String>,
    ) -> Result<Server, AttachError> {
        let major = layout.major;
        let pid = memory.pid();
        let fault = |reason: String| AttachError::SelfTest { major, reason };
        let missing = |error: Missing| AttachError::SelfTest { major, reason: error.to_string() };
        let address = |name: &str| program.address(name).ok_or_else(|| fault(format!("it has no {name}")));
        let pointer = |name: &str| -> Result<VirtualAddress, AttachError> {
            match memory.pointer(address(name)?)? {
                VirtualAddress(0) => Err(AttachError::NotReady { pid }),
                there => Ok(there),
            }
        };
        let blocks = pointer("BufferBlocks")?;
        let descriptors = pointer("BufferDescriptors")?;
        let locks = pointer("MainLWLockArray")?;
        let processes = pointer("ProcGlobal")?;

        // The mapping may be in several pieces, for example if part of it has another page size.
        let home = mappings.at(blocks).filter(|map| map.shared && map.writable);
        let home = home.ok_or_else(|| fault("its buffers are not in shared memory".into()))?;
        let start = mappings
            .iter()
            .filter(|map| map.inode == home.inode && map.name == home.name && map.start <= blocks)
            .find(|map| memory.u32(map.start).ok() == Some(layout.shmem_magic))
            .map(|map| map.start)
            .ok_or_else(|| fault(format!("no segment begins with the number {}", layout.shmem_magic)))?;
        let size = memory.u64(at(start, layout.offset("PGShmemHeader", "totalsize").map_err(missing)?))?;
        let segment = start..at(start, size);
        let last = VirtualAddress(segment.end.0.wrapping_sub(1));
        if size == 0 || !mappings.at(last).is_some_and(|map| map.shared && map.inode == home.inode) {
            return Err(fault(format!("a segment of {size} bytes does not fit the memory that is mapped")));
        }

        let handle_at = layout.offset("PGShmemHeader", "dsm_control").map_err(missing)?;
        let list = (address("UsedShmemSegAddr")?, handle_at);
        let handle =
            handle_of_list(&memory, layout.shmem_magic, list).ok_or(AttachError::NotReady { pid })?;

        let count = memory.u32(address("NBuffers")?)?;
        let buffers = Buffers {
            blocks,
            descriptors,
            count,
            block_size: layout.block_size,
            stride: layout.buffer_stride,
            tag_valid: layout.tag_valid_bit,
        };
        check_buffers(&memory, &buffers, &segment, layout.offset("BufferDesc", "buf_id").map_err(missing)?)
            .map_err(fault)?;
        check_locks(&memory, &layout, locks, &segment).map_err(fault)?;

        let most = memory.u32(address("MaxBackends")?)?;
        let slots = memory.u32(at(processes, layout.offset("PROC_HDR", "allProcCount").map_err(missing)?))?;
        // 262143 is the server's own limit; auxiliary processes and prepared transactions have slots, too.
        if !(1..=262_143).contains(&most) || slots < most || !segment.contains(&processes) {
            return Err(fault(format!("it says that it has {most} backends in {slots} slots")));
        }
        let areas = Areas::read(&memory, &layout, &segment).unwrap_or_else(|reason| {
            remarks.push(format!("named areas of shared memory are unknown: {reason}"));
            Areas::default()
        });
        if let Some(area) = areas.named(&["Buffer Blocks"]) {
            // Since PG16 the blocks begin at the next boundary of 4 KB inside their area.
            if !(area.start.0..area.start.0 + 4096).contains(&blocks.0) {
                return Err(fault(format!(
                    "its blocks are at {blocks}, its area of blocks at {}",
                    area.start
                )));
            }
        }
        Ok(Server {
            memory,
            program,
            layout,
            version,
            data,
            segment,
            dynamic_segments: (handle, list),
            buffers,
            locks,
            processes,
            areas,
            remarks,
        })
    }

    /// The present state of the server. If a backend crashed, the server continues with the same first
    /// process, and creates all of its shared memory again.
    pub fn state(&self) -> ServerState {
        let (handle, list) = self.dynamic_segments;
        let found = handle_of_list(&self.memory, self.layout.shmem_magic, list);
        // Checked afterwards: if reading failed because the server was ending, its end is reported.
        match (self.memory.is_alive(), found) {
            (false, _) => ServerState::Ended,
            (true, Some(found)) if found == handle => ServerState::Same,
            (true, Some(_)) => ServerState::Restarted,
            (true, None) => ServerState::Unclear,
        }
    }
}

/// The handle of the list of dynamic segments; `None` while shared memory is created. It is not in the main
/// segment's header, which was copied before, but in the header that excludes a second server from the data
/// folder.
fn handle_of_list(
    memory: &ProcessMemory,
    magic: u32,
    (variable, offset): (VirtualAddress, u64),
) -> Option<u32> {
    let header = memory.pointer(variable).ok()?;
    let is_one = memory.u32(header).ok()? == magic;
    memory.u32(at(header, offset)).ok().filter(|handle| is_one && *handle != 0)
}

/// The present state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerState {
    /// It is the server that was found.
    Same,
    /// It has created its shared memory again.
    Restarted,
    /// It has ended.
    Ended,
    /// It is ending or restarting.
    Unclear,
}

fn at(base: VirtualAddress, offset: u64) -> VirtualAddress {
    VirtualAddress(base.0.wrapping_add(offset))
}

/// Descriptors are numbered from 0 upwards, and blocks and descriptors are in the segment.
fn check_buffers(
    memory: &ProcessMemory,
    buffers: &Buffers,
    segment: &Range<VirtualAddress>,
    number_at: u64,
) -> Result<(), String> {
    /// The limit of processes that are examined one by one.
    const LOOKED_AT: u32 = 1024;
    let count = buffers.count;
    let fits = |base: VirtualAddress, stride: u64| {
        segment.contains(&base) && u64::from(count) * stride <= segment.end.0 - base.0
    };
    if count == 0 || count > i32::MAX as u32 {
        return Err(format!("it says that it has {count} buffers"));
    }
    if !fits(buffers.blocks, buffers.block_size) || !fits(buffers.descriptors, buffers.stride) {
        return Err(format!("{count} buffers of {} bytes do not fit its shared memory", buffers.block_size));
    }
    let numbers: Vec<u32> = (0..count.min(LOOKED_AT)).chain([count - 1]).collect();
    let places: Vec<VirtualAddress> =
        numbers.iter().map(|number| at(buffers.descriptor(*number), number_at)).collect();
    let (bytes, _) = memory.read_pieces(&places, 4);
    for (number, found) in numbers.iter().zip(bytes.chunks_exact(4)) {
        if found != number.to_le_bytes() {
            return Err(format!("buffer descriptor {number} does not have this number"));
        }
    }
    Ok(())
}

/// Each lock contains its kind; individual locks have their own number as kind.
fn check_locks(
    memory: &ProcessMemory,
    layout: &Layout,
    locks: VirtualAddress,
    segment: &Range<VirtualAddress>,
) -> Result<(), String> {
    if !segment.contains(&locks) {
        return Err(format!("its locks at {locks} are not in shared memory"));
    }
    let expected = |index: u32| -> Option<u32> {
        let named =
            |name: &str| layout.tranches.iter().find(|(known, _)| known == name).map(|(_, number)| *number);
        let partition = index.checked_sub(layout.individual_locks);
        match partition {
            None => Some(index),
            Some(partition) if partition < layout.buffer_partitions => named("BufferMapping"),
            Some(partition) if partition < layout.buffer_partitions + layout.lock_partitions => {
                named("LockManager")
            }
            Some(_) => named("PredicateLockManager"),
        }
    };
    let places: Vec<VirtualAddress> =
        (0..layout.fixed_locks).map(|index| at(locks, u64::from(index) * layout.lock_stride)).collect();
    let (bytes, _) = memory.read_pieces(&places, 2);
    for (index, found) in bytes.chunks_exact(2).enumerate() {
        let found = u32::from(u16::from_le_bytes([found[0], found[1]]));
        if expected(index as u32) != Some(found) {
            return Err(format!("lock {index} is of kind {found} instead of {:?}", expected(index as u32)));
        }
    }
    Ok(())
}
