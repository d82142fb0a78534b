//! Plans of the load's statements: EXPLAIN, never with ANALYZE, so that no statement is run.
//!
//! 1. Only a text that is a single statement, without `;`, and of a kind that can be explained, is sent.
//! 2. The session is read-only and its statements have a time limit.
//! 3. A text with parameters is prepared and explained with its generic plan, which needs no values.

use hardmeter_session::{Session, SessionError};
use serde::Serialize;
use serde_json::Value;

/// The parts of a plan that rules need.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// The planner's total cost.
    pub cost: f64,
    /// The rows that the planner expects.
    pub rows: f64,
    /// Kinds of nodes with their relations, from top to bottom: plans of equal shape are the same plan.
    pub shape: String,
    /// The tables that are read from beginning to end.
    pub seq_scans: Vec<SeqScan>,
}

/// A table that a plan reads from beginning to end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct SeqScan {
    pub schema: String,
    pub table: String,
    /// The filter, in the server's format; empty: all rows are kept.
    pub filter: String,
    /// Its cost; for a scan by parallel workers, including their start.
    pub cost: f64,
    /// The rows that the planner expects to be kept.
    pub rows: f64,
}

impl SeqScan {
    /// Columns that the filter compares with `=`: candidates for an index. Empty if the filter has an `OR`,
    /// which no single index supports.
    pub fn equal_columns(&self) -> Vec<String> {
        if self.filter.contains(" OR ") {
            return Vec::new();
        }
        let mut columns = Vec::new();
        for condition in self.filter.split(" AND ") {
            let condition = condition.trim_matches(|c| c == '(' || c == ')');
            let Some((column, value)) = condition.split_once(" = ") else { continue };
            let Some(name) = column_name(column) else { continue };
            if is_value(value) && !columns.contains(&name) {
                columns.push(name);
            }
        }
        columns
    }

    /// Columns that the filter casts and compares with `=`, each with the type that it is cast to: `(id)::numeric = 5.0`.
    pub fn cast_columns(&self) -> Vec<(String, String)> {
        if self.filter.contains(" OR ") {
            return Vec::new();
        }
        let casts = self.filter.split(" AND ").filter_map(|condition| {
            let (column, value) = condition.trim_start_matches('(').split_once(" = ")?;
            let (column, cast) = column.split_once(")::")?;
            let is_type = cast.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ' ');
            (is_type && is_value(value)).then_some((column_name(column)?, cast.to_owned()))
        });
        casts.collect()
    }
}

/// The planner's cost of rows that an index finds; by default a random page costs 4.
pub(crate) fn by_index(random_page_cost: Option<f64>, rows: f64) -> f64 {
    random_page_cost.unwrap_or(4.0) * (2.0 + rows)
}

/// The name of a column, with or without its table's; `None` for other expressions.
fn column_name(text: &str) -> Option<String> {
    let name = text.rsplit('.').next().unwrap_or(text).trim_matches('"');
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && !text.contains('(')).then(|| name.to_owned())
}

/// True for a value; false for another column of the table.
fn is_value(text: &str) -> bool {
    let text = text.trim_start_matches('(');
    text.starts_with(|c: char| "'$-".contains(c) || c.is_ascii_digit()) || text.starts_with("InitPlan")
}

/// The plan of a statement, with a setting changed for this plan only; `None` for a text that cannot be
/// explained.
pub(super) fn explain(
    session: &mut Session,
    text: &str,
    setting: Option<(&str, &str)>,
) -> Result<Option<Plan>, SessionError> {
    let Some(sql) = explaining(text) else { return Ok(None) };
    let set = setting.map_or_else(String::new, |(name, value)| format!("SET LOCAL {name} = {value};"));
    session.execute("preparing to explain a statement", &format!("BEGIN READ ONLY; {set}"))?;
    let explained = (|| {
        if let Some(prepare) = &sql.prepare {
            session.execute("preparing a statement", prepare)?;
        }
        session.query("explaining a statement", &sql.explain)
    })();
    let ended = session.execute("ending the explanation", "ROLLBACK; DEALLOCATE ALL");
    let answer = explained?;
    ended?;
    Ok(answer.single().and_then(|json| serde_json::from_str(json).ok()).and_then(|json| parse(&json)))
}

/// The default of parallel_setup_cost.
const PARALLEL_SETUP_COST: f64 = 1000.0;

struct Explaining {
    prepare: Option<String>,
    explain: String,
}

/// How a text is explained; `None` if it must not be.
fn explaining(text: &str) -> Option<Explaining> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let first: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
    let known = ["select", "with", "update", "delete", "insert"];
    if text.contains(';') || !known.contains(&first.to_ascii_lowercase().as_str()) {
        return None;
    }
    let parameters = text.split('$').skip(1).filter_map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<usize>().ok()
    });
    Some(match parameters.max() {
        None => Explaining { prepare: None, explain: format!("EXPLAIN (FORMAT JSON, VERBOSE) {text}") },
        Some(most) => Explaining {
            prepare: Some(format!(
                "SET LOCAL plan_cache_mode = force_generic_plan; PREPARE hardmeter_look AS {text}"
            )),
            explain: format!(
                "EXPLAIN (FORMAT JSON, VERBOSE) EXECUTE hardmeter_look({})",
                vec!["NULL"; most].join(", ")
            ),
        },
    })
}

fn parse(json: &Value) -> Option<Plan> {
    let top = json.get(0)?.get("Plan")?;
    let mut plan =
        Plan { cost: top["Total Cost"].as_f64()?, rows: top["Plan Rows"].as_f64()?, ..Plan::default() };
    walk(top, &mut plan);
    Some(plan)
}

fn walk(node: &Value, plan: &mut Plan) {
    let text = |key: &str| node[key].as_str().unwrap_or_default().to_owned();
    let kind = text("Node Type");
    plan.shape += &format!("{kind} {}{} (", text("Relation Name"), text("Index Name"));
    if kind == "Seq Scan" {
        let parallel = node["Parallel Aware"].as_bool().unwrap_or(false);
        let workers = if parallel { PARALLEL_SETUP_COST } else { 0.0 };
        plan.seq_scans.push(SeqScan {
            schema: text("Schema"),
            table: text("Relation Name"),
            filter: text("Filter"),
            cost: node["Total Cost"].as_f64().unwrap_or_default() + workers,
            rows: node["Plan Rows"].as_f64().unwrap_or_default(),
        });
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        walk(child, plan);
    }
    plan.shape.push(')');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_single_statements_are_explained() {
        assert!(explaining("SELECT 1; DELETE FROM t").is_none());
        assert!(explaining("VACUUM t").is_none());
        assert!(explaining("EXPLAIN ANALYZE DELETE FROM t").is_none());
        assert!(explaining("ANALYZE SELECT 1").is_none());
        let plain = explaining("select 1 ;").unwrap();
        assert_eq!(
            (plain.explain.as_str(), plain.prepare),
            ("EXPLAIN (FORMAT JSON, VERBOSE) select 1", None)
        );
        let two = explaining("UPDATE t SET a = $2 WHERE b = $1").unwrap();
        assert_eq!(two.explain, "EXPLAIN (FORMAT JSON, VERBOSE) EXECUTE hardmeter_look(NULL, NULL)");
        assert!(two.prepare.unwrap().ends_with("PREPARE hardmeter_look AS UPDATE t SET a = $2 WHERE b = $1"));
    }

    #[test]
    fn plans_are_read() {
        let json = serde_json::json!([{"Plan": {"Node Type": "Aggregate", "Total Cost": 9.5, "Plan Rows": 1, "Plans": [
            {"Node Type": "Seq Scan", "Relation Name": "t", "Total Cost": 9.0, "Plan Rows": 3, "Filter": "(a = 5)"}]}}]);
        let plan = parse(&json).unwrap();
        assert_eq!((plan.cost, plan.rows, plan.shape.as_str()), (9.5, 1.0, "Aggregate  (Seq Scan t ())"));
        assert_eq!(plan.seq_scans[0].equal_columns(), ["a"]);
    }

    #[test]
    fn candidate_columns_are_those_compared_with_a_value() {
        let columns = |filter: &str| SeqScan { filter: filter.into(), ..SeqScan::default() }.equal_columns();
        assert_eq!(columns("((cust = 5) AND (state = 'new'::text) AND (a > 3))"), ["cust", "state"]);
        assert_eq!(columns("(t.cust = $1)"), ["cust"]);
        assert_eq!(columns("(cust = other)"), [""; 0]);
        assert_eq!(columns("((a = 1) OR (b = 2))"), [""; 0]);
        assert_eq!(columns("(lower(name) = 'x'::text)"), [""; 0]);
        assert_eq!(columns("((t.id)::numeric = 5.5)"), [""; 0]);
    }

    #[test]
    fn cast_columns_have_their_type() {
        let casts = |filter: &str| SeqScan { filter: filter.into(), ..SeqScan::default() }.cast_columns();
        let pair = |column: &str, cast: &str| vec![(column.to_owned(), cast.to_owned())];
        assert_eq!(casts("((t.id)::numeric = '5'::numeric)"), pair("id", "numeric"));
        assert_eq!(casts("(((id)::double precision = $1) AND (a = 3))"), pair("id", "double precision"));
        assert_eq!(casts("((id)::numeric = (other)::numeric)"), []);
        assert_eq!(casts("((lower(name))::bpchar = 'x'::bpchar)"), []);
        assert_eq!(casts("(id = 5)"), []);
    }
}
