//! The refresh functions of clause 2.5: RF1 inserts 0.1 % new orders with their items, RF2 deletes as many old ones.
//!
//! Update sets are generated, not read from files: the generator's streams continue beyond the last order of the
//! scale, as in dbgen, and the keys are those that clause 4.2.3 leaves free: of each 32 keys the first 8 are in
//! use, the next 8 are for inserts. Set *n* inserts the n-th thousandth of orders and deletes the n-th thousandth
//! of the first ones, so that there are 1000 sets. Each function is one transaction, so that an order and its items
//! are inserted and deleted together; RF1 copies, RF2 deletes by lists of a thousand keys.

use crate::error::TpchError;
use crate::load::{append_row, Data};
use crate::scale::Scale;
use hardmeter_session::{Cost, Session};
use std::time::{Duration, Instant};
use tpchgen::generators::{LineItemGenerator, OrderGenerator};

/// Number of update sets for data of any scale.
pub const SETS: u32 = 1000;

/// One of the two functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[allow(missing_docs)]
pub enum Refresh {
    #[serde(rename = "RF1")]
    Insert,
    #[serde(rename = "RF2")]
    Delete,
}

impl Refresh {
    /// The specification's name.
    pub fn name(self) -> &'static str {
        match self {
            Refresh::Insert => "RF1",
            Refresh::Delete => "RF2",
        }
    }
}

/// The next update set for these data, and the data after it.
///
/// # Errors
///
/// [`TpchError::NoUpdateSet`] if all were used.
pub fn next_set(data: Data) -> Result<(u32, Data), TpchError> {
    let set = data.refreshes + 1;
    if set > SETS {
        return Err(TpchError::NoUpdateSet { available: SETS });
    }
    Ok((set, Data { refreshes: set, ..data }))
}

/// Runs both functions with one update set; returns the cost of each. RF2 marks the set as used.
///
/// # Errors
///
/// [`TpchError`] if all update sets were used, or a statement fails.
pub fn run_pair(session: &mut Session, data: Data) -> Result<([(Refresh, Cost); 2], Data), TpchError> {
    let (set, after) = next_set(data)?;
    let inserted = transaction(session, Refresh::Insert, |session| insert(session, data.scale, set))?;
    let deleted = transaction(session, Refresh::Delete, |session| {
        delete(session, data.scale, set)?;
        session.execute("leaving the mark of a refresh", &after.mark())?;
        Ok(())
    })?;
    Ok(([(Refresh::Insert, inserted), (Refresh::Delete, deleted)], after))
}

fn transaction(
    session: &mut Session,
    refresh: Refresh,
    work: impl FnOnce(&mut Session) -> Result<(), TpchError>,
) -> Result<Cost, TpchError> {
    let what = format!("running {}", refresh.name());
    let (before, begin) = (session.cpu(), Instant::now());
    session.execute(&what, "BEGIN")?;
    match work(session) {
        Ok(()) => session.execute(&what, "COMMIT")?,
        Err(error) => {
            // Report the first error; a lost session has rolled back its transaction.
            let _ = session.execute(&what, "ROLLBACK");
            return Err(error);
        }
    }
    let wall: Duration = begin.elapsed();
    Ok(Cost { wall, cpu: before.and_then(|before| session.cpu()?.checked_sub(before)) })
}

fn insert(session: &mut Session, scale: Scale, set: u32) -> Result<(), TpchError> {
    let (factor, part) = (scale.factor(), (SETS + set) as i32);
    let first = i64::from(SETS + set - 1) * scale.orders_of_a_refresh() as i64;
    let base = i64::from(set - 1) * scale.orders_of_a_refresh() as i64;
    let new_key = |key| inserted_key(base + index_of(key) - first);
    let mut orders = OrderGenerator::new(factor, part, SETS as i32).iter();
    session.copy_in(
        "running RF1: inserting orders",
        "COPY orders FROM STDIN (DELIMITER '|')",
        &mut |buffer| {
            let Some(mut order) = orders.next() else { return false };
            order.o_orderkey = new_key(order.o_orderkey);
            append_row(&order, buffer);
            true
        },
    )?;
    let mut items = LineItemGenerator::new(factor, part, SETS as i32).iter();
    session.copy_in(
        "running RF1: inserting items",
        "COPY lineitem FROM STDIN (DELIMITER '|')",
        &mut |buffer| {
            let Some(mut item) = items.next() else { return false };
            item.l_orderkey = new_key(item.l_orderkey);
            append_row(&item, buffer);
            true
        },
    )?;
    Ok(())
}

fn delete(session: &mut Session, scale: Scale, set: u32) -> Result<(), TpchError> {
    let keys: Vec<String> = deleted_keys(scale, set).map(|key| key.to_string()).collect();
    for keys in keys.chunks(1000) {
        let keys = keys.join(",");
        for (table, column) in [("lineitem", "l_orderkey"), ("orders", "o_orderkey")] {
            let sql = format!("DELETE FROM {table} WHERE {column} = ANY('{{{keys}}}'::integer[])");
            session.execute(&format!("running RF2: deleting from {table}"), &sql)?;
        }
    }
    Ok(())
}

/// The number of the order with a key of the first load: of each 32 keys the first 8 are in use.
fn index_of(key: i64) -> i64 {
    ((key >> 5) << 3) | (key & 7)
}

/// The key of the n-th inserted order: in the second 8 of 32.
fn inserted_key(index: i64) -> i64 {
    OrderGenerator::make_order_key(index) | 8
}

/// The keys that a set deletes.
fn deleted_keys(scale: Scale, set: u32) -> impl Iterator<Item = i64> {
    let count = scale.orders_of_a_refresh() as i64;
    let first = i64::from(set - 1) * count + 1;
    (first..first + count).map(OrderGenerator::make_order_key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_sparse_as_the_specification_has_them() {
        // Orders 1 to 7 have keys 1 to 7, the eighth is the first of the next 32.
        assert_eq!(
            (1..=9).map(OrderGenerator::make_order_key).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5, 6, 7, 32, 33]
        );
        for index in 1..10_000 {
            assert_eq!(index_of(OrderGenerator::make_order_key(index)), index);
        }
        assert_eq!((1..=9).map(inserted_key).collect::<Vec<_>>(), [9, 10, 11, 12, 13, 14, 15, 40, 41]);
    }

    #[test]
    fn an_update_set_is_a_thousandth_with_keys_of_its_own() {
        let scale = Scale::new(0.01).unwrap();
        let loaded: HashSet<i64> = (1..=15_000).map(OrderGenerator::make_order_key).collect();
        let mut inserted = HashSet::new();
        for set in [1, 2, 999, 1000] {
            let part = (SETS + set) as i32;
            let first = i64::from(SETS + set - 1) * 15;
            let orders: Vec<i64> = OrderGenerator::new(0.01, part, SETS as i32)
                .iter()
                .map(|order| inserted_key(i64::from(set - 1) * 15 + index_of(order.o_orderkey) - first))
                .collect();
            assert_eq!(orders.len(), 15);
            for key in orders {
                assert!(!loaded.contains(&key), "{key} is free");
                assert!(inserted.insert(key), "{key} is inserted once");
            }
            let deleted: Vec<i64> = deleted_keys(scale, set).collect();
            assert_eq!(deleted.len(), 15);
            assert!(deleted.iter().all(|key| loaded.contains(key)));
        }
        assert_eq!(deleted_keys(scale, 1).next(), Some(1));
        assert_eq!(deleted_keys(scale, 1000).last(), Some(OrderGenerator::make_order_key(15_000)));
    }

    #[test]
    fn items_belong_to_the_orders_inserted() {
        let keys = |part| -> HashSet<i64> {
            OrderGenerator::new(0.01, part, SETS as i32).iter().map(|order| order.o_orderkey).collect()
        };
        let items: HashSet<i64> =
            LineItemGenerator::new(0.01, 1001, SETS as i32).iter().map(|item| item.l_orderkey).collect();
        assert_eq!(items, keys(1001));
    }

    #[test]
    fn the_sets_end() {
        let data = Data { scale: Scale::ONE, refreshes: 999 };
        let (set, after) = next_set(data).unwrap();
        assert_eq!((set, after.refreshes), (1000, 1000));
        assert!(matches!(next_set(after), Err(TpchError::NoUpdateSet { available: 1000 })));
    }
}
