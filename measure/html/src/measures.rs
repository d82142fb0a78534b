//! The measures by which a reader can rank: for each event its count, and the cycles it cost if latencies
//! were recorded.

use hardmeter_answers::why::EventKind;
use hardmeter_answers::{CubeAnswer, CubeSum};
use hardmeter_evidence::Weights;
use hardmeter_samples::model::EventSource;
use hardmeter_views::event_noun;
use serde::Serialize;

/// The sum of a row that a measure uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sum {
    Samples,
    Events,
    Cycles,
}

/// The unit of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    Count,
    Cycles,
    Nanoseconds,
}

/// One way to rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Measure {
    /// Its name in the page's address.
    pub(crate) id: String,
    /// Its name for readers: "L2 misses", "cycles in L2 misses".
    pub(crate) label: String,
    /// The events that it adds up.
    pub(crate) events: Vec<u32>,
    pub(crate) sum: Sum,
    pub(crate) unit: Unit,
    /// The sum of all rows.
    pub(crate) total: u64,
    /// The total that it is a part of, with its name: "simulated cycles".
    pub(crate) whole: Option<(String, u64)>,
}

impl Measure {
    /// The sum of a row of `event`; 0 for other events.
    pub(crate) fn of(&self, event: u32, sum: CubeSum) -> u64 {
        if !self.events.contains(&event) {
            return 0;
        }
        match self.sum {
            Sum::Samples => sum.samples,
            Sum::Events => sum.events,
            Sum::Cycles => sum.cycles,
        }
    }

    /// The weights of a row's samples, if the row is of the measure's events.
    pub(crate) fn weights(&self, event: u32, sum: CubeSum) -> Weights {
        let squares = match self.sum {
            Sum::Samples => sum.samples as f64,
            Sum::Events => sum.event_squares,
            Sum::Cycles => sum.cycle_squares,
        };
        let counted = self.events.contains(&event);
        Weights { sum: self.of(event, sum), squares: if counted { squares } else { 0.0 } }
    }
}

/// The measures of a capture, the best one to rank by first: time if it is known, then counts.
pub(crate) fn measures(answer: &CubeAnswer) -> Vec<Measure> {
    let events = &answer.heading.events;
    let sum_of = |events: &[u32], of: fn(CubeSum) -> u64| {
        let rows = answer.cube.rows.iter().filter(|(key, _)| events.contains(&key.event));
        rows.fold(0u64, |total, (_, sum)| total.saturating_add(of(*sum)))
    };
    let mut times = Vec::new();
    let mut counts = Vec::new();
    let mut cpu_time = Vec::new();
    for (number, event) in events.iter().enumerate() {
        let of = [number as u32];
        if sum_of(&of, |sum| sum.samples) == 0 {
            continue;
        }
        let name = event.name.split(':').next().unwrap_or_default();
        let what = event_noun(answer.kinds.get(number).copied(), name);
        let measure = |id: String, label: String, sum, unit, total, whole| Measure {
            id,
            label,
            events: of.to_vec(),
            sum,
            unit,
            total,
            whole,
        };
        if is_time(answer, number) {
            cpu_time.extend(of);
            let total = sum_of(&of, |sum| sum.events);
            times.push(measure(name.into(), what.clone(), Sum::Events, Unit::Nanoseconds, total, None));
            continue;
        }
        let cycles = sum_of(&of, |sum| sum.cycles);
        if cycles > 0 {
            let whole = answer.heading.simulated_cycles.map(|all| ("simulated cycles".to_string(), all.0));
            let (id, label) = (format!("{name}.cycles"), format!("cycles of {what}"));
            times.push(measure(id, label, Sum::Cycles, Unit::Cycles, cycles, whole));
        }
        let total = sum_of(&of, |sum| sum.events);
        let (sum, total) =
            if total > 0 { (Sum::Events, total) } else { (Sum::Samples, sum_of(&of, |sum| sum.samples)) };
        counts.push(measure(name.into(), what.clone(), sum, Unit::Count, total, None));
    }
    if cpu_time.len() > 1 {
        let total = sum_of(&cpu_time, |sum| sum.events);
        for time in &mut times {
            time.whole = (time.unit == Unit::Nanoseconds).then(|| ("CPU time".to_string(), total));
        }
        times.push(Measure {
            id: "cpu".into(),
            label: "CPU time".into(),
            events: cpu_time,
            sum: Sum::Events,
            unit: Unit::Nanoseconds,
            total,
            whole: None,
        });
    }
    // Stalls come before the whole time, and the event that costs most before the others.
    let rank =
        |measure: &Measure| (measure.id == "cpu" || measure.id == "other-cpu", u64::MAX - measure.total);
    times.sort_by_key(rank);
    counts.sort_by_key(rank);
    times.extend(counts);
    times
}

/// True if samples of an event stand for nanoseconds.
fn is_time(answer: &CubeAnswer, event: usize) -> bool {
    let kind = answer.kinds.get(event);
    let clock = matches!(answer.heading.source, EventSource::Live | EventSource::Timer);
    matches!(kind, Some(EventKind::Stall | EventKind::OtherTime)) || clock
}
