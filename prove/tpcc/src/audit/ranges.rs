//! The conditions on every order line, checked by one statement for a range of warehouses.
//!
//! Conditions 4, 6, 7, 10 and 12 each add up the largest table. Here it is aggregated once, by order, for all five;
//! several sessions that share a snapshot take a range each. A violated condition runs again by its own statement
//! ([`super::conditions::ALL`]), which names rows: only consistent databases, the usual case, save time.

use super::Tool;

/// The conditions, in the order of the statement's columns.
pub(super) const NUMBERS: [u8; 5] = [4, 6, 7, 10, 12];

/// Maximum warehouses of a range: the aggregates of eight new warehouses take about 60 MB of memory.
const MOST: u64 = 8;

/// Warehouses from the first up to, and without, the last. `None`: as far as there are any, or rows without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    from: Option<i64>,
    to: Option<i64>,
}

impl Range {
    /// Splits all warehouses into ranges for this number of sessions.
    pub(super) fn cut(first: i64, last: i64, jobs: usize) -> Vec<Range> {
        let all = last.abs_diff(first) + 1;
        let width = all.div_ceil(jobs.max(1) as u64).clamp(1, MOST) as usize;
        let edges: Vec<i64> = (first..=last).step_by(width).skip(1).collect();
        let from = std::iter::once(None).chain(edges.iter().copied().map(Some));
        let to = edges.iter().copied().map(Some).chain([None]);
        from.zip(to).map(|(from, to)| Range { from, to }).collect()
    }

    /// The condition that a column is in it.
    fn holds(self, column: &str) -> String {
        match (self.from, self.to) {
            (None, None) => "true".into(),
            (None, Some(to)) => format!("{column} < {to}"),
            (Some(from), None) => format!("{column} >= {from}"),
            (Some(from), Some(to)) => format!("{column} >= {from} AND {column} < {to}"),
        }
    }

    /// The statement that counts what breaks each of [`NUMBERS`] in it.
    pub(super) fn statement(self, tool: Tool) -> String {
        let columns = ["ol_w_id", "o_w_id", "c_w_id", "h_c_w_id"];
        let sql = columns.iter().fold(STATEMENT.to_owned(), |sql, column| {
            sql.replace(&format!("[{column}]"), &self.holds(column))
        });
        tool.fill(&sql)
    }
}

/// `[column]` stands for the condition that the column is in the range; `<<ONE ~ OTHER>>` for two amounts that
/// differ ([`super::money`]).
const STATEMENT: &str = "
    WITH lines AS MATERIALIZED (
        SELECT ol_w_id AS w, ol_d_id AS d, ol_o_id AS o, count(*) AS there, count(ol_delivery_d) AS delivered,
            sum(ol_amount) FILTER (WHERE ol_delivery_d IS NOT NULL) AS amount
        FROM {order_line} WHERE [ol_w_id] GROUP BY 1, 2, 3
    ), both_sides AS MATERIALIZED (
        SELECT w, d, o, c, promised, waiting, there, delivered, amount
        FROM (SELECT o_w_id AS w, o_d_id AS d, o_id AS o, o_c_id AS c, o_ol_cnt AS promised, o_carrier_id IS NULL AS waiting
            FROM {orders} WHERE [o_w_id]) AS one
        FULL JOIN lines USING (w, d, o)
    ), districts AS (
        SELECT count(*) AS broken FROM (SELECT FROM both_sides GROUP BY w, d
            HAVING sum(promised) IS DISTINCT FROM sum(there)) AS districts
    ), orders AS (
        SELECT count(*) FILTER (WHERE promised IS DISTINCT FROM there) AS six,
            coalesce(sum(CASE WHEN waiting THEN delivered ELSE there - delivered END) FILTER (WHERE waiting IS NOT NULL), 0)
            AS seven
        FROM both_sides
    ), customers AS (
        SELECT count(*) FILTER (WHERE <<c_balance ~ coalesce(due, 0) - coalesce(paid, 0)>>) AS ten,
            count(*) FILTER (WHERE <<c_balance + c_ytd_payment ~ coalesce(due, 0)>>) AS twelve
        FROM {customer}
            LEFT JOIN (SELECT w AS o_w, d AS o_d, c AS o_c, sum(amount) AS due FROM both_sides GROUP BY 1, 2, 3) AS sums
            ON o_w = c_w_id AND o_d = c_d_id AND o_c = c_id
            LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM {history} WHERE [h_c_w_id]
                GROUP BY 1, 2, 3) AS payments
            ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
        WHERE [c_w_id]
    )
    SELECT broken, six, seven, ten, twelve FROM districts, orders, customers";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_leave_nothing_out_and_overlap_nowhere() {
        let words = |ranges: Vec<Range>| ranges.iter().map(|range| range.holds("w")).collect::<Vec<_>>();
        assert_eq!(words(Range::cut(1, 4, 2)), ["w < 3", "w >= 3"]);
        assert_eq!(words(Range::cut(1, 1, 4)), ["true"]);
        assert_eq!(words(Range::cut(1, 20, 2)), ["w < 9", "w >= 9 AND w < 17", "w >= 17"]);
        assert_eq!(words(Range::cut(0, 2, 8)), ["w < 1", "w >= 1 AND w < 2", "w >= 2"]);
    }

    #[test]
    fn statements_have_the_tool_s_names_and_no_hole() {
        let sql = Range::cut(1, 4, 2)[0].statement(Tool::BenchBase);
        assert!(sql.contains("FROM oorder WHERE o_w_id < 3)"), "{sql}");
        assert!(!sql.contains(['{', '}', '[', ']']), "{sql}");
    }
}
