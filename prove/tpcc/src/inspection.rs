//! Checks a population against clause 4.3.3.1 by counts in the server: rows of each table, and the tenths.
//!
//! One scan per table. It checks what arrived, not what was sent.

use crate::error::TpccError;
use crate::schema::Table;
use hardmeter_session::{side_by_side, Progress, Session, Stop, Target};
use std::sync::{Mutex, PoisonError};

/// A counted quantity.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// The counted objects: "rows of stock".
    pub what: String,
    /// The count.
    pub found: u64,
    /// The required minimum.
    pub low: u64,
    /// And at most.
    pub high: u64,
}

impl Check {
    /// Whether the count is in the required range.
    pub fn holds(&self) -> bool {
        (self.low..=self.high).contains(&self.found)
    }
}

/// The rows of a table that must be exactly a tenth: name, condition. The load draws them without repetition.
fn tenth(table: Table) -> Option<(&'static str, &'static str)> {
    match table {
        Table::Item => Some(("items with ORIGINAL", "i_data LIKE '%ORIGINAL%'")),
        Table::Stock => Some(("stock with ORIGINAL", "s_data LIKE '%ORIGINAL%'")),
        Table::Customer => Some(("customers with bad credit", "c_credit = 'BC'")),
        _ => None,
    }
}

/// Counts the population of this number of warehouses, in parallel.
///
/// # Errors
///
/// [`TpccError::Session`] if a statement fails, the connection is lost, or `stop` was requested.
pub fn inspect(
    target: &Target,
    jobs: usize,
    stop: &Stop,
    warehouses: u32,
    progress: &dyn Progress,
) -> Result<Vec<Check>, TpccError> {
    progress.phase("checking the population", Table::ALL.len() as u64);
    let counted: Mutex<Vec<(usize, Vec<Check>)>> = Mutex::default();
    let mut tables: Vec<(usize, Table)> = Table::ALL.into_iter().enumerate().collect();
    // The largest first: they take longest.
    tables.sort_by_key(|(_, table)| std::cmp::Reverse(table.rows()));
    side_by_side(target, jobs, stop, tables, |session, (place, table)| {
        let checks = count(session, table, warehouses)?;
        counted.lock().unwrap_or_else(PoisonError::into_inner).push((place, checks));
        progress.advance(1);
        Ok::<(), TpccError>(())
    })?;
    let mut counted = counted.into_inner().unwrap_or_else(PoisonError::into_inner);
    counted.sort_by_key(|(place, _)| *place);
    Ok(counted.into_iter().flat_map(|(_, checks)| checks).collect())
}

fn count(session: &mut Session, table: Table, warehouses: u32) -> Result<Vec<Check>, TpccError> {
    let tenth = tenth(table);
    let condition = tenth.map_or("false", |(_, condition)| condition);
    let sql = format!("SELECT count(*), count(CASE WHEN {condition} THEN 1 END) FROM {table}");
    let sql = if tenth.is_some() { sql } else { format!("SELECT count(*), 0 FROM {table}") };
    let answer = session.query(&format!("counting {table}"), &sql)?;
    let column = |at: usize| answer.rows.first()?.get(at)?.as_deref()?.parse::<u64>().ok();
    let (rows, chosen) = (column(0).unwrap_or(0), column(1).unwrap_or(0));
    let warehouses = if table == Table::Item { 1 } else { u64::from(warehouses) };
    let wanted = table.rows() * warehouses;
    let (low, high) = match table {
        // 5 to 15 for each of 30,000 orders of a warehouse: each has variance 10.
        Table::OrderLine => {
            let deviation = (10.0 * (Table::Orders.rows() * warehouses) as f64).sqrt();
            (wanted - (5.0 * deviation) as u64, wanted + (5.0 * deviation) as u64)
        }
        _ => (wanted, wanted),
    };
    let mut checks = vec![Check { what: format!("rows of {table}"), found: rows, low, high }];
    if let Some((what, _)) = tenth {
        checks.push(Check { what: what.into(), found: chosen, low: wanted / 10, high: wanted / 10 });
    }
    Ok(checks)
}
