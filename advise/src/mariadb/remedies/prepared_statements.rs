//! Statements that are parsed and planned at each call.
//!
//! Rule: 2,000 statements a second or more, fewer than a tenth of them executed as prepared ones, on a server whose active time
//! is mostly CPU time. A client that sends few long statements has nothing to gain.

use crate::look::shares::ratio;
use crate::mariadb::rules::on_cpu;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy};

/// Seconds of CPU to parse a short statement again, check it and open its tables; assumed.
const COST_OF_PARSE: f64 = 15e-6;

pub(super) const REMEDY: Remedy = Remedy {
    id: "prepared-statements",
    title: "prepare statements once, and use the binary protocol",
    audience: Audience::Application,
    documentation: "https://mariadb.com/kb/en/prepared-statements/",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let executed = maria.count("com_stmt_execute");
    let all = maria.count("questions");
    let rate = ratio(all, look.seconds);
    if rate < 2000.0 || executed > all / 10.0 || on_cpu(look) < 0.5 {
        return None;
    }
    let advice = Advice {
        finding: format!("{rate:.0} statements a second, {:.0} % of them prepared", ratio(executed, all) * 100.0),
        evidence: vec![
            Evidence::new("statements a second", rate, "1/s", all as u64),
            Evidence::new("executions of prepared statements", ratio(executed, all) * 100.0, "%", all as u64),
        ],
        prediction: Prediction::gain(
            look.time.with_cpu_seconds((all - executed) * COST_OF_PARSE).min(0.5),
            "parsing once a connection instead of at each call",
            "15 us of CPU a statement (assumed, not measured here) with the run queue in proportion",
        ),
        apply: vec![
            "-- in the application: server-side prepared statements that are kept (useServerPrepStmts, cursor(prepared=True))"
                .into(),
        ],
        risk: "each connection keeps its statements: max_prepared_stmt_count and memory".into(),
        ..Advice::default()
    };
    Some(advice)
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn many_short_statements_are_parsed() {
        let of = |all: f64, executed: f64| {
            examine(&look(&[("questions", all), ("com_stmt_execute", executed)], &[]))
        };
        // 100,000 x 15 us = 1.5 s of 10 s.
        assert!((of(1e5, 0.0).unwrap().prediction.gain.unwrap() - 0.15).abs() < 1e-9);
        assert_eq!((of(1e5, 9e4), of(1e4, 0.0)), (None, None));
    }
}
