//! What a load and a run left in a database: is it consistent, and is it TPC-C?
//!
//! Two questions, of any tool's database ([`Tool`]): the twelve conditions of clause 3.3.2 ([`conditions`]), which an
//! engine must hold under any load; and what the rows say of the driver that made them ([`driver`]): what TPC-C
//! prescribes of random numbers, mixes and populations can be seen in the data, and few tools keep to it.
//!
//! All statements read, in one snapshot that several sessions share: an audit may run beside a workload.

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
    /// Whose tables they were.
    pub tool: Tool,
    /// Whether a load of Hardmeter left its mark in the database; not asked of other tools' tables.
    pub marked: bool,
    /// Warehouses.
    pub warehouses: u64,
    /// The twelve conditions.
    pub conditions: Vec<Condition>,
    /// What the data say of their driver.
    pub findings: Vec<Finding>,
    /// How long all took.
    pub seconds: f64,
}

impl Audit {
    /// Whether any line came out short.
    pub fn is_short(&self) -> bool {
        let conditions = self.conditions.iter().map(|condition| condition.verdict);
        conditions.chain(self.findings.iter().map(|finding| finding.verdict)).any(|one| one == Verdict::Short)
    }
}

/// Checks the twelve conditions only.
///
/// # Errors
///
/// [`TpccError::Session`] if a statement fails, the connection is lost, or `stop` was requested.
pub fn check_conditions(
    target: &Target,
    tool: Tool,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Vec<Condition>, TpccError> {
    let mut snapshot = Snapshot::take(target, tool, stop)?;
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
