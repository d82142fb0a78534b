//! Several questions by one walk.

use super::annotate::{AnnotateAnswer, AnnotateInquiry, AnnotateQuestion};
use super::cube::{CubeAnswer, CubeInquiry, CubeQuestion};
use super::inquiry::{Inquiry, Needs, Scope};
use super::objects::{ObjectsAnswer, ObjectsInquiry, ObjectsQuestion};
use super::pages::{PagesAnswer, PagesInquiry, PagesQuestion};
use super::quality::{QualityAnswer, QualityInquiry};
use super::queries::{QueriesAnswer, QueriesInquiry, QueriesQuestion};
use super::sharing::{SharingAnswer, SharingInquiry, SharingQuestion};
use super::top::{TopAnswer, TopInquiry, TopQuestion};
use super::why::{WhyAnswer, WhyInquiry, WhyQuestion};
use crate::capture::Walk;
use crate::error::AnswersError;
use crate::pass::{Located, Pass};
use crate::symbols::SymbolNames;
use hardmeter_samples::model::Sample;
use serde::Serialize;

/// A question to a capture.
#[derive(Clone, Debug)]
pub enum Question {
    /// Where the misses are.
    Top(TopQuestion),
    /// Why they happen.
    Why(WhyQuestion),
    /// On what data they are.
    Objects(ObjectsQuestion),
    /// For whom they are.
    Queries(QueriesQuestion),
    /// Contended lines.
    Sharing(SharingQuestion),
    /// Where on the pages of a relation they are.
    Pages(PagesQuestion),
    /// Where in a routine they are.
    Annotate(AnnotateQuestion),
    /// All samples, by everything that a reader may filter by.
    Cube(CubeQuestion),
    /// How far the samples can be trusted.
    Quality,
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Where the misses are.
    Top(TopAnswer),
    /// Why they happen.
    Why(WhyAnswer),
    /// On what data they are.
    Objects(ObjectsAnswer),
    /// For whom they are.
    Queries(QueriesAnswer),
    /// Contended lines.
    Sharing(SharingAnswer),
    /// Where on the pages of a relation they are.
    Pages(PagesAnswer),
    /// Where in a routine they are.
    Annotate(AnnotateAnswer),
    /// All samples, by everything that a reader may filter by.
    Cube(CubeAnswer),
    /// How far the samples can be trusted.
    Quality(QualityAnswer),
}

macro_rules! inquiries {
    ($($kind:ident($inquiry:ty)),*) => {
        /// A question of any kind while it is collected for.
        enum Any {
            $($kind(Box<$inquiry>)),*
        }

        impl Inquiry for Any {
            type Answer = Answer;

            fn needs(&self) -> Needs {
                match self {
                    $(Any::$kind(inquiry) => inquiry.needs()),*
                }
            }

            fn add(&mut self, pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, located: Located) {
                match self {
                    $(Any::$kind(inquiry) => inquiry.add(pass, sample, located)),*
                }
            }

            fn finish(self, scope: &Scope<'_>, walk: &mut Walk) -> Result<Answer, AnswersError> {
                match self {
                    $(Any::$kind(inquiry) => inquiry.finish(scope, walk).map(Answer::$kind)),*
                }
            }
        }
    };
}

inquiries!(
    Top(TopInquiry),
    Why(WhyInquiry),
    Objects(ObjectsInquiry),
    Queries(QueriesInquiry),
    Sharing(SharingInquiry),
    Pages(PagesInquiry),
    Annotate(AnnotateInquiry),
    Cube(CubeInquiry),
    Quality(QualityInquiry)
);

/// Questions that share a walk.
pub(crate) struct Several(Vec<Any>);

impl Several {
    pub(crate) fn new(questions: &[Question], scope: &Scope<'_>) -> Result<Several, AnswersError> {
        let capture = scope.capture;
        let begin = |question: &Question| -> Result<Any, AnswersError> {
            Ok(match question {
                Question::Top(question) => Any::Top(Box::new(TopInquiry::new(question, capture))),
                Question::Why(question) => Any::Why(Box::new(WhyInquiry::new(question, capture))),
                Question::Objects(question) => Any::Objects(Box::new(ObjectsInquiry::new(question, capture))),
                Question::Queries(question) => Any::Queries(Box::new(QueriesInquiry::new(question, capture))),
                Question::Sharing(question) => Any::Sharing(Box::new(SharingInquiry::new(question, scope)?)),
                Question::Pages(question) => Any::Pages(Box::new(PagesInquiry::new(question, capture)?)),
                Question::Annotate(question) => Any::Annotate(Box::new(AnnotateInquiry::new(question))),
                Question::Cube(question) => Any::Cube(Box::new(CubeInquiry::new(question))),
                Question::Quality => Any::Quality(Box::default()),
            })
        };
        Ok(Several(questions.iter().map(begin).collect::<Result<_, _>>()?))
    }
}

impl Inquiry for Several {
    type Answer = Vec<Result<Answer, AnswersError>>;

    fn needs(&self) -> Needs {
        self.0.iter().map(Inquiry::needs).fold(Needs::default(), Needs::and)
    }

    fn add(&mut self, pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, located: Located) {
        for inquiry in &mut self.0 {
            inquiry.add(pass, sample, located);
        }
    }

    fn finish(self, scope: &Scope<'_>, walk: &mut Walk) -> Result<Self::Answer, AnswersError> {
        Ok(self.0.into_iter().map(|inquiry| inquiry.finish(scope, walk)).collect())
    }
}
