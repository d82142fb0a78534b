//! The consistency conditions, clauses 3.3.2.1 to 3.3.2.12, each as one statement over whole tables.
//!
//! A statement selects the rows that violate its condition as one text each, so that the violations are named. Sums
//! and counts of a district are compared as sets: row by row, as some tools do it, condition 10 alone takes minutes
//! (docs/design/prove.md, 3). Those that add up all order lines share one statement in the usual case
//! ([`super::ranges`]).

use super::money::Money;
use super::ranges::{self, Range};
use super::snapshot::{into_inner, lock, Snapshot};
use super::{Condition, Tool, Verdict};
use crate::error::TpccError;
use hardmeter_session::{Progress, Session};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

/// A condition: its rule, and the statement that finds violations.
pub struct Rule {
    /// The rule.
    pub rule: &'static str,
    /// Selects a text for each row that breaks it.
    violations: &'static str,
}

/// The twelve, in the order of their clauses.
pub const ALL: [Rule; 12] = [
    Rule {
        rule: "W_YTD = sum(D_YTD)",
        violations: "SELECT format('warehouse %s: W_YTD %s, sum of D_YTD %s', w_id, w_ytd, total)
            FROM {warehouse} LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS total FROM {district} GROUP BY d_w_id) districts
            ON d_w_id = w_id WHERE <<w_ytd ~ total>>",
    },
    Rule {
        rule: "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
        // Look-ups by key. A district whose orders are all delivered has no new order.
        violations: "SELECT format('district %s/%s: D_NEXT_O_ID %s, last order %s, last new order %s',
                d_w_id, d_id, d_next_o_id, last_order, last_new)
            FROM (SELECT d_w_id, d_id, d_next_o_id,
                (SELECT max(o_id) FROM {orders} WHERE o_w_id = d_w_id AND o_d_id = d_id) AS last_order,
                (SELECT max(no_o_id) FROM {new_order} WHERE no_w_id = d_w_id AND no_d_id = d_id) AS last_new
                FROM {district}) districts
            WHERE d_next_o_id - 1 IS DISTINCT FROM last_order OR last_new <> last_order",
    },
    Rule {
        rule: "max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER of a district",
        violations: "SELECT format('district %s/%s: new orders %s to %s are %s rows', no_w_id, no_d_id,
                min(no_o_id), max(no_o_id), count(*))
            FROM {new_order} GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    },
    Rule {
        rule: "sum(O_OL_CNT) = rows of ORDER-LINE of a district",
        violations: "SELECT format('district %s/%s: O_OL_CNT add up to %s, lines are %s', w, d, promised, there)
            FROM (SELECT o_w_id AS w, o_d_id AS d, sum(o_ol_cnt) AS promised FROM {orders} GROUP BY 1, 2) one
            FULL JOIN (SELECT ol_w_id AS w, ol_d_id AS d, count(*) AS there FROM {order_line} GROUP BY 1, 2) other
            USING (w, d) WHERE promised IS DISTINCT FROM there",
    },
    Rule {
        rule: "O_CARRIER_ID is null if and only if there is a row of NEW-ORDER",
        violations: "SELECT format('order %s/%s/%s: carrier %s, %s new order', w, d, o, coalesce(carrier::text, 'null'),
                CASE WHEN new THEN 'a' ELSE 'no' END)
            FROM (SELECT o_w_id AS w, o_d_id AS d, o_id AS o, o_carrier_id AS carrier, true AS ordered FROM {orders}) one
            FULL JOIN (SELECT no_w_id AS w, no_d_id AS d, no_o_id AS o, true AS new FROM {new_order}) other
            USING (w, d, o) WHERE ordered IS NULL OR (carrier IS NULL) <> (new IS NOT NULL)",
    },
    Rule {
        rule: "O_OL_CNT = rows of ORDER-LINE of an order",
        violations: "SELECT format('order %s/%s/%s: O_OL_CNT %s, lines %s', w, d, o, promised, there)
            FROM (SELECT o_w_id AS w, o_d_id AS d, o_id AS o, o_ol_cnt AS promised FROM {orders}) one
            FULL JOIN (SELECT ol_w_id AS w, ol_d_id AS d, ol_o_id AS o, count(*) AS there
                FROM {order_line} GROUP BY 1, 2, 3) other
            USING (w, d, o) WHERE promised IS DISTINCT FROM there",
    },
    Rule {
        rule: "OL_DELIVERY_D is null if and only if O_CARRIER_ID is",
        violations: "SELECT format('order line %s/%s/%s/%s: delivered %s, carrier %s', ol_w_id, ol_d_id, ol_o_id, ol_number,
                coalesce(ol_delivery_d::text, 'null'), coalesce(o_carrier_id::text, 'null'))
            FROM {order_line} JOIN {orders} ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
            WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    },
    Rule {
        rule: "W_YTD = sum(H_AMOUNT)",
        violations: "SELECT format('warehouse %s: W_YTD %s, history %s', w_id, w_ytd, total)
            FROM {warehouse} LEFT JOIN (SELECT h_w_id, sum(h_amount) AS total FROM {history} GROUP BY h_w_id) payments
            ON h_w_id = w_id WHERE <<w_ytd ~ total>>",
    },
    Rule {
        rule: "D_YTD = sum(H_AMOUNT)",
        violations: "SELECT format('district %s/%s: D_YTD %s, history %s', d_w_id, d_id, d_ytd, total)
            FROM {district} LEFT JOIN
                (SELECT h_w_id, h_d_id, sum(h_amount) AS total FROM {history} GROUP BY h_w_id, h_d_id) payments
            ON h_w_id = d_w_id AND h_d_id = d_id WHERE <<d_ytd ~ total>>",
    },
    Rule {
        rule: "C_BALANCE = sum(OL_AMOUNT delivered) - sum(H_AMOUNT)",
        violations: "SELECT format('customer %s/%s/%s: C_BALANCE %s, delivered %s, paid %s', c_w_id, c_d_id, c_id,
                c_balance, coalesce(delivered, 0), coalesce(paid, 0))
            FROM {customer} LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered
                FROM {orders} JOIN {order_line} ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
                WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) lines
            ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
            LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM {history} GROUP BY 1, 2, 3) payments
            ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
            WHERE <<c_balance ~ coalesce(delivered, 0) - coalesce(paid, 0)>>",
    },
    Rule {
        rule: "rows of ORDER - rows of NEW-ORDER = 2100 of a district, before any run",
        violations: "SELECT format('district %s/%s: %s orders, %s new orders', d_w_id, d_id, orders, news)
            FROM (SELECT d_w_id, d_id, d_next_o_id,
                (SELECT count(*) FROM {orders} WHERE o_w_id = d_w_id AND o_d_id = d_id) AS orders,
                (SELECT count(*) FROM {new_order} WHERE no_w_id = d_w_id AND no_d_id = d_id) AS news
                FROM {district}) districts
            WHERE orders - news <> 2100",
    },
    Rule {
        rule: "C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT delivered)",
        violations: "SELECT format('customer %s/%s/%s: C_BALANCE %s, C_YTD_PAYMENT %s, delivered %s', c_w_id, c_d_id, c_id,
                c_balance, c_ytd_payment, coalesce(delivered, 0))
            FROM {customer} LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered
                FROM {orders} JOIN {order_line} ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
                WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) lines
            ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
            WHERE <<c_balance + c_ytd_payment ~ coalesce(delivered, 0)>>",
    },
];

/// The only condition on the initial population.
pub(crate) const INITIAL_ONLY: u8 = 11;
/// Maximum number of named violations.
pub(crate) const EXAMPLES: usize = 3;

/// Checks all conditions in a snapshot.
pub(super) fn check(
    snapshot: &mut Snapshot<'_>,
    progress: &dyn Progress,
) -> Result<Vec<Condition>, TpccError> {
    let has_run = has_run(snapshot)?;
    let money = snapshot.money()?;
    let (first, last) = snapshot.warehouses()?;
    let ranges = Range::cut(first, last, snapshot.jobs());
    let alone: Vec<u8> = (1..=12).filter(|number| !ranges::NUMBERS.contains(number)).collect();
    progress.phase("checking conditions", (ranges.len() + alone.len()) as u64);

    let checked: Mutex<BTreeMap<u8, Condition>> = Mutex::default();
    let summed: Mutex<Summed> = Mutex::default();
    // The ranges first: they take longest.
    let tasks = ranges.into_iter().map(Task::Range).chain(alone.into_iter().map(Task::Rule));
    snapshot.ask(tasks, |session, tool, task| {
        match task {
            Task::Range(range) => lock(&summed).add(sum(session, tool, &money, range)?),
            Task::Rule(number) => {
                let condition = match number {
                    INITIAL_ONLY if has_run => Condition::not_applicable(number),
                    _ => check_one(session, tool, &money, number)?,
                };
                lock(&checked).insert(number, condition);
            }
        }
        progress.advance(1);
        Ok(())
    })?;
    let summed = into_inner(summed);
    for (number, violations) in ranges::NUMBERS.into_iter().zip(summed.violations) {
        if violations == 0 {
            let seconds = summed.seconds / ranges::NUMBERS.len() as f64;
            lock(&checked).insert(number, Condition::held(number, seconds));
        }
    }
    // Violated conditions run again by their own statement, for the names.
    let broken = ranges::NUMBERS.into_iter().zip(summed.violations).filter(|(_, violations)| *violations > 0);
    snapshot.ask(broken, |session, tool, (number, _)| {
        let condition = check_one(session, tool, &money, number)?;
        lock(&checked).insert(number, condition);
        Ok(())
    })?;
    Ok(into_inner(checked).into_values().collect())
}

/// A unit of work.
enum Task {
    Range(Range),
    Rule(u8),
}

/// Sums over ranges of warehouses.
#[derive(Default)]
struct Summed {
    /// In the order of [`ranges::NUMBERS`].
    violations: [u64; 5],
    seconds: f64,
}

impl Summed {
    fn add(&mut self, other: Summed) {
        for (all, more) in self.violations.iter_mut().zip(other.violations) {
            *all += more;
        }
        self.seconds += other.seconds;
    }
}

fn sum(session: &mut Session, tool: Tool, money: &Money, range: Range) -> Result<Summed, TpccError> {
    let begin = Instant::now();
    let answer = session.query("adding up order lines", &money.fill(&range.statement(tool), differ))?;
    // A value that is not a number counts as a violation, so that the condition's own statement runs.
    let mut summed = Summed { violations: [1; 5], seconds: 0.0 };
    let row = answer.rows.first().into_iter().flatten();
    for (violations, text) in summed.violations.iter_mut().zip(row) {
        *violations = text.as_deref().and_then(|text| text.parse().ok()).unwrap_or(1);
    }
    summed.seconds = begin.elapsed().as_secs_f64();
    Ok(summed)
}

impl Condition {
    fn held(number: u8, seconds: f64) -> Condition {
        let rule = ALL[usize::from(number) - 1].rule;
        Condition { number, rule, verdict: Verdict::Held, violations: 0, examples: vec![], seconds }
    }

    fn not_applicable(number: u8) -> Condition {
        Condition { verdict: Verdict::NotApplicable, ..Condition::held(number, 0.0) }
    }
}

/// SQL for whether two amounts differ, exactly; NULL differs from any amount.
fn differ(one: &str, other: &str) -> String {
    format!("{one} IS DISTINCT FROM {other}")
}

fn check_one(session: &mut Session, tool: Tool, money: &Money, number: u8) -> Result<Condition, TpccError> {
    let begin = Instant::now();
    let what = format!("checking condition {number}");
    let sql = format!(
        "SELECT text, count(*) OVER () FROM ({}) AS violations(text) ORDER BY text LIMIT {EXAMPLES}",
        money.fill(&tool.fill(ALL[usize::from(number) - 1].violations), differ)
    );
    let answer = session.query(&what, &sql)?;
    let column = |row: &Vec<Option<String>>, at: usize| row.get(at).cloned().flatten();
    let violations = answer.rows.first().and_then(|row| column(row, 1)?.parse().ok()).unwrap_or(0);
    Ok(Condition {
        verdict: if violations == 0 { Verdict::Held } else { Verdict::Short },
        violations,
        examples: answer.rows.iter().filter_map(|row| column(row, 0)).collect(),
        ..Condition::held(number, begin.elapsed().as_secs_f64())
    })
}

/// Whether transactions ran on the initial population: new orders, or deliveries of initial ones.
fn has_run(snapshot: &mut Snapshot<'_>) -> Result<bool, TpccError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM {district} WHERE d_next_o_id <> 3001)
             OR (SELECT count(*) FROM {new_order}) <> 900 * (SELECT count(*) FROM {district})";
    Ok(snapshot.single("looking for traces of a run", sql)?.as_deref() == Some("t"))
}
