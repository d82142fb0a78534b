//! `hardmeter report --quality`: how far the samples of a capture can be trusted.

use crate::capture::{Capture, WalkOptions};
use crate::grading::Gradable;
use crate::heading::Heading;
use crate::instructions::Instructions;
use crate::layout::{wrap, Align, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped, percent};
use crate::routine_code::RoutineCode;
use crate::top_view::{closing_text, remark_json};
use crate::ReportError;
use hardmeter_answers::{
    AddressGrades, EventQuality, PlaceCounts, Quality, Remark, Shadowing, Share, Skid, Ungraded,
};
use hardmeter_samples::model::{EventDescription, EventIndex, MemoryEvent};
use serde_json::{json, Value as Json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;

/// Everything that `hardmeter report --quality` shows.
#[derive(Clone, Debug)]
pub struct QualityReport {
    /// How the capture came to be.
    pub heading: Heading,
    /// The filter in words, if samples were filtered.
    pub filter: Option<String>,
    /// The events, by name.
    pub events: Vec<(String, EventQuality)>,
    /// What a reader must know besides.
    pub remarks: Vec<Remark>,
    /// What could not be read of the capture.
    pub unread: Vec<String>,
}

impl QualityReport {
    /// Walks over the capture, and grades every sample.
    ///
    /// # Errors
    ///
    /// [`ReportError`] if the capture cannot be read.
    pub fn make(capture: &Capture, options: WalkOptions<'_>) -> Result<QualityReport, ReportError> {
        let (mut quality, mut counts) = (Quality::default(), PlaceCounts::default());
        let mut instructions = Instructions::default();
        let mut walk = capture.walk(options, &mut |pass, sample, located| {
            let event = quality.event(sample.event);
            event.see(sample);
            counts.add(sample, located);
            if let Some(gradable) = Gradable::new(sample) {
                let place = located.place;
                let instruction = place.and_then(|place| instructions.at(pass.map(), place));
                let grade = gradable.grade(instruction.as_deref());
                match gradable.is_fetch() {
                    true => event.fetches.add(grade),
                    false => event.addresses.add(grade),
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let mut code = RoutineCode::default();
        let names = walk.pass.map();
        for (index, event) in capture.events().iter().enumerate() {
            let index = EventIndex(index);
            let mut skid = Skid::default();
            for count in counts.iter().filter(|count| count.event == index) {
                skid.examined += code.examined(names, count.place, count.samples);
                if let Some(behind) = code.suspect(names, count.place) {
                    skid.suspects += count.samples;
                    skid.behind_memory += if behind { count.samples } else { 0 };
                }
            }
            let seen = quality.event(index);
            let of_data = seen.with_address > 0 && seen.fetches.total() == 0 && is_of_data(event);
            seen.skid = (of_data && skid.examined > 0).then_some(skid);
            if let Some(kind) = counted_at_each_execution(event) {
                let mut shadowing = Shadowing::default();
                for block in code.blocks(names, kind, index, &counts) {
                    shadowing.add(block);
                }
                seen.shadowing = Some(shadowing);
            }
        }
        let events: Vec<(String, EventQuality)> = capture
            .events()
            .iter()
            .enumerate()
            .map(|(index, event)| (event.name.clone(), quality.event(EventIndex(index)).clone()))
            .filter(|(_, quality)| quality.samples > 0)
            .collect();
        let remarks = walk.remarks(None);
        Ok(QualityReport {
            heading: capture.heading(&walk),
            filter: None,
            events,
            remarks,
            unread: walk.unread(),
        })
    }

    /// Samples that pass the filter.
    pub fn samples(&self) -> u64 {
        self.events.iter().map(|(_, event)| event.samples).sum()
    }

    /// The report as text; `tables_only` leaves out the heading and the remarks.
    pub fn render(&self, style: Style, tables_only: bool) -> String {
        let mut text = String::new();
        if !tables_only {
            let only = self.filter.iter().map(|filter| ("only", filter.clone()));
            text = self.heading.render(style, &only.collect::<Vec<_>>());
            text.push('\n');
        }
        let title = |text: &mut String, title: &str| {
            let _ = writeln!(text, "{}", style.paint(Tone::Title, title));
        };
        title(&mut text, "what samples carry");
        text.push_str(&self.carried().render(style, 2));
        text.push('\n');
        title(&mut text, "data addresses, computed again from registers and instruction");
        self.render_addresses(style, &mut text);
        text.push('\n');
        title(&mut text, "skid and shadowing");
        for (name, event) in &self.events {
            let _ = writeln!(text, "  {}", wrap(&format!("{name}: {}", skid_text(event)), style, 4));
            let _ = writeln!(text, "  {}", wrap(&format!("{name}: {}", shadowing_text(event)), style, 4));
        }
        text.push('\n');
        title(&mut text, "losses");
        let _ = writeln!(
            text,
            "  {} and {} lost, throttled {}",
            counted(self.heading.lost_samples, "sample"),
            counted(self.heading.lost_records, "other record"),
            counted(self.heading.throttled, "time")
        );
        if !tables_only {
            text.push_str(&closing_text(&self.heading, &self.remarks, style));
        }
        text
    }

    fn carried(&self) -> TextTable {
        let right = |title: &str| (title.to_string(), Align::Right, Cut::Never);
        let mut grid = TextTable::new(vec![
            ("event".to_string(), Align::Left, Cut::KeepHead),
            right("samples"),
            right("address"),
            right("registers"),
            right("exact ip"),
            right("source"),
            right("unknown source"),
            right("foreign bits"),
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
        let right = |title: &str| (title.to_string(), Align::Right, Cut::Never);
        let mut grid = TextTable::new(vec![
            ("event".to_string(), Align::Left, Cut::KeepHead),
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
            let _ = writeln!(
                text,
                "  not computable: {} because {}",
                counted(count, "sample"),
                reason.describe()
            );
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
        json!({
            "format": "hardmeter-quality",
            "version": 1,
            "capture": self.heading,
            "filter": self.filter,
            "events": events,
            "remarks": self.remarks.iter().map(remark_json).collect::<Vec<_>>(),
        })
    }
}

fn grades_json(grades: &AddressGrades) -> Json {
    let mut object = json!(grades);
    object["agreeing"] = json!(grades.agreeing());
    object
}

fn skid_text(event: &EventQuality) -> String {
    let Some(skid) = event.skid else {
        return "skid cannot be determined: the event counts fetches of code too, or the code is not at hand"
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

/// What an event counts at each execution of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Executed {
    /// Its loads.
    Loads,
    /// Its stores.
    Stores,
    /// The instruction.
    Instructions,
}

/// By our names, and by those of perf and the manufacturers.
fn counted_at_each_execution(event: &EventDescription) -> Option<Executed> {
    match event.known {
        Some(MemoryEvent::Loads) => return Some(Executed::Loads),
        Some(MemoryEvent::Stores) => return Some(Executed::Stores),
        Some(MemoryEvent::Instructions) => return Some(Executed::Instructions),
        Some(_) => return None,
        None => {}
    }
    let name = event.name.to_ascii_lowercase();
    let plain = name.split([':', '/']).next().unwrap_or_default();
    match plain {
        "loads" => Some(Executed::Loads),
        "stores" => Some(Executed::Stores),
        "instructions" => Some(Executed::Instructions),
        _ if name.contains("all_loads") => Some(Executed::Loads),
        _ if name.contains("all_stores") => Some(Executed::Stores),
        _ => None,
    }
}

/// Whether the event happens to accesses of data alone.
fn is_of_data(event: &EventDescription) -> bool {
    const CODE: [MemoryEvent; 4] = [
        MemoryEvent::L1iMiss,
        MemoryEvent::ItlbMiss,
        MemoryEvent::Instructions,
        MemoryEvent::BranchesMispredicted,
    ];
    event.known.is_none_or(|known| !CODE.contains(&known))
}
