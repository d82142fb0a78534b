//! The transactions with the statements of a run ([`crate::transactions`]), but not pipelined, so that each can be
//! held open before its end.

use super::rows::{Cents, Row};
use super::ways::{LastOrder, Ways};
use crate::backend::Style;
use crate::error::TpccError;
use crate::transactions::{calls, scripts, statements};
use crate::work::{Customer, Delivery, Kind, NewOrder, OrderLine, OrderStatus, Payment};
use hardmeter_session::{Answer, Session};

/// The transactions as a run does them.
pub struct Real {
    style: Style,
    settings: String,
}

impl Real {
    /// In a given style; procedures must be installed.
    pub fn new(style: Style) -> Real {
        Real { style, settings: scripts(style, None).settings().to_owned() }
    }
}

/// A line of an order, and the number of earlier lines for the same row of STOCK.
struct Line {
    number: usize,
    entered: OrderLine,
    repeats: usize,
}

/// Lines in the locking order of STOCK: by supplying warehouse and item.
fn lines(order: &NewOrder) -> Vec<Line> {
    let mut lines: Vec<Line> =
        (1..).zip(order.lines()).map(|(number, &entered)| Line { number, entered, repeats: 0 }).collect();
    lines.sort_by_key(|line| (line.entered.supply, line.entered.item, line.number));
    for at in 1..lines.len() {
        let (one, other) = (lines[at - 1].entered, lines[at].entered);
        if (one.supply, one.item) == (other.supply, other.item) {
            lines[at].repeats = lines[at - 1].repeats + 1;
        }
    }
    lines
}

/// A statement with values in place of `$1`, `$2` ...
fn filled(sql: &str, values: &[String]) -> String {
    // From the last one: otherwise $1 matches within $12.
    (1..)
        .zip(values)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .fold(sql.to_owned(), |sql, (number, value)| sql.replace(&format!("${number}"), value))
}

fn integers<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    array(values, "integer")
}

/// Elements are numbers, or texts without quotes, braces, commas and backslashes.
fn array<T: ToString>(values: impl IntoIterator<Item = T>, kind: &str) -> String {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    format!("'{{{}}}'::{kind}[]", values.join(","))
}

fn numeric(cents: i64) -> String {
    format!("{}::numeric", Cents(cents))
}

fn number(customer: Customer) -> Result<u16, TpccError> {
    match customer {
        Customer::Id(id) => Ok(id),
        // The specification has these tests done by number (clause 3.2.2.1).
        Customer::Name(name) => Err(TpccError::StrangeRow {
            what: "the customer of a scenario".into(),
            found: format!("it is looked for by the name of number {name}"),
        }),
    }
}

fn ask(session: &mut Session, what: &str, sql: &str, values: &[String]) -> Result<Answer, TpccError> {
    Ok(session.query(what, &filled(sql, values))?)
}

impl Ways for Real {
    fn description(&self) -> String {
        match self.style {
            Style::Procedures => "stored procedures".into(),
            Style::Client => "client SQL".into(),
        }
    }

    fn settings(&self) -> &str {
        &self.settings
    }

    fn begin(&self, kind: Kind) -> &'static str {
        match kind {
            // A single statement with one snapshot: repeated while held open, it must return the same.
            Kind::OrderStatus | Kind::StockLevel => "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
            _ => "BEGIN ISOLATION LEVEL READ COMMITTED",
        }
    }

    fn new_order(&self, session: &mut Session, order: &NewOrder) -> Result<u32, TpccError> {
        match self.style {
            Style::Procedures => call_new_order(session, order),
            Style::Client => say_new_order(session, order),
        }
    }

    fn payment(&self, session: &mut Session, payment: &Payment) -> Result<(), TpccError> {
        let customer = number(payment.customer)?.to_string();
        let amount = numeric(i64::from(payment.amount_cents));
        let (warehouse, district) = (payment.warehouse.to_string(), payment.district.to_string());
        let (of, in_district) =
            (payment.customer_warehouse.to_string(), payment.customer_district.to_string());
        let what = "a Payment";
        if self.style == Style::Procedures {
            let values = [warehouse, district, of, in_district, customer, "NULL".into(), amount];
            ask(session, what, calls::PAYMENT, &values)?;
            return Ok(());
        }
        ask(session, what, statements::PAY_WAREHOUSE, &[amount.clone(), warehouse.clone()])?;
        ask(session, what, statements::PAY_DISTRICT, &[amount.clone(), warehouse.clone(), district.clone()])?;
        let paid = [amount, warehouse, district, of, in_district, customer];
        Row::only("the customer who pays", ask(session, what, statements::PAY_CUSTOMER, &paid)?)?;
        Ok(())
    }

    fn order_status(&self, session: &mut Session, status: &OrderStatus) -> Result<LastOrder, TpccError> {
        let (what, customer) = ("an Order-Status", number(status.customer)?.to_string());
        let (warehouse, district) = (status.warehouse.to_string(), status.district.to_string());
        // The columns after O_ENTRY_D are those of the order and its lines; those before are the customer's.
        let answer = match self.style {
            Style::Procedures => {
                let call = filled(calls::ORDER_STATUS, &[warehouse, district, customer, "NULL".into()]);
                let sql = format!(
                    "SELECT order_id, concat_ws(' ', item, supply, quantity, amount, done) FROM ({call}) AS status, \
                     unnest(items, supplies, quantities, amounts, delivered) AS line (item, supply, quantity, amount, done)"
                );
                ask(session, what, &sql, &[])?
            }
            Style::Client => {
                let call = filled(statements::ORDER_STATUS, &[warehouse, district, customer]);
                let sql = format!(
                    "SELECT o_id, concat_ws(' ', ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d) \
                     FROM ({call}) AS status"
                );
                ask(session, what, &sql, &[])?
            }
        };
        let mut order = None;
        let mut lines = vec![];
        for columns in answer.rows {
            let row = Row::only(what, Answer { rows: vec![columns] })?;
            order = Some(row.number(0)?);
            lines.push(row.text(1)?.to_owned());
        }
        lines.sort();
        // Every customer has one since the load.
        let order = order.ok_or_else(|| TpccError::StrangeRow {
            what: "the last order of a customer".into(),
            found: "there is none".into(),
        })?;
        Ok(LastOrder { order, lines })
    }

    fn delivery(&self, session: &mut Session, delivery: &Delivery) -> Result<[u32; 10], TpccError> {
        let what = "a Delivery";
        let (warehouse, carrier) = (delivery.warehouse.to_string(), delivery.carrier.to_string());
        if self.style == Style::Procedures {
            let sql = format!(
                "SELECT unnest(orders_out) FROM ({}) AS delivery",
                filled(calls::DELIVERY, &[warehouse, carrier])
            );
            return ten(&ask(session, what, &sql, &[])?);
        }
        let mut orders =
            ten(&ask(session, what, statements::CHOOSE_ORDERS, std::slice::from_ref(&warehouse))?)?;
        if orders.contains(&0) {
            let empty =
                (1..).zip(orders).filter(|(_, order)| *order == 0).map(|(district, _): (u8, _)| district);
            ask(session, what, statements::LOCK_DISTRICTS, &[warehouse.clone(), integers(empty)])?;
            orders = ten(&ask(session, what, statements::CHOOSE_ORDERS, std::slice::from_ref(&warehouse))?)?;
        }
        ask(session, what, statements::REMOVE_NEW_ORDERS, &[warehouse.clone(), integers(orders)])?;
        ask(session, what, statements::DELIVER, &[warehouse, integers(orders), carrier])?;
        Ok(orders)
    }
}

/// O_ID of ten districts.
fn ten(answer: &Answer) -> Result<[u32; 10], TpccError> {
    let orders: Option<Vec<u32>> =
        answer.rows.iter().map(|row| row.first()?.as_deref()?.parse().ok()).collect();
    orders.and_then(|orders| orders.try_into().ok()).ok_or_else(|| TpccError::StrangeRow {
        what: "what a Delivery delivers".into(),
        found: format!("{} districts, not ten", answer.rows.len()),
    })
}

fn call_new_order(session: &mut Session, order: &NewOrder) -> Result<u32, TpccError> {
    let lines = lines(order);
    let values = [
        order.warehouse.to_string(),
        order.district.to_string(),
        order.customer.to_string(),
        integers(lines.iter().map(|line| line.number)),
        integers(lines.iter().map(|line| line.entered.item)),
        integers(lines.iter().map(|line| line.entered.supply)),
        integers(lines.iter().map(|line| line.entered.quantity)),
    ];
    let what = "a New-Order";
    Row::only(what, ask(session, what, calls::NEW_ORDER, &values)?)?.number(0)
}

fn say_new_order(session: &mut Session, order: &NewOrder) -> Result<u32, TpccError> {
    let what = "a New-Order";
    let (warehouse, district) = (order.warehouse.to_string(), order.district.to_string());
    let customer = order.customer.to_string();
    let at = [warehouse.clone(), district.clone()];
    let number: u32 = Row::only(what, ask(session, what, statements::TAKE_ORDER_NUMBER, &at)?)?.number(0)?;
    let whose = [warehouse.clone(), district.clone(), customer.clone()];
    ask(session, what, statements::READ_CUSTOMER, &whose)?;

    let lines = lines(order);
    let mut rows: Vec<(usize, Cents, String)> = vec![];
    let item = |number: usize| order.lines().get(number.wrapping_sub(1)).map(|line| line.item);
    for repeats in 0..=lines.iter().map(|line| line.repeats).max().unwrap_or(0) {
        let of = || lines.iter().filter(|line| line.repeats == repeats);
        let values = [
            warehouse.clone(),
            district.clone(),
            integers(of().map(|line| line.number)),
            integers(of().map(|line| line.entered.item)),
            integers(of().map(|line| line.entered.supply)),
            integers(of().map(|line| line.entered.quantity)),
        ];
        for columns in ask(session, what, statements::TAKE_STOCK, &values)?.rows {
            let row = Row::only("a row of STOCK", Answer { rows: vec![columns] })?;
            let number = row.number(0)?;
            // As in a run: a repeated item has the price that was read first.
            let known =
                rows.iter().find(|(other, ..)| item(*other) == item(number)).map(|(_, price, _)| *price);
            rows.push((number, known.map_or_else(|| row.cents(1), Ok)?, row.text(2)?.to_owned()));
        }
    }
    rows.sort_by_key(|(number, ..)| *number);
    if rows.len() != lines.len() {
        let found = format!("rows of STOCK for {} of {} lines", rows.len(), lines.len());
        return Err(TpccError::StrangeRow { what: "the stock of an order".into(), found });
    }

    let all_local = u8::from(order.lines().iter().all(|line| line.supply == order.warehouse));
    let head = [
        number.to_string(),
        district.clone(),
        warehouse.clone(),
        customer,
        order.line_count.to_string(),
        all_local.to_string(),
    ];
    ask(session, what, statements::WRITE_ORDER, &head)?;
    let key = [number.to_string(), district, warehouse];
    ask(session, what, statements::WRITE_NEW_ORDER, &key)?;
    let entered = order.lines();
    let amount = |(line, price): (&OrderLine, Cents)| Cents(price.0 * i64::from(line.quantity));
    let amounts = entered.iter().zip(rows.iter().map(|(_, price, _)| *price)).map(amount);
    let mut values = key.to_vec();
    values.extend([
        integers(1..=entered.len()),
        integers(entered.iter().map(|line| line.item)),
        integers(entered.iter().map(|line| line.supply)),
        integers(entered.iter().map(|line| line.quantity)),
        array(amounts, "numeric"),
        array(rows.iter().map(|(.., info)| info), "text"),
    ]);
    ask(session, what, statements::WRITE_LINES, &values)?;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_their_places_and_no_other() {
        let values: Vec<String> = (1..=12).map(|number| format!("v{number}")).collect();
        assert_eq!(filled("$1, $12, $2 = $1", &values), "v1, v12, v2 = v1");
        assert_eq!(integers([1, 20]), "'{1,20}'::integer[]");
        assert_eq!(numeric(123_456), "1234.56::numeric");
    }

    #[test]
    fn lines_are_sorted_as_rows_are_locked() {
        let mut order = NewOrder {
            warehouse: 1,
            district: 1,
            customer: 1,
            line_count: 4,
            all_lines: [OrderLine::default(); crate::work::MAX_LINES],
        };
        for (line, (item, supply)) in order.all_lines.iter_mut().zip([(9, 1), (7, 2), (9, 1), (3, 1)]) {
            *line = OrderLine { item, supply, quantity: 1 };
        }
        let sorted: Vec<(usize, usize)> =
            lines(&order).iter().map(|line| (line.number, line.repeats)).collect();
        assert_eq!(sorted, [(4, 0), (1, 0), (3, 1), (2, 0)]);
    }
}
