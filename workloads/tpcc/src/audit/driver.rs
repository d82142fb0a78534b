//! What the rows say of the driver that made them.
//!
//! Orders behind number 3,000 and payments of another sum than 10.00 are a run's; the rest is the initial population's. A
//! share is held against the window that the specification's auditors use (clause 9.2.2.5), or against the value that
//! a distribution of the specification has.

use super::{Finding, Questions, Tool, Verdict};
use crate::error::TpccError;
use crate::random::A_ITEM;
use hardmeter_session::Progress;
use statrs::function::gamma::checked_gamma_ur;

/// Scans of tables that the findings take.
const SCANS: usize = SHARES.len() + 3;

/// Below this probability a deviation is no chance.
const CHANCE: f64 = 0.001;
/// The normal distribution's quantile of it, both sides.
const DEVIATIONS: f64 = 3.29;

/// A share, and what it should be.
struct Shares {
    name: &'static str,
    clause: &'static str,
    /// Selects how many of how many.
    sql: &'static str,
    /// Percent.
    window: (f64, f64),
    /// Whether a database with a single warehouse can show it.
    needs_others: bool,
}

const RUN_ORDERS: &str = "o_id > 3000";

const SHARES: [Shares; 5] = [
    Shares {
        name: "order lines from other warehouses",
        clause: "2.4.1.5, 9.2.2.5",
        sql: "SELECT count(CASE WHEN ol_supply_w_id <> ol_w_id THEN 1 END), count(*) FROM {order_line} WHERE ol_o_id > 3000",
        window: (0.95, 1.05),
        needs_others: true,
    },
    Shares {
        name: "payments of customers of other warehouses",
        clause: "2.5.1.2, 9.2.2.5",
        sql: "SELECT count(CASE WHEN h_c_w_id <> h_w_id THEN 1 END), count(*) FROM {history} WHERE h_amount <> 10",
        window: (14.0, 16.0),
        needs_others: true,
    },
    Shares {
        name: "customers with bad credit",
        clause: "4.3.3.1",
        sql: "SELECT count(CASE WHEN c_credit = 'BC' THEN 1 END), count(*) FROM {customer}",
        window: (10.0, 10.0),
        needs_others: false,
    },
    Shares {
        name: "items with ORIGINAL in their data",
        clause: "4.3.3.1",
        sql: "SELECT count(CASE WHEN i_data LIKE '%ORIGINAL%' THEN 1 END), count(*) FROM {item}",
        window: (10.0, 10.0),
        needs_others: false,
    },
    Shares {
        name: "stock with ORIGINAL in its data",
        clause: "4.3.3.1",
        sql: "SELECT count(CASE WHEN s_data LIKE '%ORIGINAL%' THEN 1 END), count(*) FROM {stock}",
        window: (10.0, 10.0),
        needs_others: false,
    },
];

/// Asks the data, in the session's snapshot.
pub(crate) fn examine(
    session: &mut dyn Questions,
    tool: Tool,
    warehouses: u64,
    progress: &dyn Progress,
) -> Result<Vec<Finding>, TpccError> {
    progress.phase("looking for the driver", SCANS as u64);
    let mut findings = vec![];
    for share in &SHARES {
        let (some, all) = pair(&numbers(session, tool, share.name, share.sql)?);
        findings.push(share_finding(share, some, all, warehouses));
        progress.advance(1);
    }
    let sql = format!("SELECT o_ol_cnt, count(*) FROM {{orders}} WHERE {RUN_ORDERS} GROUP BY 1 ORDER BY 1");
    let counts = numbers(session, tool, "counting order lines", &sql)?;
    findings.push(mean_of_lines(&counts));
    findings.push(evenly("order lines of an order, evenly from 5 to 15", "2.4.1.3", &spread(&counts, 5, 15)));
    progress.advance(1);
    let sql = format!("SELECT o_d_id, count(*) FROM {{orders}} WHERE {RUN_ORDERS} GROUP BY 1 ORDER BY 1");
    let counts = numbers(session, tool, "counting orders of districts", &sql)?;
    findings.push(evenly("districts of orders, evenly from 1 to 10", "2.4.1.2", &spread(&counts, 1, 10)));
    progress.advance(1);
    let sql = "SELECT n, count(*) FROM (SELECT count(*) AS n FROM {order_line} WHERE ol_o_id > 3000 GROUP BY ol_i_id) items
        GROUP BY n ORDER BY n DESC";
    findings.push(items(&numbers(session, tool, "counting items of order lines", sql)?));
    progress.advance(1);
    Ok(findings)
}

type Counts = Vec<(u64, u64)>;

/// Rows of two numbers.
fn numbers(session: &mut dyn Questions, tool: Tool, what: &str, sql: &str) -> Result<Counts, TpccError> {
    let rows = session.rows(what, &tool.fill(sql))?;
    let number = |row: &[Option<String>], at: usize| row.get(at)?.as_deref()?.parse().ok();
    Ok(rows.iter().filter_map(|row| Some((number(row, 0)?, number(row, 1)?))).collect())
}

fn pair(counts: &Counts) -> (u64, u64) {
    counts.first().copied().unwrap_or_default()
}

fn share_finding(share: &Shares, some: u64, all: u64, warehouses: u64) -> Finding {
    let (low, high) = share.window;
    let value = (all > 0).then(|| some as f64 / all as f64 * 100.0);
    let verdict = match value {
        _ if share.needs_others && warehouses < 2 => Verdict::NotApplicable,
        None => Verdict::NotApplicable,
        Some(value) => within(value, low, high, all),
    };
    let expected = if low == high { format!("{low} %") } else { format!("{low} to {high} %") };
    Finding { name: share.name, clause: share.clause, value, unit: "%", n: all, expected, verdict }
}

/// Whether a share lies within its window, or so near that chance explains it.
fn within(percent: f64, low: f64, high: f64, n: u64) -> Verdict {
    let bound = if percent < low { low } else { high };
    let deviation = (bound * (100.0 - bound) / n as f64).sqrt();
    let beyond = (percent - percent.clamp(low, high)).abs();
    if beyond == 0.0 {
        Verdict::Held
    } else if beyond <= DEVIATIONS * deviation {
        // A window of one value is that of a random choice, which is right within chance; the auditors' windows are
        // wide already, and what is beside them by chance is not yet right.
        if low == high {
            Verdict::Held
        } else {
            Verdict::Undecided
        }
    } else {
        Verdict::Short
    }
}

fn mean_of_lines(counts: &Counts) -> Finding {
    let orders: u64 = counts.iter().map(|(_, n)| n).sum();
    let lines: u64 = counts.iter().map(|(lines, n)| lines * n).sum();
    let value = (orders > 0).then(|| lines as f64 / orders as f64);
    let verdict = match value {
        None => Verdict::NotApplicable,
        Some(mean) if (9.5..=10.5).contains(&mean) => Verdict::Held,
        // The standard deviation of a number from 5 to 15 is the root of 10.
        Some(mean) if (mean - mean.clamp(9.5, 10.5)).abs() <= DEVIATIONS * (10.0 / orders as f64).sqrt() => {
            Verdict::Undecided
        }
        Some(_) => Verdict::Short,
    };
    let expected = "9.5 to 10.5".into();
    Finding {
        name: "order lines of an order",
        clause: "9.2.2.5",
        value,
        unit: "",
        n: orders,
        expected,
        verdict,
    }
}

/// Counts of each value from `first` to `last`; a value beyond makes one more class, which should be empty.
fn spread(counts: &Counts, first: u64, last: u64) -> Vec<u64> {
    let mut classes = vec![0; (last - first + 1) as usize];
    let mut beyond = 0;
    for &(value, n) in counts {
        match value.checked_sub(first).and_then(|at| classes.get_mut(at as usize)) {
            Some(class) => *class += n,
            None => beyond += n,
        }
    }
    if beyond > 0 {
        classes.push(beyond);
    }
    classes
}

/// The chi-square test of equal classes.
fn evenly(name: &'static str, clause: &'static str, classes: &[u64]) -> Finding {
    let n: u64 = classes.iter().sum();
    let each = n as f64 / classes.len() as f64;
    // The usual condition of the test: five expected in each class.
    let p = (each >= 5.0).then(|| {
        let chi: f64 = classes.iter().map(|&count| (count as f64 - each).powi(2) / each).sum();
        checked_gamma_ur((classes.len() - 1) as f64 / 2.0, chi / 2.0).unwrap_or(if chi > 0.0 {
            0.0
        } else {
            1.0
        })
    });
    let verdict = match p {
        None => Verdict::NotApplicable,
        Some(p) if p >= CHANCE => Verdict::Held,
        Some(_) => Verdict::Short,
    };
    Finding { name, clause, value: p, unit: "p", n, expected: format!("p at least {CHANCE}"), verdict }
}

/// The share of order lines that the most wanted hundredth of the items has. NURand(8191, 1, 100000) makes it large; a
/// driver that draws items evenly, or draws C anew each time, has some 1 to 3 %.
fn items(counts: &Counts) -> Finding {
    const TOP: u64 = 1_000;
    let lines: u64 = counts.iter().map(|(n, items)| n * items).sum();
    let (mut left, mut top) = (TOP, 0);
    for &(n, items) in counts {
        let taken = items.min(left);
        top += n * taken;
        left -= taken;
    }
    let expected = expected_top_share();
    // Items that are picked as the top with hindsight have more than their expectation, by about a deviation of each
    // item's own count: small against what tells NURand from others.
    let hindsight = (TOP as f64 * lines as f64 * expected).sqrt() / lines.max(1) as f64;
    let value = top as f64 / lines.max(1) as f64;
    let verdict = match lines {
        0..=9_999 => Verdict::NotApplicable,
        _ if value < expected - 0.01 || value > expected + hindsight + 0.01 => Verdict::Short,
        _ => Verdict::Held,
    };
    Finding {
        name: "order lines of the most wanted 1 % of items",
        clause: "2.1.6, 2.4.1.5",
        value: (lines >= 10_000).then_some(value * 100.0),
        unit: "%",
        n: lines,
        expected: format!(
            "{:.1} %, up to {:.1} % seen with hindsight",
            expected * 100.0,
            (expected + hindsight) * 100.0
        ),
        verdict,
    }
}

/// The exact share that the most probable 1,000 items have by NURand(8191, 1, 100000), for any C: C only turns them round.
fn expected_top_share() -> f64 {
    // P(a | b = v) over a of 13 random bits and b uniform: bits 0 to 12 of v are 1 unless both bits are 0; bits above are
    // those of b. Counted: for each b, the 2^(ones missing) values that OR can make.
    let values = 1usize << 17;
    let mut weight = vec![0.0f64; values];
    weight[1..=100_000].fill(1.0);
    // OR with a uniform 13-bit number, bit by bit: half of the weight stays, half moves to where the bit is set.
    for bit in 0..A_ITEM.count_ones() {
        for value in 0..values {
            if value & (1 << bit) == 0 {
                let half = weight[value] / 2.0;
                weight[value] = half;
                weight[value | (1 << bit)] += half;
            }
        }
    }
    // Modulo 100,000 folds what is above it.
    let mut folded = vec![0.0f64; 100_000];
    for (value, weight) in weight.iter().enumerate() {
        folded[value % 100_000] += weight;
    }
    folded.sort_by(|one, other| other.total_cmp(one));
    folded[..1_000].iter().sum::<f64>() / 100_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_hundredth_of_items_is_what_research_found() {
        // research/prove.md, 0: 30.7 % were counted in data, with hindsight, which adds a little.
        assert!((0.302..0.307).contains(&expected_top_share()), "{}", expected_top_share());
    }

    #[test]
    fn windows_hold_fall_short_or_stay_open() {
        // The two-sided probability of so many standard deviations.
        let chance = statrs::function::erf::erfc(DEVIATIONS / std::f64::consts::SQRT_2);
        assert!((chance - CHANCE).abs() < 1e-5);
        assert_eq!(within(1.0, 0.95, 1.05, 100), Verdict::Held);
        assert_eq!(within(0.0, 0.95, 1.05, 100), Verdict::Undecided);
        assert_eq!(within(0.0, 0.95, 1.05, 1_000_000), Verdict::Short);
        assert_eq!(within(49.9, 10.0, 10.0, 120_000), Verdict::Short);
        assert_eq!(within(10.2, 10.0, 10.0, 30_000), Verdict::Held);
    }

    #[test]
    fn even_and_uneven_classes_are_told_apart() {
        let held = |classes: &[u64]| evenly("", "", classes).verdict;
        assert_eq!(held(&[100, 104, 97, 99]), Verdict::Held);
        assert_eq!(held(&[100, 200, 100, 100]), Verdict::Short);
        assert_eq!(held(&[1, 2, 1, 1]), Verdict::NotApplicable);
        // Chi-square by hand: (10^2 + 10^2) / 100 = 2 with one degree of freedom, p = 0.1573.
        let p = evenly("", "", &[110, 90]).value.unwrap();
        assert!((p - 0.1573).abs() < 1e-4, "{p}");
        assert_eq!(spread(&vec![(5, 3), (15, 1), (16, 2)], 5, 15), [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn even_items_are_no_nurand() {
        // 100,000 items with 10 lines each: the top 1 % has 1 %.
        assert_eq!(items(&vec![(10, 100_000)]).verdict, Verdict::Short);
        assert_eq!(items(&vec![(10, 10)]).verdict, Verdict::NotApplicable);
    }
}
