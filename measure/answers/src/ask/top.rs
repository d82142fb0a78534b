//! The places of misses: samples counted by any columns.

use super::inquiry::{Inquiry, Needs, Scope};
use crate::capture::{Capture, Walk};
use crate::column::{Dimension, Measure, Shown, SortBy};
use crate::error::AnswersError;
use crate::heading::Heading;
use crate::pass::{Located, Pass};
use crate::remark::Remark;
use crate::symbols::SymbolNames;
use crate::top::{RoutineSum, Table, Top, TopOptions, Value};
use crate::totals::NamedShare;
use hardmeter_samples::model::Sample;
use serde::Serialize;

/// Routines of an event among the findings.
const ROUTINES: usize = 3;

/// Columns, limits and order of the table.
#[derive(Clone, Debug)]
pub struct TopQuestion {
    /// Columns to group by. A single one adds its usual companions ([`Dimension::with_companions`]).
    pub by: Vec<Dimension>,
    /// Columns to show, in this order; dimensions among them are grouped by, too. Empty: the defaults.
    pub columns: Vec<Shown>,
    /// Rows per table; `None` for all.
    pub limit: Option<usize>,
    /// Order of the rows; `None`: by exposed latency where the capture has it and `columns` does not leave latencies
    /// out, else by count.
    pub sort: Option<SortBy>,
}

impl Default for TopQuestion {
    /// The ten addresses with most samples, with their routines and lines.
    fn default() -> Self {
        TopQuestion { by: vec![Dimension::Address], columns: Vec::new(), limit: Some(10), sort: None }
    }
}

/// Samples by the columns requested.
#[derive(Clone, Debug, Serialize)]
pub struct TopAnswer {
    /// Conditions of the recording.
    pub heading: Heading,
    /// The filter as text, if samples were filtered.
    pub filter: Option<String>,
    /// The columns shown, in order.
    pub shown: Vec<Shown>,
    /// The tables.
    pub tables: Vec<Table>,
    /// The routines that cost most, event by event, if the tables are by address.
    pub routines: Vec<RoutineSum>,
    /// Share of user code that has a name, if names were requested.
    pub names: Option<NamedShare>,
    /// Warnings about this answer.
    pub remarks: Vec<Remark>,
    /// Parts of the capture that could not be read, one sentence each.
    pub unread: Vec<String>,
}

impl TopAnswer {
    /// Samples in all tables.
    pub fn samples(&self) -> u64 {
        self.tables.iter().map(|table| table.total).sum()
    }
}

/// Collects what answers a [`TopQuestion`].
pub(crate) struct TopInquiry {
    top: Top,
    by: Vec<Dimension>,
    question: TopQuestion,
    sort: SortBy,
    with_objects: bool,
}

impl TopInquiry {
    pub(crate) fn new(question: &TopQuestion, capture: &Capture) -> TopInquiry {
        let by = grouping(question);
        let sort = question.sort.unwrap_or_else(|| default_order(question, capture));
        let medians = sort == SortBy::MedianLatency
            || question.columns.contains(&Shown::Measure(Measure::MedianLatency));
        let top = Top::new(TopOptions {
            by: by.clone(),
            limit: question.limit,
            sort,
            medians,
            line_size: capture.line_size(),
        });
        let with_objects = by.iter().any(|dimension| dimension.needs_object());
        TopInquiry { top, by, question: question.clone(), sort, with_objects }
    }
}

impl Inquiry for TopInquiry {
    type Answer = TopAnswer;

    fn needs(&self) -> Needs {
        let any = |needs: fn(Dimension) -> bool| self.by.iter().any(|dimension| needs(*dimension));
        Needs {
            places: any(|dimension| dimension.needs_place() || dimension.needs_object()),
            objects: any(Dimension::needs_notes),
        }
    }

    fn add(&mut self, pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, mut located: Located) {
        if self.with_objects {
            located.object = pass.object(sample);
        }
        self.top.add_with(sample, located, pass);
    }

    fn finish(self, scope: &Scope<'_>, walk: &mut Walk) -> Result<TopAnswer, AnswersError> {
        let capture = scope.capture;
        let mut tables = self.top.tables(&mut walk.pass, &capture.event_names());
        // Leave out events that the filter excludes or that were not configured to sample.
        tables.retain(|table| {
            table
                .event
                .is_none_or(|event| scope.wants(event) && (table.total > 0 || !capture.is_carrier(event)))
        });
        let names = self.top.named_share(&mut walk.pass);
        let mut routines = self.top.routines(&mut walk.pass, ROUTINES);
        routines.retain(|routine| scope.wants(routine.event));
        let heading = capture.heading(walk);
        let mut remarks = walk.remarks(names);
        let shown = columns(&self.question, self.sort, &self.by, &tables, &mut remarks);
        let (filter, unread) = (scope.filter.text(), walk.unread());
        Ok(TopAnswer { heading, filter, shown, tables, routines, names, remarks, unread })
    }
}

/// The columns to group by: those of `by` with their companions, and those of `columns`.
fn grouping(question: &TopQuestion) -> Vec<Dimension> {
    let mut by = match question.by.as_slice() {
        [single] if !names_dimensions(question) => single.with_companions(),
        several => several.to_vec(),
    };
    for shown in &question.columns {
        match shown {
            Shown::Dimension(dimension) if !by.contains(dimension) => by.push(*dimension),
            _ => {}
        }
    }
    by.dedup();
    by
}

/// By time where it is known, unless the chosen figures do not show it.
fn default_order(question: &TopQuestion, capture: &Capture) -> SortBy {
    let measures = || question.columns.iter().filter(|shown| matches!(shown, Shown::Measure(_)));
    let shows_time = |shown: &Shown| {
        matches!(shown, Shown::Measure(Measure::Stall | Measure::TotalLatency | Measure::MeanLatency))
    };
    if measures().next().is_none() || measures().any(shows_time) {
        capture.ranks_by()
    } else {
        SortBy::Count
    }
}

/// Whether `columns` names grouping columns; with figures alone, the default grouping columns are shown.
fn names_dimensions(question: &TopQuestion) -> bool {
    question.columns.iter().any(|shown| matches!(shown, Shown::Dimension(_)))
}

/// The columns to show. A column without any value is left out with a warning, unless it was requested by
/// name.
fn columns(
    question: &TopQuestion,
    sort: SortBy,
    by: &[Dimension],
    tables: &[Table],
    remarks: &mut Vec<Remark>,
) -> Vec<Shown> {
    let is_empty = |dimension: &Dimension| {
        tables.iter().all(|table| {
            let Some(column) = table.columns.iter().position(|column| column == dimension) else {
                return true;
            };
            table.rows.iter().all(|row| row.values[column] == Value::Absent)
        })
    };
    let empty: Vec<Dimension> = by.iter().copied().filter(is_empty).collect();
    // Missing symbols have warnings of their own, with a remedy.
    let told = |dimension: &Dimension| matches!(dimension, Dimension::Line | Dimension::File);
    let untold = empty.iter().filter(|dimension| !told(dimension));
    remarks.extend(untold.map(|column| Remark::EmptyColumn { column: *column }));
    if names_dimensions(question) {
        return question.columns.clone();
    }
    let mut shown = question.columns.clone();
    if shown.is_empty() {
        // Show time first if the rows are ordered by it.
        shown.extend(
            (question.sort.is_none() && sort == SortBy::TotalLatency)
                .then_some(Shown::Measure(Measure::Stall)),
        );
        shown.extend([Measure::Count, Measure::Share].map(Shown::Measure));
        let latencies = tables.iter().flat_map(|table| &table.rows).any(|row| row.latency.samples > 0);
        if latencies && !by.contains(&Dimension::Latency) {
            shown.push(Shown::Measure(Measure::MeanLatency));
        }
        shown.extend(question.sort.and_then(sorting_measure).filter(|sorted| !shown.contains(sorted)));
    }
    let asked = |dimension: &Dimension| question.by.contains(dimension);
    let kept = by.iter().filter(|dimension| !empty.contains(dimension) || asked(dimension));
    shown.extend(kept.map(|dimension| Shown::Dimension(*dimension)));
    shown
}

/// The figure that the rows are ordered by: it must be shown.
fn sorting_measure(sort: SortBy) -> Option<Shown> {
    let measure = match sort {
        SortBy::Count | SortBy::Key => return None,
        SortBy::Events => Measure::Events,
        SortBy::TotalLatency => Measure::TotalLatency,
        SortBy::MeanLatency => Measure::MeanLatency,
        SortBy::MedianLatency => Measure::MedianLatency,
    };
    Some(Shown::Measure(measure))
}
