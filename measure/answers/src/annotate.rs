//! One routine, instruction by instruction, with the samples of each event beside it.

use crate::code::{CodeMap, ImageAddress, ImageId, Place, SourceLine};
use crate::estimate::Share;
use crate::key_table::KeyTable;
use crate::pass::Located;
use hardmeter_samples::model::{EventIndex, FileOffset, Sample};
use serde::Serialize;
use std::ops::Range;

/// Samples by event and place.
pub struct PlaceCounts {
    keys: KeyTable,
    counts: Vec<(u64, u64, u64)>,
}

impl Default for PlaceCounts {
    fn default() -> Self {
        PlaceCounts { keys: KeyTable::new(3), counts: Vec::new() }
    }
}

/// Samples of one event at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceCount {
    /// The event.
    pub event: EventIndex,
    /// The place.
    pub place: Place,
    /// Samples.
    pub samples: u64,
    /// Samples with a latency.
    pub latency_samples: u64,
    /// Sum of their latencies, in cycles.
    pub latency_sum: u64,
}

impl PlaceCounts {
    /// Counts one sample.
    pub fn add(&mut self, sample: &Sample<'_>, located: Located) {
        let Some(place) = located.place else { return };
        let row = self.keys.number(&[sample.event.0 as u64, u64::from(place.image.0), place.offset.0]);
        if row == self.counts.len() {
            self.counts.push((0, 0, 0));
        }
        let count = &mut self.counts[row];
        count.0 += 1;
        if let Some(weight) = sample.weight {
            count.1 += 1;
            count.2 = count.2.saturating_add(weight.latency.0);
        }
    }

    /// Every event and place that was counted.
    pub fn iter(&self) -> impl Iterator<Item = PlaceCount> + '_ {
        self.counts.iter().enumerate().map(|(row, (samples, latency_samples, latency_sum))| {
            let key = self.keys.key(row);
            PlaceCount {
                event: EventIndex(key[0] as usize),
                place: Place { image: ImageId(key[1] as u32), offset: FileOffset(key[2]) },
                samples: *samples,
                latency_samples: *latency_samples,
                latency_sum: *latency_sum,
            }
        })
    }
}

/// A disassembled instruction, as the assembler prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstructionText {
    /// Its address.
    pub address: ImageAddress,
    /// Mnemonic and operands.
    pub text: String,
    /// The memory operand within the text, as a range of bytes, if it shows one.
    pub memory_operand: Option<Range<usize>>,
    /// Its effect on memory: `r`, `w`, `rw`; implicit accesses, such as the stack's, included.
    pub access: Option<&'static str>,
    /// The target of a jump, call or operand.
    pub comment: Option<String>,
    /// The source line it was compiled from.
    pub line: Option<SourceLine>,
}

/// A routine's place in its image, and its instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutineBody {
    /// The image.
    pub image: ImageId,
    /// The routine's name, or why it has none: see [`crate::Routine::text`].
    pub name: String,
    /// The image's path.
    pub image_path: String,
    /// First address, and the first after the end.
    pub range: Range<ImageAddress>,
    /// Its instructions, in order.
    pub instructions: Vec<InstructionText>,
}

/// An instruction with its samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnnotatedInstruction {
    /// The instruction.
    #[serde(flatten)]
    pub instruction: InstructionText,
    /// Samples, one figure per event of the annotation.
    pub counts: Vec<u64>,
    /// Mean latency in cycles over the samples of all events that have one.
    pub mean_latency: Option<f64>,
}

/// A routine with samples beside its instructions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Annotation {
    /// The routine.
    pub routine: String,
    /// Its image.
    pub image: String,
    /// First address.
    pub start: ImageAddress,
    /// First address after it.
    pub end: ImageAddress,
    /// The routine's samples of all samples, one per event.
    pub events: Vec<EventShare>,
    /// Every instruction, in order.
    pub instructions: Vec<AnnotatedInstruction>,
    /// Samples in the routine whose address is not the start of an instruction: the image differs from the
    /// recorded one.
    pub misplaced_samples: u64,
}

/// A routine's part of one event's samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventShare {
    /// The event's position in the capture.
    pub event: EventIndex,
    /// Samples in the routine, of all.
    pub share: Share,
}

/// Joins the samples of `events` to the routine's instructions.
pub fn annotate<M: CodeMap>(
    body: RoutineBody,
    counts: &PlaceCounts,
    events: &[EventIndex],
    map: &mut M,
) -> Annotation {
    let mut totals = vec![Share { count: 0, total: 0 }; events.len()];
    let mut latencies = vec![(0u64, 0u64); body.instructions.len()];
    let mut cells = vec![vec![0u64; events.len()]; body.instructions.len()];
    let mut misplaced = 0;
    for count in counts.iter() {
        let Some(column) = events.iter().position(|event| *event == count.event) else { continue };
        totals[column].total += count.samples;
        if count.place.image != body.image {
            continue;
        }
        let address = map.address(count.place);
        if !body.range.contains(&address) {
            continue;
        }
        totals[column].count += count.samples;
        match body.instructions.binary_search_by_key(&address, |instruction| instruction.address) {
            Ok(row) => {
                cells[row][column] += count.samples;
                latencies[row].0 += count.latency_samples;
                latencies[row].1 = latencies[row].1.saturating_add(count.latency_sum);
            }
            Err(_) => misplaced += count.samples,
        }
    }
    let annotated = body.instructions.into_iter().zip(cells).zip(latencies);
    Annotation {
        routine: body.name,
        image: body.image_path,
        start: body.range.start,
        end: body.range.end,
        events: events.iter().zip(totals).map(|(event, share)| EventShare { event: *event, share }).collect(),
        instructions: annotated
            .map(|((instruction, counts), (samples, sum))| AnnotatedInstruction {
                instruction,
                counts,
                mean_latency: (samples > 0).then(|| sum as f64 / samples as f64),
            })
            .collect(),
        misplaced_samples: misplaced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{sample, FakeMap, BASE};

    fn instruction(address: u64, text: &str) -> InstructionText {
        InstructionText {
            address: ImageAddress(address),
            text: text.into(),
            memory_operand: None,
            access: None,
            comment: None,
            line: None,
        }
    }

    #[test]
    fn samples_stand_beside_their_instructions() {
        let body = RoutineBody {
            image: ImageId(0),
            name: "LWLockRelease".into(),
            image_path: "/usr/bin/server".into(),
            range: ImageAddress(0x100)..ImageAddress(0x108),
            instructions: vec![instruction(0x100, "mov 0x2(%rsi),%al"), instruction(0x103, "dec %al")],
        };
        let mut counts = PlaceCounts::default();
        // Two on the first instruction, one inside the second, one past the end, one of another event.
        for (event, address) in [(0, 0x100), (0, 0x100), (0, 0x104), (0, 0x108), (1, 0x103)] {
            let place = Place { image: ImageId(0), offset: FileOffset(address) };
            counts.add(&sample(event, 1, BASE), Located { place: Some(place), process: None, object: None });
        }
        let annotation = annotate(body, &counts, &[EventIndex(0), EventIndex(1)], &mut FakeMap::default());
        assert_eq!(annotation.instructions[0].counts, [2, 0]);
        assert_eq!(annotation.instructions[0].mean_latency, Some(10.0));
        assert_eq!(annotation.instructions[1].counts, [0, 1]);
        assert_eq!(annotation.misplaced_samples, 1);
        assert_eq!(annotation.events[0].share, Share { count: 3, total: 4 });
        assert_eq!(annotation.events[1].share, Share { count: 1, total: 1 });
    }
}
