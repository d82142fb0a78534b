//! The layout of a segment, as in libsplit's `segment.h`: the same structures, field by field. A test
//! compiles the header and compares every offset.
//!
//! Fields that other processes may write at any time are atomics. Structures without atomics are copied
//! before they are read ([`super::mapping`]); every bit pattern is a valid value.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicU8};

pub(crate) const SEGMENT_MAGIC: u64 = 0x3174_696c_7073_6d68;
pub(crate) const SEGMENT_VERSION: u32 = 6;
pub(crate) const HEADER_SIZE: u64 = 4096;
pub(crate) const CPUS_MAX: u32 = 1024;
pub(crate) const KINDS_MAX: u32 = 65536;
pub(crate) const THREADS_MAX: u32 = 65536;
/// The size of the table of long requests.
pub(crate) const REQUESTS: u32 = 1024;
pub(crate) const REQUEST_WAITS: u32 = 1;
pub(crate) const REQUEST_RUNS: u32 = 2;
pub(crate) const TRACES_MAX: u32 = 1 << 20;
pub(crate) const LABEL_LENGTH: usize = 128;
pub(crate) const NOTE_LENGTH: usize = 64;
pub(crate) const CLASSES: usize = 5;
/// The classes, "the same kind", "not known".
pub(crate) const AFTERS: usize = CLASSES + 2;
pub(crate) const BUCKETS: usize = 96;
pub(crate) const KIND_READY: u32 = 2;
pub(crate) const MASK_WORDS: usize = CPUS_MAX as usize / 64;
const PAGE: u64 = 4096;
const LINE: u64 = 64;

/// Where the tables begin, in bytes from the beginning of the segment.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tables {
    pub kinds_at: u64,
    pub decisions_at: u64,
    pub threads_at: u64,
    pub requests_at: u64,
    pub cpus_at: u64,
    pub records_at: u64,
    pub traces_at: u64,
}

/// Written by the application before the file got its name.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub magic: u64,
    pub version: u32,
    pub header_size: u32,
    pub size: u64,
    pub app_id: u32,
    pub related_app_id: u32,
    pub key_type: u32,
    pub kinds: u32,
    pub cpus: u32,
    pub threads: u32,
    pub traces: u32,
    pub record_size: u32,
    pub requests: u32,
    pub reserved: u32,
    pub tables: Tables,
    pub made_ns: u64,
    pub cycles_per_second: u64,
    pub name: [u8; 32],
    pub boot_id: [u8; 40],
}

/// Written by the application at any time.
#[repr(C, align(64))]
pub(crate) struct Settings {
    pub collect: AtomicU32,
    pub place: AtomicU32,
    pub analysis_interval_ms: AtomicU32,
    pub threshold: AtomicU32,
    pub weight_bits: AtomicU64,
    pub probe_budget_ppm: AtomicU32,
    pub backend: AtomicU32,
    pub kinds_used: AtomicU32,
    pub without: AtomicU32,
}

/// Counters of the application.
#[repr(C, align(64))]
pub(crate) struct Counters {
    pub without_room: AtomicU64,
    pub contended: AtomicU64,
    pub dropped: AtomicU64,
    pub moves: AtomicU64,
    pub bad_origins: AtomicU64,
    pub refused: AtomicU64,
    pub slices: AtomicU64,
    pub unlimited: AtomicU64,
}

/// The application's counters of admission.
#[repr(C, align(64))]
pub(crate) struct Admission {
    pub lock: AtomicU64,
    pub waits: AtomicU64,
    pub waited_ns: AtomicU64,
    pub longest_wait_ns: AtomicU64,
    pub late: AtomicU64,
    pub for_others: AtomicU64,
    pub exempt: AtomicU64,
    pub checked_ns: AtomicU64,
}

/// Written by the analyzer.
#[repr(C, align(64))]
pub(crate) struct Commands {
    pub heartbeat_ns: AtomicU64,
    pub analyzer_pid: AtomicU32,
    pub analyzer_version: AtomicU32,
    pub placement_on: AtomicU32,
    pub policy: AtomicU32,
    pub epoch: AtomicU64,
    pub probe_generation: AtomicU64,
    pub trace_every: AtomicU32,
    pub places: AtomicU32,
}

/// The first page of an application's segment.
#[repr(C)]
pub(crate) struct Header {
    pub identity: Identity,
    pub settings: Settings,
    pub counters: Counters,
    pub admission: Admission,
    pub commands: Commands,
}

/// A kind's key and texts.
#[repr(C, align(64))]
pub(crate) struct Kind {
    pub state: AtomicU32,
    pub note_state: AtomicU32,
    pub key_hash: AtomicU64,
    pub key_number: AtomicU64,
    pub label_length: AtomicU32,
    pub related_code: AtomicU32,
    pub related_app: AtomicU32,
    pub reserved: AtomicU32,
    pub first_seen_ns: AtomicU64,
    pub label: [AtomicU8; LABEL_LENGTH],
    pub note: [AtomicU8; NOTE_LENGTH],
    pub statement: AtomicU64,
}

/// The analyzer's decision for a kind.
#[repr(C, align(64))]
pub(crate) struct Decision {
    pub sequence: AtomicU32,
    pub class: AtomicU8,
    pub actuation: AtomicU8,
    pub wants_probes: AtomicU8,
    pub uses_cpu_clock: AtomicU8,
    pub expected_cycles: AtomicU64,
    pub queue: AtomicU32,
    pub slice_us: AtomicU32,
    pub background: AtomicU32,
    pub admit: AtomicU32,
    pub cpu_mask: [AtomicU64; MASK_WORDS],
}

/// A thread whose affinity is narrowed, or whose time slice is changed.
#[repr(C, align(64))]
pub(crate) struct Thread {
    pub tid: AtomicU32,
    pub narrowed: AtomicU32,
    pub started_ticks: AtomicU64,
    pub original_mask: [AtomicU64; MASK_WORDS],
    pub sliced: AtomicU32,
    pub code: AtomicU32,
    pub original_slice_ns: AtomicU64,
    pub original_policy: AtomicU32,
}

/// A long request that runs or waits.
#[repr(C, align(64))]
pub(crate) struct Request {
    pub owner: AtomicU64,
    pub state: AtomicU32,
    pub code: AtomicU32,
    pub asked_ns: AtomicU64,
    pub deadline_ns: AtomicU64,
    pub until_ns: AtomicU64,
    pub waker: AtomicU32,
}

/// A processor's line.
#[repr(C, align(64))]
pub(crate) struct CpuLine {
    pub traced: AtomicU64,
    pub probe_tokens: AtomicI64,
    pub probe_refilled: AtomicU64,
    pub sections: AtomicU64,
    pub probes: AtomicU64,
    pub probe_cycles: AtomicU64,
}

/// Count, sum, sum of squares (the low word first).
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct After {
    pub count: u64,
    pub cycles: u64,
    pub squares: [u64; 2],
}

/// Statistics of a kind on a processor: must be copied as a whole.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord {
    pub sequence: u32,
    pub owner: u32,
    pub count: u64,
    pub exact: u64,
    pub elapsed_cycles: u64,
    pub adaptive: f64,
    pub nested_cycles: u64,
    pub preempted: u64,
    pub migrated: u64,
    pub missed: u64,
    pub misses: u64,
    pub adaptive_misses: f64,
    pub probed: u64,
    pub displaced_mean: f64,
    pub displaced_m2: f64,
    pub after: [After; AFTERS],
    pub histogram: [u32; BUCKETS],
}

/// The beginning of a record in place: the fields that are read before the copy.
#[repr(C, align(64))]
pub(crate) struct RecordHead {
    pub sequence: AtomicU32,
    pub owner: AtomicU32,
    pub count: AtomicU64,
}

/// A section that ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawTrace {
    pub ended_tsc: u64,
    pub elapsed_cycles_16: u32,
    pub cycles_16: u32,
    pub code: u32,
    pub previous_code: u32,
    pub previous_app: u32,
    pub displaced: u16,
    pub flags: u16,
}

/// The offsets of a segment's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub kinds: u32,
    pub cpus: u32,
    pub threads: u32,
    pub traces: u32,
    pub tables: Tables,
    pub size: u64,
}

impl Layout {
    /// The layout in segment.h; `None` if libsplit never uses such numbers.
    pub fn of(kinds: u32, cpus: u32, threads: u32, traces: u32) -> Option<Layout> {
        let sane = (2..=KINDS_MAX).contains(&kinds)
            && (1..=CPUS_MAX).contains(&cpus)
            && (1..=THREADS_MAX).contains(&threads)
            && (1..=TRACES_MAX).contains(&traces);
        if !sane {
            return None;
        }
        let table = |at: u64, entries: u64, size: usize| (at + entries * size as u64).next_multiple_of(LINE);
        let kinds_at = HEADER_SIZE;
        let decisions_at = table(kinds_at, kinds.into(), size_of::<Kind>());
        let threads_at = table(decisions_at, kinds.into(), size_of::<Decision>());
        let requests_at = table(threads_at, threads.into(), size_of::<Thread>());
        let cpus_at = table(requests_at, REQUESTS.into(), size_of::<Request>());
        let records_at = table(cpus_at, cpus.into(), size_of::<CpuLine>());
        let traces_at = table(records_at, u64::from(cpus) * u64::from(kinds), size_of::<RawRecord>());
        let size = table(traces_at, u64::from(cpus) * u64::from(traces), size_of::<RawTrace>())
            .next_multiple_of(PAGE);
        Some(Layout {
            kinds,
            cpus,
            threads,
            traces,
            tables: Tables {
                kinds_at,
                decisions_at,
                threads_at,
                requests_at,
                cpus_at,
                records_at,
                traces_at,
            },
            size,
        })
    }

    pub fn kind(&self, code: u32) -> u64 {
        self.tables.kinds_at + u64::from(code) * size_of::<Kind>() as u64
    }

    pub fn decision(&self, code: u32) -> u64 {
        self.tables.decisions_at + u64::from(code) * size_of::<Decision>() as u64
    }

    pub fn cpu(&self, cpu: u32) -> u64 {
        self.tables.cpus_at + u64::from(cpu) * size_of::<CpuLine>() as u64
    }

    pub fn record(&self, cpu: u32, code: u32) -> u64 {
        let index = u64::from(cpu) * u64::from(self.kinds) + u64::from(code);
        self.tables.records_at + index * size_of::<RawRecord>() as u64
    }

    pub fn trace(&self, cpu: u32, place: u32) -> u64 {
        let index = u64::from(cpu) * u64::from(self.traces) + u64::from(place);
        self.tables.traces_at + index * size_of::<RawTrace>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use std::path::Path;
    use std::process::Command;

    /// Compiles segment.h and reads sizes and offsets from it.
    fn told_by_c(asked: &[(String, usize)]) -> Vec<usize> {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("offsets.c");
        let program = folder.path().join("offsets");
        let lines: String =
            asked.iter().map(|(what, _)| format!("  printf(\"%zu\\n\", (size_t){what});\n")).collect();
        let text = format!(
            "#include <stddef.h>\n#include <stdio.h>\n#include \"segment.h\"\nint main(void) {{\n{lines}  return 0;\n}}\n"
        );
        std::fs::write(&source, text).expect("written");
        let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../libsplit/src");
        let compiled = Command::new("cc")
            .arg("-std=c11")
            .arg("-I")
            .arg(headers)
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .status()
            .expect("cc");
        assert!(compiled.success());
        let output = Command::new(&program).output().expect("runs");
        String::from_utf8(output.stdout)
            .expect("text")
            .lines()
            .map(|line| line.parse().expect("a number"))
            .collect()
    }

    macro_rules! compare {
        ($asked:ident, $c:literal, $rust:ty, { $($c_field:literal = $($path:ident).+),* $(,)? }) => {
            $asked.push((format!("sizeof(struct {})", $c), size_of::<$rust>()));
            $($asked.push((format!("offsetof(struct {}, {})", $c, $c_field), offset_of!($rust, $($path).+)));)*
        };
    }

    #[test]
    fn every_offset_is_that_of_segment_h() {
        let mut asked: Vec<(String, usize)> = Vec::new();
        compare!(asked, "split_header", Header, {
            "magic" = identity.magic, "version" = identity.version, "header_size" = identity.header_size,
            "size" = identity.size, "app_id" = identity.app_id, "related_app_id" = identity.related_app_id,
            "key_type" = identity.key_type, "kinds" = identity.kinds, "cpus" = identity.cpus,
            "threads" = identity.threads, "traces" = identity.traces, "record_size" = identity.record_size, "requests" = identity.requests,
            "kinds_at" = identity.tables.kinds_at, "decisions_at" = identity.tables.decisions_at,
            "threads_at" = identity.tables.threads_at, "requests_at" = identity.tables.requests_at,
            "cpus_at" = identity.tables.cpus_at,
            "records_at" = identity.tables.records_at, "traces_at" = identity.tables.traces_at,
            "made_ns" = identity.made_ns, "cycles_per_second" = identity.cycles_per_second,
            "name" = identity.name, "boot_id" = identity.boot_id,
            "collect" = settings.collect, "place" = settings.place,
            "analysis_interval_ms" = settings.analysis_interval_ms, "threshold" = settings.threshold,
            "weight_bits" = settings.weight_bits, "probe_budget_ppm" = settings.probe_budget_ppm,
            "backend" = settings.backend, "kinds_used" = settings.kinds_used, "without" = settings.without,
            "without_room" = counters.without_room, "contended" = counters.contended,
            "dropped" = counters.dropped, "moves" = counters.moves, "bad_origins" = counters.bad_origins,
            "refused" = counters.refused, "slices" = counters.slices, "unlimited" = counters.unlimited,
            "admission_lock" = admission.lock, "waits" = admission.waits, "waited_ns" = admission.waited_ns,
            "longest_wait_ns" = admission.longest_wait_ns, "late" = admission.late,
            "for_others" = admission.for_others, "exempt" = admission.exempt,
            "checked_ns" = admission.checked_ns,
            "heartbeat_ns" = commands.heartbeat_ns, "analyzer_pid" = commands.analyzer_pid,
            "analyzer_version" = commands.analyzer_version, "placement_on" = commands.placement_on,
            "policy" = commands.policy, "epoch" = commands.epoch,
            "probe_generation" = commands.probe_generation, "trace_every" = commands.trace_every,
            "places" = commands.places,
        });
        compare!(asked, "split_kind", Kind, {
            "state" = state, "note_state" = note_state, "key_hash" = key_hash, "key_number" = key_number,
            "label_length" = label_length, "related_code" = related_code, "related_app" = related_app,
            "reserved" = reserved, "first_seen_ns" = first_seen_ns, "label" = label, "note" = note, "statement" = statement,
        });
        compare!(asked, "split_decision", Decision, {
            "sequence" = sequence, "class_" = class, "actuation" = actuation, "wants_probes" = wants_probes,
            "uses_cpu_clock" = uses_cpu_clock, "expected_cycles" = expected_cycles, "queue" = queue,
            "slice_us" = slice_us, "background" = background, "admit" = admit, "cpu_mask" = cpu_mask,
        });
        compare!(asked, "split_thread", Thread, {
            "tid" = tid, "narrowed" = narrowed, "started_ticks" = started_ticks, "original_mask" = original_mask,
            "sliced" = sliced, "code" = code, "original_slice_ns" = original_slice_ns,
            "original_policy" = original_policy,
        });
        compare!(asked, "split_request", Request, {
            "owner" = owner, "state" = state, "code" = code, "asked_ns" = asked_ns,
            "deadline_ns" = deadline_ns, "until_ns" = until_ns, "waker" = waker,
        });
        compare!(asked, "split_cpu", CpuLine, {
            "traced" = traced, "probe_tokens" = probe_tokens, "probe_refilled" = probe_refilled,
            "sections" = sections, "probes" = probes, "probe_cycles" = probe_cycles,
        });
        compare!(asked, "split_after", After, { "count" = count, "cycles" = cycles, "squares" = squares });
        compare!(asked, "split_record", RawRecord, {
            "sequence" = sequence, "owner" = owner, "count" = count, "exact" = exact,
            "elapsed_cycles" = elapsed_cycles, "adaptive" = adaptive, "nested_cycles" = nested_cycles,
            "preempted" = preempted, "migrated" = migrated, "missed" = missed, "misses" = misses,
            "adaptive_misses" = adaptive_misses, "probed" = probed, "displaced_mean" = displaced_mean,
            "displaced_m2" = displaced_m2, "after" = after, "histogram" = histogram,
        });
        compare!(asked, "split_trace", RawTrace, {
            "ended_tsc" = ended_tsc, "elapsed_cycles_16" = elapsed_cycles_16, "cycles_16" = cycles_16,
            "code" = code, "previous_code" = previous_code, "previous_app" = previous_app,
            "displaced" = displaced, "flags" = flags,
        });
        for (name, value) in [
            ("SPLIT_SEGMENT_MAGIC", SEGMENT_MAGIC as usize),
            ("SPLIT_SEGMENT_VERSION", SEGMENT_VERSION as usize),
            ("SPLIT_HEADER_SIZE", HEADER_SIZE as usize),
            ("SPLIT_CPUS_MAX", CPUS_MAX as usize),
            ("SPLIT_REQUESTS", REQUESTS as usize),
            ("SPLIT_KINDS_MAX", KINDS_MAX as usize),
            ("SPLIT_LABEL_LENGTH", LABEL_LENGTH),
            ("SPLIT_NOTE_LENGTH", NOTE_LENGTH),
            ("SPLIT_AFTERS", AFTERS),
            ("SPLIT_BUCKETS", BUCKETS),
            ("SPLIT_REQUEST_WAITS", REQUEST_WAITS as usize),
            ("SPLIT_REQUEST_RUNS", REQUEST_RUNS as usize),
            ("SPLIT_KIND_READY", KIND_READY as usize),
            ("SPLIT_SLICE_MIN_US", crate::policy::SLICE_MIN_US as usize),
            ("SPLIT_SLICE_MAX_US", crate::policy::SLICE_MAX_US as usize),
        ] {
            asked.push((name.into(), value));
        }
        let told = told_by_c(&asked);
        assert_eq!(told.len(), asked.len());
        for ((what, ours), theirs) in asked.iter().zip(told) {
            assert_eq!(*ours, theirs, "{what}");
        }
    }

    #[test]
    fn tables_follow_each_other() {
        // 2 kinds, 1 CPU, 1 thread, 1 trace entry: 4096, + 2 x 256, + 2 x 192, + 192, + 64, + 2 records, + 64.
        let layout = Layout::of(2, 1, 1, 1).expect("sane");
        let record = size_of::<RawRecord>() as u64;
        assert_eq!(layout.tables.decisions_at, 4096 + 2 * size_of::<Kind>() as u64);
        assert_eq!(layout.record(0, 1), layout.tables.records_at + record);
        assert_eq!(layout.tables.traces_at, layout.tables.records_at + 2 * record);
        assert_eq!(layout.size % 4096, 0);
        assert_eq!(Layout::of(0, 1, 1, 1), None);
        assert_eq!(Layout::of(2, 1025, 1, 1), None);
    }
}
