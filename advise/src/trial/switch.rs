//! The change of a trial: a setting or an index, as plain data that is stored in the ledger.

use super::control::Control;
use super::copy::{remove, CopySwitch};
use super::index::IndexSwitch;
use super::mariadb::{GlobalSwitch, IndexWay, OnlineIndexSwitch};
use super::outcome::Undone;
use super::restart::RestartSwitch;
use super::setting::SettingSwitch;
use super::TryError;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A wanted change, before the server's state is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A setting has this value.
    Setting {
        /// Its name.
        name: String,
        /// Its value, in the format of a configuration file.
        value: String,
    },
    /// An index exists.
    Index {
        /// Its schema.
        schema: String,
        /// Its name.
        name: String,
        /// `CREATE INDEX ... ON ...`, without CONCURRENTLY.
        definition: String,
    },
    /// Creates, drops or hides an index of MariaDB.
    OnlineIndex {
        /// Its table.
        table: String,
        /// Its name.
        index: String,
        /// Its columns, as CREATE INDEX takes them.
        columns: String,
        /// The operation.
        way: IndexWay,
    },
}

/// A change that a trial switches on (B) and off (A: as it was found).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs)] // the contents describe each
pub enum Switch {
    Setting(SettingSwitch),
    Index(IndexSwitch),
    Copy(CopySwitch),
    Restart(RestartSwitch),
    Global(GlobalSwitch),
    OnlineIndex(OnlineIndexSwitch),
}

/// Reads the server's state that a change needs: rights, former values, and conditions that would make a
/// trial meaningless. `fresh_sessions`: the load starts new sessions in each block.
///
/// # Errors
/// If the role may not make the change, it is not allowed, is in effect already, or would not reach the load.
pub fn plan(
    target: &hardmeter_session::Target,
    wanted: &[Wanted],
    fresh_sessions: bool,
) -> Result<Vec<Switch>, TryError> {
    let mut control = Control::open(target, &hardmeter_session::Stop::new())?;
    plan_on(&mut control, wanted, fresh_sessions)
}

pub(super) fn plan_on(
    control: &mut Control,
    wanted: &[Wanted],
    fresh_sessions: bool,
) -> Result<Vec<Switch>, TryError> {
    let one = |wanted: &Wanted| match wanted {
        Wanted::Setting { name, value } => {
            SettingSwitch::plan(control, name, value, fresh_sessions).map(Switch::Setting)
        }
        Wanted::Index { schema, name, definition } => {
            IndexSwitch::plan(control, schema, name, definition).map(Switch::Index)
        }
        Wanted::OnlineIndex { .. } => Err(TryError::Answer { what: "an index of MariaDB".into() }),
    };
    wanted.iter().map(one).collect()
}

impl Switch {
    /// The statements that apply it.
    pub fn apply(&self) -> Vec<String> {
        match self {
            Switch::Setting(setting) => setting.apply(),
            Switch::Index(index) => vec![index.create()],
            Switch::Copy(copy) => copy.apply(),
            Switch::Restart(restart) => restart.apply(),
            Switch::Global(global) => vec![global.apply()],
            Switch::OnlineIndex(index) => vec![index.apply()],
        }
    }

    /// The statements that undo it.
    pub fn undo(&self) -> Vec<String> {
        match self {
            Switch::Setting(setting) => setting.undo(),
            Switch::Index(index) => vec![index.drop()],
            Switch::Copy(copy) => copy.undo(),
            Switch::Restart(restart) => restart.undo(),
            Switch::Global(global) => vec![global.undo()],
            Switch::OnlineIndex(index) => vec![index.undo()],
        }
    }

    /// True if switching needs a build.
    pub(super) fn is_index(&self) -> bool {
        matches!(self, Switch::Index(_))
    }

    /// Switches it on or off; returns the time of the build.
    pub(super) fn to(&self, on: bool, control: &mut Control) -> Result<Duration, TryError> {
        match self {
            Switch::Setting(setting) => setting.to(on, control).map(|()| Duration::ZERO),
            Switch::Index(index) => index.to(on, control),
            // Trials with restarts switch otherwise, and trials on MariaDB use another kind of session.
            Switch::Copy(_) | Switch::Restart(_) | Switch::Global(_) | Switch::OnlineIndex(_) => {
                Ok(Duration::ZERO)
            }
        }
    }

    /// Restores the former state, unless it is restored already, or another session has changed it since. May
    /// be repeated.
    pub(super) fn restore(&self, control: &mut Control) -> Result<Undone, TryError> {
        match self {
            Switch::Setting(setting) => setting.restore(control),
            Switch::Index(index) => index.restore(control),
            Switch::Copy(copy) => remove(copy),
            Switch::Restart(restart) => restart.restore(control),
            Switch::Global(global) => {
                Err(TryError::Answer { what: format!("{} of PostgreSQL", global.name) })
            }
            Switch::OnlineIndex(index) => {
                Err(TryError::Answer { what: format!("{} of PostgreSQL", index.index) })
            }
        }
    }
}

/// The switches in the order in which they are made: all of them on, or off in reverse.
pub(super) fn in_turn(switches: &[Switch], on: bool) -> Vec<&Switch> {
    let mut order: Vec<&Switch> = switches.iter().collect();
    if !on {
        order.reverse();
    }
    order
}
