//! Audits a database in MariaDB with the same queries as in PostgreSQL.

use super::conditions;
use super::load::Mark;
use super::session::{Rows, Session};
use super::sites::Sites;
use super::target::Target;
use crate::audit::{driver, Audit, Condition, Finding, Money, Questions, Tool, Verdict};
use crate::error::TpccError;
use crate::schema::Table;
use hardmeter_session::{Progress, Stop};
use std::time::Instant;

impl Questions for Session {
    fn rows(&mut self, what: &str, sql: &str) -> Result<Rows, TpccError> {
        Session::rows(self, what, sql)
    }

    fn types_of(&self, table: &str) -> String {
        format!(
            "SELECT column_name, data_type FROM information_schema.columns \
             WHERE table_schema = DATABASE() AND table_name = '{table}'"
        )
    }
}

/// Audits a database.
///
/// Uses one snapshot, so it may run beside a workload. With Spider the snapshots of the servers are taken one after
/// the other: beside a workload an audit may see half of a transaction; on an idle database it is exact.
///
/// # Errors
///
/// [`TpccError::Session`] if a statement fails, the connection is lost, or `stop` was requested.
pub fn audit(target: &Target, tool: Tool, stop: &Stop, progress: &dyn Progress) -> Result<Audit, TpccError> {
    let begin = Instant::now();
    let (mut session, mark) = begun(target, tool, stop)?;
    let servers = mark.as_ref().map_or(0, |mark| mark.layout.servers());
    let money = Money::ask(&mut session, tool)?;
    let count = tool.fill("SELECT count(*) FROM {warehouse}");
    let count = session.single("counting warehouses", &count)?;
    let warehouses = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    let conditions = conditions::check(&mut session, tool, &money, progress)?;
    let mut findings = vec![money.finding()];
    findings.extend(driver::examine(&mut session, tool, warehouses, progress)?);
    session.execute("ending the audit", "COMMIT")?;
    if servers > 0 {
        findings.push(in_doubt(target, &mut session, servers, stop)?);
    }
    Ok(Audit {
        tool,
        marked: mark.is_some(),
        warehouses,
        conditions,
        findings,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// Checks the twelve conditions only, of a load by Hardmeter.
///
/// # Errors
///
/// [`TpccError::Session`] if a statement fails, the connection is lost, or `stop` was requested.
pub fn check_conditions(
    target: &Target,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Vec<Condition>, TpccError> {
    let tool = Tool::Hardmeter;
    let (mut session, _) = begun(target, tool, stop)?;
    let money = Money::ask(&mut session, tool)?;
    conditions::check(&mut session, tool, &money, progress)
}

/// A session in a snapshot of the data, and the mark of the load that made them, if it was one of Hardmeter.
fn begun(target: &Target, tool: Tool, stop: &Stop) -> Result<(Session, Option<Mark>), TpccError> {
    let mut session = Session::open(target, stop)?;
    for table in Table::ALL {
        let name = tool.table(table);
        let sql = format!(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '{name}'"
        );
        if session.single("looking for tables", &sql)?.is_none() {
            return Err(TpccError::NoData { table: name });
        }
    }
    let mark = match tool {
        Tool::Hardmeter => Mark::of(&mut session)?,
        _ => None,
    };
    let servers = mark.as_ref().map_or(0, |mark| mark.layout.servers());
    // Groups of order lines should stay in memory and be made once, not again for each row that uses them.
    session.execute(
        "beginning the audit",
        "SET SESSION tmp_table_size = 256 * 1024 * 1024, SESSION max_heap_table_size = 256 * 1024 * 1024, \
         SESSION sort_buffer_size = 64 * 1024 * 1024, SESSION optimizer_switch = 'split_materialized=off'",
    )?;
    if servers > 0 {
        session.execute(
            "beginning the audit",
            "SET SESSION spider_use_consistent_snapshot = 1, SESSION spider_use_all_conns_snapshot = 1",
        )?;
    }
    session.execute("beginning the audit", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")?;
    Ok((session, mark))
}

/// Prepared transactions on Spider's data nodes: their rows stay locked until an administrator ends them; Spider
/// does not.
fn in_doubt(target: &Target, head: &mut Session, servers: u32, stop: &Stop) -> Result<Finding, TpccError> {
    let sites = Sites::of(target, head, servers)?;
    let mut sessions = sites.sessions(stop);
    let mut prepared = 0;
    for site in sites.data() {
        prepared += sessions.at(site)?.rows("asking for prepared transactions", "XA RECOVER")?.len();
    }
    Ok(Finding {
        name: "transactions left prepared on servers",
        clause: "3.2, 3.5",
        value: Some(prepared as f64),
        unit: "",
        n: u64::from(servers),
        expected: "0".into(),
        verdict: if prepared == 0 { Verdict::Held } else { Verdict::Short },
    })
}
