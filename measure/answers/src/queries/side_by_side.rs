//! The tables of several events as one: a row has the samples of each.
//!
//! ```text
//!                 l1i-miss         l2-miss
//!   Seq Scan      1,200 (n = 12)     400 (n = 2)
//!   Aggregate       300 (n =  3)     200 (n = 1)
//!   total         1,500 (n = 15)     600 (n = 3)
//! ```

use super::{QueryColumn, QueryTable};
use crate::estimate::Share;
use hardmeter_samples::model::{EventIndex, Period, StatementId};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::sync::Arc;

/// Samples, and the events that they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventSum {
    /// Number of samples.
    pub samples: u64,
    /// Number of events: each sample counts as its period.
    pub events: Period,
}

impl EventSum {
    fn add(&mut self, other: EventSum) {
        self.samples += other.samples;
        self.events = Period(self.events.0.saturating_add(other.events.0));
    }
}

/// One row: the samples of every event with equal values in the columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideBySideRow {
    /// Its value in each of the columns; `None` if unknown.
    pub values: Vec<Option<Arc<str>>>,
    /// The number of its statement, if that is a column.
    pub statement: Option<StatementId>,
    /// The server's own number of that statement.
    pub servers_number: Option<i64>,
    /// One sum for each event.
    pub sums: Vec<EventSum>,
}

/// Several events side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideBySide {
    /// The columns.
    pub columns: Vec<QueryColumn>,
    /// The events, in the order of the capture.
    pub events: Vec<EventIndex>,
    /// At most `limit` rows. Rows of one statement (in general: with the same first column) are adjacent.
    pub rows: Vec<SideBySideRow>,
    /// Number of rows beyond the limit.
    pub more_rows: u64,
    /// The sums of those rows.
    pub more: Vec<EventSum>,
    /// The sums of all rows.
    pub totals: Vec<EventSum>,
}

impl SideBySide {
    /// Joins tables with the same columns and all their rows; keeps at most `limit` rows.
    pub fn of(tables: &[QueryTable], limit: Option<usize>) -> SideBySide {
        debug_assert!(tables.iter().all(|table| table.more_rows == 0));
        let none = vec![EventSum::default(); tables.len()];
        let mut rows: Vec<SideBySideRow> = Vec::new();
        let mut numbers = FxHashMap::default();
        let mut totals = none.clone();
        for (event, table) in tables.iter().enumerate() {
            for row in &table.rows {
                let number = *numbers.entry((row.statement, row.values.clone())).or_insert(rows.len());
                if number == rows.len() {
                    rows.push(SideBySideRow {
                        values: row.values.clone(),
                        statement: row.statement,
                        servers_number: row.servers_number,
                        sums: none.clone(),
                    });
                }
                let sum = EventSum { samples: row.share.count, events: row.events };
                rows[number].sums[event].add(sum);
                totals[event].add(sum);
            }
        }
        // Events differ in scale: the weight of a row is its largest share of any event.
        let weight = |sums: &[EventSum]| {
            let parts = sums.iter().zip(&totals);
            parts.map(|(sum, total)| part(*sum, *total).fraction()).fold(0.0, f64::max)
        };
        let mut heads: FxHashMap<Option<Arc<str>>, Vec<EventSum>> = FxHashMap::default();
        for row in &rows {
            let head = heads.entry(head(row)).or_insert_with(|| none.clone());
            head.iter_mut().zip(&row.sums).for_each(|(sum, more)| sum.add(*more));
        }
        rows.sort_by(|a, b| {
            let heads = weight(&heads[&head(b)]).total_cmp(&weight(&heads[&head(a)]));
            let heads = heads.then_with(|| head(a).cmp(&head(b)));
            heads
                .then_with(|| weight(&b.sums).total_cmp(&weight(&a.sums)))
                .then_with(|| a.values.cmp(&b.values))
        });
        let rest = rows.split_off(limit.unwrap_or(usize::MAX).min(rows.len()));
        let mut more = none;
        for row in &rest {
            more.iter_mut().zip(&row.sums).for_each(|(sum, of_row)| sum.add(*of_row));
        }
        SideBySide {
            columns: tables.first().map(|table| table.columns.clone()).unwrap_or_default(),
            events: tables.iter().map(|table| table.event).collect(),
            rows,
            more_rows: rest.len() as u64,
            more,
            totals,
        }
    }

    /// A row's part of an event, in samples.
    pub fn share(&self, row: &SideBySideRow, event: usize) -> Share {
        part(row.sums[event], self.totals[event])
    }
}

fn part(sum: EventSum, total: EventSum) -> Share {
    Share { count: sum.samples, total: total.samples }
}

/// The value by which adjacent rows are grouped: the first of several columns.
fn head(row: &SideBySideRow) -> Option<Arc<str>> {
    if row.values.len() > 1 {
        row.values[0].clone()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::LatencySummary;
    use crate::queries::QueryRow;

    fn table(event: usize, rows: &[(&str, &str, u64)]) -> QueryTable {
        let total = rows.iter().map(|(_, _, count)| count).sum();
        let row = |(statement, operator, count): &(&str, &str, u64)| QueryRow {
            values: vec![Some((*statement).into()), Some((*operator).into())],
            statement: Some(StatementId(statement.len() as u64)),
            servers_number: None,
            share: Share { count: *count, total },
            events: Period(count * 10),
            latency: LatencySummary::default(),
            object: None,
        };
        QueryTable {
            event: EventIndex(event),
            columns: vec![QueryColumn::Statement, QueryColumn::Operator],
            total,
            latency: LatencySummary::default(),
            outside: None,
            ranking: crate::ranking::Ranking::Count,
            rows: rows.iter().map(row).collect(),
            more_rows: 0,
            more_samples: 0,
        }
    }

    #[test]
    fn rows_of_one_statement_stand_together_and_all_adds_up() {
        let tables = [
            table(0, &[("long", "Sort", 50), ("short", "Scan", 30), ("long", "Scan", 20)]),
            table(2, &[("short", "Scan", 3), ("short", "Sort", 1)]),
        ];
        let all = SideBySide::of(&tables, None);
        let named: Vec<(String, Vec<u64>)> = all
            .rows
            .iter()
            .map(|row| {
                let values: Vec<&str> = row.values.iter().flatten().map(|value| &**value).collect();
                (values.join("/"), row.sums.iter().map(|sum| sum.samples).collect())
            })
            .collect();
        // The short statement has all samples of the second event, the long one 70 % of the first.
        assert_eq!(
            named,
            [
                ("short/Scan".to_string(), vec![30, 3]),
                ("short/Sort".to_string(), vec![0, 1]),
                ("long/Sort".to_string(), vec![50, 0]),
                ("long/Scan".to_string(), vec![20, 0]),
            ]
        );
        assert_eq!(all.events, [EventIndex(0), EventIndex(2)]);
        let sum = |samples, events| EventSum { samples, events: Period(events) };
        assert_eq!(all.totals, [sum(100, 1000), sum(4, 40)]);
        assert_eq!(all.share(&all.rows[0], 1), Share { count: 3, total: 4 });
        let some = SideBySide::of(&tables, Some(3));
        assert_eq!((some.rows.len(), some.more_rows), (3, 1));
        assert_eq!((some.more, some.totals), (vec![sum(20, 200), sum(0, 0)], all.totals));
        assert_eq!(SideBySide::of(&[], None).rows, []);
    }
}
