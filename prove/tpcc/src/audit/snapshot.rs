//! A snapshot of a database that several sessions share.

use super::money::Money;
use super::Tool;
use crate::error::TpccError;
use crate::load::Mark;
use hardmeter_session::{side_by_side, usual_jobs, Session, Stop, Target};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A snapshot, and the session that exports it.
pub(super) struct Snapshot<'a> {
    target: &'a Target,
    tool: Tool,
    stop: &'a Stop,
    keeper: Session,
    id: String,
}

/// JIT costs more than it gains on these statements; sorts and hashes of order lines should stay in memory.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
const SETTINGS: &str = "SET LOCAL jit = off; SET LOCAL work_mem = '256MB'";

impl<'a> Snapshot<'a> {
    /// Exports a snapshot of existing tables.
    pub(super) fn take(target: &'a Target, tool: Tool, stop: &'a Stop) -> Result<Snapshot<'a>, TpccError> {
        let mut keeper = Session::open(target, stop)?;
        for table in crate::schema::Table::ALL {
            let name = tool.table(table);
            let sql = format!("SELECT to_regclass('{name}')");
            if keeper.query("looking for tables", &sql)?.single().is_none() {
                return Err(TpccError::NoData { table: name });
            }
        }
        keeper.execute("beginning the audit", &format!("{BEGIN}; {SETTINGS}"))?;
        let exported = keeper.query("exporting a snapshot", "SELECT pg_export_snapshot()")?;
        let id = exported.single().unwrap_or_default().to_owned();
        Ok(Snapshot { target, tool, stop, keeper, id })
    }

    /// Number of parallel sessions.
    pub(super) fn jobs(&self) -> usize {
        usual_jobs()
    }

    /// The single value of a statement's single row; table names in braces are replaced.
    pub(super) fn single(&mut self, what: &str, sql: &str) -> Result<Option<String>, TpccError> {
        Ok(self.keeper.query(what, &self.tool.fill(sql))?.single().map(String::from))
    }

    /// The types of the money columns.
    pub(super) fn money(&mut self) -> Result<Money, TpccError> {
        Money::ask(&mut self.keeper, self.tool)
    }

    /// Whether a load of Hardmeter left its mark in the database.
    pub(super) fn is_marked(&mut self) -> Result<bool, TpccError> {
        Ok(Mark::of(&mut self.keeper)?.is_some())
    }

    /// The first and the last warehouse; 1 each if there is none.
    pub(super) fn warehouses(&mut self) -> Result<(i64, i64), TpccError> {
        let mut edge = |edge: &str| -> Result<i64, TpccError> {
            let number =
                self.single("looking for warehouses", &format!("SELECT {edge}(w_id) FROM {{warehouse}}"))?;
            Ok(number.and_then(|number| number.parse().ok()).unwrap_or(1))
        };
        Ok((edge("min")?, edge("max")?))
    }

    /// Runs tasks in parallel sessions on this snapshot.
    pub(super) fn ask<T: Send>(
        &self,
        tasks: impl IntoIterator<Item = T>,
        run: impl Fn(&mut Session, Tool, T) -> Result<(), TpccError> + Sync,
    ) -> Result<(), TpccError> {
        let tasks: Vec<T> = tasks.into_iter().collect();
        let jobs = self.jobs().min(tasks.len());
        if tasks.is_empty() {
            return Ok(());
        }
        // The identifier is the server's own, hexadecimal digits and dashes.
        let begin = format!("{BEGIN}; SET TRANSACTION SNAPSHOT '{}'; {SETTINGS}", self.id);
        // Threads share these fields, but not the exporting session.
        let tool = self.tool;
        side_by_side(self.target, jobs, self.stop, tasks, |session, task| {
            session.execute("sharing the snapshot", &begin)?;
            run(session, tool, task)?;
            session.execute("ending a part of the audit", "COMMIT").map_err(TpccError::from)
        })?;
        Ok(())
    }

    /// Gives it back.
    pub(super) fn end(mut self) -> Result<(), TpccError> {
        Ok(self.keeper.execute("ending the audit", "COMMIT")?)
    }
}

/// Locks what threads have written: a panic in one of them ends the program anyway.
pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, after the threads have ended.
pub(super) fn into_inner<T>(shared: Mutex<T>) -> T {
    shared.into_inner().unwrap_or_else(PoisonError::into_inner)
}
