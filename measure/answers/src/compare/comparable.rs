//! Which runs may be compared, and which notes they need.

use super::per::Per;
use super::run::CompareRun;
use std::collections::BTreeSet;

/// Why runs cannot be compared.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Incomparable {
    /// A side has no run.
    #[error("side {0} has no capture")]
    NoRun(char),
    /// Samples of one source count something different from those of another one.
    #[error(
        "{a} is {source_of_a}, {b} is {source_of_b}: their events have the same names and are counted in other ways\n  \
         remedy: record both sides with the same --source"
    )]
    Sources {
        /// A capture.
        a: String,
        /// Its source.
        source_of_a: &'static str,
        /// Another one.
        b: String,
        /// Its source.
        source_of_b: &'static str,
    },
    /// No event is in all captures.
    #[error(
        "no event with samples is in all captures: A has {a}; B has {b}\n  remedy: record both sides with the same -e"
    )]
    Events {
        /// The events of side A.
        a: String,
        /// The events of side B.
        b: String,
    },
    /// The requested unit of work is not known for a capture.
    #[error("{file} has no count of its {unit}\n  remedy: {remedy}")]
    Work {
        /// The capture.
        file: String,
        /// "transactions".
        unit: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
}

/// The display name of each source.
fn source(run: &CompareRun) -> &'static str {
    use hardmeter_samples::model::EventSource;
    match run.source {
        EventSource::Hardware => "counted by hardware",
        EventSource::Simulated => "simulated",
        EventSource::Live => "sampled live",
        EventSource::Timer => "sampled by a timer",
        EventSource::Imported => "recorded by another program",
    }
}

/// The names of the events that have samples.
fn events(run: &CompareRun) -> BTreeSet<&str> {
    run.events.iter().filter(|event| event.sum.samples > 0).map(|event| event.name.as_str()).collect()
}

/// The names of a side's events: those that all its runs recorded, and that at least one of them has samples
/// of.
fn events_of_side(runs: &[CompareRun]) -> BTreeSet<&str> {
    let recorded = |name: &&str| runs.iter().all(|run| run.events.iter().any(|event| event.name == **name));
    runs.iter().flat_map(events).filter(recorded).collect()
}

/// The events that are compared, and notes about the others.
pub(super) fn events_compared(
    a: &[CompareRun],
    b: &[CompareRun],
) -> Result<(Vec<String>, Vec<String>), Incomparable> {
    let (of_a, of_b) = (events_of_side(a), events_of_side(b));
    let everywhere = |name: &&str| {
        let recorded = |run: &CompareRun| run.events.iter().any(|event| event.name == **name);
        a.iter().chain(b).all(recorded)
    };
    let common: Vec<String> = of_a.union(&of_b).copied().filter(everywhere).map(str::to_string).collect();
    if common.is_empty() {
        let list = |names: &BTreeSet<&str>| match names.is_empty() {
            true => "none".to_string(),
            false => names.iter().copied().collect::<Vec<_>>().join(", "),
        };
        return Err(Incomparable::Events { a: list(&of_a), b: list(&of_b) });
    }
    let one_sided: BTreeSet<&str> =
        a.iter().chain(b).flat_map(events).filter(|name| !common.iter().any(|known| known == name)).collect();
    let notes = match one_sided.is_empty() {
        true => Vec::new(),
        false => {
            let names = one_sided.into_iter().collect::<Vec<_>>().join(", ");
            vec![format!("not compared, because some captures did not record them: {names}")]
        }
    };
    Ok((common, notes))
}

/// Refuses runs that cannot be compared, and notes what the figures contain besides the wanted difference.
pub(super) fn check(a: &[CompareRun], b: &[CompareRun]) -> Result<Vec<String>, Incomparable> {
    for (side, runs) in [('A', a), ('B', b)] {
        if runs.is_empty() {
            return Err(Incomparable::NoRun(side));
        }
    }
    let (first, all) = (&a[0], || a.iter().chain(b));
    if let Some(other) = all().find(|run| run.source != first.source) {
        return Err(Incomparable::Sources {
            a: first.file.clone(),
            source_of_a: source(first),
            b: other.file.clone(),
            source_of_b: source(other),
        });
    }
    let mut notes = Vec::new();
    let mut differ = |what: &str, of: &dyn Fn(&CompareRun) -> String| {
        if let Some(other) = all().find(|run| of(run) != of(first)) {
            notes.push(format!("{what}: {} in {}, {} in {}", of(first), first.file, of(other), other.file));
        }
    };
    differ("the machines differ, which is part of the differences", &|run| {
        run.machine.clone().unwrap_or_else(|| "unknown".into())
    });
    differ("the captures simulate another share of the cache lines", &|run| {
        format!("1 in {}", run.one_line_in)
    });
    let lost: u64 = all().map(|run| run.lost).sum();
    if lost > 0 {
        notes.push(format!("{lost} records were lost while recording; the rates are too low by that share"));
    }
    Ok(notes)
}

/// Refuses a unit of work that a run does not record.
pub(super) fn check_work(per: Per, a: &[CompareRun], b: &[CompareRun]) -> Result<(), Incomparable> {
    let Some(run) = a.iter().chain(b).find(|run| !per.known(run)) else { return Ok(()) };
    let remedy = match per {
        Per::Transaction | Per::WritingTransaction => {
            "record a PostgreSQL server (--server DIR or -p PID), which counts them; or --per second"
        }
        Per::Instruction => "record with the software PMU or with hardware events; or --per second",
        _ => "--per run, if both sides did the same work",
    };
    Err(Incomparable::Work { file: run.file.clone(), unit: per.plural(), remedy })
}
