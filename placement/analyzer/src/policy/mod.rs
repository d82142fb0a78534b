//! Policies: from what kinds do to cores for them. Pure functions, so that the simulator asks the same ones.

use crate::model::{Machine, Plan, Workload};

/// A way to decide.
pub trait Policy: Send + Sync {
    /// As `--policy` names it.
    fn name(&self) -> &'static str;

    /// Where each kind shall run. `before`: what was decided last, for whoever wants to move little.
    fn decide(&self, machine: &Machine, workload: &Workload, before: &Plan) -> Plan;
}
