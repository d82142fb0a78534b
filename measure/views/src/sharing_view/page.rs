//! The report on sharing as a self-contained page.

use super::movement::movement_text;
use super::text::{accesses, effect_text, fights, group_text, objects_text, verdict_text};
use super::{SharingDetail, SharingReport};
use crate::html::page;
use crate::layout::{printable, TextTable};
use hardmeter_answers::LineReport;
use hardmeter_evidence::page::{table, Section};
use maud::{html, Markup};

impl SharingReport {
    /// The report as one HTML file.
    pub fn html(&self, detail: SharingDetail) -> String {
        let mut sections = vec![Section {
            id: "lines".into(),
            title: "Contended cache lines".into(),
            body: html! {
                @if !self.sentences().is_empty() {
                    ul { @for sentence in &self.sentences() { li { (printable(sentence)) } } }
                }
                p { (self.summary()) }
                (of_text(&self.table(), 7))
                @for missing in &self.missing { p { (missing) } }
                @if !self.remarks.is_empty() {
                    ul { @for remark in &self.remarks { li { (printable(&remark.to_string())) } } }
                }
            },
        }];
        for (rank, line) in self.lines().iter().enumerate().take(detail.lines) {
            let title = format!("{}: {}", rank + 1, printable(&objects_text(&line.objects)));
            let body = self.line_markup(line, detail.rows);
            sections.push(Section { id: format!("line-{}", rank + 1), title, body });
        }
        page("Sharing of cache lines", &self.heading, sections)
    }

    fn line_markup(&self, line: &LineReport, rows: usize) -> Markup {
        let seen = line.address.map(|(pid, address)| format!(", {address} in process {pid}"));
        html! {
            p { (line.line) (seen.unwrap_or_default()) }
            p { (verdict_text(&line.verdict)) }
            @if let Some(movement) = &line.movement {
                p { (movement_text(movement, line.verdict.kind)) }
            }
            (of_text(&accesses(&line.accesses, rows), 0))
            @if !line.fights.is_empty() {
                h3 { "Waits between routines" }
                p { @if line.fights_exact { "exact (simulated)" } @else { "inferred from shares of stores (sampled)" } }
                (of_text(&fights(&line.fights, rows), 1))
            }
            @if let Some(effect) = &line.effect {
                h3 { "Another layout: a cache line for each of" }
                ul { @for group in &line.groups { li { (group_text(group)) } } }
                p { (effect_text(effect, self.total.misses)) }
            }
        }
    }
}

/// A table as on the terminal; its first `numeric` columns are figures.
fn of_text(text: &TextTable, numeric: usize) -> Markup {
    let (titles, rows) = text.titles_and_rows();
    table(&titles, &rows, numeric)
}
