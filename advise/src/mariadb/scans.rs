//! Statements that read whole tables to keep a few rows, by EXPLAIN. The statement is not executed.

use super::target::{literal, MariaSession};
use crate::{AdviseError, Statement};
use serde::Serialize;
use serde_json::Value;

/// A whole table that is read for `column = value`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Scan {
    /// The abbreviated statement.
    pub statement: String,
    /// Its part of the samples of working connections, 0 to 1.
    pub share: f64,
    /// The samples.
    pub samples: u64,
    /// The table.
    pub table: String,
    /// The column that is compared.
    pub column: String,
    /// Rows that are read, as the optimizer expects.
    pub rows: f64,
    /// An index begins with the column; the optimizer does not use it.
    pub indexed: bool,
}

const LEAST_SHARE: f64 = 0.05;
const MOST: usize = 5;

/// The scans of the statements that were seen most.
pub(super) fn scans(session: &mut MariaSession, statements: &[Statement]) -> Result<Vec<Scan>, AdviseError> {
    let mut found = Vec::new();
    for statement in statements.iter().filter(|one| one.share >= LEAST_SHARE).take(MOST) {
        // Parameters of prepared statements are marks.
        let Some(text) = statement.example.as_ref().map(|text| text.replace('?', "'1'")) else { continue };
        // The server refuses a text that the process list truncated, and one with unknown parameters: these
        // have no plan.
        let Ok(Some(plan)) = session.value("explaining a statement", &format!("EXPLAIN FORMAT=JSON {text}"))
        else {
            continue;
        };
        let plan: Value = serde_json::from_str(&plan).unwrap_or_default();
        let mut tables = Vec::new();
        whole_tables(&plan, &mut tables);
        for (alias, rows, condition) in tables {
            let Some(column) = compared(&condition, &alias) else { continue };
            let table = table_of(&text, &alias);
            let sql = format!(
                "SELECT COUNT(*) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() \
                 AND TABLE_NAME = {} AND COLUMN_NAME = {} AND SEQ_IN_INDEX = 1",
                literal(&table),
                literal(&column)
            );
            let indexed = session.value("looking for an index", &sql)?.is_some_and(|count| count != "0");
            found.push(Scan {
                statement: statement.short(),
                share: statement.share,
                samples: statement.samples,
                table,
                column,
                rows,
                indexed,
            });
        }
    }
    Ok(found)
}

/// The tables of a plan that are read as a whole: name, rows, and the condition of their rows.
fn whole_tables(plan: &Value, found: &mut Vec<(String, f64, String)>) {
    match plan {
        Value::Array(list) => list.iter().for_each(|one| whole_tables(one, found)),
        Value::Object(fields) => {
            if fields.get("access_type").and_then(Value::as_str) == Some("ALL") {
                let text =
                    |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                let rows = fields.get("rows").and_then(Value::as_f64).unwrap_or(0.0);
                found.push((text("table_name"), rows, text("attached_condition")));
            }
            fields.values().for_each(|one| whole_tables(one, found));
        }
        _ => {}
    }
}

/// The column of a table that the condition compares with a constant: `ox.customer = 5`.
fn compared(condition: &str, alias: &str) -> Option<String> {
    let condition = condition.replace('`', "");
    condition.split(" and ").find_map(|part| {
        let (left, right) = part.trim_matches(['(', ')']).split_once(" = ")?;
        let column = left.trim().strip_prefix(alias)?.strip_prefix('.')?;
        let plain = column.chars().all(|one| one.is_alphanumeric() || one == '_');
        let constant = right.trim().starts_with(|one: char| one.is_ascii_digit() || "'\"-?".contains(one));
        (plain && constant && !part.contains(" or ")).then(|| column.to_owned())
    })
}

/// The table behind an alias: `FROM orders AS o`, `JOIN orders o`.
fn table_of(text: &str, alias: &str) -> String {
    let words: Vec<&str> = text
        .split(|one: char| one.is_whitespace() || "(),;".contains(one))
        .filter(|word| !word.is_empty() && !word.eq_ignore_ascii_case("as"))
        .map(|word| word.trim_matches('`'))
        .collect();
    for (at, word) in words.iter().enumerate() {
        let names = ["from", "join", "update"].iter().any(|one| word.eq_ignore_ascii_case(one));
        if names && words.get(at + 2) == Some(&alias) {
            return words[at + 1].rsplit('.').next().unwrap_or(alias).trim_matches('`').to_owned();
        }
    }
    alias.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_compared_with_constants() {
        assert_eq!(compared("ox.customer = 5", "ox").unwrap(), "customer");
        assert_eq!(compared("ox.a > 3 and ox.`b` = 'x'", "ox").unwrap(), "b");
        assert_eq!(compared("ox.a = ox.b", "ox"), None);
        assert_eq!(compared("t.a = 5", "ox"), None);
        assert_eq!(compared("lower(ox.a) = 'x'", "ox"), None);
        assert_eq!(table_of("SELECT 1 FROM shop.orders AS o WHERE o.a = 1", "o"), "orders");
        assert_eq!(table_of("SELECT 1 FROM orders WHERE a = 1", "orders"), "orders");
    }

    #[test]
    fn whole_tables_are_found_anywhere_in_a_plan() {
        let plan = serde_json::json!({"query_block": {"nested_loop": [{"table": {
            "table_name": "ox", "access_type": "ALL", "rows": 200, "attached_condition": "ox.a = 1"}},
            {"table": {"table_name": "t", "access_type": "ref", "rows": 1}}]}});
        let mut found = Vec::new();
        whole_tables(&plan, &mut found);
        assert_eq!(found, [("ox".to_owned(), 200.0, "ox.a = 1".to_owned())]);
    }
}
