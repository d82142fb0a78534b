//! Converts options to the order of a run, and lists its departures from the specification.

use crate::commands::times::{moment, some_duration};
use hardmeter_tpcc::backend::Style;
use hardmeter_tpcc::order::{Mix, Mode, Queueing, RunOrder};
use hardmeter_tpcc::origin::Origin;
use hardmeter_tpcc::random::Constants;
use hardmeter_tpcc::settings::Settings;
use std::str::FromStr;
use std::time::Duration;

/// The options of a run.
#[derive(clap::Args, Clone, Debug)]
pub(in crate::commands::tpcc) struct What {
    /// Source of transactions: the specification's terminals with keying and think times, clients without these, or
    /// arrivals at a rate that does not depend on earlier answers.
    #[arg(long, value_enum, default_value_t = ModeName::Terminals, help_heading = "Load")]
    mode: ModeName,
    /// Number of clients, for --mode closed.
    #[arg(long, value_name = "N", default_value_t = 16, help_heading = "Load",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    clients: u32,
    /// Transactions per second on average, for --mode open.
    #[arg(long, value_name = "RATE", required_if_eq("mode", "open"), value_parser = rate, help_heading = "Load")]
    rate: Option<f64>,
    /// Factor of keying and think times, for --mode terminals; 1 is the specification.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = rate, help_heading = "Load")]
    time_factor: f64,
    /// Duration of the run before the measurement.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::commands::times::duration, help_heading = "Load")]
    ramp: Duration,
    /// Duration of the measurement; the specification requires 2h.
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = some_duration, help_heading = "Load")]
    interval: Duration,
    /// How a terminal selects its next transaction (clause 5.2.4.2): by weights adjusted during the run, or from
    /// decks of 23 cards [default: weights if there are enough transactions to reach their shares].
    #[arg(long, value_enum, help_heading = "Load")]
    mix: Option<MixName>,
    /// Seed of all random numbers.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    seed: u64,
    /// One call of a stored procedure for a transaction, or SQL from the client.
    #[arg(long, value_enum, default_value_t = StyleName::Procedures, help_heading = "Transactions")]
    style: StyleName,
    /// End each statement with the comment /*split_id='ID.KIND'*/, by which SPLiT's modules identify transactions:
    /// ID is a hexadecimal number, KIND is 1 to 5.
    #[arg(long, value_name = "ID", help_heading = "Transactions")]
    split_id: Option<Origin>,
    /// Number of connections to the server; auto finds the best number by a sweep [default: few for terminals, one
    /// per client up to 64].
    #[arg(long, value_name = "N|auto", help_heading = "Transactions")]
    connections: Option<Connections>,
    /// Number of driver threads; one is enough for 100,000 terminals.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Transactions",
          value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Priority among waiting transactions.
    #[arg(long, value_enum, default_value_t = QueueingName::Fifo, help_heading = "Transactions")]
    queueing: QueueingName,
    /// Send a warehouse's transactions over its own connection, even if another one is free.
    #[arg(long, help_heading = "Transactions")]
    affinity: bool,
    /// Maximum number of retries after a deadlock or another transient failure.
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Transactions")]
    retries: u32,
    /// Request a checkpoint at this interval [default: only the server's own].
    #[arg(long, value_name = "TIME", value_parser = some_duration, help_heading = "Transactions")]
    checkpoint_every: Option<Duration>,
    /// Set a parameter of this run's connections; may be given several times. Nothing else on the server changes.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting, help_heading = "Transactions")]
    set: Vec<Settings>,
    /// The first warehouse of this driver, of several.
    #[arg(long, value_name = "N", requires = "driver_warehouses", help_heading = "Several drivers",
          value_parser = clap::value_parser!(u32).range(1..))]
    first_warehouse: Option<u32>,
    /// Number of this driver's warehouses.
    #[arg(long, value_name = "N", requires = "first_warehouse", help_heading = "Several drivers",
          value_parser = clap::value_parser!(u32).range(1..))]
    driver_warehouses: Option<u32>,
    /// Start time: 14:30, 14:30:05, +30s, or @SECONDS since 1970.
    #[arg(long, value_name = "MOMENT", value_parser = moment, help_heading = "Several drivers")]
    start_at: Option<u64>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum ModeName {
    Terminals,
    Closed,
    Open,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum MixName {
    Weights,
    Deck,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::tpcc) enum StyleName {
    Procedures,
    Client,
}

impl StyleName {
    /// The style with this name.
    pub(in crate::commands::tpcc) fn style(self) -> Style {
        match self {
            StyleName::Procedures => Style::Procedures,
            StyleName::Client => Style::Client,
        }
    }
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum QueueingName {
    Fifo,
    Priority,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connections {
    Auto,
    Of(u32),
}

impl FromStr for Connections {
    type Err = String;

    fn from_str(text: &str) -> Result<Connections, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Connections::Auto),
            (_, Ok(count @ 1..=100_000)) => Ok(Connections::Of(count)),
            _ => Err("write a number from 1 to 100000, or auto".into()),
        }
    }
}

/// A setting, which must not be empty.
fn setting(text: &str) -> Result<Settings, String> {
    match text.parse::<Settings>() {
        Ok(settings) if settings.is_empty() => Err("expected NAME=VALUE".into()),
        parsed => parsed,
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate < 1e9 => Ok(rate),
        _ => Err(format!("invalid number '{text}': expected one above 0")),
    }
}

/// The population of a run's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::tpcc) struct Population {
    /// Number of warehouses.
    pub(in crate::commands::tpcc) warehouses: u32,
    /// C-Load: the constant of last names, if recorded.
    pub(in crate::commands::tpcc) load_last: Option<u32>,
}

impl What {
    /// Whether the number of connections is to be found by trying.
    pub(super) fn wants_auto(&self) -> bool {
        self.connections == Some(Connections::Auto)
    }

    /// The style of the transactions.
    pub(super) fn style(&self) -> Style {
        self.style.style()
    }

    /// The origin in its statements' comments.
    pub(super) fn origin(&self) -> Option<Origin> {
        self.split_id
    }

    /// The settings of its connections; an error names one that is set twice.
    pub(super) fn settings(&self) -> Result<Settings, String> {
        let mut settings = Settings::default();
        self.set.iter().try_for_each(|one| settings.add(one))?;
        Ok(settings)
    }

    /// Whether this driver is one of several.
    pub(super) fn is_part(&self) -> bool {
        self.first_warehouse.is_some()
    }

    /// The order of a run over a population; an error names the contradiction.
    pub(in crate::commands::tpcc) fn order(&self, population: Population) -> Result<RunOrder, String> {
        let all = population.warehouses;
        let (first, warehouses) = (self.first_warehouse.unwrap_or(1), self.driver_warehouses.unwrap_or(all));
        if first.checked_add(warehouses - 1).is_none_or(|last| last > all) {
            return Err(format!(
                "warehouses {first} and {} more are not among the {all} that there are",
                warehouses - 1
            ));
        }
        let mode = match self.mode {
            ModeName::Terminals => Mode::Terminals { time_factor: self.time_factor },
            ModeName::Closed => Mode::Closed { clients: self.clients },
            ModeName::Open => Mode::Open { rate: self.rate.unwrap_or(1.0) },
        };
        let constants = match population.load_last {
            Some(load_last) => Constants::for_run(load_last, self.seed),
            // The legal distance is unknown; the report warns about it.
            None => Constants::for_run(0, self.seed),
        };
        let threads = self.threads.min(match mode {
            Mode::Closed { clients } => clients.min(warehouses),
            _ => warehouses,
        });
        let connections = match self.connections {
            Some(Connections::Of(count)) => count,
            _ => usual_connections(mode, warehouses),
        };
        Ok(RunOrder {
            all_warehouses: all,
            first_warehouse: first,
            warehouses,
            mode,
            mix: match self.mix {
                Some(MixName::Weights) => Mix::Weights,
                Some(MixName::Deck) => Mix::Deck,
                None => Mix::suited(mode, warehouses, self.interval.as_secs_f64()),
            },
            style: self.style(),
            connections: connections.max(threads),
            threads,
            queueing: match self.queueing {
                QueueingName::Fifo => Queueing::Fifo,
                QueueingName::Priority => Queueing::Priority,
            },
            affinity: self.affinity,
            retries: self.retries,
            ramp_seconds: self.ramp.as_secs_f64(),
            interval_seconds: self.interval.as_secs_f64(),
            seed: self.seed,
            constants,
            load_last: population.load_last,
            checkpoint_seconds: self.checkpoint_every.map(|every| every.as_secs_f64()),
            settings: self.settings()?.to_show(),
            start_at: self.start_at,
        })
    }
}

/// The default number of connections. Terminals: four times the number that Little's law gives for answers within
/// 0.1 s and one transaction per terminal in 21 s. Clients: one each. More than 64 only increase contention on a
/// usual machine (docs/prove.md).
fn usual_connections(mode: Mode, warehouses: u32) -> u32 {
    let busy = |rate: f64| (rate * 0.1 * 4.0).ceil() as u32;
    match mode {
        Mode::Terminals { time_factor } => {
            busy(f64::from(warehouses) * 10.0 / (21.0 * time_factor.max(1e-6))).clamp(4, 64)
        }
        Mode::Closed { clients } => clients.min(64),
        Mode::Open { rate } => busy(rate).clamp(4, 64),
    }
}

/// Departures of an order from the specification, as text: reasons why a result is not comparable.
pub(super) fn departures(order: &RunOrder, is_stub: bool) -> Vec<String> {
    let mut list = Vec::new();
    if is_stub {
        list.push("there is no server: the driver alone is measured".into());
    }
    match order.mode {
        Mode::Terminals { time_factor: 1.0 } => {}
        Mode::Terminals { time_factor } => {
            list.push(format!("keying and think times are multiplied with {time_factor} (clause 5.2.5)"));
        }
        Mode::Closed { .. } => list.push("clients ask without keying and thinking (clause 5.2.5)".into()),
        Mode::Open { .. } => {
            list.push("transactions come at a rate, not from terminals (clause 5.2.5)".into())
        }
    }
    if order.interval_seconds < 7200.0 {
        list.push(format!(
            "the measurement interval is {}, not at least 2 h (clause 5.5.2)",
            in_words(order.interval_seconds)
        ));
    }
    if order.load_last.is_none() && !is_stub {
        list.push(
            "C-Load is not known, so that C-Run may be at a forbidden distance (clause 2.1.6.1)".into(),
        );
    }
    list
}

/// A time in words: 3 min, 90 s, 2 h.
pub(super) fn in_words(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 3600.0 && seconds % 3600.0 == 0.0 => format!("{} h", seconds / 3600.0),
        _ if seconds >= 60.0 && seconds % 60.0 == 0.0 => format!("{} min", seconds / 60.0),
        _ => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        what: What,
    }

    fn order(arguments: &[&str], warehouses: u32) -> Result<RunOrder, String> {
        let words = ["run"].iter().chain(arguments);
        let parsed = Parsed::try_parse_from(words).map_err(|error| error.to_string())?;
        parsed.what.order(Population { warehouses, load_last: Some(100) })
    }

    #[test]
    fn without_more_it_is_the_specification_but_shorter() {
        let order = order(&[], 10).unwrap();
        assert_eq!(order.mode, Mode::Terminals { time_factor: 1.0 });
        assert_eq!((order.first_warehouse, order.warehouses, order.all_warehouses), (1, 10, 10));
        assert_eq!((order.ramp_seconds, order.interval_seconds), (60.0, 180.0));
        // 100 terminals, each 21 s, 0.1 s: half a connection is busy; at least four.
        assert_eq!(order.connections, 4);
        assert!(Constants::delta_is_legal(order.constants.last.abs_diff(100)));
        let departures = departures(&order, false);
        assert_eq!(departures, ["the measurement interval is 3 min, not at least 2 h (clause 5.5.2)"]);
    }

    #[test]
    fn the_modes_and_their_numbers() {
        let closed = order(&["--mode", "closed", "--clients", "100", "--threads", "8"], 4).unwrap();
        assert_eq!(closed.mode, Mode::Closed { clients: 100 });
        assert_eq!((closed.connections, closed.threads), (64, 4), "a thread needs a warehouse");
        let open = order(&["--mode", "open", "--rate", "200", "--connections", "7"], 4).unwrap();
        assert_eq!((open.mode, open.connections), (Mode::Open { rate: 200.0 }, 7));
        // 1,000 warehouses: 476 transactions per second, 48 busy connections, 191 requested.
        assert_eq!(order(&[], 1000).unwrap().connections, 64);
        assert_eq!(order(&[], 100).unwrap().connections, 20);
        assert_eq!((closed.mix, order(&["--mix", "weights"], 4).unwrap().mix), (Mix::Deck, Mix::Weights));
        assert!(order(&["--mode", "open"], 4).unwrap_err().contains("--rate"));
        assert!(order(&["--connections", "many"], 4).unwrap_err().contains("or auto"));
    }

    #[test]
    fn a_driver_of_several_has_its_own_warehouses() {
        let part = order(&["--first-warehouse", "5", "--driver-warehouses", "6"], 10).unwrap();
        assert_eq!((part.first_warehouse, part.warehouses, part.all_warehouses), (5, 6, 10));
        let error = order(&["--first-warehouse", "6", "--driver-warehouses", "6"], 10).unwrap_err();
        assert_eq!(error, "warehouses 6 and 5 more are not among the 10 that there are");
        assert!(order(&["--first-warehouse", "5"], 10).is_err());
    }
}
