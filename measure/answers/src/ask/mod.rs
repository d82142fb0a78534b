//! Questions about a capture, and their answers: plain data that can be serialized.
//!
//! ```text
//!   Answers::open(file) ── why, objects, queries, sharing, top, pages, annotate, quality: one question, one walk
//!                      └── walk(&[Question]): several questions, the same walk for all
//!   a question ──> Inquiry (needs, add, finish) <── one walk over the capture's records
//! ```

mod annotate;
mod cube;
pub(crate) mod inquiry;
mod lines;
mod objects;
mod pages;
mod quality;
mod queries;
mod several;
mod sharing;
mod top;
mod why;

pub use annotate::{AnnotateAnswer, AnnotateQuestion};
pub use cube::{CubeAnswer, CubeQuestion};
pub use lines::{AccessReport, CodeName, FightReport, GroupReport, LineReport};
pub use objects::{ObjectsAnswer, ObjectsQuestion};
pub use pages::{PagesAnswer, PagesQuestion};
pub use quality::QualityAnswer;
pub use queries::{QueriesAnswer, QueriesQuestion};
pub use several::{Answer, Question};
pub use sharing::{SharingAnswer, SharingQuestion};
pub use top::{TopAnswer, TopQuestion};
pub use why::{WhyAnswer, WhyQuestion};

use crate::capture::{Capture, Visitor, Walk};
use crate::compare::{CompareInquiry, CompareRun};
use crate::error::AnswersError;
use crate::filter::Filter;
use crate::pass::{Located, Pass};
use crate::symbols::SymbolNames;
use annotate::AnnotateInquiry;
use cube::CubeInquiry;
use hardmeter_samples::model::Sample;
use hardmeter_symbols::SymbolizerOptions;
use inquiry::{Inquiry, Scope};
use objects::ObjectsInquiry;
use pages::PagesInquiry;
use quality::QualityInquiry;
use queries::QueriesInquiry;
use sharing::SharingInquiry;
use std::ops::ControlFlow;
use std::path::Path;
use top::TopInquiry;
use why::WhyInquiry;

/// An open capture that answers questions.
///
/// Each method walks over the capture once ([`sharing`](Answers::sharing), and
/// [`annotate`](Answers::annotate) with registers, twice); [`walk`](Answers::walk) serves several questions by one
/// walk. What comes out is data: a program can use it, serialize it, or have it drawn by `measure/views`.
///
/// ```
/// use hardmeter_answers::{Answers, TopQuestion};
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("hardmeter.data");
/// # example::capture(&file);
/// let answers = Answers::open(&file)?;
/// let top = answers.top(&TopQuestion::default())?;
/// for table in &top.tables {
///     println!("{:?}: {} samples", table.event, table.total);
/// }
/// # assert_eq!((top.heading.samples(), top.tables[0].total), (104, 100));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Answers {
    capture: Capture,
    filter: Filter,
    symbols: SymbolizerOptions,
    progress: Box<dyn Fn(u64)>,
}

impl Answers {
    /// Opens a capture of hardmeter or perf; `-` is standard input.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a capture.
    pub fn open(path: impl AsRef<Path>) -> Result<Answers, AnswersError> {
        Ok(Answers {
            capture: Capture::open(path.as_ref())?,
            filter: Filter::default(),
            symbols: SymbolizerOptions::default(),
            progress: Box::new(|_| {}),
        })
    }

    /// Answers of samples that pass a filter alone. [`Capture::find_event`] finds an event by its name.
    pub fn of_samples(mut self, filter: Filter) -> Answers {
        self.filter = filter;
        self
    }

    /// Names come from where these options say.
    pub fn with_symbols(mut self, symbols: SymbolizerOptions) -> Answers {
        self.symbols = symbols;
        self
    }

    /// Calls `progress` now and then during a walk, with the number of samples so far.
    pub fn watched_by(mut self, progress: impl Fn(u64) + 'static) -> Answers {
        self.progress = Box::new(progress);
        self
    }

    /// The capture itself: its events, header and side files.
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// The filter that selects the samples.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Why misses happen: cause by cause, with the evidence.
    ///
    /// ```
    /// use hardmeter_answers::{Answers, WhyQuestion};
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("hardmeter.data");
    /// # example::capture(&file);
    /// let why = Answers::open(&file)?.why(&WhyQuestion::default())?;
    /// let first = &why.events[0].causes[0];
    /// println!("{}: {} of {} misses", first.cause.name(), first.share.count, first.share.total);
    /// # assert_eq!((first.cause.name(), first.share.count, first.share.total), ("conflict", 90, 100));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn why(&self, question: &WhyQuestion) -> Result<WhyAnswer, AnswersError> {
        self.ask(WhyInquiry::new(question, &self.capture))
    }

    /// On what data the misses are.
    ///
    /// ```
    /// use hardmeter_answers::{Answers, ObjectsQuestion};
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("hardmeter.data");
    /// # example::capture(&file);
    /// let objects = Answers::open(&file)?.objects(&ObjectsQuestion::default())?;
    /// let row = &objects.tables[0].rows[0];
    /// println!("{} samples on {}", row.share.count, row.names[0]);
    /// # assert_eq!((row.share.count, &*row.names[0]), (100, "shared memory"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn objects(&self, question: &ObjectsQuestion) -> Result<ObjectsAnswer, AnswersError> {
        self.ask(ObjectsInquiry::new(question, &self.capture))
    }

    /// For whom the misses are: by statement, operator, phase, role.
    ///
    /// ```
    /// use hardmeter_answers::{Answers, QueriesQuestion, QueryColumn};
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("hardmeter.data");
    /// # example::capture(&file);
    /// let question = QueriesQuestion { columns: vec![QueryColumn::Statement], ..Default::default() };
    /// let queries = Answers::open(&file)?.queries(&question)?;
    /// println!("{} of {} samples", queries.tables[0].rows[0].share.count, queries.tables[0].total);
    /// # assert_eq!((queries.tables[0].rows[0].share.count, queries.tables[0].total), (100, 100));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn queries(&self, question: &QueriesQuestion) -> Result<QueriesAnswer, AnswersError> {
        self.ask(QueriesInquiry::new(question, &self.capture))
    }

    /// The contended cache lines. Two walks: all lines are counted before the worst are studied.
    ///
    /// ```
    /// use hardmeter_answers::{Answers, SharingQuestion};
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("hardmeter.data");
    /// # example::capture(&file);
    /// let sharing = Answers::open(&file)?.sharing(&SharingQuestion::default())?;
    /// println!("{} contended lines of {} samples", sharing.contended, sharing.samples);
    /// # assert_eq!((sharing.contended, sharing.lines().len()), (0, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn sharing(&self, question: &SharingQuestion) -> Result<SharingAnswer, AnswersError> {
        let inquiry = SharingInquiry::new(question, &self.scope())?;
        self.ask(inquiry)
    }

    /// Where the misses are: by address, routine, process, level, or any other columns.
    ///
    /// ```
    /// use hardmeter_answers::{Answers, Dimension, TopQuestion};
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("hardmeter.data");
    /// # example::capture(&file);
    /// let question = TopQuestion { by: vec![Dimension::Process], limit: None, ..Default::default() };
    /// let top = Answers::open(&file)?.top(&question)?;
    /// println!("{}: {}", top.tables[0].rows[0].values[0], top.tables[0].rows[0].share.count);
    /// # assert_eq!(top.tables[0].rows[0].values[0].to_string(), "fighter");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn top(&self, question: &TopQuestion) -> Result<TopAnswer, AnswersError> {
        self.ask(TopInquiry::new(question, &self.capture))
    }

    /// All misses on the pages of a table or index, folded onto one page.
    ///
    /// ```
    /// use hardmeter_answers::{Answers, PagesQuestion};
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("hardmeter.data");
    /// # example::capture(&file);
    /// let pages = Answers::open(&file)?.pages(&PagesQuestion { relation: "public.orders".into() })?;
    /// for page in &pages.pages {
    ///     println!("{} samples", page.share.count);
    /// }
    /// # assert!(pages.relation.is_none(), "no server was recorded: {:?}", pages.relation);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the capture cannot be read, or the name leads to no relation, or to several.
    pub fn pages(&self, question: &PagesQuestion) -> Result<PagesAnswer, AnswersError> {
        self.ask(PagesInquiry::new(question, &self.capture)?)
    }

    /// A routine, instruction by instruction, with the samples of each event.
    ///
    /// ```
    /// use hardmeter_answers::{AnnotateQuestion, Answers, AnswersError};
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("hardmeter.data");
    /// # example::capture(&file);
    /// let question = AnnotateQuestion::new("LWLockRelease".parse()?);
    /// match Answers::open(&file)?.annotate(&question) {
    ///     Ok(listing) => println!("{} instructions", listing.annotation.instructions.len()),
    ///     Err(AnswersError::NoSuchRoutine { remedy, .. }) => println!("not sampled: {remedy}"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the capture cannot be read, no sample lies in the routine, or its code is not at hand.
    pub fn annotate(&self, question: &AnnotateQuestion) -> Result<AnnotateAnswer, AnswersError> {
        self.ask(AnnotateInquiry::new(question))
    }

    /// How far the samples can be trusted.
    ///
    /// ```
    /// use hardmeter_answers::Answers;
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("hardmeter.data");
    /// # example::capture(&file);
    /// let quality = Answers::open(&file)?.quality()?;
    /// let (name, event) = &quality.events[0];
    /// println!("{name}: {} of {} samples have a data address", event.with_address, event.samples);
    /// # assert_eq!((name.as_str(), event.with_address, event.samples), ("l1d-miss", 100, 100));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn quality(&self) -> Result<QualityAnswer, AnswersError> {
        self.ask(QualityInquiry::default())
    }

    /// All samples, by event, statement, object, cause, call path and time at once: for views that filter by themselves.
    ///
    /// ```
    /// use hardmeter_answers::{Answers, CubeQuestion};
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("hardmeter.data");
    /// # example::capture(&file);
    /// let answer = Answers::open(&file)?.cube(&CubeQuestion::default())?;
    /// let cold = answer.cube.rows.iter().filter(|(key, _)| key.cause.is_some_and(|cause| cause.name() == "cold"));
    /// println!("{} cold misses", cold.map(|(_, sum)| sum.samples).sum::<u64>());
    /// # assert_eq!(answer.cube.samples(), 104);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn cube(&self, question: &CubeQuestion) -> Result<CubeAnswer, AnswersError> {
        self.ask(CubeInquiry::new(question))
    }

    /// This run's side of a comparison: its samples by names that mean the same in another capture.
    ///
    /// ```
    /// use hardmeter_answers::{Answers, CompareColumn, Comparison};
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("hardmeter.data");
    /// # example::capture(&file);
    /// let (before, after) = (Answers::open(&file)?.compare_run()?, Answers::open(&file)?.compare_run()?);
    /// let comparison = Comparison::of(&[before], &[after], &[vec![CompareColumn::Object]], None)?;
    /// for event in &comparison.events {
    ///     println!("{}: {} rows differ", event.name, event.tables[0].different);
    /// }
    /// # assert_eq!(comparison.events.iter().map(|event| event.tables[0].different).sum::<usize>(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn compare_run(&self) -> Result<CompareRun, AnswersError> {
        self.ask(CompareInquiry::default())
    }

    /// Answers several questions by one walk over the capture, in their order.
    ///
    /// ```
    /// use hardmeter_answers::{Answer, Answers, Question};
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("hardmeter.data");
    /// # example::capture(&file);
    /// let questions = [Question::Why(Default::default()), Question::Objects(Default::default())];
    /// let answers = Answers::open(&file)?.walk(&questions)?;
    /// let [Answer::Why(why), Answer::Objects(objects)] = answers.as_slice() else { unreachable!() };
    /// println!("{} and {}", why.events[0].misses, objects.coverage.with_address);
    /// # assert_eq!((why.events[0].misses, objects.coverage.with_address), (100, 104));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the capture cannot be read, or any of the questions has no answer.
    pub fn walk(&self, questions: &[Question]) -> Result<Vec<Answer>, AnswersError> {
        self.each_answer(questions)?.into_iter().collect()
    }

    /// As [`walk`](Answers::walk), but a question that fails does not affect the others: for example a
    /// routine whose code is missing, or a relation that was not recorded.
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn each_answer(
        &self,
        questions: &[Question],
    ) -> Result<Vec<Result<Answer, AnswersError>>, AnswersError> {
        self.ask(several::Several::new(questions, &self.scope())?)
    }

    /// The report: everything that `hardmeter report`, `why`, `objects`, `queries` and `sharing` show by default, by one
    /// walk.
    ///
    /// ```
    /// use hardmeter_answers::{Answer, Answers};
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/capture.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("hardmeter.data");
    /// # example::capture(&file);
    /// let report = Answers::open(&file)?.report()?;
    /// let json = serde_json::to_string(&report)?;
    /// # assert!(report.iter().any(|answer| matches!(answer, Answer::Why(_))) && json.contains("\"causes\""));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn report(&self) -> Result<Vec<Answer>, AnswersError> {
        self.walk(&[
            Question::Top(TopQuestion::default()),
            Question::Why(WhyQuestion::default()),
            Question::Objects(ObjectsQuestion::default()),
            Question::Queries(QueriesQuestion::default()),
            Question::Sharing(SharingQuestion::default()),
        ])
    }

    /// Hands every sample that passes the filter to `visit`, in order of time and with names of code: for exports and
    /// for questions that are not among these.
    ///
    /// # Errors
    /// If the capture cannot be read, or with the error of `visit`.
    pub fn each<E: From<AnswersError>>(&self, visit: &mut Visitor<'_, E>) -> Result<Walk, E> {
        self.capture.walk(self.scope().walk(true), visit)
    }

    /// As [`each`](Answers::each), and data has the names of the side file on objects ([`Pass::object`]).
    ///
    /// # Errors
    /// If the capture cannot be read, or with the error of `visit`.
    pub fn each_with_objects<E: From<AnswersError>>(&self, visit: &mut Visitor<'_, E>) -> Result<Walk, E> {
        self.capture.walk_with_objects(self.scope().walk(true), visit)
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            capture: &self.capture,
            filter: &self.filter,
            symbols: &self.symbols,
            progress: &*self.progress,
        }
    }

    fn ask<I: Inquiry>(&self, mut inquiry: I) -> Result<I::Answer, AnswersError> {
        let (scope, needs) = (self.scope(), inquiry.needs());
        let options = scope.walk(needs.places);
        let mut walk = {
            let mut visit = |pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, located: Located| {
                inquiry.add(pass, sample, located);
                Ok::<_, AnswersError>(ControlFlow::Continue(()))
            };
            match needs.objects {
                true => self.capture.walk_with_objects(options, &mut visit)?,
                false => self.capture.walk(options, &mut visit)?,
            }
        };
        inquiry.finish(&scope, &mut walk)
    }
}
