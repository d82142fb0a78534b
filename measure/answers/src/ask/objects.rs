//! On what data a program misses.

use super::inquiry::{no_notes, remarks_of_notes, Inquiry, Needs, Scope};
use crate::capture::{Capture, Walk};
use crate::error::AnswersError;
use crate::heading::Heading;
use crate::objects::{Formula, ObjectCount, ObjectCoverage, ObjectLevel, ObjectTable};
use crate::pass::{Located, Pass};
use crate::remark::Remark;
use crate::symbols::SymbolNames;
use hardmeter_samples::model::{Sample, StatementId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Columns, formulas and limits of the tables by object.
#[derive(Clone, Debug)]
pub struct ObjectsQuestion {
    /// The columns.
    pub levels: Vec<ObjectLevel>,
    /// Formulas of the user: further columns.
    pub formulas: Vec<Formula>,
    /// Rows per table; `None` for all.
    pub limit: Option<usize>,
}

impl Default for ObjectsQuestion {
    /// The twenty parts of objects with most samples.
    fn default() -> Self {
        let levels = ObjectLevel::complete(&[ObjectLevel::Part]);
        ObjectsQuestion { levels, formulas: Vec::new(), limit: Some(20) }
    }
}

/// Samples by the object of their data address.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectsAnswer {
    /// Conditions of the recording.
    pub heading: Heading,
    /// The filter as text, if samples were filtered.
    pub filter: Option<String>,
    /// The server whose memory the recorder observed, if there is a side file on objects.
    pub server: Option<String>,
    /// The names of the user's formulas.
    pub defined: Vec<String>,
    /// One table per event with samples.
    pub tables: Vec<ObjectTable>,
    /// How many samples could be named, over all events.
    pub coverage: ObjectCoverage,
    /// The texts of the statements that findings name.
    pub statements: BTreeMap<StatementId, Arc<str>>,
    /// Warnings about this answer.
    pub remarks: Vec<Remark>,
    /// Parts of the capture that could not be read, one sentence each.
    pub unread: Vec<String>,
}

/// Collects what answers an [`ObjectsQuestion`].
pub(crate) struct ObjectsInquiry {
    count: ObjectCount,
    defined: Vec<String>,
    levels: Vec<ObjectLevel>,
    limit: Option<usize>,
}

impl ObjectsInquiry {
    pub(crate) fn new(question: &ObjectsQuestion, capture: &Capture) -> ObjectsInquiry {
        let formulas = question.formulas.clone();
        ObjectsInquiry {
            defined: formulas.iter().map(|formula| formula.name().to_string()).collect(),
            count: ObjectCount::new(formulas, capture.line_size()),
            levels: question.levels.clone(),
            limit: question.limit,
        }
    }
}

impl Inquiry for ObjectsInquiry {
    type Answer = ObjectsAnswer;

    fn needs(&self) -> Needs {
        Needs::ALL
    }

    fn add(&mut self, pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, _: Located) {
        let object = pass.object(sample);
        let statement = pass.statements().of_sample(sample);
        self.count.add(sample, object, statement, pass.objects());
    }

    fn finish(self, scope: &Scope<'_>, walk: &mut Walk) -> Result<ObjectsAnswer, AnswersError> {
        let capture = scope.capture;
        let events = scope.events_shown(walk);
        let index = walk.pass.objects();
        let ranking = capture.ranking();
        let tables: Vec<ObjectTable> = events
            .iter()
            .map(|event| self.count.table(*event, &self.levels, (self.limit, ranking), index))
            .filter(|table| table.coverage.with_address > 0 || table.coverage.without_address > 0)
            .collect();
        let findings = tables.iter().flat_map(|table| &table.findings);
        let hashes = findings.filter_map(|finding| finding.statement.map(|(hash, _)| hash));
        let statements = hashes.map(|hash| (hash, walk.pass.statements().text(hash))).collect();
        let coverage = self.count.coverage();
        let mut remarks = remarks(capture, coverage);
        remarks.extend(walk.remarks(None));
        Ok(ObjectsAnswer {
            heading: capture.heading(walk),
            filter: scope.filter.text(),
            server: capture.object_notes().map(|notes| notes.server.clone()),
            defined: self.defined,
            tables,
            coverage,
            statements,
            remarks,
            unread: walk.unread(),
        })
    }
}

/// Warnings about how the names of objects were obtained.
fn remarks(capture: &Capture, coverage: ObjectCoverage) -> Vec<Remark> {
    let mut remarks = Vec::new();
    if coverage.with_address == 0 {
        remarks.push(no_addresses());
    } else {
        remarks.extend(no_notes(capture));
    }
    remarks.extend(remarks_of_notes(capture));
    remarks
}

/// The warning that no sample has a data address, so that no table by data is possible.
fn no_addresses() -> Remark {
    let text = "no sample carries a data address, so the view needs data addresses; record a memory event \
                (hardmeter events), for example with hardmeter record -e l1d-miss,l2-miss";
    Remark::Limit { text: text.into() }
}
