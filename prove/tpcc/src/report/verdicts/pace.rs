//! Whether terminals have keying and think times, and their factor.

use crate::measure::RunResult;
use crate::order::Mode;

/// Factor of keying and think times; `None` if the run had none.
pub(super) fn time_factor(result: &RunResult) -> Option<f64> {
    match result.order.mode {
        Mode::Terminals { time_factor } => Some(time_factor),
        Mode::Closed { .. } | Mode::Open { .. } => None,
    }
}

/// The reason why a rule about terminals does not apply to a run without them.
pub(super) fn without_terminals(result: &RunResult) -> &'static str {
    match result.order.mode {
        Mode::Terminals { .. } => "",
        Mode::Closed { .. } => "a closed loop: clients do not key and do not think",
        Mode::Open { .. } => "open arrivals: no keying and think times",
    }
}
