//! The questions of the report to a capture, in two walks: the second depends on the results of the first.

use crate::findings::{findings, Finding};
use crate::measures::{measures, Measure};
use crate::names::Named;
use hardmeter_answers::{
    AnnotateAnswer, AnnotateQuestion, Answer, Answers, AnswersError, CubeAnswer, CubeQuestion, Heading,
    PagesAnswer, PagesQuestion, QualityAnswer, Question, RoutineWanted, SharingAnswer, SharingQuestion,
    WhyAnswer, WhyQuestion,
};
use hardmeter_evidence::page::Section;

/// Relations whose pages are drawn.
const PAGES: usize = 4;
/// Routines that are listed.
const LISTINGS: usize = 5;
/// Contended lines that are shown.
const LINES: usize = 12;

/// The report of a capture.
///
/// ```
/// use hardmeter_answers::Answers;
/// use hardmeter_html::HtmlReport;
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../answers/tests/common/capture.rs")); }
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("hardmeter.data");
/// # example::capture(&file);
/// let report = HtmlReport::of(&Answers::open(&file)?)?;
/// let page = report.html();
/// # assert!(page.starts_with("<!DOCTYPE html>") && page.contains("id=\"findings\""));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HtmlReport {
    /// The server, where its objects were recorded.
    pub(crate) server: Option<String>,
    pub(crate) cube: CubeAnswer,
    pub(crate) measures: Vec<Measure>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) why: WhyAnswer,
    pub(crate) sharing: Option<SharingAnswer>,
    pub(crate) quality: Option<QualityAnswer>,
    pub(crate) pages: Vec<PagesAnswer>,
    pub(crate) listings: Vec<AnnotateAnswer>,
    /// A section that the caller adds before the last chapter.
    pub(crate) added: Option<Section>,
}

impl HtmlReport {
    /// Computes everything that the report shows of a capture.
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn of(answers: &Answers) -> Result<HtmlReport, AnswersError> {
        let mut first = answers
            .each_answer(&[
                Question::Cube(CubeQuestion::default()),
                Question::Why(WhyQuestion::default()),
                Question::Sharing(SharingQuestion { lines: Some(LINES), ..SharingQuestion::default() }),
                Question::Quality,
            ])?
            .into_iter();
        let (Some(Answer::Cube(cube)), Some(Answer::Why(why))) =
            (first.next().transpose()?, first.next().transpose()?)
        else {
            unreachable!("answers come in the order of their questions");
        };
        let sharing = match first.next() {
            Some(Ok(Answer::Sharing(sharing))) => Some(sharing),
            _ => None,
        };
        let quality = match first.next() {
            Some(Ok(Answer::Quality(quality))) => Some(quality),
            _ => None,
        };
        let measures = measures(&cube);
        let findings = findings(&cube, &measures);
        let mut report = HtmlReport {
            server: answers.capture().object_notes().map(|notes| notes.server.clone()),
            cube,
            measures,
            findings,
            why,
            sharing,
            quality,
            pages: Vec::new(),
            listings: Vec::new(),
            added: None,
        };
        report.ask_deeper(answers)?;
        Ok(report)
    }

    /// Computes the pages of the relations and the instructions of the routines that cost most.
    fn ask_deeper(&mut self, answers: &Answers) -> Result<(), AnswersError> {
        let named = Named::new(&self.cube);
        let main = self.measures.first();
        let relations = main.map_or(Vec::new(), |main| named.relations(main, PAGES));
        let routines = main.map_or(Vec::new(), |main| named.routines(main, LISTINGS));
        let mut questions: Vec<Question> =
            relations.into_iter().map(|relation| Question::Pages(PagesQuestion { relation })).collect();
        let routine = |name: String| name.parse::<RoutineWanted>().ok().map(AnnotateQuestion::new);
        questions.extend(routines.into_iter().filter_map(routine).map(Question::Annotate));
        if questions.is_empty() {
            return Ok(());
        }
        // If the side file does not have a relation, the whole request fails; the others are then requested
        // separately.
        let found = match answers.each_answer(&questions) {
            Ok(found) => found,
            Err(_) => {
                questions.retain(|question| matches!(question, Question::Annotate(_)));
                answers.each_answer(&questions)?
            }
        };
        for answer in found.into_iter().flatten() {
            match answer {
                Answer::Pages(pages) if !pages.pages.is_empty() => self.pages.push(pages),
                Answer::Annotate(listing) => self.listings.push(listing),
                _ => {}
            }
        }
        Ok(())
    }

    /// The first process of the recorded server, if its objects were recorded.
    pub fn server_process(&self) -> Option<i32> {
        let (_, process) = self.server.as_ref()?.split_once("(process ")?;
        process.split(')').next()?.trim().parse().ok()
    }

    /// The report with a chapter that is not from the capture, before the last one.
    pub fn with_chapter(mut self, chapter: Option<Section>) -> HtmlReport {
        self.added = chapter;
        self
    }

    /// How the capture was recorded.
    pub fn heading(&self) -> &Heading {
        &self.cube.heading
    }

    /// The number of samples in the report.
    pub fn samples(&self) -> u64 {
        self.cube.cube.samples()
    }

    /// Parts of the capture that could not be read.
    pub fn unread(&self) -> &[String] {
        &self.cube.unread
    }
}
