//! The 22 queries.
//!
//! Their texts are in `queries/`, in PostgreSQL's dialect, with the deviations that clause 2.2.3.3 permits:
//! intervals and dates as PostgreSQL writes them, `LIMIT` for the number of requested rows, and Q15 as the approved
//! variant 15a, a common table expression instead of a view, so that all 22 only read.

use crate::error::TpchError;
use crate::parameters::Parameters;
use std::fmt;

/// The number of a query, 1 to 22.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Query(u8);

const TEXTS: [&str; 22] = [
    include_str!("../queries/q01.sql"),
    include_str!("../queries/q02.sql"),
    include_str!("../queries/q03.sql"),
    include_str!("../queries/q04.sql"),
    include_str!("../queries/q05.sql"),
    include_str!("../queries/q06.sql"),
    include_str!("../queries/q07.sql"),
    include_str!("../queries/q08.sql"),
    include_str!("../queries/q09.sql"),
    include_str!("../queries/q10.sql"),
    include_str!("../queries/q11.sql"),
    include_str!("../queries/q12.sql"),
    include_str!("../queries/q13.sql"),
    include_str!("../queries/q14.sql"),
    include_str!("../queries/q15.sql"),
    include_str!("../queries/q16.sql"),
    include_str!("../queries/q17.sql"),
    include_str!("../queries/q18.sql"),
    include_str!("../queries/q19.sql"),
    include_str!("../queries/q20.sql"),
    include_str!("../queries/q21.sql"),
    include_str!("../queries/q22.sql"),
];

const TITLES: [&str; 22] = [
    "pricing summary report",
    "minimum cost supplier",
    "shipping priority",
    "order priority checking",
    "local supplier volume",
    "forecasting revenue change",
    "volume shipping",
    "national market share",
    "product type profit measure",
    "returned item reporting",
    "important stock identification",
    "shipping modes and order priority",
    "customer distribution",
    "promotion effect",
    "top supplier",
    "parts/supplier relationship",
    "small-quantity-order revenue",
    "large volume customer",
    "discounted revenue",
    "potential part promotion",
    "suppliers who kept orders waiting",
    "global sales opportunity",
];

impl Query {
    /// The query of a number.
    pub fn new(number: u8) -> Option<Query> {
        (1..=22).contains(&number).then_some(Query(number))
    }

    /// All 22, in order.
    pub fn all() -> Vec<Query> {
        (1..=22).map(Query).collect()
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The specification's title.
    pub fn title(self) -> &'static str {
        TITLES[usize::from(self.0) - 1]
    }

    /// Its text with placeholders, `{name}`.
    pub fn template(self) -> &'static str {
        TEXTS[usize::from(self.0) - 1].trim_end()
    }

    /// Its text with these parameters in place of the placeholders.
    pub fn sql(self, parameters: &Parameters) -> String {
        let mut text = self.template().to_owned();
        for (name, value) in parameters.pairs() {
            text = text.replace(&format!("{{{name}}}"), value);
        }
        debug_assert!(!text.contains('{'), "{self}: {text}");
        text
    }

    /// Parses a list: numbers and ranges, separated by commas. The order is kept: a stream may have its own.
    ///
    /// # Errors
    ///
    /// [`TpchError::BadQueries`] if the text is not such a list, or names a query twice.
    pub fn list(text: &str) -> Result<Vec<Query>, TpchError> {
        let bad = |reason: String| TpchError::BadQueries { text: text.to_owned(), reason };
        let number = |word: &str| {
            let number = word.trim().trim_start_matches(['q', 'Q']).parse().ok().and_then(Query::new);
            number.ok_or_else(|| bad(format!("'{}' is not a number from 1 to 22", word.trim())))
        };
        let mut queries: Vec<Query> = Vec::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if last < first {
                return Err(bad(format!("'{}' ends before it begins", part.trim())));
            }
            for query in (first.0..=last.0).map(Query) {
                if queries.contains(&query) {
                    return Err(bad(format!("{} is in it twice", query.number())));
                }
                queries.push(query);
            }
        }
        Ok(queries)
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Q{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_numbers_and_ranges_in_the_order_given() {
        let numbers =
            |text| -> Vec<u8> { Query::list(text).unwrap().into_iter().map(Query::number).collect() };
        assert_eq!(numbers("6,1,18"), [6, 1, 18]);
        assert_eq!(numbers("q13 - 15, Q1"), [13, 14, 15, 1]);
        for text in ["", "0", "23", "1,,2", "5-3", "1,1-2", "one"] {
            assert!(Query::list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_text_is_a_select_of_its_own() {
        for query in Query::all() {
            let text = query.template();
            assert!(text.starts_with("SELECT") || text.starts_with("WITH"), "{query}");
            assert!(!text.contains(';'), "{query}: one statement");
            assert!(text.contains('{'), "{query} has parameters");
        }
    }
}
