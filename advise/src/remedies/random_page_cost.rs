//! random_page_cost keeps the planner from using an index.
//!
//! Rule: EXPLAIN with random_page_cost = 1.1 gives another plan, without a sequential scan, for a statement
//! with 5 % of the time or more, waits for locks not counted; and either the setting is above its default of 4,
//! or 99 % of block accesses hit the buffer pool, so a random access costs as much as a sequential one. A
//! setting that changes no plan of the load is not a fault.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Scope};

pub(super) const REMEDY: Remedy = Remedy {
    id: "random-page-cost",
    title: "lower random_page_cost",
    audience: Audience::Operator,
    documentation: "https://www.postgresql.org/docs/current/runtime-config-query.html#GUC-RANDOM-PAGE-COST",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let now = look.server.number("random_page_cost")?;
    let hits = ratio(look.database.blks_hit, look.database.blks_hit + look.database.blks_read);
    if now <= 4.0 && hits < 0.99 {
        return None;
    }
    let changed: Vec<_> = look
        .statements_over(0.05)
        .filter(|one| look.own_share(one) >= 0.05)
        .filter_map(|one| {
            let (plan, other) = (one.plan.as_ref()?, one.plan_with_cheap_random_pages.as_ref()?);
            let better =
                plan.shape != other.shape && !plan.seq_scans.is_empty() && other.seq_scans.is_empty();
            better.then(|| (one, ratio(other.cost, plan.cost).min(1.0)))
        })
        .collect();
    let (worst, left) = *changed.first()?;
    let gain: f64 = changed.iter().map(|(one, left)| look.own_share(one) * (1.0 - left)).sum();
    let effect = match worst.ms_per_call() {
        Some(ms) => format!("{ms:.2} -> {:.2} ms a call", ms * left),
        None => format!("-{:.0} % of this statement", (1.0 - left) * 100.0),
    };
    let calls = worst.counts.as_ref().map_or(worst.samples, |counts| counts.calls as u64);
    let advice = Advice {
        finding: format!("random_page_cost = {now} makes {} read a whole table", worst.short()),
        evidence: vec![
            Evidence::new("random_page_cost", now, "cost", 1),
            Evidence::new(
                "statements whose plan changes at 1.1",
                changed.len() as f64,
                "",
                changed.len() as u64,
            ),
            Evidence::new("the first one's part of the time", look.own_share(worst) * 100.0, "%", calls),
            Evidence::new(
                "blocks found in the buffer pool",
                hits * 100.0,
                "%",
                look.database.blks_hit as u64,
            ),
        ],
        prediction: Prediction::gain(
            gain,
            effect,
            "planner costs of both plans; a trial shows whether the other plan is faster",
        ),
        apply: vec!["-- new sessions take it".into()],
        risk: "other statements change their plans, too: watch those that read from disk".into(),
        ..Advice::default()
    };
    let scope = Scope::Database(look.server.database.clone());
    Some(advice.with_setting(&look.server, scope, "random_page_cost", "1.1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, SeqScan, Server, Statement, TimeShares};

    fn look(setting: &str, other: Plan) -> Look {
        let plan = Plan {
            cost: 100.0,
            shape: "Seq Scan".into(),
            seq_scans: vec![SeqScan::default()],
            ..Plan::default()
        };
        let statement = Statement {
            share: 0.5,
            plan: Some(plan),
            plan_with_cheap_random_pages: Some(other),
            ..Statement::default()
        };
        let settings = [("random_page_cost".to_owned(), setting.to_owned())].into();
        Look {
            server: Server { settings, ..Server::default() },
            statements: vec![statement],
            ..Look::default()
        }
    }

    #[test]
    fn only_a_plan_that_changes_is_a_fault() {
        let index = Plan { cost: 20.0, shape: "Index Scan".into(), ..Plan::default() };
        let advice = examine(&look("40", index.clone())).unwrap();
        assert_eq!(advice.prediction.gain, Some(0.4));
        let same = look("40", index.clone()).statements[0].plan.clone().unwrap();
        assert_eq!(examine(&look("40", same)), None);
        // The default, and blocks that come from disk.
        assert_eq!(examine(&look("4", index.clone())), None);
        // Another plan does not shorten waits for locks: of half of the time four fifths are waits.
        let mut waits = look("40", index);
        waits.time = TimeShares { total: 10.0, samples: 100, ..TimeShares::default() };
        waits.statements[0].lock_samples = 40;
        let gain = examine(&waits).unwrap().prediction.gain.unwrap();
        assert!((gain - 0.1 * 0.8).abs() < 1e-9, "{gain}");
        waits.statements[0].lock_samples = 47;
        assert_eq!(examine(&waits), None, "3 % of the time");
    }
}
