//! Details of the most contended lines, access by access: the second walk.

use super::census::LineCounts;
use super::layout::{groups, ByteRange, LayoutGroup, Use};
use super::line::LineId;
use super::movement::{movement, Movement};
use super::replay::{replay, Basis, Effect, Replayed, TraceAccess};
use super::role::{Role, Roles};
use super::verdict::LineVerdict;
use crate::code::Place;
use crate::estimate::Share;
use hardmeter_samples::model::{
    AccessSize, MemoryOperation, Pid, Sample, SharingVerdict, Tid, VirtualAddress,
};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The memory access of the instruction at a place, if its code is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionAccess {
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// Its width in bytes.
    pub size: AccessSize,
}

/// The code on the other side of a miss, with its process's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSide {
    /// The place of its instruction.
    pub place: Option<Place>,
    /// The name of its process.
    pub process: Option<Arc<str>>,
}

/// The accesses of one instruction to some bytes of a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LineAccess {
    /// The bytes.
    pub range: Option<ByteRange>,
    /// Whether the width of the access is known; otherwise `bytes` is the aligned word of four bytes.
    pub size_known: bool,
    /// The instruction.
    #[serde(skip)]
    pub place: Option<Place>,
    /// The process by name.
    pub process: Option<Arc<str>>,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// Misses and invalidations of this access.
    pub counts: LineCounts,
    /// Misses of others that name it as the latest write of another core.
    pub blamed: u64,
    /// Other samples of it, of any event.
    pub accesses: u64,
    /// The processes.
    pub pids: BTreeSet<Pid>,
    /// An address of the first byte in one of them.
    pub example: Option<(Pid, VirtualAddress)>,
    /// Misses and stores by thread.
    #[serde(skip)]
    threads: BTreeMap<Tid, ThreadCounts>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ThreadCounts {
    misses: u64,
    stores: u64,
}

/// A routine's instruction that waits, and one that makes it wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Fight {
    /// The routine that missed.
    pub waiting: Option<Place>,
    /// The routine that wrote.
    pub writing: Option<Place>,
    /// Number of misses.
    pub misses: u64,
    /// Those of them on bytes that the other side had not written.
    pub false_sharing: u64,
}

/// Identifies an access: two samples with the same values are one access sampled by two events.
struct Latest {
    thread: Option<Tid>,
    instruction: Option<VirtualAddress>,
    address: Option<VirtualAddress>,
    role: Role,
}

#[derive(PartialEq, Eq, Hash)]
struct AccessKey {
    range: ByteRange,
    place: Option<Place>,
    process: Option<Arc<str>>,
}

/// A line under study.
pub struct LineDetail {
    /// The line.
    pub line: LineId,
    /// Its counts from the census.
    pub counts: LineCounts,
    rows: FxHashMap<AccessKey, LineAccess>,
    fights: FxHashMap<(Option<Place>, Option<Place>), (u64, u64)>,
    trace: Vec<TraceAccess>,
    trace_cut: bool,
    /// The latest access of the trace: several events may have sampled it.
    latest: Option<Latest>,
    cores: FxHashMap<Pid, u32>,
}

/// Maximum accesses per line for the replay; a longer trace is cut, which shows in the prediction's count.
const TRACE_LIMIT: usize = 1 << 18;
/// The assumed width in bytes if an access's width is unknown.
const WORD: u16 = 4;

/// The second walk.
pub struct LineStudy {
    roles: Roles,
    line_size: u32,
    judge_by_samples: bool,
    wanted: FxHashMap<LineId, usize>,
    lines: Vec<LineDetail>,
}

impl LineStudy {
    /// Studies these lines. With `judge_by_samples`, verdicts are inferred as for a hardware capture even if the
    /// simulator recorded them: to test the inference.
    pub fn new(
        roles: Roles,
        line_size: u32,
        lines: &[(LineId, LineCounts)],
        judge_by_samples: bool,
    ) -> LineStudy {
        let wanted = lines.iter().enumerate().map(|(number, (line, _))| (*line, number)).collect();
        let lines = lines.iter().map(|(line, counts)| LineDetail::new(*line, *counts)).collect();
        LineStudy { roles, line_size, judge_by_samples, wanted, lines }
    }

    /// Whether a line is studied.
    pub fn wants(&self, line: LineId) -> bool {
        self.wanted.contains_key(&line)
    }

    /// Adds an access to a studied line.
    pub fn add(
        &mut self,
        line: LineId,
        sample: &Sample<'_>,
        place: Option<Place>,
        process: Option<Arc<str>>,
        instruction: Option<InstructionAccess>,
        other: Option<OtherSide>,
    ) {
        let Some(detail) = self.wanted.get(&line).map(|number| &mut self.lines[*number]) else { return };
        let Some(address) = sample.address else { return };
        let simulated = sample.simulated();
        let role = self.roles.of(sample, simulated.as_ref());
        let size = simulated.map(|detail| detail.access_size).filter(|size| size.0 > 0);
        let size = size.or(instruction.map(|instruction| instruction.size)).filter(|size| size.0 > 0);
        let range = bytes((address.0 % u64::from(self.line_size)) as u16, size, self.line_size as u16);
        let operation = sample.data_source.map(|source| source.operation());
        let stores = operation == Some(MemoryOperation::Store) || role == Role::Invalidation;
        let writes = stores || instruction.is_some_and(|instruction| instruction.writes);
        let reads = operation == Some(MemoryOperation::Load)
            || instruction.map_or(!writes, |instruction| instruction.reads);
        let wall_time = simulated.map(|detail| detail.wall_time).filter(|time| time.0 > 0);
        let when = wall_time.or(sample.time).unwrap_or_default();
        let sharing = simulated.and_then(|detail| detail.sharing);
        let verdict = sharing.and_then(|sharing| sharing.verdict);
        let row = detail.row(range, place, process);
        row.size_known |= size.is_some();
        row.reads |= reads;
        row.writes |= writes;
        row.counts.see(sample, role, verdict);
        row.accesses += u64::from(role == Role::Access);
        row.pids.extend(sample.pid);
        if let (None, Some(pid)) = (row.example, sample.pid) {
            row.example = Some((pid, address));
        }
        if let Some(thread) = thread_of(sample) {
            let counts = row.threads.entry(thread).or_default();
            counts.misses += u64::from(matches!(role, Role::Miss { .. }));
            counts.stores += u64::from(writes);
        }
        let core = sample.cpu.map_or_else(|| thread_of(sample).map_or(0, |tid| tid.0 as u32), |cpu| cpu.0);
        if let Some(pid) = sample.pid {
            detail.cores.insert(pid, core);
        }
        if let (Role::Miss { .. }, Some(sharing)) = (role, sharing) {
            let other = other.unwrap_or(OtherSide { place: None, process: None });
            let fight = detail.fights.entry((place, other.place)).or_default();
            fight.0 += 1;
            fight.1 += u64::from(verdict == Some(SharingVerdict::False));
            let range = bytes(u16::from(sharing.offset), Some(sharing.size), self.line_size as u16);
            let row = detail.row(range, other.place, other.process);
            row.size_known = true;
            row.writes = true;
            row.blamed += 1;
            row.pids.insert(sharing.pid);
            if !self.roles.invalidations_recorded() {
                // The writer itself may have no sample: this is all that is known of it.
                row.threads.entry(Tid(sharing.pid.0)).or_default().stores += 1;
                let core = detail.cores.get(&sharing.pid).copied();
                let core = core.unwrap_or(0x8000_0000 | sharing.pid.0 as u32);
                detail.trace(TraceAccess { when, core, range, writes: true, miss: false, verdict: None });
            }
        }
        detail.trace_sample(
            sample,
            role,
            &self.roles,
            TraceAccess { when, core, range, writes, miss: matches!(role, Role::Miss { .. }), verdict },
        );
    }

    /// The lines with all their details.
    pub fn lines(&self) -> &[LineDetail] {
        &self.lines
    }

    /// True or false sharing on a line.
    pub fn verdict(&self, detail: &LineDetail) -> LineVerdict {
        let counts = &detail.counts;
        if !self.judge_by_samples && counts.true_sharing + counts.false_sharing > 0 {
            return LineVerdict::simulated(counts.true_sharing, counts.false_sharing);
        }
        let (loads, stores) = detail.common_bytes();
        LineVerdict::sampled(loads, stores)
    }

    /// The effect of the layout in [`LineDetail::groups`]; `None` if there is only one group.
    pub fn effect(&self, detail: &LineDetail, groups: &[LayoutGroup]) -> Option<Effect> {
        if groups.len() < 2 || detail.counts.misses == 0 {
            return None;
        }
        let judged = detail.counts.true_sharing + detail.counts.false_sharing > 0;
        let all_accesses = self.roles.all_accesses_recorded() && !detail.trace_cut;
        if self.judge_by_samples || !(judged || all_accesses) {
            let (before, after) = detail.left_by_samples(groups);
            return Some(Effect { before, after, new: 0, basis: Basis::Samples });
        }
        let Replayed { before, after, new } = replay(&detail.trace, groups, all_accesses);
        let basis = match self.roles.one_in() {
            _ if all_accesses => Basis::AllAccesses,
            0 => Basis::SomeMisses,
            1 => Basis::AllMisses,
            one_in => Basis::OneMissIn(one_in),
        };
        Some(Effect { before, after, new, basis })
    }
}

impl LineDetail {
    fn new(line: LineId, counts: LineCounts) -> LineDetail {
        LineDetail {
            line,
            counts,
            rows: FxHashMap::default(),
            fights: FxHashMap::default(),
            trace: Vec::new(),
            trace_cut: false,
            latest: None,
            cores: FxHashMap::default(),
        }
    }

    fn row(&mut self, range: ByteRange, place: Option<Place>, process: Option<Arc<str>>) -> &mut LineAccess {
        let key = AccessKey { range, place, process: process.clone() };
        self.rows.entry(key).or_insert_with(|| LineAccess {
            range: Some(range),
            place,
            process,
            ..LineAccess::default()
        })
    }

    fn trace(&mut self, access: TraceAccess) {
        if self.trace.len() < TRACE_LIMIT {
            self.trace.push(access);
        } else {
            self.trace_cut = true;
        }
    }

    /// Adds a sample to the trace. An atomic addition to a lost line is a miss and then an invalidation: two
    /// samples of one access.
    fn trace_sample(&mut self, sample: &Sample<'_>, role: Role, roles: &Roles, access: TraceAccess) {
        // Either every load and store is sampled, or only the sharing events.
        if roles.all_accesses_recorded() != (role == Role::Access) {
            return;
        }
        let (thread, instruction, address) = (sample.tid, sample.ip, sample.address);
        let before = self.latest.replace(Latest { thread, instruction, address, role });
        let same = before.is_some_and(|before| {
            (before.thread, before.instruction, before.address) == (thread, instruction, address)
                && matches!((before.role, role), (Role::Miss { .. }, Role::Invalidation))
        });
        match self.trace.last_mut().filter(|_| same) {
            Some(last) => last.writes = true,
            None => self.trace(access),
        }
    }

    /// How it moves between cores, if a way stands out.
    pub fn movement(&self) -> Option<Movement> {
        movement(&self.trace)
    }

    /// Its accesses, those that miss most first.
    pub fn accesses(&self) -> Vec<&LineAccess> {
        let mut rows: Vec<&LineAccess> = self.rows.values().collect();
        rows.sort_by_key(|row| {
            let weight = row.counts.misses + row.blamed;
            (std::cmp::Reverse((weight, row.counts.invalidations)), row.range, row.place, row.process.clone())
        });
        rows
    }

    /// Pairs of waiting and writing code, by number of misses. If the capture does not have the writer (hardware),
    /// misses are distributed by the other threads' shares of the stores, and `exact` is false.
    pub fn fights(&self) -> (Vec<Fight>, bool) {
        let exact = !self.fights.is_empty();
        let counts = if exact { self.fights.clone() } else { self.likely_fights() };
        let mut fights: Vec<Fight> = counts
            .into_iter()
            .map(|((waiting, writing), (misses, false_sharing))| Fight {
                waiting,
                writing,
                misses,
                false_sharing,
            })
            .filter(|fight| fight.misses > 0)
            .collect();
        fights.sort_by_key(|fight| (std::cmp::Reverse(fight.misses), fight.waiting, fight.writing));
        (fights, exact)
    }

    fn likely_fights(&self) -> FxHashMap<(Option<Place>, Option<Place>), (u64, u64)> {
        let mut shares: FxHashMap<(Option<Place>, Option<Place>), f64> = FxHashMap::default();
        for row in self.rows.values() {
            for (thread, counts) in row.threads.iter().filter(|(_, counts)| counts.misses > 0) {
                let others = |writer: &LineAccess| -> u64 {
                    let other = writer.threads.iter().filter(|(other, _)| *other != thread);
                    other.map(|(_, counts)| counts.stores).sum()
                };
                let all: u64 = self.rows.values().map(others).sum();
                for writer in self.rows.values().filter(|_| all > 0) {
                    let part = counts.misses as f64 * others(writer) as f64 / all as f64;
                    *shares.entry((row.place, writer.place)).or_default() += part;
                }
            }
        }
        shares.into_iter().map(|(pair, part)| (pair, (part.round() as u64, 0))).collect()
    }

    /// The share of misses on bytes that another thread stores to, and the share of stores to bytes that another
    /// thread misses on.
    fn common_bytes(&self) -> (Share, Share) {
        let mut loads = Share { count: 0, total: 0 };
        let mut stores = Share { count: 0, total: 0 };
        for row in self.rows.values() {
            for (thread, counts) in &row.threads {
                let other = |used: fn(&ThreadCounts) -> u64| {
                    self.overlapping(row.range).any(|near| {
                        near.threads.iter().any(|(other, counts)| other != thread && used(counts) > 0)
                    })
                };
                loads.total += counts.misses;
                loads.count += if other(|counts| counts.stores) { counts.misses } else { 0 };
                stores.total += counts.stores;
                stores.count += if other(|counts| counts.misses) { counts.stores } else { 0 };
            }
        }
        (loads, stores)
    }

    fn overlapping(&self, range: Option<ByteRange>) -> impl Iterator<Item = &LineAccess> {
        let common = move |near: Option<ByteRange>| matches!((range, near), (Some(range), Some(near)) if range.overlaps(near));
        self.rows.values().filter(move |row| common(row.range))
    }

    /// Bytes that belong together, by who uses them.
    pub fn groups(&self) -> Vec<LayoutGroup> {
        let mut uses = Vec::new();
        for row in self.rows.values() {
            let Some(range) = row.range else { continue };
            let used = |thread: &Tid| Use { range, thread: *thread, writes: row.writes };
            uses.extend(row.threads.keys().map(used));
        }
        groups(&uses)
    }

    /// All misses, and those that another layout keeps: on a group that another thread stores to.
    fn left_by_samples(&self, groups: &[LayoutGroup]) -> (u64, u64) {
        let (mut before, mut after) = (0, 0);
        for row in self.rows.values() {
            let Some(range) = row.range else { continue };
            let here = |at: ByteRange| {
                let mut group =
                    groups.iter().filter(|group| group.ranges.iter().any(|part| part.overlaps(at)));
                group.next()
            };
            let group = here(range);
            for (thread, counts) in &row.threads {
                let stored = self.rows.values().any(|near| {
                    near.range.is_some_and(|at| here(at) == group)
                        && near.threads.iter().any(|(other, counts)| other != thread && counts.stores > 0)
                });
                before += counts.misses;
                after += if stored { counts.misses } else { 0 };
            }
        }
        (before, after)
    }
}

fn thread_of(sample: &Sample<'_>) -> Option<Tid> {
    sample.tid.or(sample.pid.map(|pid| Tid(pid.0)))
}

/// The bytes of an access, cut at the line's end; if the width is unknown, the aligned word around the first byte.
fn bytes(offset: u16, size: Option<AccessSize>, line_size: u16) -> ByteRange {
    match size {
        Some(size) => ByteRange { start: offset, end: (offset + u16::from(size.0).max(1)).min(line_size) },
        None => ByteRange { start: offset / WORD * WORD, end: offset / WORD * WORD + WORD },
    }
}
