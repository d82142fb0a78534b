//! The five transactions as prepared statements of the client, with autocommit off: the first statement begins a
//! transaction.
//!
//! InnoDB's REPEATABLE READ: what is read and then written is read FOR UPDATE, since a plain SELECT reads from the
//! transaction's snapshot. Locks are taken in one order: WAREHOUSE, DISTRICT, STOCK by warehouse and item,
//! NEW-ORDER, ORDER, CUSTOMER; remaining deadlocks (a Delivery against a New-Order in an empty district) are
//! retried. Statements that do not depend on an answer share a round trip (MariaDB's bulk execution).

use super::fault;
use super::signed::SignedConnection;
use crate::text::last_name;
use crate::work::{
    Customer, Delivery, Failure, FailureKind, Input, NewOrder, OrderLine, OrderStatus, Outcome, Payment,
    StockLevel,
};
use mysql::{Error, Value};
use std::collections::{BTreeMap, HashMap};

/// The reason why a transaction ended before its end.
pub(super) enum Trouble {
    /// The server, or the way to it.
    Server(Error),
    /// COMMIT was sent and failed.
    Commit(Error),
    /// The data are not those of TPC-C.
    Data(&'static str),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Server(error)
    }
}

impl Trouble {
    /// Converts it to a failure of the transaction.
    pub(super) fn failure(&self) -> Failure {
        match self {
            Trouble::Server(error) => fault::of_transaction(error, false),
            Trouble::Commit(error) => fault::of_transaction(error, true),
            Trouble::Data(what) => {
                Failure { kind: FailureKind::Lasting, code: String::new(), message: (*what).to_owned() }
            }
        }
    }
}

/// Does what was entered.
pub(super) fn transact(signed: &mut SignedConnection<'_>, input: &Input) -> Result<Outcome, Trouble> {
    match input {
        Input::NewOrder(order) => new_order(signed, order),
        Input::Payment(payment) => paid(signed, payment),
        Input::OrderStatus(status) => order_status(signed, status),
        Input::Delivery(delivery) => deliver(signed, delivery),
        Input::StockLevel(level) => stock_level(signed, level),
    }
}

fn commit(signed: &mut SignedConnection<'_>) -> Result<(), Trouble> {
    signed.query_drop("COMMIT").map_err(Trouble::Commit)
}

/// A row that must exist in a database of TPC-C.
fn there<T>(row: Option<T>, what: &'static str) -> Result<T, Trouble> {
    row.ok_or(Trouble::Data(what))
}

const TERMS: &str =
    "SELECT c_discount, c_last, c_credit, w_tax FROM warehouse JOIN customer ON c_w_id = w_id \
                     WHERE w_id = ? AND c_d_id = ? AND c_id = ?";
const LOCK_DISTRICT: &str =
    "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE";
const TAKE_NUMBER: &str = "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?";
const WRITE_STOCK: &str =
    "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + ?, \
                           s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?";
const ADD_ORDER: &str = "INSERT INTO orders VALUES (?, ?, ?, ?, NOW(), NULL, ?, ?)";
const ADD_NEW_ORDER: &str = "INSERT INTO new_order VALUES (?, ?, ?)";
const ADD_LINE: &str = "INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)";

/// A row of STOCK as an order changes it.
struct Stock {
    quantity: i64,
    ytd: u32,
    orders: u32,
    remote: u32,
    info: Vec<u8>,
}

impl Stock {
    /// Clause 2.4.2.2: if fewer than 10 would be left, 91 are added.
    fn take(&mut self, line: &OrderLine, home: u32) {
        let wanted = i64::from(line.quantity);
        self.quantity += if self.quantity >= wanted + 10 { -wanted } else { 91 - wanted };
        self.ytd += u32::from(line.quantity);
        self.orders += 1;
        self.remote += u32::from(line.supply != home);
    }
}

fn new_order(signed: &mut SignedConnection<'_>, order: &NewOrder) -> Result<Outcome, Trouble> {
    let (w, d, c) = (order.warehouse, order.district, order.customer);
    // Rates and names are only displayed: nothing that is written depends on them.
    let _terms: mysql::Row =
        there(signed.exec_first(TERMS, (w, d, c))?, "the warehouse or the customer of an order is missing")?;
    let (number, _rate): (u32, Value) =
        there(signed.exec_first(LOCK_DISTRICT, (w, d))?, "the district of an order is missing")?;
    signed.exec_drop(TAKE_NUMBER, (w, d))?;

    let wanted: Vec<Value> = order.lines().iter().map(|line| line.item.into()).collect();
    let sql = format!(
        "SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id IN ({})",
        marks(wanted.len(), "?")
    );
    let items: Vec<(u32, Vec<u8>, Value, Value)> = signed.exec(&sql, wanted)?;
    let prices: HashMap<u32, u64> = items.iter().map(|(item, price, ..)| (*item, cents(price))).collect();
    let valid: Vec<(u8, &OrderLine)> =
        (1..).zip(order.lines()).filter(|(_, line)| prices.contains_key(&line.item)).collect();

    let mut stock = lock_stock(signed, d, &valid)?;
    for (_, line) in &valid {
        let row = stock.get_mut(&(line.supply, line.item));
        there(row, "the stock of an item is missing")?.take(line, w);
    }
    signed.exec_batch(
        WRITE_STOCK,
        stock
            .iter()
            .map(|((supply, item), row)| (row.quantity, row.ytd, row.orders, row.remote, *supply, *item)),
    )?;
    let all_local = order.lines().iter().all(|line| line.supply == w);
    signed.exec_drop(ADD_ORDER, (number, d, w, c, order.line_count, all_local))?;
    signed.exec_drop(ADD_NEW_ORDER, (number, d, w))?;
    signed.exec_batch(
        ADD_LINE,
        valid.iter().map(|(at, line)| {
            let amount = decimal(prices[&line.item] * u64::from(line.quantity));
            let info = &stock[&(line.supply, line.item)].info;
            (number, d, w, *at, line.item, line.supply, line.quantity, amount, info)
        }),
    )?;
    if valid.len() < order.lines().len() {
        signed.query_drop("ROLLBACK")?;
        return Ok(Outcome::RolledBack);
    }
    commit(signed)?;
    Ok(Outcome::Ordered { order: number })
}

/// Reads the rows of STOCK that an order changes, and locks them, in the order of the key, independent of the order of entry.
fn lock_stock(
    signed: &mut SignedConnection<'_>,
    district: u8,
    lines: &[(u8, &OrderLine)],
) -> Result<BTreeMap<(u32, u32), Stock>, Trouble> {
    if lines.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut keys: Vec<(u32, u32)> = lines.iter().map(|(_, line)| (line.supply, line.item)).collect();
    keys.sort_unstable();
    keys.dedup();
    let sql = format!(
        "SELECT s_w_id, s_i_id, s_quantity, s_data, ELT(?, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, \
         s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10) FROM stock WHERE {} ORDER BY s_w_id, s_i_id FOR UPDATE",
        vec!["(s_w_id = ? AND s_i_id = ?)"; keys.len()].join(" OR ")
    );
    let mut values: Vec<Value> = vec![district.into()];
    values.extend(keys.iter().flat_map(|(supply, item)| [Value::from(*supply), Value::from(*item)]));
    let rows: Vec<(u32, u32, i64, Value, Vec<u8>)> = signed.exec(&sql, values)?;
    Ok(rows
        .into_iter()
        .map(|(supply, item, quantity, _data, info)| {
            ((supply, item), Stock { quantity, ytd: 0, orders: 0, remote: 0, info })
        })
        .collect())
}

const PAY_WAREHOUSE: &str = "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?";
const PAY_DISTRICT: &str = "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?";
const PLACES: &str = "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip, \
                      d_name, d_street_1, d_street_2, d_city, d_state, d_zip \
                      FROM warehouse JOIN district ON d_w_id = w_id WHERE w_id = ? AND d_id = ?";
const BY_NAME: &str =
    "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first, c_id";
/// Assignments are evaluated from left to right; C_DATA depends on no column assigned before it.
const PAY_CUSTOMER: &str =
    "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
     c_payment_cnt = c_payment_cnt + 1, \
     c_data = IF(c_credit = 'BC', LEFT(CONCAT_WS(' ', c_id, c_d_id, c_w_id, ?, ?, ?, c_data), 500), c_data) \
     WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
const PAYER: &str =
    "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, \
     c_credit, c_credit_lim, c_discount, c_balance, IF(c_credit = 'BC', LEFT(c_data, 200), '') FROM customer \
     WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
const ADD_HISTORY: &str = "INSERT INTO history VALUES (?, ?, ?, ?, ?, NOW(), ?, CONCAT(?, '    ', ?))";

fn paid(signed: &mut SignedConnection<'_>, payment: &Payment) -> Result<Outcome, Trouble> {
    let (w, d) = (payment.warehouse, payment.district);
    let (c_w, c_d) = (payment.customer_warehouse, payment.customer_district);
    let amount = decimal(u64::from(payment.amount_cents));
    signed.exec_drop(PAY_WAREHOUSE, (&amount, w))?;
    signed.exec_drop(PAY_DISTRICT, (&amount, w, d))?;
    let places: mysql::Row =
        there(signed.exec_first(PLACES, (w, d))?, "the warehouse or the district of a payment is missing")?;
    let (w_name, d_name): (Vec<u8>, Vec<u8>) = (text_at(&places, 0), text_at(&places, 6));
    let customer = identified(signed, c_w, c_d, payment.customer)?;
    let changed = (&amount, &amount, d, w, &amount, c_w, c_d, customer);
    signed.exec_drop(PAY_CUSTOMER, changed)?;
    let _shown: mysql::Row =
        there(signed.exec_first(PAYER, (c_w, c_d, customer))?, "the customer of a payment is missing")?;
    signed.exec_drop(ADD_HISTORY, (customer, c_d, c_w, d, w, &amount, w_name, d_name))?;
    commit(signed)?;
    Ok(Outcome::Committed)
}

/// C_ID. Of those who have a name, the middle one in the order of first names, rounded up (clause 2.5.2.2).
fn identified(signed: &mut SignedConnection<'_>, w: u32, d: u8, customer: Customer) -> Result<u32, Trouble> {
    match customer {
        Customer::Id(id) => Ok(id.into()),
        Customer::Name(number) => {
            let ids: Vec<u32> = signed.exec(BY_NAME, (w, d, last_name(number.into())))?;
            there(
                ids.get(ids.len().saturating_sub(1) / 2).copied(),
                "no customer has a name that every district has",
            )
        }
    }
}

const STATUS_CUSTOMER: &str =
    "SELECT c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
const LAST_ORDER: &str =
    "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? \
                          ORDER BY o_id DESC LIMIT 1";
const LINES: &str = "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
                     WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";

fn order_status(signed: &mut SignedConnection<'_>, status: &OrderStatus) -> Result<Outcome, Trouble> {
    let (w, d) = (status.warehouse, status.district);
    let customer = identified(signed, w, d, status.customer)?;
    let _shown: mysql::Row =
        there(signed.exec_first(STATUS_CUSTOMER, (w, d, customer))?, "the customer of a status is missing")?;
    let (order, ..): (u32, Value, Value) =
        there(signed.exec_first(LAST_ORDER, (w, d, customer))?, "a customer has no order")?;
    let _lines: Vec<mysql::Row> = signed.exec(LINES, (w, d, order))?;
    commit(signed)?;
    Ok(Outcome::Committed)
}

const OLDEST: &str =
    "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1 FOR UPDATE";
const TAKE_OFF: &str = "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?";
const BUYER: &str = "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ? FOR UPDATE";
const SEND: &str = "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?";
const SEND_LINES: &str =
    "UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";
const SUM: &str = "SELECT CAST(SUM(ol_amount) * 100 AS SIGNED) FROM order_line \
                   WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";
const CHARGE: &str = "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 \
                      WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";

fn deliver(signed: &mut SignedConnection<'_>, delivery: &Delivery) -> Result<Outcome, Trouble> {
    let (w, carrier) = (delivery.warehouse, delivery.carrier);
    let mut orders = [0u32; 10];
    for (district, oldest) in (1u8..).zip(&mut orders) {
        *oldest = signed.exec_first(OLDEST, (w, district))?.unwrap_or(0);
    }
    let found: Vec<(u8, u32)> = (1u8..).zip(orders).filter(|(_, order)| *order > 0).collect();
    if !found.is_empty() {
        signed.exec_batch(TAKE_OFF, found.iter().map(|(d, order)| (w, *d, *order)))?;
        signed.exec_batch(SEND, found.iter().map(|(d, order)| (carrier, w, *d, *order)))?;
        signed.exec_batch(SEND_LINES, found.iter().map(|(d, order)| (w, *d, *order)))?;
    }
    let mut charges = Vec::with_capacity(found.len());
    for (d, order) in &found {
        let buyer: u32 =
            there(signed.exec_first(BUYER, (w, *d, *order))?, "an order of NEW-ORDER is not in ORDER")?;
        let sum: Option<u64> = there(signed.exec_first(SUM, (w, *d, *order))?, "an order has no lines")?;
        charges.push((decimal(there(sum, "an order has no lines")?), w, *d, buyer));
    }
    if !charges.is_empty() {
        signed.exec_batch(CHARGE, charges)?;
    }
    commit(signed)?;
    Ok(Outcome::Delivered { orders })
}

const NEXT: &str = "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?";
const LOW: &str =
    "SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
                   WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id >= ? AND ol_o_id < ? AND s_quantity < ?";

fn stock_level(signed: &mut SignedConnection<'_>, level: &StockLevel) -> Result<Outcome, Trouble> {
    let (w, d) = (level.warehouse, level.district);
    let next: u32 = there(signed.exec_first(NEXT, (w, d))?, "the district of a stock level is missing")?;
    let _low: Option<u64> = signed.exec_first(LOW, (w, d, next.saturating_sub(20), next, level.threshold))?;
    commit(signed)?;
    Ok(Outcome::Committed)
}

/// This number of placeholders, with commas between.
fn marks(count: usize, one: &str) -> String {
    vec![one; count].join(", ")
}

/// A text column of a row that is there.
fn text_at(row: &mysql::Row, at: usize) -> Vec<u8> {
    match row.as_ref(at) {
        Some(Value::Bytes(bytes)) => bytes.clone(),
        _ => Vec::new(),
    }
}

/// DECIMAL(n,2) as MariaDB sends it: "12.34".
fn cents(text: &[u8]) -> u64 {
    text.iter().filter(|byte| byte.is_ascii_digit()).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
}

/// A sum of money in MariaDB's text form.
fn decimal(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_goes_there_and_back() {
        assert_eq!(cents(b"12.34"), 1_234);
        assert_eq!(cents(b"9999.99"), 999_999);
        assert_eq!(decimal(100), "1.00");
        assert_eq!(decimal(500_000), "5000.00");
        assert_eq!(decimal(7), "0.07");
    }

    #[test]
    fn stock_is_filled_up_before_it_runs_out() {
        let take = |quantity: i64, lines: &[(u8, u32)]| {
            let mut stock = Stock { quantity, ytd: 0, orders: 0, remote: 0, info: vec![] };
            for &(quantity, supply) in lines {
                stock.take(&OrderLine { item: 1, supply, quantity }, 1);
            }
            (stock.quantity, stock.ytd, stock.orders, stock.remote)
        };
        // Clause 2.4.2.2: 15 in stock and 5 ordered leave 10; 14 and 5 leave 9, and 91 are added.
        assert_eq!(take(15, &[(5, 1)]), (10, 5, 1, 0));
        assert_eq!(take(14, &[(5, 1)]), (100, 5, 1, 0));
        // Two lines of one order for the same item, one of another terminal's warehouse.
        assert_eq!(take(20, &[(10, 2), (1, 1)]), (100, 11, 2, 1));
    }
}
