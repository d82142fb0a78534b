//! The five transactions as calls of stored procedures ([`SOURCE`]): one round trip each.

use super::client::Trouble;
use super::session::Session;
use super::signed::SignedConnection;
use crate::error::TpccError;
use crate::text::last_name;
use crate::work::{Customer, Input, NewOrder, Outcome};
use mysql::Value;
use std::fmt::Write;

/// The procedures, in the syntax of a client such as mariadb(1).
pub const SOURCE: &str = include_str!("procedures.sql");

/// Creates or replaces the procedures in the database.
pub(super) fn install(session: &mut Session) -> Result<(), TpccError> {
    statements().try_for_each(|sql| session.execute("making the stored procedures", sql))
}

/// The statements of the file, without the delimiter that mariadb(1) needs.
fn statements() -> impl Iterator<Item = &'static str> {
    let body = SOURCE.split_once("DELIMITER //").map_or("", |(_, body)| body);
    body.split("//").map(str::trim).filter(|statement| !statement.is_empty())
}

/// Runs a transaction. Any error may be COMMIT's, since the procedures commit.
pub(super) fn transact(signed: &mut SignedConnection<'_>, input: &Input) -> Result<Outcome, Trouble> {
    match input {
        Input::NewOrder(order) => new_order(signed, order),
        Input::Payment(payment) => {
            let (id, name) = id_or_name(payment.customer);
            let amount = format!("{}.{:02}", payment.amount_cents / 100, payment.amount_cents % 100);
            let at = (payment.warehouse, payment.district, payment.customer_warehouse);
            signed
                .exec_drop(
                    "CALL hardmeter_tpcc_payment(?, ?, ?, ?, ?, ?, ?)",
                    (at.0, at.1, at.2, payment.customer_district, id, name, amount),
                )
                .map_err(Trouble::Commit)?;
            Ok(Outcome::Committed)
        }
        Input::OrderStatus(status) => {
            let (id, name) = id_or_name(status.customer);
            let values = (status.warehouse, status.district, id, name);
            signed
                .exec_drop("CALL hardmeter_tpcc_order_status(?, ?, ?, ?)", values)
                .map_err(Trouble::Commit)?;
            Ok(Outcome::Committed)
        }
        Input::Delivery(delivery) => {
            let values = (delivery.warehouse, delivery.carrier);
            let orders: Option<String> =
                signed.exec_first("CALL hardmeter_tpcc_delivery(?, ?)", values).map_err(Trouble::Commit)?;
            let orders = orders.as_deref().and_then(ten_numbers);
            Ok(Outcome::Delivered { orders: orders.ok_or(Trouble::Data(OTHER_PROCEDURE))? })
        }
        Input::StockLevel(level) => {
            let values = (level.warehouse, level.district, level.threshold);
            signed.exec_drop("CALL hardmeter_tpcc_stock_level(?, ?, ?)", values).map_err(Trouble::Commit)?;
            Ok(Outcome::Committed)
        }
    }
}

const OTHER_PROCEDURE: &str = "a procedure does not answer as Hardmeter's do: it was replaced";

fn new_order(signed: &mut SignedConnection<'_>, order: &NewOrder) -> Result<Outcome, Trouble> {
    let all_local = order.lines().iter().all(|line| line.supply == order.warehouse);
    let values =
        (order.warehouse, order.district, order.customer, order.line_count, all_local, lines_of(order));
    let row: Option<(u32, Value)> = signed
        .exec_first("CALL hardmeter_tpcc_new_order(?, ?, ?, ?, ?, ?)", values)
        .map_err(Trouble::Commit)?;
    match row {
        Some((0, _)) => Ok(Outcome::RolledBack),
        Some((number, _)) => Ok(Outcome::Ordered { order: number }),
        None => Err(Trouble::Data(OTHER_PROCEDURE)),
    }
}

/// The lines of an order as JSON: `[[item,supply,quantity],...]`.
fn lines_of(order: &NewOrder) -> String {
    let mut text = String::with_capacity(20 * order.lines().len());
    for line in order.lines() {
        let before = if text.is_empty() { '[' } else { ',' };
        // Writing to memory cannot fail.
        let _ = write!(text, "{before}[{},{},{}]", line.item, line.supply, line.quantity);
    }
    text.push(']');
    text
}

fn id_or_name(customer: Customer) -> (Option<u16>, Option<String>) {
    match customer {
        Customer::Id(id) => (Some(id), None),
        Customer::Name(number) => (None, Some(last_name(number.into()))),
    }
}

fn ten_numbers(text: &str) -> Option<[u32; 10]> {
    let numbers: Vec<u32> = text.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{OrderLine, MAX_LINES};

    #[test]
    fn the_file_is_five_procedures() {
        let all: Vec<&str> = statements().collect();
        assert_eq!(all.len(), 5);
        for (sql, name) in all.iter().zip(["new_order", "payment", "order_status", "delivery", "stock_level"])
        {
            assert!(sql.contains(&format!("CREATE OR REPLACE PROCEDURE hardmeter_tpcc_{name}(")), "{sql}");
            assert!(sql.ends_with("\nEND"), "{sql}");
        }
    }

    #[test]
    fn lines_are_told_in_the_order_of_entry() {
        let mut all_lines = [OrderLine::default(); MAX_LINES];
        all_lines[0] = OrderLine { item: 7, supply: 2, quantity: 3 };
        all_lines[1] = OrderLine { item: 5, supply: 1, quantity: 10 };
        let order = NewOrder { warehouse: 2, district: 1, customer: 9, line_count: 2, all_lines };
        assert_eq!(lines_of(&order), "[[7,2,3],[5,1,10]]");
    }

    #[test]
    fn a_delivery_answers_with_ten_numbers() {
        assert_eq!(ten_numbers("1,2,3,4,5,6,7,8,0,10"), Some([1, 2, 3, 4, 5, 6, 7, 8, 0, 10]));
        assert_eq!(ten_numbers("1,2"), None);
    }
}
