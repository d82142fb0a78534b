//! Folded stacks: one line per call path, outermost frame first, as flame graph programs read them.

use crate::layout::printable;
use hardmeter_answers::{CodeMap, Pass, Stacks};
use hardmeter_samples::model::EventIndex;
use std::collections::BTreeMap;

/// The call paths of one event, each with its number of samples; the process's name is the outermost frame.
pub fn folded<M: CodeMap>(stacks: &Stacks, pass: &mut Pass<M>, event: EventIndex) -> String {
    // Paths of different addresses in the same routines become one line.
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for count in stacks.counts().filter(|count| count.event == event) {
        let process = count.process.map(|id| pass.process_name(id));
        let mut frames: Vec<String> =
            stacks.frames(count.stack).map(|place| frame(&pass.map().routine(place).to_string())).collect();
        frames.push(frame(process.as_deref().unwrap_or("[unknown process]")));
        frames.reverse();
        *lines.entry(frames.join(";")).or_default() += count.samples;
    }
    lines.iter().map(|(path, samples)| format!("{path} {samples}\n")).collect()
}

/// A semicolon inside a name would look like a border between frames.
fn frame(name: &str) -> String {
    printable(name).replace(';', ":")
}
