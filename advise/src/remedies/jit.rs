//! Just-in-time compilation costs more than it saves on short statements.
//!
//! Rule: of statements that spend a fifth or more of their execution on compiling, and run 10 s or less a
//! call, that compilation is at least 2 % of all execution time. A long statement that compiles for a moment
//! is not a fault.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Scope};

pub(super) const REMEDY: Remedy = Remedy {
    id: "jit",
    title: "switch just-in-time compilation off",
    audience: Audience::Operator,
    documentation: "https://www.postgresql.org/docs/current/jit-decision.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let counted = look.statements.iter().filter_map(|one| Some((one, one.counts.as_ref()?)));
    let total: f64 = counted.clone().map(|(_, counts)| counts.total_exec_time).sum();
    let mut compiled: Vec<_> = counted
        .filter(|(one, _)| one.ms_per_call().is_some_and(|ms| ms <= 10_000.0))
        .filter(|(_, counts)| ratio(counts.jit_ms(), counts.total_exec_time) >= 0.2)
        .collect();
    compiled.sort_by(|(_, a), (_, b)| b.jit_ms().total_cmp(&a.jit_ms()));
    let (worst, counts) = *compiled.first()?;
    let jit: f64 = compiled.iter().map(|(_, counts)| counts.jit_ms()).sum();
    let with = worst.ms_per_call()?;
    let without = (counts.total_exec_time - counts.jit_ms()).max(0.0) / counts.calls;
    let advice = Advice {
        finding: format!(
            "compiling takes {:.1} of {:.1} s ({:.1} %) of {}",
            counts.jit_ms() / 1e3,
            counts.total_exec_time / 1e3,
            ratio(counts.jit_ms(), counts.total_exec_time) * 100.0,
            worst.short()
        ),
        evidence: vec![
            Evidence::new(
                "compilation, of all execution time",
                ratio(jit, total) * 100.0,
                "%",
                counts.calls as u64,
            ),
            Evidence::new(
                "functions compiled a call",
                counts.jit_functions / counts.calls,
                "",
                counts.calls as u64,
            ),
            Evidence::new("jit_above_cost", look.server.number("jit_above_cost").unwrap_or(0.0), "cost", 1),
        ],
        prediction: Prediction::gain(
            ratio(jit, total),
            format!("{with:.1} -> {without:.1} ms a call"),
            "execution time less compilation time; that compiled code runs faster is left out",
        ),
        apply: vec![
            "-- new sessions take it; or raise jit_above_cost above the cost of these statements".into()
        ],
        risk: "long analytic statements may run slower; set it for a role where only some sessions are short"
            .into(),
        ..Advice::default()
    };
    let scope = Scope::Database(look.server.database.clone());
    Some(advice.with_setting(&look.server, scope, "jit", "off"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::statements::Counts;
    use crate::Statement;

    fn look(exec: f64, jit: f64, calls: f64) -> Look {
        let counts = Counts { calls, total_exec_time: exec, jit_emission_time: jit, ..Counts::default() };
        let statement = Statement { counts: Some(counts), share: 1.0, ..Statement::default() };
        Look { statements: vec![statement], ..Look::default() }
    }

    #[test]
    fn compilation_is_the_predicted_gain() {
        let advice = examine(&look(1000.0, 900.0, 10.0)).unwrap();
        assert_eq!(advice.prediction.gain, Some(0.9));
        assert_eq!(advice.prediction.effect, "100.0 -> 10.0 ms a call");
    }

    #[test]
    fn long_statements_may_compile() {
        assert_eq!(examine(&look(1000.0, 100.0, 10.0)), None);
        assert_eq!(examine(&look(40_000.0, 10_000.0, 2.0)), None);
    }
}
