//! The analyzer's data model: kinds, statistics of a span of time, processors, plans. Plain data.

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
    /// A kind of request, within its application. 0: none; 1: all those without a place in the table.
    CodeId, "{:x}"
);
number!(
    /// A logical processor, by the kernel's number.
    CpuId, "{}"
);

/// A kind of request, among all applications. Written `app.code` in hexadecimal, the form that is passed
/// between tiers.
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

/// A set of logical processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuSet(pub std::collections::BTreeSet<CpuId>);

/// In the kernel's list format: "0-3,8".
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

/// A kind's effect on the caches, or their effect on it. Numbers as in libsplit's segment.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Not measured well enough.
    #[default]
    Unknown = 0,
    /// Too short to be worth moving.
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

/// How a decision is applied. Numbers as in libsplit's segment.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Actuation {
    /// Not at all.
    #[default]
    None = 0,
    /// Affinity at the start of a section, restored at its end (the paper, section 3.5).
    Paper = 1,
    /// Affinity at the start unless the thread has it already; restored when the analyzer says so.
    Lazy = 2,
    /// Used by servers that route requests; threads are not moved.
    Soft = 3,
    /// Threads are not moved; time slice, background and admission apply.
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

/// Count, mean and squared differences of values (Welford 1962): they can be added, and later minus earlier
/// is the part in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// The number of values.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Sum of squared differences from it.
    pub m2: f64,
}

/// The kinds of predecessors of a section on its processor: first the classes, by number.
pub const AFTERS: usize = 6;
/// Index among [`AFTERS`]: the predecessor was of the same kind.
pub const AFTER_SAME: usize = 5;
/// Buckets of durations: four an octave, the first below 2^10 cycles, the last from 3 * 2^32 on (segment.h).
pub const BUCKETS: usize = 96;

/// Statistics of a kind over some time and some processors. All values only grow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Sections that ended.
    pub count: u64,
    /// Those with cycles that are known to be their own.
    pub exact: u64,
    /// Sections that lost the processor before they ended.
    pub preempted: u64,
    /// Sections that continued on another processor.
    pub migrated: u64,
    /// Sum of the times from start to end, including waits.
    pub elapsed: Cycles,
    /// Sum of the exact sections' own cycles.
    pub cycles: Cycles,
    /// The same values, one by one.
    pub own: Moments,
    /// Equation (1) of the paper over them: the expected value of the next section.
    pub adaptive: f64,
    /// L2 misses, if a PMU counts them.
    pub misses: Moments,
    /// The share of the probe's lines that were displaced after it, 0 to 1.
    pub displaced: Moments,
    /// Its own cycles by its predecessor on the processor.
    pub after: [Moments; AFTERS],
    /// The part of its cycles spent in inner sections.
    pub nested: Cycles,
    /// A histogram of the times from start to end.
    pub histogram: Vec<u64>,
}

/// A kind in an application's segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindSnapshot {
    /// Its code.
    pub code: CodeId,
    /// Its key as text from the application: never trusted, always escaped when shown.
    pub label: String,
    /// A display text, for example the tables of a statement.
    pub note: String,
    /// For SQL: the id of its text.
    #[serde(default, rename = "statement_id", skip_serializing_if = "Option::is_none")]
    pub statement: Option<StatementId>,
    /// The latest known cause of one of its sections.
    pub related: Option<KindRef>,
    /// The class that the analyzer wrote last.
    pub class: Class,
    /// Statistics since the segment was made, by processor.
    pub records: Vec<(CpuId, Record)>,
}

/// The content of an application's segment at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The application.
    pub app: AppId,
    /// Its display name.
    pub name: String,
    /// The application whose requests cause its requests.
    pub related: Option<AppId>,
    /// The time on CLOCK_MONOTONIC.
    pub taken_ns: u64,
    /// The rate of the time stamp counter.
    pub cycles_per_second: u64,
    /// True if it measures at all.
    pub collecting: bool,
    /// The back-end that measures: "pmu", "probe", "none".
    pub backend: String,
    /// The facilities that it lacks, as text; empty if none.
    pub without: Vec<String>,
    /// Its kinds.
    pub kinds: Vec<KindSnapshot>,
    /// Sections whose kind had no place in the table.
    pub without_room: u64,
    /// Sections that were not counted because two threads used one record.
    pub contended: u64,
    /// Sections that never ended, or ended on another thread.
    pub dropped: u64,
    /// The number of changes of an affinity.
    pub moves: u64,
    /// The number of probes on all processors.
    pub probes: u64,
    /// Their cost in cycles.
    pub probe_cycles: Cycles,
}

/// The location of a logical processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub id: CpuId,
    /// Its physical core: SMT siblings have the same number.
    pub core: u32,
    /// Its L2 cache.
    pub l2: u32,
    /// Its L3 cache.
    pub l3: u32,
    /// Its NUMA node.
    pub node: u32,
}

/// The processors that may be used, and their caches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The source of this data: "hwloc", "simulated: ...".
    pub source: String,
    /// Ordered by number.
    pub cpus: Vec<Cpu>,
    /// Bytes of an L2 cache.
    pub l2_bytes: u64,
    /// Bytes of an L3 cache.
    pub l3_bytes: u64,
}

/// The measurements of a kind on which policies decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindProfile {
    /// The kind.
    pub kind: KindRef,
    /// Its display text.
    pub label: String,
    /// For SQL: the id of its text, which is the same in `hardmeter queries` and in ccopt's tables.
    #[serde(default, rename = "statement_id", skip_serializing_if = "Option::is_none")]
    pub statement: Option<StatementId>,
    /// Sections in the window.
    pub count: u64,
    /// Sections a second.
    pub rate: f64,
    /// Its share of the processors' time that all kinds took, 0 to 1.
    pub share: f64,
    /// Own cycles of a section; `None`: never measured.
    pub cycles: Option<Estimate>,
    /// L2 misses of a section, if a PMU counts them.
    pub misses: Option<Estimate>,
    /// Damage: the share of L2 that a section replaces, 0 to 1. `None`: not probed.
    pub displaced: Option<Estimate>,
    /// The same as the size in KB of a synthetic section that replaces as much, by the probe's calibration.
    /// Beyond its largest point it is only a lower bound.
    #[serde(default)]
    pub footprint_kb: Option<Estimate>,
    /// Sensitivity: the extra time after a polluter, relative to after its own kind or a neutral one; 0.1 is
    /// 10 %.
    pub slowdown: Option<Estimate>,
    /// The resulting class.
    pub class: Class,
    /// The evidence for it, as text.
    #[serde(default)]
    pub reason: String,
    /// Its cause, if known.
    pub related: Option<KindRef>,
}

/// All kinds of all applications, over a window of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The window's length.
    pub seconds: f64,
    /// The rate of the time stamp counter; 0: not known.
    #[serde(default)]
    pub cycles_per_second: u64,
    /// The applications: id, display name, and the application that causes their requests.
    pub apps: Vec<(AppId, String, Option<AppId>)>,
    /// Ordered by kind.
    pub kinds: Vec<KindProfile>,
    /// The extra cycles of a section of the second kind if the first preceded it on the processor.
    pub transitions: Vec<(KindRef, KindRef, Estimate)>,
}

/// Where a kind must run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// The kind.
    pub kind: KindRef,
    /// Its class, as the policy sees it.
    pub class: Class,
    /// Its processors; empty: anywhere.
    pub cpus: CpuSet,
    /// How it is applied.
    pub actuation: Actuation,
    /// Its class queue, for servers that route.
    pub queue: u32,
    /// Time slice of threads that work on it, in microseconds; 0: unchanged.
    #[serde(default)]
    pub slice_us: u32,
    /// True if they give way to all other threads, if their rights allow it.
    #[serde(default)]
    pub background: bool,
    /// True if its requests wait for one of [`Plan::places`] before they run.
    #[serde(default)]
    pub admit: bool,
    /// The reason, as text.
    pub reason: String,
}

/// The decisions that a policy wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The policy's name.
    pub policy: String,
    /// Kinds that are not listed run anywhere.
    pub placements: Vec<Placement>,
    /// How many requests of the kinds with [`Placement::admit`] run at once, in each application; 0: any number.
    #[serde(default)]
    pub places: u32,
    /// Warnings for an operator: "one core: nothing to place".
    pub remarks: Vec<String>,
}
