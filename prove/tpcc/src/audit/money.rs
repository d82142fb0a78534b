//! The type of money columns: exact decimals, as the specification requires (clause 1.3), or floating point.
//!
//! Sums of floating point differ in their last digits by the order of their additions. That is one finding about
//! the columns' type, not thousands of wrong balances: conditions compare such money up to half a cent.

use super::{Finding, Questions, Tool, Verdict};
use crate::error::TpccError;
use crate::schema::Table;

/// The columns that hold money.
const COLUMNS: [(Table, &[&str]); 6] = [
    (Table::Item, &["i_price"]),
    (Table::Warehouse, &["w_ytd"]),
    (Table::District, &["d_ytd"]),
    (Table::Customer, &["c_credit_lim", "c_balance", "c_ytd_payment"]),
    (Table::History, &["h_amount"]),
    (Table::OrderLine, &["ol_amount"]),
];

/// The types of the money columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Money {
    /// Number of money columns.
    columns: u64,
    /// Floating-point columns, with their type.
    floating: Vec<String>,
}

impl Money {
    /// Queries a database of this tool.
    pub(crate) fn ask(session: &mut dyn Questions, tool: Tool) -> Result<Money, TpccError> {
        let mut money = Money::default();
        for (table, columns) in COLUMNS {
            let sql = session.types_of(&tool.table(table));
            for row in session.rows("asking for the types of columns", &sql)? {
                let [Some(column), Some(of_type)] = &row[..] else { continue };
                let (column, of_type) = (column.to_lowercase(), of_type.to_lowercase());
                if !columns.contains(&column.as_str()) {
                    continue;
                }
                money.columns += 1;
                if ["float", "double", "real"].iter().any(|name| of_type.starts_with(name)) {
                    money.floating.push(format!("{column} {of_type}"));
                }
            }
        }
        Ok(money)
    }

    /// A statement with a comparison in place of each `<<ONE ~ OTHER>>`, true if the two amounts differ.
    pub(crate) fn fill(&self, sql: &str, exactly: fn(&str, &str) -> String) -> String {
        let mut filled = String::new();
        let mut rest = sql;
        while let Some((before, after)) = rest.split_once("<<") {
            let (comparison, behind) = after.split_once(">>").unwrap_or((after, ""));
            let (one, other) = comparison.split_once(" ~ ").unwrap_or((comparison, comparison));
            filled += before;
            filled += &match self.floating.is_empty() {
                true => exactly(one, other),
                false => format!(
                    "coalesce(abs(({one}) - ({other})) >= 0.005, (({one}) IS NULL) <> (({other}) IS NULL))"
                ),
            };
            rest = behind;
        }
        filled + rest
    }

    /// The finding about the types.
    pub(crate) fn finding(&self) -> Finding {
        let floating = self.floating.len() as u64;
        let expected = match &self.floating[..] {
            [] => "0: exact decimals".to_owned(),
            floating => {
                format!("0: exact decimals; sums of {} are compared up to half a cent", floating.join(", "))
            }
        };
        Finding {
            name: "columns of money in floating point",
            clause: "1.3",
            value: (self.columns > 0).then_some(floating as f64),
            unit: "",
            n: self.columns,
            expected,
            verdict: match (self.columns, floating) {
                (0, _) => Verdict::NotApplicable,
                (_, 0) => Verdict::Held,
                _ => Verdict::Short,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exactly(one: &str, other: &str) -> String {
        format!("{one} IS DISTINCT FROM {other}")
    }

    #[test]
    fn exact_money_is_compared_exactly_and_floating_money_up_to_half_a_cent() {
        let exact = Money { columns: 8, floating: vec![] };
        let sql = "WHERE <<w_ytd ~ total>> OR <<a ~ b - c>>";
        assert_eq!(
            exact.fill(sql, exactly),
            "WHERE w_ytd IS DISTINCT FROM total OR a IS DISTINCT FROM b - c"
        );
        assert_eq!((exact.finding().verdict, exact.finding().value), (Verdict::Held, Some(0.0)));
        let floating = Money { columns: 8, floating: vec!["w_ytd double".into()] };
        assert_eq!(
            floating.fill("WHERE <<w_ytd ~ total>> LIMIT 3", exactly),
            "WHERE coalesce(abs((w_ytd) - (total)) >= 0.005, ((w_ytd) IS NULL) <> ((total) IS NULL)) LIMIT 3"
        );
        assert_eq!((floating.finding().verdict, floating.finding().value), (Verdict::Short, Some(1.0)));
        assert!(floating.finding().expected.contains("w_ytd double"));
    }
}
