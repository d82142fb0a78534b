//! Recorded sections: the short-lived content of libsplit's rings in a file that can be kept, sent, and
//! replayed by the simulator.
//!
//! The format is JSON lines, which any tool can read. The first line names the format; a kind's line comes
//! before its first section (a later line of the same kind replaces it, with newer data); sections are
//! arrays, in any order:
//!
//! ```text
//! {"format":"hardmeter-split-trace","version":1,"cycles_per_second":2700000000,"source":"recorded on ..."}
//! {"kind":"7.2","label":"/SearchItems.php","application":"web","class":"polluter","warm_cycles":2.1e6,"footprint_kb":900.0}
//! [ended_ns, cpu, "7.2", elapsed_cycles, own_cycles or null, "7.3" or null (predecessor), displaced or null, flags]
//! ```
//!
//! Flags as in segment.h: 1 preempted, 2 migrated, 4 placed, 8 nested. Traces are not for statistics: those
//! in the segment are complete, while a ring that is not read in time overwrites itself.

mod read;
mod write;

pub use read::{Entry, Reader, TraceError};
pub use write::Writer;

use crate::model::{Class, CpuId, KindRef};
use hardmeter_samples::model::Cycles;
use serde::{Deserialize, Serialize};

/// The name in the first line.
pub const FORMAT: &str = "hardmeter-split-trace";
/// The version of the format. A reader refuses later versions.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The rate of the time stamp counter.
    pub cycles_per_second: u64,
    /// The source of the sections, as text.
    #[serde(default)]
    pub source: String,
}

impl Header {
    /// A header of this version.
    pub fn new(cycles_per_second: u64, source: &str) -> Header {
        Header { format: FORMAT.into(), version: VERSION, cycles_per_second, source: source.into() }
    }
}

/// A kind, with the data known when the line was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// The kind.
    #[serde(with = "kind_text")]
    pub kind: KindRef,
    /// Its key as display text.
    #[serde(default)]
    pub label: String,
    /// The name of its application.
    #[serde(default)]
    pub application: String,
    /// Its class.
    #[serde(default)]
    pub class: Class,
    /// The cycles of a section that finds its data in the cache.
    #[serde(default)]
    pub warm_cycles: Option<f64>,
    /// The size of the cache that it replaces, in KB-equivalents of the probe.
    #[serde(default)]
    pub footprint_kb: Option<f64>,
    /// Its slowdown after polluters; 0.1 is 10 %.
    #[serde(default)]
    pub slowdown: Option<f64>,
}

/// A section that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Section {
    /// Its end on CLOCK_MONOTONIC.
    pub ended_ns: u64,
    /// The processor on which it ended.
    pub cpu: CpuId,
    /// Its kind.
    pub kind: KindRef,
    /// The kind that was on the processor before it.
    pub previous: Option<KindRef>,
    /// The time from start to end.
    pub elapsed: Cycles,
    /// Its own cycles, if they are known.
    pub own: Option<Cycles>,
    /// The share of the probe's lines that were evicted after it, 0 to 1, if it was probed.
    pub displaced: Option<f64>,
    /// It lost the processor.
    pub preempted: bool,
    /// It continued on another processor.
    pub migrated: bool,
    /// The library had placed it.
    pub placed: bool,
    /// It ran within another section of its thread.
    pub nested: bool,
}

/// Kinds as text: `app.code`, in hexadecimal.
pub(crate) mod kind_text {
    use crate::model::{AppId, CodeId, KindRef};
    use serde::{de::Error, Deserialize, Deserializer, Serializer};

    pub fn parse(text: &str) -> Option<KindRef> {
        let (app, code) = text.split_once('.')?;
        let number = |text: &str| {
            let good = (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if good {
                u32::from_str_radix(text, 16).ok()
            } else {
                None
            }
        };
        Some(KindRef { app: AppId(number(app)?), code: CodeId(number(code)?) })
    }

    pub fn serialize<S: Serializer>(kind: &KindRef, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(kind)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KindRef, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).ok_or_else(|| D::Error::custom("a kind is two hexadecimal numbers with a dot between"))
    }
}
