//! Runs an order: every contestant in turn, in rounds.
//!
//! A **round** has its own patterns. In it every contestant runs twice, the second time in mirrored order (A B B
//! A), one run right after the other: drift of the machine affects all equally. The first contestant changes from
//! round to round. A mode that fails is left out of later rounds and reported; the others are still measured.

use crate::error::Oo1Error;
use crate::memory::MemoryGroup;
use crate::order::{Cell, Contestant, Measure, Order, PageCache, Protocol};
use crate::process::Runner;
use crate::programs::Programs;
use crate::report::{CellReport, Entry, Machine, Outcome, Report, RoundRun, FORMAT, VERSION};
use crate::run::Run;
use crate::stop::Stop;
use crate::stores::Stores;
use serde::Deserialize;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

/// The share of its control group's memory that P3L may use: the rest is for code, page tables and the page cache.
const SHARE_OF_GROUP: f64 = 0.75;

/// Receives the progress of a comparison.
pub trait Progress {
    /// The number of finished runs and of all runs; this one begins.
    fn step(&self, done: usize, of: usize, what: &str);
}

/// Runs the comparison.
///
/// # Errors
///
/// [`Oo1Error`] if a mode has no program, the disk is too small, or a program fails.
pub fn compare(
    order: &Order,
    programs: &Programs,
    stores: &Stores,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Report, Oo1Error> {
    for contestant in &order.contestants {
        programs.require(&contestant.mode)?;
    }
    let machine = Machine::this();
    let runner = Runner { stop: stop.clone(), timeout: order.timeout };
    let mut comparison =
        Comparison { order, programs, stores, runner, progress, done: 0, abilities: HashMap::new() };
    comparison.check_room()?;
    let mut cells = Vec::new();
    for cell in &order.cells {
        cells.push(comparison.cell(cell)?);
    }
    let (rounds, seed) = (order.rounds, order.seed);
    Ok(Report { format: FORMAT.into(), version: VERSION, machine, rounds, seed, cells })
}

/// The abilities that a program reports.
#[derive(Clone, Debug, Default, Deserialize)]
struct Abilities {
    #[serde(default)]
    layouts: Vec<String>,
    #[serde(default)]
    measures: Vec<String>,
    #[serde(default)]
    can_prefetch: bool,
    #[serde(default)]
    can_limit_memory: bool,
}

struct Comparison<'a> {
    order: &'a Order,
    programs: &'a Programs,
    stores: &'a Stores,
    runner: Runner,
    progress: &'a dyn Progress,
    done: usize,
    abilities: HashMap<String, Result<Abilities, Outcome>>,
}

impl Comparison<'_> {
    fn check_room(&self) -> Result<(), Oo1Error> {
        let mut needed = Vec::new();
        for cell in &self.order.cells {
            for contestant in &self.order.contestants {
                let store = (cell.graph, cell.layout, contestant.mode.clone());
                if !needed.contains(&store) {
                    needed.push(store);
                }
            }
        }
        self.stores.check_room(&needed)
    }

    fn cell(&mut self, cell: &Cell) -> Result<CellReport, Oo1Error> {
        let order = self.order;
        self.step("making the graph");
        self.stores.graph(&cell.graph, self.programs, &self.runner)?;
        let mut report =
            CellReport { cell: cell.clone(), entries: order.contestants.iter().map(Entry::new).collect() };
        let mut stores = Vec::new();
        for (contestant, entry) in order.contestants.iter().zip(&mut report.entries) {
            self.step(&format!("loading {contestant}"));
            stores.push(match self.prepare(cell, contestant)? {
                Ok(store) => store,
                Err(outcome) => {
                    entry.outcome = outcome;
                    OsString::new()
                }
            });
        }
        for round in 0..order.rounds {
            for at in turns(order.contestants.len(), round) {
                let contestant = &order.contestants[at];
                self.step(&format!("{} {}: {contestant}", cell.measure.name(), cell.protocol.name()));
                self.done += 1;
                let entry = &mut report.entries[at];
                if entry.outcome != Outcome::Sound {
                    continue;
                }
                match self.run(cell, contestant, Path::new(&stores[at]), round) {
                    Ok(run) => entry.runs.push(RoundRun { round, run }),
                    Err(error) => entry.outcome = outcome_of(error)?,
                }
            }
        }
        report.judge();
        Ok(report)
    }

    /// The store of a contestant; or why it does not take part.
    fn prepare(
        &mut self,
        cell: &Cell,
        contestant: &Contestant,
    ) -> Result<Result<OsString, Outcome>, Oo1Error> {
        let able = match self.abilities(&contestant.mode)? {
            Ok(able) => able,
            Err(outcome) => return Ok(Err(outcome)),
        };
        let lacks = |what: String| Ok(Err(Outcome::Lacks { what }));
        if !able.layouts.is_empty() && !able.layouts.iter().any(|name| name == cell.layout.name()) {
            return lacks(format!("layout {}", cell.layout.name()));
        }
        if !able.measures.is_empty() && !able.measures.iter().any(|name| name == cell.measure.name()) {
            return lacks(format!("measure {}", cell.measure.name()));
        }
        if contestant.prefetch && !able.can_prefetch {
            return lacks("prefetch".into());
        }
        let store =
            self.stores.store(&cell.graph, cell.layout, &contestant.mode, self.programs, &self.runner);
        match store {
            Ok(path) => Ok(Ok(path.into())),
            Err(error) => outcome_of(error).map(Err),
        }
    }

    fn abilities(&mut self, mode: &str) -> Result<Result<Abilities, Outcome>, Oo1Error> {
        if let Some(known) = self.abilities.get(mode) {
            return Ok(known.clone());
        }
        let what = format!("asking {mode} for its capabilities");
        let told = self.runner.run(&self.programs.of_mode(mode), &["describe".into()], &what);
        let able = match told {
            Ok(value) => serde_json::from_value(value)
                .map_err(|error| outcome_of(Oo1Error::BadOutput { what, reason: error.to_string() })),
            Err(error) => Err(outcome_of(error)),
        };
        let able = match able {
            Ok(able) => Ok(able),
            Err(outcome) => Err(outcome?),
        };
        self.abilities.insert(mode.to_owned(), able.clone());
        Ok(able)
    }

    fn run(&self, cell: &Cell, contestant: &Contestant, store: &Path, round: usize) -> Result<Run, Oo1Error> {
        let what = format!("{} of {contestant}", cell.measure.name());
        let group = cell.memory_bytes.map(MemoryGroup::new).transpose()?;
        let seed = self.order.seed + round as u64;
        let limits_itself =
            matches!(self.abilities.get(&contestant.mode), Some(Ok(able)) if able.can_limit_memory);
        let mut arguments = arguments(self.order, cell, contestant, store, seed);
        if let (Some(bytes), true) = (cell.memory_bytes, limits_itself) {
            arguments
                .extend(["--memory-limit".into(), format!("{:.0}", bytes as f64 * SHARE_OF_GROUP).into()]);
        }
        let program = self.programs.of_mode(&contestant.mode);
        let value = self.runner.run_within(group.as_ref(), &program, &arguments, &what)?;
        serde_json::from_value(value).map_err(|error| Oo1Error::BadOutput { what, reason: error.to_string() })
    }

    fn step(&self, what: &str) {
        self.progress.step(self.done, self.order.steps(), what);
    }
}

fn arguments(order: &Order, cell: &Cell, contestant: &Contestant, store: &Path, seed: u64) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["run".into(), store.into()];
    let mut option = |name: &str, value: String| words.extend([name.into(), value.into()]);
    option("--measure", cell.measure.name().into());
    option("--protocol", cell.protocol.name().into());
    option("--seed", seed.to_string());
    if let Some(units) = order.units {
        option("--units", units.to_string());
    }
    if cell.page_cache == PageCache::Dropped {
        words.push("--drop-cache".into());
    }
    if contestant.prefetch {
        words.push("--prefetch".into());
    }
    words
}

/// Converts an error to the contestant's outcome; errors that end the whole comparison are returned.
fn outcome_of(error: Oo1Error) -> Result<Outcome, Oo1Error> {
    match error {
        Oo1Error::Interrupted { .. } => Err(error),
        Oo1Error::CannotHere { reason, remedy } => Ok(Outcome::CannotHere { reason, remedy }),
        other => Ok(Outcome::Failed { reason: other.to_string(), remedy: other.remedy() }),
    }
}

/// The order of contestants in a round: rotated by one from round to round, then mirrored.
fn turns(contestants: usize, round: usize) -> Vec<usize> {
    let forth = (0..contestants).map(|at| (at + round) % contestants);
    forth.clone().chain(forth.rev()).collect()
}

/// The protocol that a measure has where none is named.
pub fn usual_protocol(measure: Measure) -> Protocol {
    match measure {
        Measure::Traversal => Protocol::Texas,
        _ => Protocol::Oo1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::CELL;
    use std::time::Duration;

    #[test]
    fn turns_are_mirrored_and_begin_with_another_each_round() {
        assert_eq!(turns(1, 5), [0, 0]);
        assert_eq!(turns(3, 0), [0, 1, 2, 2, 1, 0]);
        assert_eq!(turns(3, 1), [1, 2, 0, 0, 2, 1]);
    }

    #[test]
    fn programs_are_told_what_the_cell_says() {
        let mut order = Order {
            cells: vec![CELL],
            contestants: Vec::new(),
            rounds: 1,
            units: None,
            seed: 7,
            timeout: Duration::from_secs(1),
        };
        let words = |order: &Order, cell: &Cell, contestant: &str| {
            let words = arguments(order, cell, &contestant.parse().unwrap(), Path::new("/s"), 7);
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let plain = "run /s --measure traversal --protocol texas --seed 7";
        assert_eq!(words(&order, &CELL, "texas"), plain);
        assert_eq!(words(&order, &CELL, "p3l-plugin+prefetch"), format!("{plain} --prefetch"));
        let cell = Cell { page_cache: PageCache::Dropped, protocol: Protocol::HotSet, ..CELL };
        order.units = Some(100);
        let hot_set = "run /s --measure traversal --protocol hot-set --seed 7 --units 100";
        assert_eq!(words(&order, &cell, "offset"), format!("{hot_set} --drop-cache"));
    }
}
