//! What an answer consists of.

use super::kind::{Cause, EventKind};
use super::score::Score;
use super::sets::{SetMap, SetsUnknown};
use crate::code::SourceLine;
use crate::estimate::Share;
use hardmeter_samples::model::{EventIndex, StatementId};
use serde::Serialize;
use std::sync::Arc;

/// How the causes of an event were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Told by the software PMU.
    Exact,
    /// Inferred from samples.
    Inferred,
    /// The event has no causes of this kind.
    None,
}

/// What lies at a data address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataNames {
    /// By what samples are summed up: "index t_pkey".
    pub general: Arc<str>,
    /// What a single line is called: "index t_pkey main block 7 line pointers".
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
    /// For inferred causes: the largest p of the verdicts counted here, where that is known.
    pub p: Option<f64>,
    /// For inferred causes: verdicts by what they rest on, most first: "reuse", "set" ...
    pub basis: Vec<NamedCount>,
    /// Where.
    pub places: Vec<PlaceCountNamed>,
    /// On what.
    pub objects: Vec<NamedCount>,
    /// In which statements.
    pub statements: Vec<(StatementId, u64)>,
    /// Those in sets that stand out, of all of this cause.
    pub in_standing_sets: Option<Share>,
}

/// Pages that translations were missing for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PagesTouched {
    /// Distinct pages of 4 KiB among the samples.
    pub pages: u64,
    /// Distinct pages of 2 MiB that hold them.
    pub huge_pages: u64,
}

/// Something that samples lack, and how many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "field", rename_all = "kebab-case")]
pub enum Missing {
    /// Samples without a data address.
    DataAddress {
        /// How many, of all.
        without: Share,
    },
    /// Samples without a data source (level, snoop, TLB).
    DataSource {
        /// How many, of all.
        without: Share,
    },
    /// Samples without a physical address, where the set is chosen by it.
    PhysicalAddress {
        /// How many, of all.
        without: Share,
    },
    /// The caches' geometry.
    Geometry,
    /// The software PMU was told not to simulate causes.
    Causes,
}

/// The answer for one event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventAnswer {
    /// The event.
    pub event: EventIndex,
    /// What it counts.
    pub kind: EventKind,
    /// Samples that pass the filter.
    pub samples: u64,
    /// Those that are misses.
    pub misses: u64,
    /// How causes were found.
    pub how: How,
    /// The causes, most misses first.
    pub causes: Vec<CauseAnswer>,
    /// Misses that walked the page table, too, of those whose translation is known.
    pub walked: Share,
    /// Misses whose line another core held modified, of those whose snoop is known.
    pub hit_modified: Share,
    /// Where, of an event without causes.
    pub places: Vec<PlaceCountNamed>,
    /// On what, of an event without causes.
    pub objects: Vec<NamedCount>,
    /// Pages, of a TLB's misses.
    pub pages: Option<PagesTouched>,
    /// Samples per set.
    pub sets: Result<SetMap, SetsUnknown>,
    /// The inference against the exact causes, where both are known.
    pub score: Option<Score>,
    /// What samples lack.
    pub missing: Vec<Missing>,
}
