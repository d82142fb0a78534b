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
mod names;
mod nurand;
mod ranges;
mod snapshot;

use crate::error::TpccError;
use hardmeter_session::{Progress, Session, Stop, Target};
use std::time::Instant;

pub use names::Tool;
use snapshot::Snapshot;

/// How a line of an audit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Held,
    /// Not as it should be.
    Short,
    /// Too few rows to tell, or beside the bar by less than chance does.
    Undecided,
    /// It says nothing of these data.
    NotApplicable,
}

/// A condition of clause 3.3.2, and what came of it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Condition {
    /// 1 to 12.
    pub number: u8,
    /// What must hold.
    pub rule: &'static str,
    /// What came of it.
    pub verdict: Verdict,
    /// Rows that break it.
    pub violations: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
    /// How long it took. Conditions 4, 6, 7, 10 and 12 share a statement: each has a fifth of its time.
    pub seconds: f64,
}

/// Something that the data say of their driver.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Finding {
    /// What it is.
    pub name: &'static str,
    /// The clause that asks for it.
    pub clause: &'static str,
    /// What was found: a share in percent, a mean, or a p-value, as `unit` says.
    pub value: Option<f64>,
    /// Of `value`.
    pub unit: &'static str,
    /// Rows behind it.
    pub n: u64,
    /// What it should be, in words.
    pub expected: String,
    /// What came of it.
    pub verdict: Verdict,
}

/// A whole audit.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Audit {
    /// Whose tables they were.
    pub tool: Tool,
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
    let conditions = conditions::check(&mut snapshot, progress)?;
    let findings = driver::examine_at_once(&snapshot, warehouses, progress)?;
    snapshot.end()?;
    Ok(Audit { tool, warehouses, conditions, findings, seconds: started.elapsed().as_secs_f64() })
}

/// Answers questions on the rows: an engine's session.
pub(crate) trait Questions {
    /// The rows of a statement that is written so that all engines understand it. `what` is for messages.
    fn rows(&mut self, what: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, TpccError>;
}

impl Questions for Session {
    fn rows(&mut self, what: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, TpccError> {
        Ok(self.query(what, sql)?.rows)
    }
}
