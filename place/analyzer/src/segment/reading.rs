//! The measurements of an application: its records, read by seqlock, and its rings of sections.

use super::application::{Application, Refusal};
use super::convert;
use super::layout::{self, CpuLine, Kind, RawRecord, RawTrace, RecordHead};
use super::mapping::{Plain, Shared};
use crate::model::{AppId, Class, CodeId, CpuId, KindRef, KindSnapshot, Record, Snapshot};
use hardmeter_samples::model::Cycles;
use hardmeter_statement::StatementId;
use std::sync::atomic::{fence, Ordering};

// SAFETY: atomics only.
unsafe impl Shared for Kind {}
unsafe impl Shared for RecordHead {}
// SAFETY: integers and floats only, in whole words.
unsafe impl Plain for RawRecord {}
unsafe impl Plain for RawTrace {}

/// The limit of reads of a record that is being written: a writer takes tens of nanoseconds, unless it was
/// preempted or died.
const LOOKS: u32 = 200;
/// If a record is unchanged for this long and its owner has ended, it has no owner.
pub(super) const STUCK_NS: u64 = 2_000_000_000;
/// The limit of records read from one segment, because a hostile one could request any amount of memory: 1024 kinds
/// on 128 processors.
const RECORDS_MAX: usize = 1 << 17;

/// The result of reading a snapshot.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// Records whose writer died while writing, repaired.
    pub healed: u32,
    /// Records with invalid numbers.
    pub spoilt: u32,
    /// Records left out since there are too many.
    pub left_out: u32,
}

/// The position read in the ring of traces of each processor.
#[derive(Clone, Debug, Default)]
pub struct TraceCursor(Vec<u64>);

/// A section of the ring in the segment's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TraceEntry {
    pub cpu: CpuId,
    pub ended_tsc: u64,
    pub elapsed: Cycles,
    /// 0: not known.
    pub own: Cycles,
    pub code: CodeId,
    pub previous: Option<KindRef>,
    /// Thousandths; `None`: not probed.
    pub displaced: Option<u16>,
    pub preempted: bool,
    pub migrated: bool,
    pub placed: bool,
    pub nested: bool,
}

impl Application {
    /// Reads all measurements of the application so far.
    ///
    /// # Errors
    ///
    /// [`Refusal::Shrunk`] if the file was truncated while it was mapped.
    pub fn snapshot(&mut self) -> Result<Reading, Refusal> {
        let now = super::monotonic_ns();
        let (mut healed, mut spoilt, mut left_out, mut read) = (0, 0, 0, 0);
        let cpus: Vec<u32> = (0..self.layout.cpus).filter(|&cpu| self.sections_on(cpu) != 0).collect();
        let mut kinds = Vec::new();
        for code in 1..self.layout.kinds {
            let kind = self.mapping.at::<Kind>(self.layout.kind(code));
            let ready = kind.state.load(Ordering::Acquire) == layout::KIND_READY;
            if !ready && kind.key_hash.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // Its creator died before it had written the label.
            let label = if ready { convert::label(kind) } else { "(unnamed)".into() };
            let statement = Some(StatementId(kind.statement.load(Ordering::Relaxed))).filter(|id| id.0 != 0);
            let (note, related) = (self.note(code), self.related(code));
            let mut records = Vec::new();
            for &cpu in &cpus {
                if read == RECORDS_MAX {
                    left_out += 1;
                    continue;
                }
                match self.record(cpu, code, now) {
                    Found::Record(record) => {
                        self.last.insert((cpu, code), (*record).clone());
                        records.push((CpuId(cpu), *record));
                        read += 1;
                    }
                    Found::Spoilt => spoilt += 1,
                    found @ (Found::Busy | Found::Healed) => {
                        healed += u32::from(matches!(found, Found::Healed));
                        if let Some(record) = self.last.get(&(cpu, code)) {
                            records.push((CpuId(cpu), record.clone()));
                            read += 1;
                        }
                    }
                    Found::Nothing => {}
                }
            }
            let class = self.written.get(&CodeId(code)).map_or(Class::Unknown, |decision| decision.class);
            kinds.push(KindSnapshot { code: CodeId(code), label, note, statement, related, class, records });
        }
        let snapshot = self.summary(now, &cpus, kinds);
        if self.mapping.spoilt() {
            return Err(Refusal::Shrunk);
        }
        Ok(Reading { snapshot, healed, spoilt, left_out })
    }

    fn summary(&self, taken_ns: u64, cpus: &[u32], kinds: Vec<KindSnapshot>) -> Snapshot {
        let counters = self.counters();
        let facts = self.facts();
        let lines = || cpus.iter().map(|&cpu| self.mapping.at::<CpuLine>(self.layout.cpu(cpu)));
        let related = self.identity.related_app_id;
        Snapshot {
            app: facts.app,
            name: facts.name,
            related: (related != 0).then_some(AppId(related)),
            taken_ns,
            cycles_per_second: self.identity.cycles_per_second,
            collecting: facts.collecting,
            backend: facts.backend.into(),
            without: facts.without.iter().map(|&what| what.into()).collect(),
            kinds,
            without_room: counters.without_room.load(Ordering::Relaxed),
            contended: counters.contended.load(Ordering::Relaxed),
            dropped: counters.dropped.load(Ordering::Relaxed),
            moves: counters.moves.load(Ordering::Relaxed),
            probes: lines().map(|cpu| cpu.probes.load(Ordering::Relaxed)).fold(0, u64::wrapping_add),
            probe_cycles: Cycles(
                lines().map(|cpu| cpu.probe_cycles.load(Ordering::Relaxed)).fold(0, u64::wrapping_add),
            ),
        }
    }

    fn note(&self, code: u32) -> String {
        let kind = self.mapping.at::<Kind>(self.layout.kind(code));
        if kind.note_state.load(Ordering::Acquire) == layout::KIND_READY {
            convert::note(kind)
        } else {
            String::new()
        }
    }

    fn related(&self, code: u32) -> Option<KindRef> {
        let kind = self.mapping.at::<Kind>(self.layout.kind(code));
        let (app, code) =
            (kind.related_app.load(Ordering::Relaxed), kind.related_code.load(Ordering::Relaxed));
        (app != 0 && code != 0).then_some(KindRef { app: AppId(app), code: CodeId(code) })
    }

    /// Reads a record by its seqlock; repairs it if its writer has ended.
    pub(super) fn record(&mut self, cpu: u32, code: u32, now: u64) -> Found {
        let at = self.layout.record(cpu, code);
        let head = self.mapping.at::<RecordHead>(at);
        let mut before = head.sequence.load(Ordering::Acquire);
        if before == 0 && head.count.load(Ordering::Relaxed) == 0 {
            return Found::Nothing;
        }
        let mut found = Found::Busy;
        for _ in 0..LOOKS {
            if before.is_multiple_of(2) {
                let raw = self.mapping.copy::<RawRecord>(at);
                fence(Ordering::Acquire);
                if before == head.sequence.load(Ordering::Relaxed) {
                    found =
                        convert::record(&raw).map_or(Found::Spoilt, |record| Found::Record(record.into()));
                    break;
                }
            }
            std::hint::spin_loop();
            before = head.sequence.load(Ordering::Acquire);
        }
        let owner = head.owner.load(Ordering::Relaxed);
        if owner == 0 {
            self.stuck.remove(&(cpu, code));
            return found;
        }
        let since = self.stuck.entry((cpu, code)).or_insert((before, owner, now));
        if (since.0, since.1) != (before, owner) {
            *since = (before, owner, now);
        }
        if now.saturating_sub(since.2) < STUCK_NS || thread_exists(owner) {
            return found;
        }
        self.stuck.remove(&(cpu, code));
        mend(self.mapping.at::<RecordHead>(at), before, owner);
        Found::Healed
    }

    /// Sections written to the rings since `cursor`; sections overwritten meanwhile are lost.
    pub fn traces(&self, cursor: &mut TraceCursor) -> Vec<TraceEntry> {
        let mut entries = Vec::new();
        cursor.0.resize(self.layout.cpus as usize, 0);
        for (cpu, seen) in (0..self.layout.cpus).zip(&mut cursor.0) {
            let written = self.mapping.at::<CpuLine>(self.layout.cpu(cpu)).traced.load(Ordering::Acquire);
            let room = u64::from(self.layout.traces);
            let from = (*seen).max(written.saturating_sub(room)).min(written);
            for number in from..written {
                let place = self.layout.trace(cpu, (number % room) as u32);
                let raw = self.mapping.copy::<RawTrace>(place);
                fence(Ordering::Acquire);
                // An entry that was overwritten during the read is inconsistent.
                let ended: u64 = self.mapping.copy::<Word>(place).0;
                if raw.ended_tsc != 0 && ended == raw.ended_tsc {
                    entries.push(entry(CpuId(cpu), &raw));
                }
            }
            *seen = written;
        }
        entries
    }
}

/// Repairs a record whose owner died while writing. A section may be partly included: sums may be off by one.
fn mend(head: &RecordHead, sequence: u32, owner: u32) {
    if !sequence.is_multiple_of(2) {
        let even = sequence.wrapping_add(1);
        let _ = head.sequence.compare_exchange(sequence, even, Ordering::AcqRel, Ordering::Relaxed);
    }
    let _ = head.owner.compare_exchange(owner, 0, Ordering::AcqRel, Ordering::Relaxed);
}

/// The result of reading a record.
pub(super) enum Found {
    Nothing,
    Record(Box<Record>),
    Spoilt,
    Busy,
    Healed,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Word(u64);
// SAFETY: a word.
unsafe impl Plain for Word {}

fn entry(cpu: CpuId, raw: &RawTrace) -> TraceEntry {
    let previous = (raw.previous_app != 0)
        .then_some(KindRef { app: AppId(raw.previous_app), code: CodeId(raw.previous_code) });
    TraceEntry {
        cpu,
        ended_tsc: raw.ended_tsc,
        elapsed: Cycles(u64::from(raw.elapsed_cycles_16) * 16),
        own: Cycles(u64::from(raw.cycles_16) * 16),
        code: CodeId(raw.code),
        previous,
        displaced: (raw.displaced <= 1000).then_some(raw.displaced),
        preempted: raw.flags & 1 != 0,
        migrated: raw.flags & 2 != 0,
        placed: raw.flags & 4 != 0,
        nested: raw.flags & 8 != 0,
    }
}

/// True if a thread with this id exists, in any process.
fn thread_exists(tid: u32) -> bool {
    let Ok(tid) = i32::try_from(tid) else { return false };
    // SAFETY: signal 0 is not delivered.
    tid > 0
        && unsafe {
            libc::kill(tid, 0) == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
        }
}
