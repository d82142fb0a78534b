//! Whether terminals key and think, and how fast.

use crate::measure::RunResult;
use crate::order::Mode;

/// What keying and think times were multiplied with; nothing if the run had none.
pub(super) fn time_factor(result: &RunResult) -> Option<f64> {
    match result.order.mode {
        Mode::Terminals { time_factor } => Some(time_factor),
        Mode::Closed { .. } | Mode::Open { .. } => None,
    }
}

/// Why a rule about terminals says nothing of a run without them.
pub(super) fn without_terminals(result: &RunResult) -> &'static str {
    match result.order.mode {
        Mode::Terminals { .. } => "",
        Mode::Closed { .. } => "a closed loop: clients do not key and do not think",
        Mode::Open { .. } => "open arrivals: no keying and think times",
    }
}
