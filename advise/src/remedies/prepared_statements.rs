//! Statements are planned at each call.
//!
//! Rule: if planning is counted, statements that are planned at nine of ten calls or more spend a quarter or
//! more of planning and execution on planning. Without `pg_stat_statements.track_planning` nothing is known,
//! and the rule does not fire.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy};

pub(super) const REMEDY: Remedy = Remedy {
    id: "prepared-statements",
    title: "prepare statements once, execute them often",
    audience: Audience::Application,
    documentation: "https://www.postgresql.org/docs/current/sql-prepare.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let counted = look.statements.iter().filter_map(|one| Some((one, one.counts.as_ref()?)));
    let total: f64 = counted.clone().map(|(_, counts)| counts.total_plan_time + counts.total_exec_time).sum();
    let planned: Vec<_> = counted
        .filter(|(_, counts)| counts.calls >= 100.0 && counts.plans >= 0.9 * counts.calls)
        .filter(|(_, counts)| {
            ratio(counts.total_plan_time, counts.total_plan_time + counts.total_exec_time) >= 0.25
        })
        .collect();
    let (worst, counts) =
        *planned.iter().max_by(|(_, a), (_, b)| a.total_plan_time.total_cmp(&b.total_plan_time))?;
    let planning: f64 = planned.iter().map(|(_, counts)| counts.total_plan_time).sum();
    let calls: f64 = planned.iter().map(|(_, counts)| counts.calls).sum();
    Some(Advice {
        finding: format!(
            "{} is planned at each call: {:.3} ms, and executed in {:.3} ms",
            worst.short(),
            counts.total_plan_time / counts.calls,
            counts.total_exec_time / counts.calls
        ),
        evidence: vec![
            Evidence::new("planning, of planning and execution", ratio(planning, total) * 100.0, "%", calls as u64),
            Evidence::new("plans a call", ratio(counts.plans, counts.calls), "", counts.calls as u64),
        ],
        prediction: Prediction::gain(
            ratio(planning, total),
            format!("-{:.3} ms a call of planning", counts.total_plan_time / counts.calls),
            "planning time goes; parsing goes, too, and is not counted here: a lower bound",
        ),
        apply: vec![
            "-- in the application: prepared statements (JDBC prepareThreshold, libpq PQprepare, pgbench -M prepared)"
                .into(),
            "-- behind pgbouncer: version 1.21 or newer, max_prepared_statements above 0".into(),
        ],
        undo: vec!["-- send statements by the simple protocol again; or SET plan_cache_mode = force_custom_plan".into()],
        risk: "a generic plan may suit rare values worse; plan_cache_mode decides it for a role".into(),
        ..Advice::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::statements::Counts;
    use crate::Statement;

    #[test]
    fn planning_must_be_counted_and_large() {
        let look = |plans, total_plan_time| {
            let counts =
                Counts { calls: 1000.0, plans, total_plan_time, total_exec_time: 60.0, ..Counts::default() };
            Look {
                statements: vec![Statement { counts: Some(counts), ..Statement::default() }],
                ..Look::default()
            }
        };
        let advice = examine(&look(1000.0, 40.0)).unwrap();
        assert_eq!(advice.prediction.gain, Some(0.4));
        assert_eq!(examine(&look(0.0, 0.0)), None);
        assert_eq!(examine(&look(1000.0, 10.0)), None);
        assert_eq!(examine(&look(6.0, 40.0)), None);
    }
}
