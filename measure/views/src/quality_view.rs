//! `hardmeter report --quality`: consistency of the samples of a capture.

use crate::drawn::view_of;
use crate::heading::ghosts_text;
use crate::layout::{wrap, Column, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped, percent};
use crate::rows::{begin_part, only, Frame};
use crate::screen::{Block, Screen, Wanted};
use crate::top_view::remark_json;
use hardmeter_answers::{AddressGrades, EventQuality, QualityAnswer, Share, Ungraded};
use hardmeter_evidence::envelope::envelope;
use serde_json::{json, Value as Json};
use std::collections::BTreeMap;
use std::fmt::Write;

view_of! {
    /// Everything that `hardmeter report --quality` shows.
    QualityReport(QualityAnswer)
}

impl QualityReport {
    /// The report as text; `tables_only` leaves out the heading and the warnings.
    pub fn render(&self, style: Style, tables_only: bool) -> String {
        let frame = Frame { heading: &self.heading, remarks: &self.remarks, style, tables_only };
        frame.around(&only(self.filter.as_ref()), |text| {
            begin_part(text);
            self.render_grades(style, text);
        })
    }

    fn render_grades(&self, style: Style, text: &mut String) {
        let title = |text: &mut String, title: &str| {
            let _ = writeln!(text, "{}", style.paint(Tone::Title, title));
        };
        title(text, "what samples carry");
        text.push_str(&self.carried().render(style, 2));
        text.push('\n');
        title(text, "data addresses, computed again from registers and instruction");
        self.render_addresses(style, text);
        text.push('\n');
        title(text, "skid and shadowing");
        for (name, event) in &self.events {
            let _ = writeln!(text, "  {}", wrap(&format!("{name}: {}", skid_text(event)), style, 4));
            let _ = writeln!(text, "  {}", wrap(&format!("{name}: {}", shadowing_text(event)), style, 4));
        }
        text.push('\n');
        title(text, "losses");
        let _ = writeln!(
            text,
            "  {} and {} lost, throttled {}",
            counted(self.heading.lost_samples, "sample"),
            counted(self.heading.lost_records, "other record"),
            counted(self.heading.throttled, "time")
        );
    }

    /// The first screen: contents and grades of the samples, and every limit of the source.
    pub fn screen(&self, style: Style, wanted: Wanted) -> String {
        let mut screen = Screen::new(&self.heading, style, wanted);
        screen.about(self.filter.iter().map(|filter| format!("only {filter}")));
        let style = screen.style();
        let lines = |text: String| text.lines().map(str::to_string).collect::<Vec<_>>();
        let item = |text: &str| lines(format!("  - {}", wrap(text, style, 4)));
        screen.block(Block::new("what samples carry", "", self.carried()));
        let mut addresses = String::new();
        self.render_addresses(style, &mut addresses);
        screen.block(Block::lines(
            "data addresses",
            "computed again from registers and instruction",
            lines(addresses),
        ));
        if let Some(ghosts) = &self.heading.ghosts {
            screen.block(Block::lines("ghosts", "", item(&ghosts_text(ghosts))));
        }
        let remarks = self.remarks.iter().flat_map(|remark| item(&remark.to_string()));
        let limits = remarks.chain(self.heading.limits.iter().flat_map(|limit| item(limit)));
        screen.block(Block::lines("limits", "", limits.collect()));
        let skid = |(name, event): &(String, EventQuality)| {
            [skid_text(event), shadowing_text(event)].map(|text| item(&format!("{name}: {text}"))).concat()
        };
        screen.block(Block::lines("skid and shadowing", "", self.events.iter().flat_map(skid).collect()));
        screen.without_limits();
        screen.next("report");
        screen.text()
    }

    fn carried(&self) -> TextTable {
        let right = |title: &str| Column::right(title);
        let mut grid = TextTable::new(vec![
            Column::left("event").cut(Cut::KeepHead),
            right("samples"),
            right("address"),
            right("registers"),
            right("exact ip"),
            right("source"),
            right("unknown source").spare(1),
            right("foreign bits").spare(2),
        ]);
        for (name, event) in &self.events {
            let of = |count| percent(Share { count, total: event.samples });
            let cells = [
                name.clone(),
                grouped(event.samples),
                of(event.with_address),
                of(event.with_registers),
                of(event.exact),
                of(event.with_source),
                grouped(event.source_unknown),
                grouped(event.source_foreign_bits),
            ];
            grid.row(cells.into_iter().map(|cell| (cell, Tone::Plain)).collect());
        }
        grid
    }

    fn render_addresses(&self, style: Style, text: &mut String) {
        let right = |title: &str| Column::right(title);
        let mut grid = TextTable::new(vec![
            Column::left("event").cut(Cut::KeepHead),
            right("n"),
            right("agree"),
            right("disagree"),
            right("agreeing"),
            right("overwritten"),
            right("not computable"),
        ]);
        let mut reasons: BTreeMap<Ungraded, u64> = BTreeMap::new();
        for (name, event) in &self.events {
            let fetches = format!("{name} (fetches)");
            for (name, grades) in [(name.clone(), &event.addresses), (fetches, &event.fetches)] {
                if grades.total() == 0 {
                    continue;
                }
                let not_computable: u64 = grades.not_computable.values().sum();
                let agreeing = grades.agreeing();
                let cells = [
                    name,
                    grouped(grades.total()),
                    grouped(grades.agree),
                    grouped(grades.disagree),
                    if agreeing.total > 0 { percent(agreeing) } else { "-".to_string() },
                    grouped(grades.overwritten),
                    grouped(not_computable),
                ];
                grid.row(cells.into_iter().map(|cell| (cell, Tone::Plain)).collect());
                for (reason, count) in &grades.not_computable {
                    *reasons.entry(*reason).or_default() += count;
                }
            }
        }
        if self.events.iter().all(|(_, event)| event.addresses.total() + event.fetches.total() == 0) {
            let without_address = self.events.iter().all(|(_, event)| event.with_address == 0);
            let what = if without_address { "a data address" } else { "registers beside its data address" };
            let remedy = format!(
                "none can be checked: no sample carries {what}; record a memory event with registers (hardmeter \
                 record does; perf record -d --intr-regs)"
            );
            let _ = writeln!(text, "  {}", wrap(&remedy, style, 2));
            return;
        }
        text.push_str(&grid.render(style, 2));
        for (reason, count) in reasons {
            let reason =
                format!("not computable: {} because {}", counted(count, "sample"), reason.describe());
            let _ = writeln!(text, "  {}", wrap(&reason, style, 4));
        }
    }

    /// The report for machines.
    pub fn json(&self) -> Json {
        let events: Vec<Json> = self
            .events
            .iter()
            .map(|(name, event)| {
                let mut object = json!(event);
                object["event"] = json!(name);
                object["addresses"] = grades_json(&event.addresses);
                object["fetches"] = grades_json(&event.fetches);
                object
            })
            .collect();
        envelope(
            "quality",
            1,
            json!({
                "capture": self.heading,
                "filter": self.filter,
                "events": events,
                "remarks": self.remarks.iter().map(remark_json).collect::<Vec<_>>(),
            }),
        )
    }
}

fn grades_json(grades: &AddressGrades) -> Json {
    let mut object = json!(grades);
    object["agreeing"] = json!(grades.agreeing());
    object
}

fn skid_text(event: &EventQuality) -> String {
    let Some(skid) = event.skid else {
        return "skid cannot be determined: the event counts fetches of code too, or the code is not available"
            .to_string();
    };
    let suspects = Share { count: skid.suspects, total: skid.examined };
    let behind = Share { count: skid.behind_memory, total: skid.suspects };
    let mut text = format!(
        "{} of n = {} samples ({}) lie on an instruction that uses no memory",
        grouped(suspects.count),
        grouped(suspects.total),
        percent(suspects)
    );
    if suspects.count > 0 {
        let _ = write!(text, ", {} of them directly behind one that does", grouped(behind.count));
    }
    text
}

fn shadowing_text(event: &EventQuality) -> String {
    let Some(shadowing) = &event.shadowing else {
        return "shadowing cannot be determined: the event does not count every execution of an instruction"
            .to_string();
    };
    if shadowing.blocks == 0 {
        return "shadowing cannot be determined: no straight-line block has fifty samples and five for each instruction"
            .to_string();
    }
    let uneven = Share { count: shadowing.uneven, total: shadowing.blocks };
    let mut text = format!(
        "{} of n = {} straight-line blocks ({}; {}) are sampled unevenly (chi-square, p < 0.001 each)",
        grouped(uneven.count),
        grouped(uneven.total),
        percent(uneven),
        counted(shadowing.samples, "sample")
    );
    if let Some(worst) = &shadowing.worst {
        let _ = write!(
            text,
            "; the worst in {}: {} at {} where {:.1} are due, {:.1} times as many",
            worst.routine,
            counted(worst.samples, "sample"),
            worst.instruction,
            worst.expected,
            worst.factor()
        );
    }
    text
}
