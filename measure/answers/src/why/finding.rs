//! The parts of an answer.

use super::kind::{Cause, EventKind};
use super::score::Score;
use super::sets::{SetMap, SetsUnknown};
use crate::code::SourceLine;
use crate::estimate::Share;
use hardmeter_samples::model::{EventIndex, MissPattern, StatementId};
use serde::Serialize;
use std::sync::Arc;

/// How the causes of an event were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Recorded by the software PMU.
    Exact,
    /// Inferred from samples.
    Inferred,
    /// The event has no causes of this kind.
    None,
}

/// Names of the object at a data address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataNames {
    /// The name that samples are summed by: "index t_pkey".
    pub general: Arc<str>,
    /// The name of a single line: "index t_pkey main block 7 line pointers".
    pub particular: Arc<str>,
}

/// A name and its samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedCount {
    /// The name.
    pub name: Arc<str>,
    /// Samples.
    pub count: u64,
}

/// A routine and line, and its samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlaceCountNamed {
    /// The routine.
    pub routine: String,
    /// The source line, where known.
    pub line: Option<SourceLine>,
    /// Samples.
    pub count: u64,
}

/// One cause of an event's misses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CauseAnswer {
    /// The cause.
    pub cause: Cause,
    /// Its misses, of all of the event.
    pub share: Share,
    /// For inferred causes: the largest p of the verdicts counted here; `None` if unknown.
    pub p: Option<f64>,
    /// For inferred causes: verdicts by evidence, most frequent first: "reuse", "set" ...
    pub basis: Vec<NamedCount>,
    /// Code places with most misses.
    pub places: Vec<PlaceCountNamed>,
    /// On what.
    pub objects: Vec<NamedCount>,
    /// The statements in which the samples were taken.
    pub statements: Vec<(StatementId, u64)>,
    /// Share of this cause in sets that stand out.
    pub in_standing_sets: Option<Share>,
    /// The patterns of its misses, most misses first; empty where they were not simulated.
    pub patterns: Vec<PatternCount>,
    /// Of first uses: whether they end soon after the recording's start.
    pub cold_start: Option<ColdStart>,
}

/// First uses that end soon after the recording's start: a longer run would have other misses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ColdStart {
    /// Misses in the part of the recording below, of all misses of the cause.
    pub misses: Share,
    /// That part of the recording's time, from its first sample to its last.
    pub part: f64,
}

/// A pattern of misses, and its samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PatternCount {
    /// The pattern.
    pub pattern: MissPattern,
    /// Samples.
    pub count: u64,
    /// The most frequent constant distance among them in bytes, with its samples.
    pub stride: Option<(i64, u64)>,
    /// The place with most of them.
    pub place: Option<PlaceCountNamed>,
}

/// Pages that translations were missing for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PagesTouched {
    /// Distinct pages of 4 KiB among the samples.
    pub pages: u64,
    /// Distinct pages of 2 MiB that hold them.
    pub huge_pages: u64,
}

/// Data that samples lack, with the number of such samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "field", rename_all = "kebab-case")]
pub enum Missing {
    /// Samples without a data address.
    DataAddress {
        /// Samples without it.
        without: Share,
    },
    /// Samples without a data source (level, snoop, TLB).
    DataSource {
        /// Samples without it.
        without: Share,
    },
    /// Samples without a physical address, where the set is chosen by it.
    PhysicalAddress {
        /// Samples without it.
        without: Share,
    },
    /// The caches' geometry.
    Geometry,
    /// The software PMU was configured not to simulate causes.
    Causes,
}

/// The answer for one event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventAnswer {
    /// The event.
    pub event: EventIndex,
    /// The kind of event.
    pub kind: EventKind,
    /// Samples that pass the filter.
    pub samples: u64,
    /// Samples that are misses.
    pub misses: u64,
    /// How causes were found.
    pub how: How,
    /// The causes, most misses first.
    pub causes: Vec<CauseAnswer>,
    /// Share of misses with a page walk, of those whose translation is known.
    pub walked: Share,
    /// Share of misses whose line another core had modified, of those whose snoop is known.
    pub hit_modified: Share,
    /// Code places of an event without causes.
    pub places: Vec<PlaceCountNamed>,
    /// On what, of an event without causes.
    pub objects: Vec<NamedCount>,
    /// Pages, of a TLB's misses.
    pub pages: Option<PagesTouched>,
    /// Samples per set.
    pub sets: Result<SetMap, SetsUnknown>,
    /// The inference against the exact causes, where both are known.
    pub score: Option<Score>,
    /// Data that samples lack.
    pub missing: Vec<Missing>,
}
