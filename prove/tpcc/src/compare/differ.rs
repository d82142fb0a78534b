//! What two results have otherwise in order and environment.

use crate::measure::RunResult;
use crate::order::Mode;
use crate::report::summary::mode_in_words;
use serde::Serialize;
use serde_json::Value;

/// A parameter in which two results differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its path: `order.connections`.
    pub what: String,
    /// In A.
    pub a: String,
    /// In B.
    pub b: String,
}

/// All of them.
pub(super) fn differences(a: &RunResult, b: &RunResult) -> Vec<Difference> {
    let mut found = Vec::new();
    let value = |result: &RunResult| {
        serde_json::json!({
            "order": result.order, "environment": result.environment, "measured_seconds": result.measured_seconds
        })
    };
    differ(&value(a), &value(b), String::new(), &mut found);
    found
}

/// Those that runs of one side must not have: parameters, system, settings.
pub(super) fn of_configuration(a: &RunResult, b: &RunResult) -> Vec<Difference> {
    const CONFIGURATION: [&str; 5] = [
        "order.",
        "environment.cpu_plan",
        "environment.hardmeter",
        "environment.settings",
        "environment.system",
    ];
    // These are others in each run.
    const OF_EACH_RUN: [&str; 3] = ["order.seed", "order.start_at", "order.constants"];
    let begins = |one: &Difference, names: &[&str]| names.iter().any(|name| one.what.starts_with(name));
    let mut all = differences(a, b);
    all.retain(|one| begins(one, &CONFIGURATION) && !begins(one, &OF_EACH_RUN));
    all
}

fn differ(a: &Value, b: &Value, path: String, found: &mut Vec<Difference>) {
    if let (Value::Object(one), Value::Object(two)) = (a, b) {
        let mut names: Vec<_> = one.keys().chain(two.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            differ(
                one.get(name).unwrap_or(&Value::Null),
                two.get(name).unwrap_or(&Value::Null),
                below,
                found,
            );
        }
    } else if a != b {
        let text = |value: &Value| match value {
            Value::Null => "-".to_string(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        found.push(Difference { what: path, a: text(a), b: text(b) });
    }
}

/// Why two runs must not be compared; empty if they may be.
pub(super) fn incomparable(a: &RunResult, b: &RunResult) -> Vec<String> {
    let mut reasons = Vec::new();
    let kind = |mode: Mode| match mode {
        Mode::Terminals { .. } => 0,
        Mode::Closed { .. } => 1,
        Mode::Open { .. } => 2,
    };
    if a.order.mode != b.order.mode {
        let what = if kind(a.order.mode) == kind(b.order.mode) { "load" } else { "mode" };
        reasons.push(format!("{what}: {} and {}", mode_in_words(a.order.mode), mode_in_words(b.order.mode)));
    }
    if a.order.warehouses != b.order.warehouses {
        reasons.push(format!("warehouses: {} and {}", a.order.warehouses, b.order.warehouses));
    }
    if a.order.all_warehouses != b.order.all_warehouses {
        reasons.push(format!(
            "warehouses in the database: {} and {}",
            a.order.all_warehouses, b.order.all_warehouses
        ));
    }
    if a.measured_seconds <= 0.0 || b.measured_seconds <= 0.0 {
        reasons.push("one of them was cut off before its measurement interval".into());
    }
    reasons
}
