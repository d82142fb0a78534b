//! `hardmeter tpcc acid`.

mod victim;
mod words;

use super::name::TPCC;
use crate::commands::output::Output;
use crate::commands::place::Place;
use crate::commands::workload::{cancelled_by_signals, Bar};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_session::{Session, Stop, Target};
use hardmeter_tpcc::acid::durability::{self, Durability, Order};
use hardmeter_tpcc::acid::{
    atomicity, consistency, isolation, require_alone, Property, Real, Trial, Tried, Ways,
};
use hardmeter_tpcc::audit::Verdict;
use hardmeter_tpcc::backend::{Backends, Style};
use hardmeter_tpcc::load::Mark;
use hardmeter_tpcc::schema::Table;
use hardmeter_tpcc::transactions::{backends, prepare};
use hardmeter_tpcc::wire::PostgresBackends;
use hardmeter_tpcc::TpccError;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use victim::Ours;

/// Try atomicity, isolation, consistency and durability (clause 3) on a loaded database.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "No other client may work in the database meanwhile. Prices and rows that a scenario removes are restored; \
                  its orders and payments stay.\nDurability kills the server with SIGKILL: only servers that hardmeter \
                  made are killed. Exit status 1 if a line is short.\n\nExample:\n  hardmeter tpcc load --warehouses 2\n  \
                  hardmeter tpcc acid\n  hardmeter tpcc acid --only durability --kills 20"
)]
pub struct Acid {
    /// Only this part; several times.
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// Style of the transactions [default: both; procedures under load].
    #[arg(long, value_enum, value_name = "STYLE")]
    style: Option<Written>,
    /// Number of kills of the server.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    kills: u32,
    /// Duration of the load in the consistency test, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Seed of all random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep the success files of the durability test in this folder.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Atomicity,
    Consistency,
    Isolation,
    Durability,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Procedures,
    Client,
}

impl Written {
    fn style(self) -> Style {
        match self {
            Written::Procedures => Style::Procedures,
            Written::Client => Style::Client,
        }
    }
}

impl Acid {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let ours = self.place.ours(&TPCC);
        if ours.is_none() && self.only.contains(&Part::Durability) {
            return Err(CommandError::new(
                "durability is tried by killing the server, and this one is not a server that hardmeter made",
                "name a server that hardmeter made (--server DIR), make one with hardmeter tpcc load, or leave durability out: --only \
                 atomicity --only isolation --only consistency",
            ));
        }
        let target = self.place.find(&TPCC, globals)?;
        let stop = cancelled_by_signals();
        let bar = Bar::new(globals);
        let mark = loaded(&target, &stop)?;
        let styles = self.styles(&mark);
        for style in &styles {
            prepare(*style, &target, &stop)?;
        }
        let trying = Trying { acid: self, target: &target, mark: &mark, stop: &stop, bar: &bar };
        let mut tried = vec![];
        for style in styles {
            tried.extend(trying.sessions(style)?);
        }
        if self.wants(Part::Consistency) {
            tried.push(trying.consistency()?);
        }
        let durability = match ours {
            Some(folder) if self.wants(Part::Durability) => Some(trying.durability(Ours::new(folder))?),
            _ => None,
        };
        drop(bar);
        let refused = durability.is_none() && self.wants(Part::Durability);
        self.output.print(
            "tpcc-acid",
            || words::in_words(&tried, durability.as_ref(), refused, mark.warehouses, target.description()),
            || json!({ "warehouses": mark.warehouses, "tried": tried, "durability": durability }),
        )?;
        let trials = tried.iter().flat_map(|tried| &tried.trials);
        let short = |trial: &Trial| trial.verdict == Verdict::Short;
        let all = trials.chain(durability.as_ref().map(|durability| &durability.trial));
        Ok(if { all }.any(short) { Outcome::Partial } else { Outcome::Complete })
    }

    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// The styles in which sessions are interleaved.
    fn styles(&self, mark: &Mark) -> Vec<Style> {
        match self.style {
            Some(written) => vec![written.style()],
            // Citus refuses client SQL.
            None if mark.distributed => vec![Style::Procedures],
            None => vec![Style::Procedures, Style::Client],
        }
    }

    /// The style in which there is load.
    fn style(&self) -> Style {
        self.style.map_or(Style::Procedures, Written::style)
    }
}

/// The loaded population; the scenarios need all of it.
fn loaded(target: &Target, stop: &Stop) -> Result<Mark, CommandError> {
    let mut session = Session::open(target, stop)?;
    let mark = Mark::of(&mut session)?
        .ok_or_else(|| TpccError::NoData { table: Table::Warehouse.name().to_owned() })?;
    if !mark.complete {
        return Err(CommandError::new(
            "the load of this database was interrupted",
            "go on with it: the same hardmeter tpcc load again",
        ));
    }
    require_alone(&mut session, target)?;
    Ok(mark)
}

struct Trying<'a> {
    acid: &'a Acid,
    target: &'a Target,
    mark: &'a Mark,
    stop: &'a Stop,
    bar: &'a Bar,
}

impl Trying<'_> {
    /// The tests with sessions that are held open.
    fn sessions(&self, style: Style) -> Result<Vec<Tried>, TpccError> {
        let ways: Arc<dyn Ways> = Arc::new(Real::new(style));
        let (warehouses, seed) = (self.mark.warehouses, self.acid.seed);
        let mut tried = vec![];
        let transactions = ways.description();
        if self.acid.wants(Part::Atomicity) {
            let trials = atomicity::run(self.target, &ways, warehouses, seed, self.stop)?;
            tried.push(Tried { property: Property::Atomicity, transactions: transactions.clone(), trials });
        }
        if self.acid.wants(Part::Isolation) {
            let all: Vec<u8> = (1..=isolation::SCENARIOS).collect();
            let trials = isolation::run(self.target, &ways, warehouses, seed, &all, self.stop, self.bar)?;
            tried.push(Tried { property: Property::Isolation, transactions, trials });
        }
        Ok(tried)
    }

    fn backends(&self) -> PostgresBackends {
        backends(self.acid.style(), None, self.target.clone())
    }

    fn consistency(&self) -> Result<Tried, TpccError> {
        let backends = self.backends();
        let load = consistency::Load {
            style: self.acid.style(),
            mark: self.mark,
            seed: self.acid.seed,
            seconds: f64::from(self.acid.seconds),
        };
        let trials = consistency::run(self.target, &backends, &load, self.stop, self.bar)?;
        Ok(Tried { property: Property::Consistency, transactions: backends.description(), trials })
    }

    fn durability(&self, mut victim: Ours) -> Result<Durability, CommandError> {
        let temporary;
        let folder = match &self.acid.keep {
            Some(folder) => folder.clone(),
            None => {
                temporary = tempfile::tempdir().map_err(|error| {
                    CommandError::new(
                        format!("cannot make a temporary folder: {error}"),
                        "name a folder for the success files: --keep DIR",
                    )
                })?;
                temporary.path().to_owned()
            }
        };
        let order = Order {
            kills: self.acid.kills,
            seed: self.acid.seed,
            style: self.acid.style(),
            mark: self.mark,
            folder: &folder,
        };
        Ok(durability::run(self.target, &self.backends(), &mut victim, &order, self.stop, self.bar)?)
    }
}
