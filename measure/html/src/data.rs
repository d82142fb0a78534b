//! The cube as JSON for the script: columns of small integers, so that a hundred thousand samples stay small.
//!
//! ```text
//!   statement, object, cause, event, samples   runs: [value, length, value, length, ...]; -1 is "none"
//!   path, time, latency                        one number a row
//! ```
//!
//! A row's events are its samples times the event's period where that holds for all its rows; otherwise the column
//! `events` is written. The same for its cycles: its latency times the period.

use crate::ask::HtmlReport;
use hardmeter_answers::{CubeKey, CubeSum};
use hardmeter_views::printable;
use serde_json::{json, Value as Json};

type Row = (CubeKey, CubeSum);

impl HtmlReport {
    /// The data for the script.
    pub(crate) fn data(&self) -> String {
        let cube = &self.cube.cube;
        let rows = &cube.rows;
        let number = |value: Option<u32>| value.map_or(-1, i64::from);
        let events: Vec<Json> =
            (0..self.cube.heading.events.len()).map(|event| self.event(event as u32)).collect();
        let texts = |texts: &mut dyn Iterator<Item = &str>| texts.map(printable).collect::<Vec<_>>();
        let any_period = events.iter().any(|event| event["period"].is_null());
        let all = json!({
            "measures": self.measures,
            "events": events,
            "statements": texts(&mut self.cube.statements.iter().map(|text| &**text)),
            "statement_ids": cube.statements,
            "classes": texts(&mut cube.objects.iter().map(|object| &*object.class)),
            "names": texts(&mut cube.objects.iter().map(|object| &*object.name)),
            "parts": texts(&mut cube.objects.iter().map(|object| &*object.part)),
            "causes": hardmeter_answers::why::Cause::ALL.map(|cause| cause.name()),
            "routines": texts(&mut cube.frames.iter().map(|frame| frame.routine.as_str())),
            "images": texts(&mut cube.frames.iter().map(|frame| frame.image.as_str())),
            "instructions": cube.frames.iter()
                .map(|frame| frame.instruction.map(|address| format!("{address:#x}"))).collect::<Vec<_>>(),
            "callers": cube.paths.iter().map(|(caller, _)| number(*caller)).collect::<Vec<_>>(),
            "frames": cube.paths.iter().map(|(_, frame)| frame).collect::<Vec<_>>(),
            "sets": self.sets_data(),
            "time": cube.time,
            "rows": {
                "length": rows.len(),
                "event": runs(rows.iter().map(|(key, _)| i64::from(key.event))),
                "statement": runs(rows.iter().map(|(key, _)| number(key.statement))),
                "object": runs(rows.iter().map(|(key, _)| number(key.object))),
                "cause": runs(rows.iter().map(|(key, _)| key.cause.map_or(-1, |cause| cause as i64))),
                "path": rows.iter().map(|(key, _)| number(key.path)).collect::<Vec<_>>(),
                "time": rows.iter().map(|(key, _)| key.time).collect::<Vec<_>>(),
                "samples": runs(rows.iter().map(|(_, sum)| sum.samples as i64)),
                "events": any_period.then(|| rows.iter().map(|(_, sum)| sum.events).collect::<Vec<_>>()),
                "latency": self.latencies(any_period),
            },
        });
        all.to_string()
    }

    /// An event: its name, and its period if all its rows have the same.
    fn event(&self, event: u32) -> Json {
        let mut rows = self.cube.cube.rows.iter().filter(|(key, _)| key.event == event).peekable();
        let period = rows.peek().map_or(1, |(_, sum)| sum.events / sum.samples.max(1));
        let same = rows.all(|(_, sum)| sum.events == sum.samples.saturating_mul(period));
        let name = printable(&self.cube.heading.events[event as usize].name);
        json!({ "name": name, "period": same.then_some(period) })
    }

    /// Each row's cycles, divided by the period of its event; undivided if periods differ.
    fn latencies(&self, any_period: bool) -> Option<Vec<u64>> {
        let rows: &[Row] = &self.cube.cube.rows;
        if rows.iter().all(|(_, sum)| sum.cycles == 0) {
            return None;
        }
        let latency = |(_, sum): &Row| {
            let period = if any_period { 1 } else { (sum.events / sum.samples.max(1)).max(1) };
            sum.cycles / period
        };
        Some(rows.iter().map(latency).collect())
    }
}

/// Equal neighbours as value and length.
fn runs(values: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut runs: Vec<i64> = Vec::new();
    for value in values {
        match runs.as_mut_slice() {
            [.., last, length] if *last == value => *length += 1,
            _ => runs.extend([value, 1]),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_are_one_run() {
        assert_eq!(runs([3, 3, 3, -1, 3].into_iter()), [3, 3, -1, 1, 3, 1]);
        assert_eq!(runs(std::iter::empty()), Vec::<i64>::new());
    }
}
