//! The system under test of `run` and `sweep`: found or created, loaded, ready for transactions.

use super::order::Population;
use super::prepare::{populate, populate_mariadb, DEFAULT_WAREHOUSES};
use crate::commands::place::memory_mb;
use crate::commands::place_engines::{mariadb_settings, Data, EnginePlace, Making};
use crate::commands::tpcc::load::settings_for;
use crate::commands::tpcc::name::TPCC;
use crate::commands::{CommandError, Globals};
use hardmeter_servers::Engine;
use hardmeter_session::{Progress, SessionError, Stop, Target};
use hardmeter_tpcc::audit::{self, Verdict};
use hardmeter_tpcc::backend::{Backends, Style};
use hardmeter_tpcc::mariadb::{self, Mariadb, Observer};
use hardmeter_tpcc::measure::Condition;
use hardmeter_tpcc::observe::{Postgres, Server};
use hardmeter_tpcc::origin::Origin;
use hardmeter_tpcc::settings::Settings;
use hardmeter_tpcc::stub::Stub;
use hardmeter_tpcc::transactions::{backends, prepare};
use hardmeter_tpcc::TpccError;

/// The system under test.
pub(in crate::commands::tpcc) enum System {
    /// Answers after a fixed time.
    Stub(Stub),
    /// A database of PostgreSQL.
    Postgres(Box<Target>),
    /// A database of MariaDB, on one server or spread over several.
    Mariadb(Box<mariadb::Target>),
}

impl System {
    /// The server of `--server` etc., or a throwaway server, created if it is missing.
    pub(in crate::commands::tpcc) fn find_or_make(
        place: &EnginePlace,
        warehouses: Option<u32>,
        globals: &Globals,
    ) -> Result<System, CommandError> {
        let warehouses = warehouses.unwrap_or(DEFAULT_WAREHOUSES);
        let settings = |engine| match engine {
            Engine::Postgres => settings_for(warehouses),
            Engine::Mariadb => mariadb_settings(warehouses, memory_mb()),
        };
        let making = Making { settings: &settings, shards: 0 };
        Ok(match place.find_or_make(&TPCC, &making, globals)? {
            Data::Postgres(target) => System::Postgres(target),
            Data::Mariadb(target) => System::Mariadb(Box::new(target)),
        })
    }

    /// Its population; an empty database is loaded, an interrupted load continued. `may_load`: false if it is one
    /// of several drivers.
    pub(in crate::commands::tpcc) fn population(
        &self,
        wanted: Option<u32>,
        may_load: bool,
        stop: &Stop,
        globals: &Globals,
    ) -> Result<Population, CommandError> {
        match self {
            System::Stub(_) => {
                Ok(Population { warehouses: wanted.unwrap_or(DEFAULT_WAREHOUSES), load_last: None })
            }
            System::Postgres(target) => populate(target, wanted, may_load, stop, globals),
            System::Mariadb(target) => populate_mariadb(target, wanted, may_load, stop, globals),
        }
    }

    /// The target of transactions: stored procedures are installed, connections are not open yet. Statements have
    /// their origin in a comment if there is one. Settings that its connections cannot have are refused.
    pub(in crate::commands::tpcc) fn backends(
        &self,
        style: Style,
        origin: Option<Origin>,
        settings: &Settings,
        stop: &Stop,
    ) -> Result<Box<dyn Backends>, CommandError> {
        Ok(match self {
            System::Stub(stub) => Box::new(*stub),
            System::Postgres(target) => {
                prepare(style, target, stop).map_err(not_installed)?;
                settings.check(target, stop)?;
                Box::new(backends(style, origin, Target::clone(target)).with_settings(settings))
            }
            System::Mariadb(target) => {
                Box::new(Mariadb::new(target, style, stop)?.signed(origin).with_settings(settings)?)
            }
        })
    }

    /// An observer of the server, with its own `stop`.
    pub(in crate::commands::tpcc) fn observer(
        &self,
        stop: &Stop,
    ) -> Result<Option<Box<dyn Server>>, TpccError> {
        Ok(match self {
            System::Stub(_) => None,
            System::Postgres(target) => Some(Box::new(Postgres::open(target, stop)?)),
            System::Mariadb(target) => Some(Box::new(Observer::open(target, stop)?)),
        })
    }

    /// The twelve conditions, if it holds data.
    pub(super) fn conditions(
        &self,
        stop: &Stop,
        progress: &dyn Progress,
    ) -> Result<Vec<Condition>, TpccError> {
        let checked = match self {
            System::Stub(_) => Vec::new(),
            System::Postgres(target) => audit::check_conditions(target, stop, progress)?,
            System::Mariadb(target) => mariadb::check_conditions(target, stop, progress)?,
        };
        let condition = |one: audit::Condition| Condition {
            number: one.number,
            rule: one.rule.into(),
            held: match one.verdict {
                Verdict::Held => Some(true),
                Verdict::Short => Some(false),
                Verdict::Undecided | Verdict::NotApplicable => None,
            },
            examples: one.examples,
        };
        Ok(checked.into_iter().map(condition).collect())
    }
}

/// A user who may not create procedures can use --style client.
fn not_installed(error: TpccError) -> CommandError {
    match &error {
        TpccError::Session(SessionError::Statement { code, .. }) if code == "42501" => CommandError::new(
            &error,
            "let this user make procedures (GRANT CREATE ON SCHEMA public), or do without: --style client",
        ),
        _ => error.into(),
    }
}
