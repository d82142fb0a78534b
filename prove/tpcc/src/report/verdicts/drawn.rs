//! Clauses 5.2.3 and 9.2.2.5: the mix and the random inputs, compared with the windows of the specification's
//! auditors.

use super::{Group, Outcome, Verdict};
use crate::measure::RunResult;
use crate::random::Constants;
use crate::report::chance;
use crate::work::Kind;

/// Minimum share of a transaction in the mix (clause 5.2.3) in percent; `None` for New-Order.
pub fn least_share(kind: Kind) -> Option<f64> {
    [None, Some(43.0), Some(4.0), Some(4.0), Some(4.0)][kind.index()]
}

pub(super) fn of_the_mix(result: &RunResult) -> Vec<Verdict> {
    let all: u64 = result.kinds.iter().map(|kind| kind.completed).sum();
    let verdict = |kind: Kind| {
        let least = least_share(kind)?;
        let some = result.of(kind).completed;
        let share = (all > 0).then(|| some as f64 / all as f64 * 100.0);
        let verdict =
            Verdict::on(Group::Mix, "5.2.3, 5.2.5.7", format!("{} of all transactions", kind.name()))
                .wanted(format!("at least {least} %"))
                .found(share, "%", all);
        Some(verdict.ends(chance::within(some, all, least / 100.0, 1.0)))
    };
    Kind::ALL.into_iter().filter_map(verdict).collect()
}

pub(super) fn verdicts(result: &RunResult) -> Vec<Verdict> {
    let draws = &result.draws;
    let orders = result.of(Kind::NewOrder);
    vec![
        constants(result),
        window(
            "New-Orders rolled back",
            "2.4.1.4, 9.2.2.5",
            orders.rolled_back,
            orders.completed,
            (0.9, 1.1),
        ),
        mean_of_lines(result),
        even("order lines of an order, evenly from 5 to 15", "2.4.1.3", &draws.orders_by_lines),
        even("districts of New-Orders, evenly from 1 to 10", "2.4.1.2", &draws.orders_by_district),
        of_several(
            result,
            window(
                "order lines from other warehouses",
                "2.4.1.5, 9.2.2.5",
                draws.remote_lines,
                draws.lines,
                (0.95, 1.05),
            ),
        ),
        of_several(
            result,
            window(
                "payments of customers of other warehouses",
                "2.5.1.2, 9.2.2.5",
                draws.remote_payments,
                draws.payments,
                (14.0, 16.0),
            ),
        ),
        window(
            "Payments by last name",
            "2.5.1.2, 9.2.2.5",
            draws.payments_by_name,
            draws.payments,
            (57.0, 63.0),
        ),
        window(
            "Order-Status by last name",
            "2.6.1.2, 9.2.2.5",
            draws.order_statuses_by_name,
            draws.order_statuses,
            (57.0, 63.0),
        ),
    ]
}

fn constants(result: &RunResult) -> Verdict {
    let verdict = Verdict::on(Group::Drawn, "2.1.6.1", "distance of C-Run from C-Load, of last names")
        .wanted("65 to 119, not 96, not 112");
    let Some(load) = result.order.load_last else {
        return verdict.noting("the database does not say what it was loaded with");
    };
    let distance = result.order.constants.last.abs_diff(load);
    let legal = Constants::delta_is_legal(distance);
    verdict
        .found(Some(f64::from(distance)), "", 1)
        .ends(if legal { Outcome::Held } else { Outcome::Short })
        .noting(format!("C-Run {}, C-Load {load}", result.order.constants.last))
}

/// A share in percent and its window.
fn window(name: &str, clause: &'static str, some: u64, all: u64, (low, high): (f64, f64)) -> Verdict {
    let share = (all > 0).then(|| some as f64 / all as f64 * 100.0);
    Verdict::on(Group::Drawn, clause, name)
        .wanted(format!("{low} to {high} %"))
        .found(share, "%", all)
        .ends(chance::within(some, all, low / 100.0, high / 100.0))
}

/// Checks that need several warehouses.
fn of_several(result: &RunResult, verdict: Verdict) -> Verdict {
    if result.order.all_warehouses < 2 {
        verdict.not_applicable("there is one warehouse")
    } else {
        verdict
    }
}

fn mean_of_lines(result: &RunResult) -> Verdict {
    let draws = &result.draws;
    let orders: u64 = draws.orders_by_lines.iter().sum();
    let mean = (orders > 0).then(|| draws.lines as f64 / orders as f64);
    // The deviation of an even number from 5 to 15 is the root of 10.
    let chance = chance::DEVIATIONS * (10.0 / orders.max(1) as f64).sqrt();
    let outcome = match mean {
        None => Outcome::Undecided,
        Some(mean) if (9.5..=10.5).contains(&mean) => Outcome::Held,
        Some(mean) if (mean - mean.clamp(9.5, 10.5)).abs() <= chance => Outcome::Undecided,
        Some(_) => Outcome::Short,
    };
    Verdict::on(Group::Drawn, "2.4.1.3, 9.2.2.5", "order lines of an order, on average")
        .wanted("9.5 to 10.5")
        .found(mean, "", orders)
        .ends(outcome)
}

fn even(name: &str, clause: &'static str, classes: &[u64]) -> Verdict {
    let p = chance::evenly(classes);
    Verdict::on(Group::Drawn, clause, name)
        .wanted(format!("chi-square, p > {}", chance::DOUBT))
        .found(p, "p", classes.iter().sum())
        .ends(p.map_or(Outcome::Undecided, chance::of_p))
}
