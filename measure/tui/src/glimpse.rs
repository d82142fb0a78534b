//! The findings of a capture while it is being recorded.
//!
//! The file is read from its begin each time: it has events, samples and mappings, but no side files yet, so code and
//! causes are known, while objects and the texts of statements come with the finished capture.

use hardmeter_answers::{Answer, Answers, AnswersError, Dimension, Question, Table, TopQuestion, Value};
use hardmeter_views::{grouped, percent, printable, stall_share};
use std::path::Path;

/// Rows of an event.
const ROWS: usize = 3;

/// The strongest findings of a capture so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// Its events with samples.
    pub events: Vec<GlimpseEvent>,
}

/// An event so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlimpseEvent {
    /// Its name.
    pub name: String,
    /// Its samples.
    pub samples: u64,
    /// The causes, most frequent first: `capacity 89.33 %`; empty if causes are not recorded.
    pub causes: Vec<String>,
    /// The routines that cost most.
    pub routines: Vec<GlimpseRow>,
}

/// A routine so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlimpseRow {
    /// Its share of the event's stall where that is known, else of its samples.
    pub cost: String,
    /// Its samples.
    pub samples: u64,
    /// Its name.
    pub routine: String,
}

impl Glimpse {
    /// Reads the written part of a capture.
    ///
    /// # Errors
    /// If the file cannot be read, or has no events yet.
    pub fn of_file(path: &Path) -> Result<Glimpse, AnswersError> {
        let by = |dimension| {
            let (by, limit) = (vec![dimension], Some(ROWS));
            Question::Top(TopQuestion { by, limit, ..TopQuestion::default() })
        };
        let answers = Answers::open(path)?;
        let found = answers.walk(&[by(Dimension::Routine), by(Dimension::Cause)])?;
        let mut tables = found.into_iter().map(|answer| match answer {
            Answer::Top(top) => (top.heading, top.tables),
            _ => unreachable!("both questions are of the same kind"),
        });
        let (Some((heading, routines)), Some((_, causes))) = (tables.next(), tables.next()) else {
            return Ok(Glimpse::default());
        };
        let events = routines.iter().filter(|table| table.total > 0).map(|table| {
            let event = table.event.and_then(|event| heading.events.get(event.0));
            let causes = causes.iter().find(|causes| causes.event == table.event);
            GlimpseEvent {
                name: event.map_or(String::new(), |event| printable(&event.name)),
                samples: table.total,
                causes: causes.map(shares).unwrap_or_default(),
                routines: table.rows.iter().map(|row| routine(table, row)).collect(),
            }
        });
        Ok(Glimpse { events: events.collect() })
    }

    /// Samples of all events.
    pub fn samples(&self) -> u64 {
        self.events.iter().map(|event| event.samples).sum()
    }
}

/// `capacity 89.33 %`
fn shares(table: &Table) -> Vec<String> {
    let known = table.rows.iter().filter(|row| row.values.first().is_some_and(|one| *one != Value::Absent));
    known.map(|row| format!("{} {}", row.values[0], percent(row.share))).collect()
}

fn routine(table: &Table, row: &hardmeter_answers::Row) -> GlimpseRow {
    let cost = match row.latency.stall_of(&table.latency) {
        Some(stall) => stall_share(stall),
        None => format!("{} of {}", percent(row.share), grouped(row.share.total)),
    };
    let at = table.columns.iter().position(|column| *column == Dimension::Routine);
    let name = at.map_or(String::new(), |at| printable(&row.values[at].to_string()));
    GlimpseRow { cost, samples: row.share.count, routine: name }
}
