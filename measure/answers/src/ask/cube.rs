//! All samples, grouped by every dimension that a reader can filter by.

use super::inquiry::{Inquiry, Needs, Scope};
use crate::capture::Walk;
use crate::cube::{Cube, CubeRows};
use crate::error::AnswersError;
use crate::heading::Heading;
use crate::pass::{Located, Pass};
use crate::remark::Remark;
use crate::symbols::SymbolNames;
use crate::why::EventKind;
use hardmeter_samples::model::Sample;
use serde::Serialize;
use std::sync::Arc;

/// Limits of a cube.
#[derive(Clone, Copy, Debug)]
pub struct CubeQuestion {
    /// Maximum number of rows; more are merged ([`CubeRows::coarsened`]).
    pub limit: usize,
}

impl Default for CubeQuestion {
    /// As many rows as fit into a page of a few hundred kilobytes.
    fn default() -> Self {
        CubeQuestion { limit: 50_000 }
    }
}

/// All samples, grouped by every dimension that a reader can filter by.
#[derive(Clone, Debug, Serialize)]
pub struct CubeAnswer {
    /// Conditions of the recording.
    pub heading: Heading,
    /// The filter as text, if samples were filtered.
    pub filter: Option<String>,
    /// The kind of each event of the heading.
    pub kinds: Vec<EventKind>,
    /// The texts of the rows' statements.
    pub statements: Vec<Arc<str>>,
    /// The rows.
    pub cube: CubeRows,
    /// Warnings about this answer.
    pub remarks: Vec<Remark>,
    /// Parts of the capture that could not be read, one sentence each.
    pub unread: Vec<String>,
}

/// Collects what answers a [`CubeQuestion`].
pub(crate) struct CubeInquiry {
    cube: Cube,
    limit: usize,
}

impl CubeInquiry {
    pub(crate) fn new(question: &CubeQuestion) -> CubeInquiry {
        CubeInquiry { cube: Cube::default(), limit: question.limit }
    }
}

impl Inquiry for CubeInquiry {
    type Answer = CubeAnswer;

    fn needs(&self) -> Needs {
        Needs::ALL
    }

    fn add(&mut self, pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, located: Located) {
        let object = pass.object(sample).map(|object| object.path);
        let statement = pass.statements().of_sample(sample);
        self.cube.add(sample, located, object, statement, pass);
    }

    fn finish(self, scope: &Scope<'_>, walk: &mut Walk) -> Result<CubeAnswer, AnswersError> {
        let cube = self.cube.rows(&mut walk.pass).bounded(self.limit);
        let texts = cube.statements.iter().map(|statement| walk.pass.statements().text(*statement));
        Ok(CubeAnswer {
            statements: texts.collect(),
            heading: scope.capture.heading(walk),
            filter: scope.filter.text(),
            kinds: scope.capture.events().iter().map(EventKind::of).collect(),
            cube,
            remarks: walk.remarks(None),
            unread: walk.unread(),
        })
    }
}
