//! All misses on a relation, folded onto one page.

use super::inquiry::{no_notes, remarks_of_notes, Inquiry, Needs, Scope};
use crate::capture::{Capture, Walk};
use crate::error::AnswersError;
use crate::heading::Heading;
use crate::pages::{find_relation, relations, FoldedPage, PageFold, Relation, RelationError};
use crate::pass::{Located, Pass};
use crate::remark::Remark;
use crate::symbols::SymbolNames;
use hardmeter_samples::model::Sample;
use serde::Serialize;

/// The relation whose pages are folded.
#[derive(Clone, Debug)]
pub struct PagesQuestion {
    /// The table or index, with or without its schema.
    pub relation: String,
}

/// The pages of a relation, folded, event by event.
#[derive(Clone, Debug, Serialize)]
pub struct PagesAnswer {
    /// Conditions of the recording.
    pub heading: Heading,
    /// The filter as text, if samples were filtered.
    pub filter: Option<String>,
    /// The relation; `None` if the capture has no relations.
    pub relation: Option<Relation>,
    /// One page per event with samples on it.
    pub pages: Vec<FoldedPage>,
    /// Warnings about this answer.
    pub remarks: Vec<Remark>,
    /// Parts of the capture that could not be read, one sentence each.
    pub unread: Vec<String>,
}

/// Collects the answer to a [`PagesQuestion`]. Without relations the answer holds the heading and a warning,
/// and no page.
pub(crate) struct PagesInquiry {
    relation: Option<(Relation, PageFold)>,
}

impl PagesInquiry {
    pub(crate) fn new(question: &PagesQuestion, capture: &Capture) -> Result<PagesInquiry, AnswersError> {
        let known = capture.object_notes().map(relations).unwrap_or_default();
        let relation = match find_relation(&question.relation, &known) {
            Ok(relation) => Some((relation.clone(), PageFold::new(relation.clone(), capture.line_size()))),
            Err(RelationError::None) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(PagesInquiry { relation })
    }
}

impl Inquiry for PagesInquiry {
    type Answer = PagesAnswer;

    fn needs(&self) -> Needs {
        Needs { places: true, objects: self.relation.is_some() }
    }

    fn add(&mut self, pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, _: Located) {
        if let Some((_, fold)) = &mut self.relation {
            let object = pass.object(sample);
            fold.add(sample, object, pass.objects());
        }
    }

    fn finish(self, scope: &Scope<'_>, walk: &mut Walk) -> Result<PagesAnswer, AnswersError> {
        let (capture, filter) = (scope.capture, scope.filter.text());
        let (heading, unread) = (capture.heading(walk), walk.unread());
        let Some((relation, fold)) = self.relation else {
            let text = format!("no page can be drawn: {}", RelationError::None);
            let mut remarks = vec![Remark::Limit { text }];
            remarks.extend(no_notes(capture));
            remarks.extend(remarks_of_notes(capture));
            return Ok(PagesAnswer { heading, filter, relation: None, pages: Vec::new(), remarks, unread });
        };
        let events = scope.events_shown(walk);
        let index = walk.pass.objects();
        let pages = events.iter().map(|event| fold.page(*event, index));
        let pages: Vec<FoldedPage> = pages.filter(|page| page.share.count > 0).collect();
        let mut remarks = remarks_of_notes(capture);
        if pages.is_empty() {
            let text = format!("no sample that passes the filter lies on a page of {}", relation.name);
            remarks.insert(0, Remark::Limit { text });
        }
        remarks.extend(walk.remarks(None));
        Ok(PagesAnswer { heading, filter, relation: Some(relation), pages, remarks, unread })
    }
}
