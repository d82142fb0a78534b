//! One run: the counts of its capture, under names that mean the same in another capture.

use super::per::Per;
use crate::column::{find, UnknownColumn};
use crate::remark::Remark;
use crate::why::EventKind;
use hardmeter_samples::model::EventSource;
use serde::Serialize;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

/// The properties by which rows are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompareColumn {
    /// The function.
    Function,
    /// The instruction, without addresses.
    Instruction,
    /// The source line.
    Line,
    /// The object of the data address: class and name.
    Object,
    /// The statement being executed, without its constants.
    Statement,
}

impl CompareColumn {
    /// Every column with its name on the command line.
    pub const ALL: [(CompareColumn, &'static str); 5] = [
        (CompareColumn::Function, "function"),
        (CompareColumn::Instruction, "instruction"),
        (CompareColumn::Line, "line"),
        (CompareColumn::Object, "object"),
        (CompareColumn::Statement, "statement"),
    ];

    /// The columns that name a place in code that works on some data.
    pub const PLACE: [CompareColumn; 4] =
        [CompareColumn::Function, CompareColumn::Instruction, CompareColumn::Line, CompareColumn::Object];

    /// The name on the command line and in the table's head.
    pub fn name(self) -> &'static str {
        CompareColumn::ALL[self as usize].1
    }
}

impl FromStr for CompareColumn {
    type Err = UnknownColumn;

    fn from_str(name: &str) -> Result<Self, UnknownColumn> {
        find(name, &CompareColumn::ALL)
    }
}

/// A name in two forms.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// Equal in both captures if both mean the same thing.
    pub identity: Arc<str>,
    /// The displayed form, such as the line's number in this capture.
    pub shown: Arc<str>,
}

impl Label {
    /// A name that is its own identity.
    pub fn plain(text: impl Into<Arc<str>>) -> Label {
        let shown: Arc<str> = text.into();
        Label { identity: shown.clone(), shown }
    }
}

/// The sums over the samples of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunSum {
    /// Samples.
    pub samples: u64,
    /// Events that the samples stand for: the sum of their periods.
    pub events: f64,
    /// The sum of the squares of their periods.
    pub squares: f64,
    /// Cycles that these events waited: the sum of latency times period.
    pub cycles: f64,
}

impl RunSum {
    /// One sample of a period and a latency.
    pub fn sample(period: u64, latency: u64) -> RunSum {
        let period = period as f64;
        RunSum { samples: 1, events: period, squares: period * period, cycles: period * latency as f64 }
    }

    /// Adds another sum.
    pub fn add(&mut self, other: RunSum) {
        self.samples += other.samples;
        self.events += other.events;
        self.squares += other.squares;
        self.cycles += other.cycles;
    }
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEvent {
    /// Its name.
    pub name: String,
    /// The events that it counts.
    pub kind: EventKind,
    /// The sum of all its samples that passed the filter.
    pub sum: RunSum,
}

/// Samples with the same names.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// The event's place in [`CompareRun::events`].
    pub event: usize,
    /// The names, in the order of [`CompareColumn::ALL`]; `None` if unknown for these samples.
    pub names: [Option<Label>; 5],
    /// The file name of the image with the instruction; empty if there is none.
    pub image: Arc<str>,
    /// The sum.
    pub sum: RunSum,
}

/// How a run was measured, its counts, and its work.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareRun {
    /// The capture's file.
    pub file: String,
    /// Where its samples came from.
    pub source: EventSource,
    /// The measured machine; for a simulated capture the simulated machine with its caches.
    pub machine: Option<String>,
    /// One of this many cache lines was simulated; 1: all of them.
    pub one_line_in: u32,
    /// The filter as text, if samples were filtered.
    pub filter: Option<String>,
    /// The work it did, by unit: "transactions", "instructions".
    pub work: BTreeMap<Per, f64>,
    /// Build ids by the file name of their image.
    pub builds: BTreeMap<Arc<str>, String>,
    /// The events.
    pub events: Vec<RunEvent>,
    /// The rows.
    pub rows: Vec<RunRow>,
    /// Records lost.
    pub lost: u64,
    /// Further notes for the reader.
    pub remarks: Vec<Remark>,
    /// Parts of the capture that could not be read.
    pub unread: Vec<String>,
}
