//! The sections of the report, from the overview to details: findings, objects, code, statements, the
//! hardware's view, the page, the instruction, and how far to trust it. A chapter without data is left out.

mod code;
mod pages;
mod quality;
mod reuse;
mod sets;
mod sharing;

use crate::ask::HtmlReport;
use crate::findings;
use crate::names::Ranked;
use crate::script;
use hardmeter_evidence::number::{counted, duration, grouped};
use hardmeter_evidence::page::{table, Page, Script, Section};
use hardmeter_samples::model::EventSource;
use hardmeter_views::printable;
use maud::{html, Markup};

/// Rows of the tables that replace drawings without scripts.
const ROWS_WITHOUT_SCRIPT: usize = 25;

impl HtmlReport {
    /// The report as one HTML file.
    pub fn html(&self) -> String {
        let (data, sha256) = (self.data(), script::sha256());
        let title = format!("{}: where it stalls on memory", self.subject());
        Page::new(&title, self.sections())
            .with_lead(self.lead(&title))
            .with_style(script::STYLE)
            .with_script(Script { code: script::CODE, sha256: &sha256, data: &data })
            .html()
    }

    /// The server without its process number, or the file's name.
    fn subject(&self) -> String {
        if let Some(server) = &self.server {
            return printable(server.split(" (").next().unwrap_or_default());
        }
        let file = printable(&self.heading().file);
        file.rsplit('/').next().unwrap_or_default().to_string()
    }

    fn lead(&self, title: &str) -> Markup {
        let heading = self.heading();
        let source = match heading.source {
            EventSource::Hardware => "recorded by the processor's counters",
            EventSource::Simulated => "simulated: counts are of the simulated machine",
            EventSource::Timer => "sampled by the kernel's timer",
            EventSource::Live => "sampled live: time at loads of the running program",
            EventSource::Imported => "recorded by another program",
        };
        let length = heading.duration_ns.map(|ns| match heading.source {
            EventSource::Simulated => format!(" in {} of simulated time", duration(ns)),
            _ => format!(" in {}", duration(ns)),
        });
        html! {
            h1 { (title) }
            p.conditions {
                (source) "; " (counted(self.samples(), "sample")) " of " (counted(heading.processes, "process"))
                (length.unwrap_or_default())
                @if let Some(machine) = &heading.machine { "; " (printable(machine)) }
                @if let Some(filter) = &self.cube.filter { "; only " (printable(filter)) }
                ". " a href="#quality" { "Quality and limits" }
            }
            noscript { p.alarm { "Scripts are disabled: tables replace filters and drawings." } }
        }
    }

    fn sections(&self) -> Vec<Section> {
        let filter =
            Section::untitled("filter-chapter", html! { div #filter role="region" aria-label="Filter" {} });
        let chapters = [
            self.findings_section(),
            Some(filter),
            self.treemap(),
            self.flame(),
            self.statements(),
            self.timeline(),
            self.sets_section(),
            self.sharing_section(),
            self.reuse_section(),
            self.pages_section(),
            self.code_section(),
            self.added.clone(),
            Some(self.quality_section()),
        ];
        chapters.into_iter().flatten().collect()
    }

    fn findings_section(&self) -> Option<Section> {
        let server = self.server.as_deref();
        let advised = self.findings.iter().any(|finding| finding.advice(server).is_some());
        let body = html! {
            @for (index, finding) in self.findings.iter().enumerate() {
                (finding.markup(index + 1, &self.measures, server))
            }
            @if advised {
                p.note { code { "hardmeter tune" } " predicts the gain of remedies on the running server, tries them, and proves what they bring." }
            }
        };
        let title = match self.findings.len() {
            1 => "The strongest finding",
            _ => "The strongest findings",
        };
        (!self.findings.is_empty()).then(|| Section::new("findings", title, body))
    }

    fn treemap(&self) -> Option<Section> {
        let body = html! {
            p.note { "Areas are shares of the measure. A click filters the whole page; with the keyboard, arrow keys move and Enter filters. "
                "Indexes are beside the table that their names begin with." }
            div #treemap-view .boxes.treemap role="group" aria-label="Objects by cost" {}
            p #treemap-rest .note {}
            details { summary { "As a table" } div #treemap-table .scroll {} }
            noscript { (self.table_of(&["class", "name"], |key| {
                let object = &self.cube.cube.objects[key.object? as usize];
                Some(vec![object.class.to_string(), object.name.to_string()])
            })) }
        };
        (!self.cube.cube.objects.is_empty()).then(|| Section::new("treemap", "Which data", body))
    }

    fn flame(&self) -> Option<Section> {
        let with_objects = !self.cube.cube.objects.is_empty();
        let with_statements = !self.cube.statements.is_empty();
        // Without call chains, a flame graph of code has only two levels: the chapters above show more.
        let chains = self.heading().events.iter().any(|event| event.totals.with_callchain > 0);
        let first = if chains {
            ""
        } else if with_statements {
            "statement,object"
        } else {
            "object"
        };
        let option =
            |value: &str, text: &str| html! { option value=(value) selected[value == first] { (text) } };
        let body = html! {
            div.tools {
                label for="flame-by" { "Above the code: "
                    select #flame-by {
                        (option("", "nothing"))
                        @if with_statements { (option("statement", "statements")) }
                        @if with_objects { (option("object", "objects")) }
                        @if with_statements && with_objects { (option("statement,object", "statements, then objects")) }
                    }
                }
                label for="flame-search" { "Find: " input #flame-search type="search" size="18"; }
                button #flame-out type="button" { "Zoom out" }
                span #flame-found role="status" {}
            }
            @if !chains { p.note { "The capture has no call chains (record --call-graph): below a routine are its instructions." } }
            div #flame-view .boxes.flame role="group" aria-label="Call paths by cost" {}
            p #flame-rest .note {}
            noscript { (self.table_of(&["routine", "image"], |key| {
                let frame = self.cube.cube.paths[key.path? as usize].1;
                let frame = &self.cube.cube.frames[frame as usize];
                Some(vec![frame.routine.clone(), frame.image.clone()])
            })) }
        };
        (!self.cube.cube.paths.is_empty()).then(|| Section::new("flame", "Which code", body))
    }

    fn statements(&self) -> Option<Section> {
        let body = html! {
            p.note { "Statements against the objects that cost most. A click on either filters the page." }
            div #statements-view .scroll {}
            noscript { (self.table_of(&["statement"], |key| Some(vec![self.cube.statements[key.statement? as usize].to_string()]))) }
        };
        (!self.cube.statements.is_empty()).then(|| Section::new("statements", "For which statement", body))
    }

    fn timeline(&self) -> Option<Section> {
        let clock = match self.heading().source {
            EventSource::Simulated => "Time is simulated time.",
            _ => "",
        };
        let body = html! {
            p.note { "Drag across the picture, or move the sliders: every chapter follows. " (clock) }
            div #timeline-view {}
            div.tools {
                label for="time-from" { "From " input #time-from type="range" min="0" value="0"; }
                label for="time-to" { "To " input #time-to type="range" min="0" value="0"; }
                span #time-range role="status" {}
            }
        };
        (self.cube.cube.time.steps > 1).then(|| Section::new("timeline", "When", body))
    }

    /// The content of a drawing as a table for readers without scripts: the first measure by the names of
    /// rows.
    fn table_of(
        &self,
        titles: &[&str],
        names: impl Fn(&hardmeter_answers::CubeKey) -> Option<Vec<String>>,
    ) -> Markup {
        let Some(measure) = self.measures.first() else { return html! {} };
        let named = crate::names::Named::new(&self.cube);
        let ranked = named.ranked(measure, |_| true, names);
        let left_out = ranked.len().saturating_sub(ROWS_WITHOUT_SCRIPT);
        let mut heads = vec![measure.label.clone(), "share".into(), "samples".into()];
        heads.extend(titles.iter().map(|title| title.to_string()));
        let row = |Ranked { name, value, samples }: Ranked<Vec<String>>| {
            let share = 100.0 * value as f64 / measure.total.max(1) as f64;
            let mut row = vec![findings::quantity(value, measure), format!("{share:.1} %"), grouped(samples)];
            row.extend(name.iter().map(|name| printable(name)));
            row
        };
        let rows: Vec<Vec<String>> = ranked.into_iter().take(ROWS_WITHOUT_SCRIPT).map(row).collect();
        html! {
            (table(&heads, &rows, 3))
            @if left_out > 0 { p.note { (grouped(left_out as u64)) " more rows are not shown." } }
        }
    }
}
