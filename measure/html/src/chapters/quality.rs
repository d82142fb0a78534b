//! How far to trust the report: how the capture was recorded, the quality of samples, what was merged or left
//! out.

use crate::ask::HtmlReport;
use hardmeter_answers::{Coarsening, QualityAnswer};
use hardmeter_evidence::number::{counted, duration, grouped};
use hardmeter_evidence::page::{table, Section};
use hardmeter_views::{percent, printable};
use maud::{html, Markup};

impl HtmlReport {
    pub(super) fn quality_section(&self) -> Section {
        let heading = self.heading();
        let fact =
            |name: &str, value: Option<&String>| value.map(|value| (name.to_string(), printable(value)));
        let facts = [
            fact("capture", Some(&heading.file)),
            fact("command", heading.command.as_ref()),
            fact("recorder", heading.recorder.as_ref()),
            fact("machine", heading.machine.as_ref()),
            fact("caches", heading.geometry.as_ref()),
        ];
        let mut remarks: Vec<String> = self.cube.remarks.iter().map(|remark| remark.to_string()).collect();
        remarks.extend(self.cube.unread.iter().cloned());
        let body = html! {
            table { tbody {
                @for (name, value) in facts.iter().flatten() { tr { th scope="row" { (name) } td { (value) } } }
            } }
            h3 { "Events" }
            (self.events_table())
            @if let Some(quality) = &self.quality { h3 { "Samples" } (samples_table(quality)) }
            @if !heading.limits.is_empty() || !remarks.is_empty() {
                h3 { "Limits" }
                ul {
                    @for remark in &remarks { li { (printable(remark)) } }
                    @for limit in &heading.limits { li { (printable(limit)) } }
                }
            }
            h3 { "What this page leaves out" }
            ul { @for text in self.left_out() { li { (text) } } }
        };
        Section::new("quality", "Quality and limits", body)
    }

    fn events_table(&self) -> Markup {
        let titles =
            ["samples", "period", "counted", "with address", "with latency", "event"].map(str::to_string);
        let row = |event: &hardmeter_answers::EventHeading| {
            vec![
                grouped(event.totals.samples),
                event.period.map_or("varies".into(), grouped),
                event.counted.map_or("-".into(), grouped),
                grouped(event.totals.with_address),
                grouped(event.totals.with_latency),
                printable(&event.name),
            ]
        };
        table(&titles, &self.heading().events.iter().map(row).collect::<Vec<_>>(), 5)
    }

    /// Merged samples, and the limits of the chapters.
    fn left_out(&self) -> Vec<String> {
        let cube = &self.cube.cube;
        let mut texts = vec![format!(
            "The page holds {} in {} (event, statement, part of an object, cause, call path, step of time).",
            counted(cube.samples(), "sample"),
            counted(cube.rows.len() as u64, "row")
        )];
        texts.extend(cube.coarsened.iter().map(|step| match step {
            Coarsening::Time { step_ns } => format!("So that it stays small, a step of time is {}.", duration(*step_ns)),
            Coarsening::RarePaths { samples } => {
                format!("So that it stays small, call paths of fewer than {samples} samples are counted for their callers.")
            }
            Coarsening::Parts => "So that it stays small, parts of objects are counted for their objects.".to_string(),
        }));
        texts
    }
}

fn samples_table(quality: &QualityAnswer) -> Markup {
    let titles = ["samples", "data address", "exact address", "data source", "addresses agree", "event"]
        .map(str::to_string);
    let row = |(name, event): &(String, hardmeter_answers::EventQuality)| {
        let part = |count| percent(hardmeter_answers::Share { count, total: event.samples });
        let agree = event.addresses.agreeing();
        vec![
            grouped(event.samples),
            part(event.with_address),
            part(event.exact),
            part(event.with_source),
            if agree.total > 0 {
                format!("{} of n = {}", percent(agree), grouped(agree.total))
            } else {
                "-".into()
            },
            printable(name),
        ]
    };
    table(&titles, &quality.events.iter().map(row).collect::<Vec<_>>(), 5)
}
