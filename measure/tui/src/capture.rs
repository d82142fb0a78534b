//! The chapters of a capture: the answers of one walk, as the commands print them.

use crate::browser::{Chapters, RoutineRow};
use hardmeter_answers::{
    AnnotateQuestion, Answer, Answers, AnswersError, Dimension, QueriesQuestion, Question, Ranking,
    SharingQuestion, TopAnswer, TopQuestion, WhyQuestion,
};
use hardmeter_answers::{ObjectsQuestion, Value};
use hardmeter_views::{
    grouped, percent, Listing, ObjectsReport, QueriesReport, SharingDetail, SharingReport, Style, TopReport,
    WhyReport,
};

/// A capture's answers.
pub struct CaptureChapters {
    answers: Answers,
    top: TopReport,
    why: WhyReport,
    objects: ObjectsReport,
    queries: QueriesReport,
    sharing: SharingReport,
    routines: Vec<RoutineRow>,
}

const NAMES: [&str; 6] = ["Findings", "Routines", "Objects", "Statements", "Why", "Sharing"];
const ROUTINES: usize = 1;
/// Rows of a table in a chapter.
const ROWS: usize = 200;

impl CaptureChapters {
    /// Asks all questions by one walk.
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn new(answers: Answers) -> Result<CaptureChapters, AnswersError> {
        let top = TopQuestion { by: vec![Dimension::Routine], limit: Some(ROWS), ..TopQuestion::default() };
        let objects = ObjectsQuestion { limit: Some(ROWS), ..ObjectsQuestion::default() };
        let queries = QueriesQuestion { limit: Some(ROWS), ..QueriesQuestion::default() };
        let found = answers.walk(&[
            Question::Top(top),
            Question::Why(WhyQuestion::default()),
            Question::Objects(objects),
            Question::Queries(queries),
            Question::Sharing(SharingQuestion::default()),
        ])?;
        let Ok(
            [Answer::Top(top), Answer::Why(why), Answer::Objects(objects), Answer::Queries(queries), Answer::Sharing(sharing)],
        ) = <[Answer; 5]>::try_from(found)
        else {
            unreachable!("each question has its own answer")
        };
        let ranking = answers.capture().ranking();
        Ok(CaptureChapters {
            answers,
            routines: routine_rows(&top, ranking),
            top: TopReport(top),
            why: WhyReport(why),
            objects: ObjectsReport(objects),
            queries: QueriesReport(queries),
            sharing: SharingReport(sharing),
        })
    }
}

/// The rows of all events, each event by what its routines cost.
fn routine_rows(top: &TopAnswer, ranking: Ranking) -> Vec<RoutineRow> {
    let mut rows = Vec::new();
    for table in &top.tables {
        let event = table.event.and_then(|event| top.heading.events.get(event.0));
        let event = event.map_or(String::new(), |event| event.name.clone());
        let value = |values: &[Value], wanted: Dimension| {
            let at = table.columns.iter().position(|column| *column == wanted);
            at.map_or(String::new(), |at| hardmeter_views::printable(&values[at].to_string()))
        };
        rows.extend(table.rows.iter().map(|row| RoutineRow {
            event: event.clone(),
            cost: match (ranking, table.latency.sum.0) {
                (Ranking::Stall, all @ 1..) => {
                    format!("{:.2} % stall", row.latency.sum.0 as f64 * 100.0 / all as f64)
                }
                _ => percent(row.share),
            },
            samples: grouped(row.share.count),
            routine: value(&row.values, Dimension::Routine),
            image: value(&row.values, Dimension::Image),
        }));
    }
    rows
}

impl Chapters for CaptureChapters {
    fn title(&self) -> String {
        let heading = &self.top.heading;
        format!("{}: {} samples", heading.file, grouped(heading.samples()))
    }

    fn names(&self) -> Vec<String> {
        NAMES.map(str::to_string).to_vec()
    }

    fn text(&mut self, chapter: usize, width: usize) -> String {
        let style = Style { color: false, width: Some(width) };
        match chapter {
            0 => {
                let mut text = self.top.render(style, false);
                let sentences = self.objects.sentences().into_iter().chain(self.queries.sentences());
                let sentences: Vec<String> = sentences.collect();
                text.insert_str(0, &format!("{}\n\n", hardmeter_views::sentences_text(&sentences, style)));
                text
            }
            ROUTINES => self.top.render(style, true),
            2 => self.objects.render(style, true),
            3 => self.queries.render(style, true),
            4 => self.why.render(style, true),
            _ => self.sharing.render(style, SharingDetail { lines: 10, rows: 20 }, true),
        }
    }

    fn routines(&self, chapter: usize) -> Option<&[RoutineRow]> {
        (chapter == ROUTINES).then_some(&self.routines)
    }

    fn annotate(&mut self, routine: &str, width: usize) -> Result<String, String> {
        let Ok(wanted) = routine.parse();
        let listing =
            self.answers.annotate(&AnnotateQuestion::new(wanted)).map_err(|error| error.to_string())?;
        Ok(Listing(listing).render(Style { color: false, width: Some(width) }, true))
    }
}
