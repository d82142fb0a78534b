//! How far the samples of a capture can be trusted.

use super::inquiry::{Inquiry, Needs, Scope};
use crate::annotate::PlaceCounts;
use crate::capture::Walk;
use crate::error::AnswersError;
use crate::grading::Gradable;
use crate::heading::Heading;
use crate::instructions::Instructions;
use crate::pass::{Located, Pass};
use crate::quality::{EventQuality, Quality, Shadowing, Skid};
use crate::remark::Remark;
use crate::routine_code::{Executed, RoutineCode};
use crate::symbols::SymbolNames;
use hardmeter_samples::model::{EventDescription, EventIndex, MemoryEvent, Sample};
use serde::Serialize;

/// The grade of a capture's samples.
#[derive(Clone, Debug, Serialize)]
pub struct QualityAnswer {
    /// Conditions of the recording.
    pub heading: Heading,
    /// The filter as text, if samples were filtered.
    pub filter: Option<String>,
    /// The events, by name.
    pub events: Vec<(String, EventQuality)>,
    /// Warnings about this answer.
    pub remarks: Vec<Remark>,
    /// Parts of the capture that could not be read, one sentence each.
    pub unread: Vec<String>,
}

impl QualityAnswer {
    /// Samples that pass the filter.
    pub fn samples(&self) -> u64 {
        self.events.iter().map(|(_, event)| event.samples).sum()
    }
}

/// Grades every sample.
#[derive(Default)]
pub(crate) struct QualityInquiry {
    quality: Quality,
    counts: PlaceCounts,
    instructions: Instructions,
}

impl Inquiry for QualityInquiry {
    type Answer = QualityAnswer;

    fn needs(&self) -> Needs {
        Needs { places: true, objects: false }
    }

    fn add(&mut self, pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, located: Located) {
        let event = self.quality.event(sample.event);
        event.see(sample);
        self.counts.add(sample, located);
        let Some(gradable) = Gradable::new(sample) else { return };
        let instruction = located.place.and_then(|place| self.instructions.at(pass.map(), place));
        let grade = gradable.grade(instruction.as_deref());
        match gradable.is_fetch() {
            true => event.fetches.add(grade),
            false => event.addresses.add(grade),
        }
    }

    fn finish(mut self, scope: &Scope<'_>, walk: &mut Walk) -> Result<QualityAnswer, AnswersError> {
        let mut code = RoutineCode::default();
        let names = walk.pass.map();
        let mut events = Vec::new();
        for (index, event) in scope.capture.events().iter().enumerate() {
            let index = EventIndex(index);
            let mut skid = Skid::default();
            for count in self.counts.iter().filter(|count| count.event == index) {
                skid.examined += code.examined(names, count.place, count.samples);
                if let Some(behind) = code.suspect(names, count.place) {
                    skid.suspects += count.samples;
                    skid.behind_memory += if behind { count.samples } else { 0 };
                }
            }
            let seen = self.quality.event(index);
            let of_data = seen.with_address > 0 && seen.fetches.total() == 0 && is_of_data(event);
            seen.skid = (of_data && skid.examined > 0).then_some(skid);
            if let Some(kind) = counted_at_each_execution(event) {
                let mut shadowing = Shadowing::default();
                for block in code.blocks(names, kind, index, &self.counts) {
                    shadowing.add(block);
                }
                seen.shadowing = Some(shadowing);
            }
            if seen.samples > 0 {
                events.push((event.name.clone(), seen.clone()));
            }
        }
        let remarks = walk.remarks(None);
        Ok(QualityAnswer {
            heading: scope.capture.heading(walk),
            filter: scope.filter.text(),
            events,
            remarks,
            unread: walk.unread(),
        })
    }
}

/// Whether the event counts executions of instructions, by Hardmeter's, perf's and the manufacturers' names.
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
