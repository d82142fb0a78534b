//! The statements, roles and processes that cause a server's misses.

use super::inquiry::{no_notes, remarks_of_notes, Inquiry, Needs, Scope};
use crate::capture::{Capture, Walk};
use crate::error::AnswersError;
use crate::heading::Heading;
use crate::objects::CodeMarks;
use crate::pass::{Located, Pass};
use crate::queries::{QueryColumn, QueryCount, QueryCoverage, QueryTable, SideBySide};
use crate::remark::Remark;
use crate::symbols::SymbolNames;
use crate::workload::Workload;
use hardmeter_samples::model::Sample;
use serde::Serialize;

/// Columns and limits of the tables by query.
#[derive(Clone, Debug)]
pub struct QueriesQuestion {
    /// The columns; duplicates are dropped.
    pub columns: Vec<QueryColumn>,
    /// Rows per table; `None` for all.
    pub limit: Option<usize>,
    /// Whether one table shows all events side by side.
    pub side_by_side: bool,
}

impl Default for QueriesQuestion {
    /// The twenty statements with most samples.
    fn default() -> Self {
        QueriesQuestion { columns: vec![QueryColumn::Statement], limit: Some(20), side_by_side: false }
    }
}

/// Samples by whom they were for.
#[derive(Clone, Debug, Serialize)]
pub struct QueriesAnswer {
    /// Conditions of the recording.
    pub heading: Heading,
    /// The filter as text, if samples were filtered.
    pub filter: Option<String>,
    /// The server whose memory the recorder observed, if there is a side file on objects.
    pub server: Option<String>,
    /// One table per event with samples.
    pub tables: Vec<QueryTable>,
    /// The same events in one table, if requested.
    pub side_by_side: Option<SideBySide>,
    /// How many samples have a known statement, role or process.
    pub coverage: QueryCoverage,
    /// The server's own counts during the recording.
    pub workload: Workload,
    /// Warnings about this answer.
    pub remarks: Vec<Remark>,
    /// Parts of the capture that could not be read, one sentence each.
    pub unread: Vec<String>,
}

/// Collects what answers a [`QueriesQuestion`].
pub(crate) struct QueriesInquiry {
    count: QueryCount,
    question: QueriesQuestion,
}

impl QueriesInquiry {
    pub(crate) fn new(question: &QueriesQuestion, capture: &Capture) -> QueriesInquiry {
        let mut question = question.clone();
        let mut seen = Vec::new();
        question.columns.retain(|column| {
            let first = !seen.contains(column);
            seen.push(*column);
            first
        });
        QueriesInquiry { count: QueryCount::new(CodeMarks::new(capture.object_notes())), question }
    }
}

impl Inquiry for QueriesInquiry {
    type Answer = QueriesAnswer;

    fn needs(&self) -> Needs {
        Needs::ALL
    }

    fn add(&mut self, pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, located: Located) {
        self.count.add(sample, located, pass);
    }

    fn finish(self, scope: &Scope<'_>, walk: &mut Walk) -> Result<QueriesAnswer, AnswersError> {
        let (capture, question) = (scope.capture, &self.question);
        let events = scope.events_shown(walk);
        let heading = capture.heading(walk);
        let statements = walk.pass.statements().clone();
        let index = walk.pass.objects();
        let ranking = capture.ranking();
        let tables = |limit| -> Vec<QueryTable> {
            let table =
                |event| self.count.table(event, &question.columns, (limit, ranking), index, &statements);
            events.iter().map(|event| table(*event)).filter(|table| table.total > 0).collect()
        };
        let side_by_side = question.side_by_side.then(|| SideBySide::of(&tables(None), question.limit));
        let tables = tables(question.limit);
        let coverage = self.count.coverage(index);
        let mut remarks = missing(capture, coverage, &question.columns, statements.is_empty());
        remarks.extend(walk.remarks(None));
        let workload = Workload::of(capture);
        remarks.extend(workload.remarks.iter().cloned());
        Ok(QueriesAnswer {
            heading,
            filter: scope.filter.text(),
            server: capture.object_notes().map(|notes| notes.server.clone()),
            tables,
            side_by_side,
            coverage,
            workload,
            remarks,
            unread: walk.unread(),
        })
    }
}

/// The data that the requested columns need and the capture lacks, and how to record it.
fn missing(
    capture: &Capture,
    coverage: QueryCoverage,
    columns: &[QueryColumn],
    no_statements: bool,
) -> Vec<Remark> {
    let mut remarks: Vec<Remark> = Vec::new();
    let mut say = |text: &str| remarks.push(Remark::Limit { text: text.to_string() });
    let by = |column| columns.contains(&column);
    if by(QueryColumn::Statement) && no_statements {
        say("the capture records no statement; record a PostgreSQL server (hardmeter record --server DIR or -p PID) \
             with the software PMU, or as root with --statements");
    }
    let by_chain = by(QueryColumn::Operator) || by(QueryColumn::Phase);
    if by_chain && coverage.samples > 0 && coverage.with_callchain == 0 {
        say("no sample has a call chain, which operators and phases are derived from; record with --call-graph");
    }
    let marks = capture.object_notes().is_some_and(|notes| !notes.marks.is_empty());
    if by_chain && capture.object_notes().is_some() && !marks {
        say("the side file of objects has no marks of operators and phases");
    }
    let by_notes = by_chain || by(QueryColumn::Role) || by(QueryColumn::Object);
    remarks.extend(no_notes(capture).filter(|_| by_notes));
    remarks.extend(remarks_of_notes(capture));
    remarks
}
