//! What the analyzer thinks in: kinds, statistics of a span of time, processors, plans. Plain data.

use hardmeter_samples::model::Cycles;
use hardmeter_statement::StatementId;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    };
}

number!(
    /// An application: a server whose requests are counted together.
    AppId, "{:x}"
);
number!(
    /// A kind of request, within its application. 0: none; 1: all those for which there was no room.
    CodeId, "{:x}"
);
number!(
    /// A logical processor, as the kernel numbers it.
    CpuId, "{}"
);

/// A kind of request, among all applications. Written `app.code` in hexadecimal, as it travels between tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct KindRef {
    pub app: AppId,
    pub code: CodeId,
}

impl fmt::Display for KindRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.app, self.code)
    }
}

/// Some logical processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuSet(pub std::collections::BTreeSet<CpuId>);

/// As the kernel writes lists: "0-3,8".
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.0.iter().map(|cpu| cpu.0).peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|&next| next == last + 1) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last != first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<T: IntoIterator<Item = CpuId>>(cpus: T) -> CpuSet {
        CpuSet(cpus.into_iter().collect())
    }
}

/// What a kind does to the caches, or what they do to it. Numbers as in libsplit's segment.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Not measured well enough.
    #[default]
    Unknown = 0,
    /// Too short to be worth a move.
    Short = 1,
    /// Replaces much of the L2 cache: the paper's "dirty".
    Polluter = 2,
    /// Slower after polluters.
    Sensitive = 3,
    /// Neither.
    Neutral = 4,
}

impl Class {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            Class::Unknown => "unknown",
            Class::Short => "short",
            Class::Polluter => "polluter",
            Class::Sensitive => "sensitive",
            Class::Neutral => "neutral",
        }
    }
}

/// How a decision is carried out. Numbers as in libsplit's segment.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Actuation {
    /// Not at all.
    #[default]
    None = 0,
    /// Affinity at the start of a section, restored at its end (the paper, section 3.5).
    Paper = 1,
    /// Affinity at the start if the thread is not there already; restored when the analyzer says so.
    Lazy = 2,
    /// Whoever routes requests obeys; threads are not moved.
    Soft = 3,
    /// Threads are not moved; time slice and background hold.
    Time = 4,
}

/// A mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Estimate {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
    pub n: u64,
}

/// Count, mean and squared differences of some values (Welford 1962): adds up, and later minus earlier is what came between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// How many values.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Sum of squared differences from it.
    pub m2: f64,
}

/// What came before a section on its processor. The first are the classes, by number.
pub const AFTERS: usize = 6;
/// Index among [`AFTERS`]: the same kind came before.
pub const AFTER_SAME: usize = 5;
/// Buckets of durations: four an octave, the first below 2^10 cycles, the last from 3 * 2^32 on (segment.h).
pub const BUCKETS: usize = 96;

/// Statistics of a kind over some time and some processors. All only grow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Sections that ended.
    pub count: u64,
    /// Of them those whose cycles are known to be their own.
    pub exact: u64,
    /// Sections that lost the processor meanwhile.
    pub preempted: u64,
    /// Sections that went on on another processor.
    pub migrated: u64,
    /// From start to end, waits included; the sum.
    pub elapsed: Cycles,
    /// Their own, of the exact ones; the sum.
    pub cycles: Cycles,
    /// The same, each.
    pub own: Moments,
    /// Equation (1) of the paper over them: what the next one is expected to take.
    pub adaptive: f64,
    /// L2 misses where a PMU counts them.
    pub misses: Moments,
    /// Share of the probe's lines that were gone after it, 0 to 1.
    pub displaced: Moments,
    /// Its own cycles by what came before on the processor.
    pub after: [Moments; AFTERS],
    /// Of its cycles, spent in sections within.
    pub nested: Cycles,
    /// How many took so long, from start to end.
    pub histogram: Vec<u64>,
}

/// A kind, as an application's segment has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindSnapshot {
    /// Which.
    pub code: CodeId,
    /// Its key as text, as the application gave it: never trusted, always escaped when shown.
    pub label: String,
    /// Words for people: the tables of a statement, say.
    pub note: String,
    /// Of SQL: its text's id.
    #[serde(default, rename = "statement_id", skip_serializing_if = "Option::is_none")]
    pub statement: Option<StatementId>,
    /// What caused one of its sections, the latest time it was known.
    pub related: Option<KindRef>,
    /// What the analyzer last said of it.
    pub class: Class,
    /// Statistics since the segment was made, by processor.
    pub records: Vec<(CpuId, Record)>,
}

/// An application, as its segment shows it at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Which.
    pub app: AppId,
    /// Its name for people.
    pub name: String,
    /// Whose requests cause its requests.
    pub related: Option<AppId>,
    /// When, on CLOCK_MONOTONIC.
    pub taken_ns: u64,
    /// Of the time stamp counter.
    pub cycles_per_second: u64,
    /// Whether it measures at all.
    pub collecting: bool,
    /// What measures: "pmu", "probe", "none".
    pub backend: String,
    /// What it does without, in words; empty if nothing.
    pub without: Vec<String>,
    /// Its kinds.
    pub kinds: Vec<KindSnapshot>,
    /// Sections for whose kind there was no room.
    pub without_room: u64,
    /// Sections that were not counted since two threads met in one record.
    pub contended: u64,
    /// Sections that never ended, or ended on another thread.
    pub dropped: u64,
    /// How often an affinity was changed.
    pub moves: u64,
    /// Probes, and what they cost, of all processors.
    pub probes: u64,
    /// The same in cycles.
    pub probe_cycles: Cycles,
}

/// A logical processor's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub id: CpuId,
    /// Physical core: SMT siblings have the same.
    pub core: u32,
    /// Which L2 cache it uses.
    pub l2: u32,
    /// Which L3 cache it uses.
    pub l3: u32,
    /// Which NUMA node it is near.
    pub node: u32,
}

/// The processors that may be used, and their caches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Where it is from: "hwloc", "simulated: ...".
    pub source: String,
    /// By number.
    pub cpus: Vec<Cpu>,
    /// Bytes of an L2 cache.
    pub l2_bytes: u64,
    /// Bytes of an L3 cache.
    pub l3_bytes: u64,
}

/// A kind, measured: what policies decide on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindProfile {
    /// Which.
    pub kind: KindRef,
    /// For people.
    pub label: String,
    /// Of SQL: its text's id, by which it is found in `hardmeter queries` and in ccopt's tables.
    #[serde(default, rename = "statement_id", skip_serializing_if = "Option::is_none")]
    pub statement: Option<StatementId>,
    /// Sections in the window.
    pub count: u64,
    /// Sections a second.
    pub rate: f64,
    /// Of the processors' time that all kinds took, 0 to 1.
    pub share: f64,
    /// Own cycles of a section; `None`: never measured.
    pub cycles: Option<Estimate>,
    /// L2 misses of a section, where a PMU counts.
    pub misses: Option<Estimate>,
    /// Damage: the share of L2 that a section replaces, 0 to 1. `None`: not probed.
    pub displaced: Option<Estimate>,
    /// The same as the size of a synthetic section that replaces as much, in KB; by the probe's calibration. Beyond its largest
    /// point it only says "at least".
    #[serde(default)]
    pub footprint_kb: Option<Estimate>,
    /// Sensitivity: how much longer after a polluter than after its own kind or a neutral one; 0.1 is 10 %.
    pub slowdown: Option<Estimate>,
    /// What follows.
    pub class: Class,
    /// From what it follows, in words.
    #[serde(default)]
    pub reason: String,
    /// What caused it.
    pub related: Option<KindRef>,
}

/// All kinds of all applications, over a window of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The window's length.
    pub seconds: f64,
    /// Of the time stamp counter; 0: not known.
    #[serde(default)]
    pub cycles_per_second: u64,
    /// For people, and which is whose cause: id, name, related.
    pub apps: Vec<(AppId, String, Option<AppId>)>,
    /// Ordered by kind.
    pub kinds: Vec<KindProfile>,
    /// What a section of the second kind takes longer if the first came before it on the processor, in cycles.
    pub transitions: Vec<(KindRef, KindRef, Estimate)>,
}

/// Where a kind shall run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// Which kind.
    pub kind: KindRef,
    /// Its class, as the policy sees it.
    pub class: Class,
    /// On which processors; empty: anywhere.
    pub cpus: CpuSet,
    /// How.
    pub actuation: Actuation,
    /// Which of the class queues, for servers that route.
    pub queue: u32,
    /// Time slice of threads that work on it, in microseconds; 0: as they have it.
    #[serde(default)]
    pub slice_us: u32,
    /// Whether they give way to all other threads, where they may.
    #[serde(default)]
    pub background: bool,
    /// Why, in words.
    pub reason: String,
}

/// What a policy wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The policy's name.
    pub policy: String,
    /// Kinds that are not named run anywhere.
    pub placements: Vec<Placement>,
    /// What an operator should know: "one core: nothing to place".
    pub remarks: Vec<String>,
}
