//! Checks a database after a load and a run: is it consistent, and does it follow TPC-C?
//!
//! Two questions, of any tool's database ([`Tool`]): the twelve conditions of clause 3.3.2 ([`conditions`]), which
//! an engine must hold under any load; and checks of the driver by its rows ([`driver`]): the data show whether
//! random numbers, mix and population are those of TPC-C, which few tools implement fully.
//!
//! All statements only read, in one snapshot that several sessions share: an audit may run beside a workload.

mod chance;
pub mod conditions;
pub mod driver;
mod finding;
mod money;
mod names;
mod nurand;
mod questions;
mod ranges;
mod snapshot;

use crate::error::TpccError;
use hardmeter_session::{Progress, Stop, Target};
use std::time::Instant;

pub use finding::{Condition, Finding, Verdict};
pub(crate) use money::Money;
pub use names::Tool;
pub(crate) use questions::Questions;
use snapshot::Snapshot;

/// A whole audit.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Audit {
    /// The tool whose tables they are.
    pub tool: Tool,
    /// Whether a load of Hardmeter left its mark; false for other tools' tables.
    pub marked: bool,
    /// Warehouses.
    pub warehouses: u64,
    /// The twelve conditions.
    pub conditions: Vec<Condition>,
    /// Findings about the driver.
    pub findings: Vec<Finding>,
    /// Duration of the whole audit.
    pub seconds: f64,
}

impl Audit {
    /// Whether any line failed.
    pub fn is_short(&self) -> bool {
        let conditions = self.conditions.iter().map(|condition| condition.verdict);
        conditions.chain(self.findings.iter().map(|finding| finding.verdict)).any(|one| one == Verdict::Short)
    }
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
    let mut snapshot = Snapshot::take(target, Tool::Hardmeter, stop)?;
    let conditions = conditions::check(&mut snapshot, progress)?;
    snapshot.end()?;
    Ok(conditions)
}

/// Audits a database.
///
/// # Errors
///
/// [`TpccError::Session`] if a statement fails, the connection is lost, or `stop` was requested.
pub fn audit(target: &Target, tool: Tool, stop: &Stop, progress: &dyn Progress) -> Result<Audit, TpccError> {
    let started = Instant::now();
    let mut snapshot = Snapshot::take(target, tool, stop)?;
    let count = snapshot.single("counting warehouses", "SELECT count(*) FROM {warehouse}")?;
    let warehouses = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    let marked = tool == Tool::Hardmeter && snapshot.is_marked()?;
    let money = snapshot.money()?;
    let conditions = conditions::check(&mut snapshot, progress)?;
    let mut findings = vec![money.finding()];
    findings.extend(driver::examine_at_once(&snapshot, warehouses, progress)?);
    snapshot.end()?;
    Ok(Audit { tool, marked, warehouses, conditions, findings, seconds: started.elapsed().as_secs_f64() })
}
