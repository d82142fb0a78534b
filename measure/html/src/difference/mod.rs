//! The page of a comparison: sentences, tables, and a differential flame graph.

mod tree;

use crate::script;
use hardmeter_answers::CubeAnswer;
use hardmeter_evidence::page::{Page, Script, Section};
use hardmeter_views::{printable, CompareReport};
use maud::{html, Markup};
use serde_json::{json, Value};
use tree::Tree;

/// Rows of a table; the command's `--full` and `--format json` have all.
const ROWS: usize = 100;

/// A comparison, to be written as one HTML file.
pub struct DifferencePage<'c> {
    comparison: &'c CompareReport,
    data: String,
    chains: bool,
}

impl<'c> DifferencePage<'c> {
    /// The page of a comparison between captures with these samples.
    pub fn of(comparison: &'c CompareReport, a: &[CubeAnswer], b: &[CubeAnswer]) -> DifferencePage<'c> {
        let works = [&comparison.a, &comparison.b].map(|side| side.work);
        let mut names: Vec<String> = Vec::new();
        let events: Vec<Value> = comparison
            .events
            .iter()
            .map(|event| {
                // Shares are of all events of the name, so that both sides have the same total.
                let work = |side: usize| match event.total.rates[side] {
                    rate if rate > 0.0 => total(if side == 0 { a } else { b }, &event.name) / rate,
                    _ => works[side],
                };
                let tree = Tree::of([a, b], &event.name, [work(0), work(1)], comparison.same_builds);
                json!({ "label": comparison.unit_of(event), "time": event.time, "tree": tree.data(&mut names) })
            })
            .collect();
        let chains = a
            .iter()
            .chain(b)
            .all(|cube| cube.heading.events.iter().any(|event| event.totals.with_callchain > 0));
        let data = json!({ "events": events, "names": names }).to_string();
        DifferencePage { comparison, data, chains }
    }

    /// The text of the file.
    pub fn html(&self) -> String {
        let title = "Differences by place";
        let sha256 = script::sha256_of(script::DIFFERENCE);
        Page::new(title, self.sections())
            .with_lead(self.lead(title))
            .with_style(script::STYLE)
            .with_script(Script { code: script::DIFFERENCE, sha256: &sha256, data: &self.data })
            .html()
    }

    fn lead(&self, title: &str) -> Markup {
        let side = |name: &str, files: &[String]| format!("{name}: {}", printable(&files.join(", ")));
        html! {
            h1 { (title) }
            p.conditions { (side("A", &self.comparison.a.files)) }
            p.conditions { (side("B", &self.comparison.b.files)) }
            p.note { (self.comparison.conditions()) }
            noscript { p.alarm { "Scripts do not run here: the flame graph is missing, the tables are whole." } }
        }
    }

    fn sections(&self) -> Vec<Section> {
        let comparison = self.comparison;
        let sentences =
            html! { ul { @for sentence in comparison.sentences() { li { (printable(&sentence)) } } } };
        let mut sections = vec![Section::new("findings", "In a sentence", sentences), self.flame()];
        for (number, (title, rows)) in comparison.tables(ROWS).into_iter().enumerate() {
            let (titles, rows) = rows.titles_and_rows();
            sections.push(Section::new(format!("table-{number}"), title, table(&titles, &rows)));
        }
        if !comparison.notes.is_empty() {
            let notes = html! { ul { @for note in &comparison.notes { li { (printable(note)) } } } };
            sections.push(Section::new("notes", "What else differs", notes));
        }
        sections
    }

    fn flame(&self) -> Section {
        let body = html! {
            div.tools {
                label for="difference-event" { "Event: " select #difference-event {
                    @for (number, event) in self.comparison.events.iter().enumerate() {
                        option value=(number) { (printable(&self.comparison.unit_of(event))) }
                    }
                } }
                button #difference-out type="button" { "Zoom out" }
            }
            p.note {
                "Callers stand above what they call. A box is as wide as the larger side; red: B has more (+), blue: B has less (-), "
                "grey: the same. With the keyboard, arrow keys move, Enter zooms, Escape goes back. The colours say what was "
                "counted; whether chance explains it is in the tables."
            }
            @if !self.chains { p.note { "The captures have no call chains (record --call-graph): there is one level." } }
            div #difference-view .boxes.flame role="group" aria-label="Call paths by difference" {}
            p #difference-rest .note {}
        };
        Section::new("flame", "Which code", body)
    }
}

/// Columns of figures: the star, both sides, change, interval, samples.
const FIGURES: usize = 6;

/// A table whose rows that differ stand out.
fn table(titles: &[String], rows: &[Vec<String>]) -> Markup {
    let number = |column: usize| (column < FIGURES).then_some("number");
    let differs = |row: &[String]| row.first().is_some_and(|star| star.contains('*')).then_some("differs");
    html! {
        div.scroll { table {
            thead { tr {
                @for (column, title) in titles.iter().enumerate() { th class=[number(column)] { (title) } }
            } }
            tbody {
                @for row in rows { tr class=[differs(row)] {
                    @for (column, cell) in row.iter().enumerate() { td class=[number(column)] { (cell) } }
                } }
            }
        } }
    }
}

/// All events of a name.
fn total(cubes: &[CubeAnswer], name: &str) -> f64 {
    let of = |cube: &CubeAnswer| {
        let event = cube.heading.events.iter().position(|event| event.name == name);
        let rows = cube.cube.rows.iter().filter(|(key, _)| event == Some(key.event as usize));
        rows.map(|(_, sum)| sum.events as f64).sum::<f64>()
    };
    cubes.iter().map(of).sum()
}
