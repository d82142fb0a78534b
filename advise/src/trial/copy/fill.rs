//! Values for the parameters of a statement whose literals pg_stat_statements has removed.
//!
//! A parameter is compared with a column, assigned to one, or stands in the place of one in VALUES: its values are drawn
//! from a sample of that column. The count of a LIMIT and the terms of arithmetic get small numbers.

use super::super::control::{literal, Control};
use super::super::TryError;
use super::replay::Dice;
use crate::look::views::quoted;
use hardmeter_session::Session;
use std::collections::BTreeMap;

/// A statement whose parameters can be drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template {
    text: String,
    /// The values of each parameter; none: the text has its literals.
    values: Vec<Vec<String>>,
}

impl Template {
    /// A text that is run as it is.
    pub(super) fn fixed(text: &str) -> Template {
        Template { text: text.to_owned(), values: Vec::new() }
    }

    /// Prepares it in a session; false if the server refuses.
    pub(super) fn prepare(&self, session: &mut Session, number: usize) -> bool {
        if self.values.is_empty() {
            return true;
        }
        let sql = format!("PREPARE hm_{number} AS {}", self.text.trim_end().trim_end_matches(';'));
        session.execute("preparing a replayed statement", &sql).is_ok()
    }

    /// A statement that executes it with drawn values.
    pub(super) fn execution(&self, number: usize, dice: &mut Dice) -> String {
        if self.values.is_empty() {
            return self.text.clone();
        }
        let values: Vec<String> =
            self.values.iter().map(|values| dice.of(values).map_or("NULL".into(), literal)).collect();
        format!("EXECUTE hm_{number}({})", values.join(", "))
    }
}

/// The role of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Column(String),
    /// A column of the table that is inserted into, by its number where the statement does not name columns.
    Inserted(usize),
    Number,
    Unknown,
}

/// The part of a table that has some 3,000 rows.
const PERCENT: &str = "least(100, greatest(0.01, 300000 / greatest(1, c.reltuples)))";

/// Finds values, and caches them by column.
#[derive(Default)]
pub(super) struct Filler {
    samples: BTreeMap<(String, String), Vec<String>>,
}

impl Filler {
    /// A statement with values for each of its parameters; `None` where some have none.
    pub(super) fn template(
        &mut self,
        control: &mut Control,
        text: &str,
    ) -> Result<Option<Template>, TryError> {
        let words = words(text);
        let names: Vec<String> = words.iter().filter(|word| is_name(word)).map(|word| bare(word)).collect();
        let Some(places) = places(&words) else { return Ok(None) };
        let mut values = Vec::new();
        for place in &places {
            let found = match place {
                Place::Number => (1..=20).map(|number| number.to_string()).collect(),
                Place::Unknown => Vec::new(),
                Place::Column(column) => self.of_column(control, &names, column)?,
                Place::Inserted(number) => self.of_inserted(control, &words, *number)?,
            };
            if found.is_empty() {
                return Ok(None);
            }
            values.push(found);
        }
        Ok(Some(Template { text: text.to_owned(), values }))
    }

    fn of_column(
        &mut self,
        control: &mut Control,
        names: &[String],
        column: &str,
    ) -> Result<Vec<String>, TryError> {
        let list: Vec<String> = names.iter().map(|name| literal(name)).collect();
        let sql = format!(
            "SELECT c.oid::regclass::text, a.attname, {PERCENT} FROM pg_catalog.pg_attribute a \
             JOIN pg_catalog.pg_class c ON c.oid = a.attrelid WHERE a.attname = {} AND c.relname IN ({}) \
             AND c.relkind IN ('r', 'p', 'm') AND a.attnum > 0 AND NOT a.attisdropped LIMIT 1",
            literal(column),
            list.join(", ")
        );
        self.sampled(control, &sql)
    }

    fn of_inserted(
        &mut self,
        control: &mut Control,
        words: &[String],
        number: usize,
    ) -> Result<Vec<String>, TryError> {
        let at = words.iter().position(|word| word.eq_ignore_ascii_case("into"));
        let Some(table) = at.and_then(|at| words.get(at + 1)) else { return Ok(Vec::new()) };
        let sql = format!(
            "SELECT c.oid::regclass::text, a.attname, {PERCENT} FROM pg_catalog.pg_attribute a \
             JOIN pg_catalog.pg_class c ON c.oid = a.attrelid WHERE c.oid = to_regclass({}) \
             AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum OFFSET {number} LIMIT 1",
            literal(table)
        );
        self.sampled(control, &sql)
    }

    /// Values of the column that a query finds.
    fn sampled(&mut self, control: &mut Control, sql: &str) -> Result<Vec<String>, TryError> {
        let found = control.row("looking for a column", sql)?;
        let Some([Some(table), Some(column), Some(percent)]) = found.as_deref() else {
            return Ok(Vec::new());
        };
        let key = (table.clone(), column.clone());
        if let Some(values) = self.samples.get(&key) {
            return Ok(values.clone());
        }
        let column = quoted(column);
        let sql = format!(
            "SELECT {column}::text FROM {table} TABLESAMPLE SYSTEM ({percent}) WHERE {column} IS NOT NULL \
             ORDER BY random() LIMIT 500"
        );
        // This view respects rights: a column that this role may not read has no values.
        let rows = match control.rows("drawing values", &sql) {
            Ok(rows) => rows,
            Err(TryError::Session(error)) if !error.ends_session() => Vec::new(),
            Err(error) => return Err(error),
        };
        let values: Vec<String> = rows.into_iter().flatten().flatten().collect();
        self.samples.insert(key, values.clone());
        Ok(values)
    }
}

/// The place of each parameter by its number; `None` where their numbers have gaps.
fn places(words: &[String]) -> Option<Vec<Place>> {
    let mut found: BTreeMap<usize, Place> = BTreeMap::new();
    for (at, word) in words.iter().enumerate() {
        let Some(number) = word.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok()) else {
            continue;
        };
        let place = place(words, at);
        let known = found.entry(number).or_insert(Place::Unknown);
        if *known == Place::Unknown {
            *known = place;
        }
    }
    let most = found.keys().next_back().copied().unwrap_or(0);
    (1..=most).map(|number| found.get(&number).cloned()).collect()
}

fn place(words: &[String], at: usize) -> Place {
    let lower = |at: usize| words.get(at).map(|word| word.to_lowercase()).unwrap_or_default();
    let before = |steps: usize| at.checked_sub(steps).map(lower).unwrap_or_default();
    if ["limit", "offset"].contains(&before(1).as_str()) {
        return Place::Number;
    }
    if ["+", "-", "*", "/", "%"].contains(&before(1).as_str())
        || ["+", "-", "*", "/", "%"].contains(&lower(at + 1).as_str())
    {
        return Place::Number;
    }
    // Goes back over a list, NOT, ANY and the like, to the column.
    let mut back = at;
    let mut compared = false;
    while back > 0 {
        back -= 1;
        let word = lower(back);
        match word.as_str() {
            "," | "not" | "any" | "in" | "=" | "<" | ">" | "<=" | ">=" | "<>" | "!=" | "~~" | "like"
            | "ilike" | "between" | "symmetric" => {
                compared |= word != ",";
            }
            "(" => {}
            "and"
                if words[..back].len() >= 2
                    && lower(back - 1).starts_with('$')
                    && lower(back - 2) == "between" =>
            {
                compared = true;
                back -= 2;
            }
            "values" => {
                let list = &words[back..at];
                let commas = list.iter().rev().take_while(|word| *word != "(").filter(|word| *word == ",");
                return inserted(words, commas.count());
            }
            word if word.starts_with('$') => {}
            ")" => {
                // Another row of VALUES, or an expression.
                let values = words[..at].iter().rposition(|word| word.eq_ignore_ascii_case("values"));
                let first = words[..at].iter().rposition(|word| word == "(").unwrap_or(0);
                return match values {
                    Some(values) if values < first => {
                        inserted(words, words[first..at].iter().filter(|word| *word == ",").count())
                    }
                    _ => Place::Unknown,
                };
            }
            _ if compared && is_name(&words[back]) => return Place::Column(bare(&words[back])),
            _ => return Place::Unknown,
        }
    }
    Place::Unknown
}

/// The column at this position of VALUES: from the list of columns, if the statement has one.
fn inserted(words: &[String], number: usize) -> Place {
    let Some(into) = words.iter().position(|word| word.eq_ignore_ascii_case("into")) else {
        return Place::Unknown;
    };
    if words.get(into + 2).is_some_and(|word| word == "(") {
        let columns = words[into + 3..].iter().take_while(|word| *word != ")");
        let mut columns = columns.filter(|word| *word != ",");
        return columns.nth(number).map_or(Place::Unknown, |name| Place::Column(bare(name)));
    }
    Place::Inserted(number)
}

/// The words of a statement: names with their qualifiers, parameters, operators; without literals.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(first) = rest.next() {
        let mut word = String::from(first);
        let mut take = |word: &mut String, more: &dyn Fn(char) -> bool| {
            while let Some(next) = rest.next_if(|next| more(*next)) {
                word.push(next);
            }
        };
        if first.is_alphabetic() || first == '_' || first == '"' || first == '$' {
            take(&mut word, &|next| next.is_alphanumeric() || "_.\"$".contains(next));
        } else if "<>=!~".contains(first) {
            take(&mut word, &|next| "<>=!~*".contains(next));
        } else if first.is_whitespace() {
            continue;
        } else if first == ':' {
            // A cast says nothing about the column.
            take(&mut word, &|next| next == ':' || next.is_alphanumeric() || "_\"[]".contains(next));
            continue;
        }
        words.push(word);
    }
    words
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_' || first == '"')
}

/// A name without qualifiers and quotes, as the catalog has it.
fn bare(word: &str) -> String {
    let last = word.rsplit('.').next().unwrap_or(word);
    match last.strip_prefix('"').and_then(|last| last.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => last.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<Place> {
        places(&words(text)).expect("no gaps")
    }

    fn column(name: &str) -> Place {
        Place::Column(name.into())
    }

    #[test]
    fn parameters_are_compared_with_columns() {
        assert_eq!(
            of("SELECT a FROM t WHERE t.Cust = $1 AND \"B\" <= $2 LIMIT $3"),
            [column("cust"), column("B"), Place::Number]
        );
        assert_eq!(of("SELECT 1 FROM t WHERE id BETWEEN $1 AND $2"), [column("id"), column("id")]);
        assert_eq!(
            of("SELECT 1 FROM t WHERE id IN ($1, $2) AND x = ANY ($3)")[..2],
            [column("id"), column("id")]
        );
        assert_eq!(of("SELECT 1 FROM t WHERE id = $1::integer"), [column("id")]);
        assert_eq!(of("SELECT $1 || a FROM t"), [Place::Unknown]);
    }

    #[test]
    fn parameters_are_written() {
        assert_eq!(
            of("UPDATE t SET a = a + $1, b = $2 WHERE id = $3"),
            [Place::Number, column("b"), column("id")]
        );
        assert_eq!(of("INSERT INTO t (x, y) VALUES ($1, $2)"), [column("x"), column("y")]);
        assert_eq!(of("INSERT INTO t VALUES ($1, $2)"), [Place::Inserted(0), Place::Inserted(1)]);
        assert_eq!(of("INSERT INTO t (x, y) VALUES ($1, $2), ($3, $4)")[2..], [column("x"), column("y")]);
    }

    #[test]
    fn an_execution_has_a_value_for_each_parameter() {
        let values = vec![vec!["5".to_owned()], vec!["it's".to_owned()]];
        let template = Template { text: "SELECT $1, $2".into(), values };
        assert_eq!(template.execution(3, &mut Dice(1)), "EXECUTE hm_3('5', 'it''s')");
        assert_eq!(Template::fixed("SELECT 1").execution(3, &mut Dice(1)), "SELECT 1");
    }
}
