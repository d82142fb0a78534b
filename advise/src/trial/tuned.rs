//! The tuned server, PostgreSQL or MariaDB: the operations that a run of trials needs.

use super::conduct::{conduct, Conducted, Order, TryProgress};
use super::ledger::Ledger;
use super::load::{Load, Running};
use super::mariadb::{conduct_on_mariadb, plan_on_mariadb};
use super::switch::plan;
use super::{Measure, Switch, TryError, Wanted};
use crate::mariadb::{look_at_mariadb, MariaTarget, MARIADB_REMEDIES};
use crate::{look, AdviseError, Look, Progress, Remedy, REMEDIES};
use hardmeter_session::{Stop, Target};
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

/// A server and its connection parameters.
#[derive(Clone, Debug)]
pub enum Tuned {
    /// PostgreSQL.
    Postgres(Box<Target>),
    /// MariaDB.
    Mariadb(MariaTarget),
}

impl Tuned {
    /// The database and the server, as text.
    pub fn description(&self) -> String {
        match self {
            Tuned::Postgres(target) => target.description().to_owned(),
            Tuned::Mariadb(target) => target.description(),
        }
    }

    /// The same for the client programs of a load: environment variables.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        match self {
            Tuned::Postgres(target) => target.environment(),
            Tuned::Mariadb(target) => target.environment(),
        }
    }

    /// The remedies for servers of this kind.
    pub fn remedies(&self) -> &'static [Remedy] {
        match self {
            Tuned::Postgres(_) => REMEDIES,
            Tuned::Mariadb(_) => MARIADB_REMEDIES,
        }
    }

    /// Observes it for some time, without changes.
    ///
    /// # Errors
    /// If it cannot be reached or read, or `stop` is requested.
    pub fn look(&self, time: Duration, stop: &Stop, progress: Progress) -> Result<Look, AdviseError> {
        match self {
            Tuned::Postgres(target) => look(target, time, stop, progress),
            Tuned::Mariadb(target) => look_at_mariadb(target, time, stop, progress),
        }
    }

    /// The measure that decides about a remedy under this load.
    pub fn measure(&self, remedy: &str, load: &Load) -> Measure {
        match (self, Measure::of_remedy(remedy), load) {
            (Tuned::Postgres(_), measure, _) => measure,
            // MariaDB measures the time of statements only where the performance schema is on. A load command
            // runs at full speed; the server's own clients do not send more because the server is faster.
            (Tuned::Mariadb(_), Measure::Latency, Load::Throughout(_) | Load::PerBlock(_)) => {
                Measure::Throughput
            }
            (Tuned::Mariadb(_), measure, _) => measure,
        }
    }

    /// Reads the server's state that a change needs, as [`plan`] and [`plan_on_mariadb`] do.
    ///
    /// # Errors
    /// If the change cannot be tried.
    pub fn plan(&self, wanted: &[Wanted], load: &Load) -> Result<Vec<Switch>, TryError> {
        match self {
            Tuned::Postgres(target) => plan(target, wanted, load.is_per_block()),
            Tuned::Mariadb(target) => plan_on_mariadb(target, wanted, load),
        }
    }

    /// Conducts a trial on the server itself.
    ///
    /// # Errors
    /// If it cannot begin, or ended early; then the error says whether the change was undone.
    pub fn conduct(
        &self,
        order: &Order,
        (ledger, watchdog): (&Ledger, &dyn Fn(&str) -> Command),
        load: &Load,
        stop: &Stop,
        progress: TryProgress,
    ) -> Result<Conducted, TryError> {
        match self {
            Tuned::Postgres(target) => {
                let running = Running::start(load, ledger.beside("load.log"))?;
                conduct(order, target, ledger, watchdog, &running, stop, progress)
            }
            Tuned::Mariadb(target) => {
                conduct_on_mariadb(order, target, ledger, watchdog, load, stop, progress)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::LoadCommand;
    use std::path::Path;

    #[test]
    fn a_load_on_mariadb_is_measured_by_its_throughput() {
        let maria = Tuned::Mariadb(MariaTarget::socket(Path::new("/s"), "root", "shop"));
        let postgres = Tuned::Postgres(Box::new(Target::socket(Path::new("/s"), 1, "u", "shop")));
        let load = Load::Throughout(LoadCommand { words: Vec::new(), environment: Vec::new() });
        assert_eq!(maria.measure("missing-index", &load), Measure::Throughput);
        assert_eq!(maria.measure("missing-index", &Load::Traffic), Measure::Latency);
        assert_eq!(maria.measure("unused-indexes", &load), Measure::Cpu);
        assert_eq!(postgres.measure("missing-index", &load), Measure::Latency);
        assert!(maria.remedies().iter().any(|remedy| remedy.id == "buffer-pool"));
    }
}
