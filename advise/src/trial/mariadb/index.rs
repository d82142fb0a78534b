//! An index that a trial on MariaDB creates, drops or hides.
//!
//! | way | as found (A) | with the change (B) | what a switch takes |
//! |---|---|---|---|
//! | create | there is none | it exists | a build, online |
//! | drop | it exists | there is none | a build, online |
//! | hide | it is used | statements do not see it (IGNORED), writes maintain it | a moment |
//!
//! ALGORITHM=INPLACE and LOCK=NONE: writers work on while it is built, or the server refuses. A build has a time limit;
//! one that is interrupted leaves nothing, since ALTER TABLE is atomic (10.6).
//!
//! Invariants:
//! 1. An index to create did not exist when the switch was planned: a later one of its name is the trial's. One to drop
//!    or to hide existed.
//! 2. Tables are named with their database: an undo does not depend on that of its session.

use super::super::outcome::Undone;
use super::super::TryError;
use super::control::MariaControl;
use crate::change::{create_online, drop_online};
use crate::mariadb::{literal, name};
use hardmeter_session::Stop;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A trial's operation on an index of MariaDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexWay {
    /// It creates it.
    Create,
    /// It drops it, and builds it again to undo that.
    Drop,
    /// Statements do not see it; writes maintain it.
    Hide,
}

/// An index, and the trial's operation on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnlineIndexSwitch {
    /// Its database.
    pub database: String,
    /// Its table.
    pub table: String,
    /// Its name.
    pub index: String,
    /// Its columns, as CREATE INDEX takes them.
    pub columns: String,
    /// The operation.
    pub way: IndexWay,
}

/// The state of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Used,
    Hidden,
}

impl OnlineIndexSwitch {
    pub(super) fn plan(
        control: &mut MariaControl,
        (table, index, columns): (&str, &str, &str),
        way: IndexWay,
    ) -> Result<OnlineIndexSwitch, TryError> {
        let database = control.value("reading the database", "SELECT DATABASE()")?.unwrap_or_default();
        let switch = OnlineIndexSwitch {
            database,
            table: table.to_owned(),
            index: index.to_owned(),
            columns: columns.to_owned(),
            way,
        };
        let sql = format!(
            "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
            literal(&switch.database),
            literal(table)
        );
        let engine = control.value("reading the engine of the table", &sql)?;
        if engine.as_deref() != Some("InnoDB") {
            let reason = "its table is not one of InnoDB: a build would keep writers out";
            return Err(TryError::NotAllowed { name: index.to_owned(), reason });
        }
        match (switch.state(control)?, switch.at(false)) {
            (now, found) if now == found => Ok(switch),
            (State::Absent, _) => Err(TryError::Already { what: format!("{index} is gone") }),
            (State::Hidden, State::Used) => Err(TryError::Already { what: format!("{index} is hidden") }),
            _ => Err(TryError::Already { what: format!("{index} exists") }),
        }
    }

    /// The state as found, or with the change.
    fn at(&self, on: bool) -> State {
        match (self.way, on) {
            (IndexWay::Create, true) | (IndexWay::Drop | IndexWay::Hide, false) => State::Used,
            (IndexWay::Create, false) | (IndexWay::Drop, true) => State::Absent,
            (IndexWay::Hide, true) => State::Hidden,
        }
    }

    fn state(&self, control: &mut MariaControl) -> Result<State, TryError> {
        // The column is new in 10.6.
        let hidden = if self.way == IndexWay::Hide { "IGNORED" } else { "'NO'" };
        let sql = format!(
            "SELECT {hidden} FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {} \
             AND INDEX_NAME = {} LIMIT 1",
            literal(&self.database),
            literal(&self.table),
            literal(&self.index)
        );
        Ok(match control.value("searching the index", &sql)?.as_deref() {
            None => State::Absent,
            Some("YES") => State::Hidden,
            Some(_) => State::Used,
        })
    }

    /// The statement that brings it into this state.
    fn statement(&self, state: State) -> String {
        let table = format!("{}.{}", name(&self.database), name(&self.table));
        match (self.way, state) {
            (IndexWay::Hide, State::Hidden) => {
                format!("ALTER TABLE {table} ALTER INDEX {} IGNORED;", name(&self.index))
            }
            (IndexWay::Hide, _) => {
                format!("ALTER TABLE {table} ALTER INDEX {} NOT IGNORED;", name(&self.index))
            }
            (_, State::Used) => create_online(&table, &name(&self.index), &self.columns),
            (_, _) => drop_online(&table, &name(&self.index)),
        }
    }

    /// The statement that applies it.
    pub(in super::super) fn apply(&self) -> String {
        self.statement(self.at(true))
    }

    /// The statement that undoes it.
    pub(in super::super) fn undo(&self) -> String {
        self.statement(self.at(false))
    }

    /// The former state, as a sentence.
    pub(in super::super) fn before(&self) -> String {
        match self.way {
            IndexWay::Create => format!("no index of {} is named {}", self.table, self.index),
            IndexWay::Drop => format!("{} of {} is maintained by each write", self.index, self.table),
            IndexWay::Hide => format!("statements may use {} of {}", self.index, self.table),
        }
    }

    /// Switches it on or off; returns the time it took.
    ///
    /// # Errors
    /// [`TryError::SlowBuild`] if it takes longer than `longest` seconds, [`TryError::Interrupted`] at `stop`; then it is
    /// as before the call.
    pub(super) fn to(
        &self,
        on: bool,
        control: &mut MariaControl,
        longest: f64,
        stop: &Stop,
    ) -> Result<Duration, TryError> {
        let (now, wanted) = (self.state(control)?, self.at(on));
        // Two blocks of one kind may follow each other.
        if now == wanted {
            return Ok(Duration::ZERO);
        }
        if now != self.at(!on) {
            return Err(TryError::ChangedByOthers { name: self.index.clone() });
        }
        let begin = Instant::now();
        control.build("switching the index", &self.statement(wanted), longest, stop)?;
        Ok(begin.elapsed())
    }

    /// Restores the former state, unless it is restored already or another session has changed it since. May
    /// be repeated.
    pub(super) fn restore(&self, control: &mut MariaControl) -> Result<Undone, TryError> {
        let now = self.state(control)?;
        if now == self.at(false) {
            return Ok(Undone::AsBefore);
        }
        if now != self.at(true) {
            return Ok(Undone::Foreign(format!("another session has changed {} since", self.index)));
        }
        control.run("restoring the index", self.undo().trim_end_matches(';'))?;
        Ok(Undone::Restored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(way: IndexWay) -> OnlineIndexSwitch {
        let [database, table, index, columns] = ["shop", "or`ders", "a2", "`a`, `b`(10)"].map(String::from);
        OnlineIndexSwitch { database, table, index, columns, way }
    }

    #[test]
    fn each_way_has_its_statements() {
        let create =
            "CREATE INDEX `a2` ON `shop`.`or``ders` (`a`, `b`(10)) ALGORITHM=INPLACE LOCK=NONE;".to_owned();
        let drop = "ALTER TABLE `shop`.`or``ders` DROP INDEX `a2`, ALGORITHM=INPLACE, LOCK=NONE;".to_owned();
        let of = |way| (index(way).apply(), index(way).undo());
        assert_eq!(of(IndexWay::Create), (create.clone(), drop.clone()));
        assert_eq!(of(IndexWay::Drop), (drop, create));
        let (hide, show) = of(IndexWay::Hide);
        assert_eq!(hide, "ALTER TABLE `shop`.`or``ders` ALTER INDEX `a2` IGNORED;");
        assert_eq!(show, "ALTER TABLE `shop`.`or``ders` ALTER INDEX `a2` NOT IGNORED;");
    }
}
