//! Classifies kinds and places nothing: the default policy.

use super::way::{cannot_place, nowhere, Policy};
use crate::model::{Machine, Plan, Workload};

/// Classes only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observe;

impl Policy for Observe {
    fn name(&self) -> &'static str {
        "observe"
    }

    fn decide(&self, machine: &Machine, workload: &Workload, _before: &Plan) -> Plan {
        nowhere(self.name(), workload, cannot_place(machine))
    }
}
