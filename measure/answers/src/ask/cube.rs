//! All samples, by everything that a reader may filter by.

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

/// How much to keep.
#[derive(Clone, Copy, Debug)]
pub struct CubeQuestion {
    /// Rows at most; more are merged ([`CubeRows::coarsened`]).
    pub limit: usize,
}

impl Default for CubeQuestion {
    /// What a page of some hundred kilobytes holds.
    fn default() -> Self {
        CubeQuestion { limit: 50_000 }
    }
}

/// All samples, by everything that a reader may filter by.
#[derive(Clone, Debug, Serialize)]
pub struct CubeAnswer {
    /// How the capture came to be.
    pub heading: Heading,
    /// The filter in words, if samples were filtered.
    pub filter: Option<String>,
    /// What each event of the heading counts.
    pub kinds: Vec<EventKind>,
    /// The texts of the rows' statements.
    pub statements: Vec<Arc<str>>,
    /// The rows.
    pub cube: CubeRows,
    /// What a reader must know besides.
    pub remarks: Vec<Remark>,
    /// What could not be read of the capture.
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
