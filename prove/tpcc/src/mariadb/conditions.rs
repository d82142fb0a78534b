//! The consistency conditions 3.3.2.1 to 3.3.2.12 in MariaDB's SQL; the rules are in [`crate::audit::conditions`].
//!
//! MariaDB has no full outer join: where a row may be missing on either side, both are combined by UNION ALL and
//! grouped. One side of the joins of orders and lines is an aggregate, which is materialized: look-ups by key in a
//! table on another server ([`super::Layout::Shards`]) would cost a round trip per row.

use super::session::Session;
use crate::audit::conditions::{ALL, EXAMPLES, INITIAL_ONLY};
use crate::audit::{Condition, Money, Tool, Verdict};
use crate::error::TpccError;
use hardmeter_session::Progress;
use std::time::Instant;

/// Each selects a column `text` for each row that violates the condition; in the order of [`ALL`].
const VIOLATIONS: [&str; 12] = [
    "SELECT concat_ws('', 'warehouse ', w_id, ': W_YTD ', w_ytd, ', sum of D_YTD ', total) AS text
        FROM {warehouse} LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS total FROM {district} GROUP BY d_w_id) districts
        ON d_w_id = w_id WHERE <<w_ytd ~ total>>",
    "SELECT concat_ws('', 'district ', d_w_id, '/', d_id, ': D_NEXT_O_ID ', d_next_o_id, ', last order ', last_order,
            ', last new order ', last_new) AS text
        FROM (SELECT d_w_id, d_id, d_next_o_id,
            (SELECT max(o_id) FROM {orders} WHERE o_w_id = d_w_id AND o_d_id = d_id) AS last_order,
            (SELECT max(no_o_id) FROM {new_order} WHERE no_w_id = d_w_id AND no_d_id = d_id) AS last_new
            FROM {district}) districts
        WHERE NOT d_next_o_id - 1 <=> last_order OR last_new <> last_order",
    "SELECT concat_ws('', 'district ', no_w_id, '/', no_d_id, ': new orders ', min(no_o_id), ' to ', max(no_o_id), ' are ',
            count(*), ' rows') AS text
        FROM {new_order} GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    "SELECT concat_ws('', 'district ', w, '/', d, ': O_OL_CNT add up to ', sum(promised), ', lines are ', sum(there)) AS text
        FROM (SELECT o_w_id AS w, o_d_id AS d, sum(o_ol_cnt) AS promised, 0 AS there FROM {orders} GROUP BY 1, 2
            UNION ALL SELECT ol_w_id, ol_d_id, 0, count(*) FROM {order_line} GROUP BY 1, 2) sides
        GROUP BY w, d HAVING sum(promised) <> sum(there)",
    "SELECT concat_ws('', 'order ', w, '/', d, '/', o, ': carrier ', coalesce(max(carrier), 'null'), ', ',
            CASE WHEN max(is_new) = 1 THEN 'a' ELSE 'no' END, ' new order') AS text
        FROM (SELECT o_w_id AS w, o_d_id AS d, o_id AS o, o_carrier_id AS carrier, 1 AS is_order, 0 AS is_new FROM {orders}
            UNION ALL SELECT no_w_id, no_d_id, no_o_id, NULL, 0, 1 FROM {new_order}) sides
        GROUP BY w, d, o HAVING max(is_order) = 0 OR (max(carrier) IS NULL) <> (max(is_new) = 1)",
    "SELECT concat_ws('', 'order ', w, '/', d, '/', o, ': O_OL_CNT ', sum(promised), ', lines ', sum(there)) AS text
        FROM (SELECT o_w_id AS w, o_d_id AS d, o_id AS o, o_ol_cnt AS promised, 0 AS there FROM {orders}
            UNION ALL SELECT ol_w_id, ol_d_id, ol_o_id, 0, count(*) FROM {order_line} GROUP BY 1, 2, 3) sides
        GROUP BY w, d, o HAVING sum(promised) <> sum(there)",
    "SELECT concat_ws('', 'order line ', ol_w_id, '/', ol_d_id, '/', ol_o_id, '/', ol_number, ': delivered ',
            coalesce(ol_delivery_d, 'null'), ', carrier ', coalesce(o_carrier_id, 'null')) AS text
        FROM {order_line} STRAIGHT_JOIN (SELECT o_w_id AS w, o_d_id AS d, o_id AS o, max(o_carrier_id) AS o_carrier_id
            FROM {orders} GROUP BY 1, 2, 3) carried ON w = ol_w_id AND d = ol_d_id AND o = ol_o_id
        WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    "SELECT concat_ws('', 'warehouse ', w_id, ': W_YTD ', w_ytd, ', history ', total) AS text
        FROM {warehouse} LEFT JOIN (SELECT h_w_id, sum(h_amount) AS total FROM {history} GROUP BY h_w_id) payments
        ON h_w_id = w_id WHERE <<w_ytd ~ total>>",
    "SELECT concat_ws('', 'district ', d_w_id, '/', d_id, ': D_YTD ', d_ytd, ', history ', total) AS text
        FROM {district} LEFT JOIN
            (SELECT h_w_id, h_d_id, sum(h_amount) AS total FROM {history} GROUP BY h_w_id, h_d_id) payments
        ON h_w_id = d_w_id AND h_d_id = d_id WHERE <<d_ytd ~ total>>",
    "SELECT concat_ws('', 'customer ', w, '/', d, '/', c, ': C_BALANCE ', sum(balance), ', delivered ', sum(delivered),
            ', paid ', sum(paid)) AS text
        FROM (SELECT c_w_id AS w, c_d_id AS d, c_id AS c, c_balance AS balance, 0 AS delivered, 0 AS paid FROM {customer}
            UNION ALL SELECT o_w_id, o_d_id, o_c_id, 0, sum(amount), 0
                FROM {orders} STRAIGHT_JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, sum(ol_amount) AS amount
                    FROM {order_line} WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) lines_of
                ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id GROUP BY 1, 2, 3
            UNION ALL SELECT h_c_w_id, h_c_d_id, h_c_id, 0, 0, sum(h_amount) FROM {history} GROUP BY 1, 2, 3) sides
        GROUP BY w, d, c HAVING <<sum(balance) ~ sum(delivered) - sum(paid)>>",
    "SELECT concat_ws('', 'district ', d_w_id, '/', d_id, ': ', orders, ' orders, ', news, ' new orders') AS text
        FROM (SELECT d_w_id, d_id,
            (SELECT count(*) FROM {orders} WHERE o_w_id = d_w_id AND o_d_id = d_id) AS orders,
            (SELECT count(*) FROM {new_order} WHERE no_w_id = d_w_id AND no_d_id = d_id) AS news
            FROM {district}) districts
        WHERE orders - news <> 2100",
    "SELECT concat_ws('', 'customer ', w, '/', d, '/', c, ': C_BALANCE ', sum(balance), ', C_YTD_PAYMENT ', sum(paid),
            ', delivered ', sum(delivered)) AS text
        FROM (SELECT c_w_id AS w, c_d_id AS d, c_id AS c, c_balance AS balance, c_ytd_payment AS paid, 0 AS delivered
                FROM {customer}
            UNION ALL SELECT o_w_id, o_d_id, o_c_id, 0, 0, sum(amount)
                FROM {orders} STRAIGHT_JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, sum(ol_amount) AS amount
                    FROM {order_line} WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) lines_of
                ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id GROUP BY 1, 2, 3) sides
        GROUP BY w, d, c HAVING <<sum(balance) + sum(paid) ~ sum(delivered)>>",
];

/// Checks all conditions in the session's snapshot.
pub(super) fn check(
    session: &mut Session,
    tool: Tool,
    money: &Money,
    progress: &dyn Progress,
) -> Result<Vec<Condition>, TpccError> {
    progress.phase("checking conditions", ALL.len() as u64);
    let has_run = has_run(session, tool)?;
    let mut conditions = vec![];
    for (number, (rule, sql)) in (1u8..).zip(ALL.iter().zip(VIOLATIONS)) {
        conditions.push(if number == INITIAL_ONLY && has_run {
            let (verdict, examples) = (Verdict::NotApplicable, vec![]);
            Condition { number, rule: rule.rule, verdict, violations: 0, examples, seconds: 0.0 }
        } else {
            check_one(session, number, rule.rule, &money.fill(&tool.fill(sql), differ))?
        });
        progress.advance(1);
    }
    Ok(conditions)
}

/// SQL for whether two amounts differ, exactly; NULL differs from any amount.
fn differ(one: &str, other: &str) -> String {
    format!("NOT (({one}) <=> ({other}))")
}

fn check_one(
    session: &mut Session,
    number: u8,
    rule: &'static str,
    sql: &str,
) -> Result<Condition, TpccError> {
    let begin = Instant::now();
    let what = format!("checking condition {number}");
    let sql = format!("SELECT text, count(*) OVER () FROM ({sql}) violations ORDER BY text LIMIT {EXAMPLES}");
    let rows = session.rows(&what, &sql)?;
    let column = |row: &Vec<Option<String>>, at: usize| row.get(at).cloned().flatten();
    let violations = rows.first().and_then(|row| column(row, 1)?.parse().ok()).unwrap_or(0);
    Ok(Condition {
        number,
        rule,
        verdict: if violations == 0 { Verdict::Held } else { Verdict::Short },
        violations,
        examples: rows.iter().filter_map(|row| column(row, 0)).collect(),
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// Whether transactions ran on the initial population: new orders, or deliveries of initial ones.
fn has_run(session: &mut Session, tool: Tool) -> Result<bool, TpccError> {
    let sql = tool.fill(
        "SELECT EXISTS (SELECT 1 FROM {district} WHERE d_next_o_id <> 3001)
             OR (SELECT count(*) FROM {new_order}) <> 900 * (SELECT count(*) FROM {district})",
    );
    Ok(session.single("looking for traces of a run", &sql)?.as_deref() == Some("1"))
}
