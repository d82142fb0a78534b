//! The contents of rows before and after a trial.

use crate::error::TpccError;
use hardmeter_session::{Answer, Session};
use std::fmt::{self, Display};

/// Money in hundredths: numeric(…,2) without rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cents(pub(super) i64);

impl Cents {
    pub(super) fn parse(text: &str) -> Option<Cents> {
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
        let (whole, part) = digits.split_once('.').unwrap_or((digits, "00"));
        if part.len() != 2 {
            return None;
        }
        Some(Cents(sign * (whole.parse::<i64>().ok()? * 100 + part.parse::<i64>().ok()?)))
    }
}

impl std::ops::Add<i64> for Cents {
    type Output = Cents;
    fn add(self, cents: i64) -> Cents {
        Cents(self.0 + cents)
    }
}

impl Display for Cents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(formatter, "{sign}{}.{:02}", self.0.abs() / 100, self.0.abs() % 100)
    }
}

/// A district of a warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) warehouse: u32,
    pub(super) district: u8,
}

impl Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.warehouse, self.district)
    }
}

/// The columns of a customer that Payment and Delivery change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Customer {
    pub(super) balance: Cents,
    pub(super) ytd_payment: Cents,
    pub(super) payments: i64,
    pub(super) deliveries: i64,
    pub(super) bad_credit: bool,
    pub(super) data: String,
}

/// All columns that Payment changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Money {
    pub(super) warehouse_ytd: Cents,
    pub(super) district_ytd: Cents,
    pub(super) customer: Customer,
    /// Rows of HISTORY of this customer, and the sum of their H_AMOUNT.
    pub(super) history: (i64, Cents),
}

/// An order, and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) customer: u16,
    /// O_OL_CNT.
    pub(super) promised: u32,
    /// Rows of ORDER-LINE.
    pub(super) lines: u32,
    /// The sum of their OL_AMOUNT.
    pub(super) amount: Cents,
    /// Whether there is a row of NEW-ORDER.
    pub(super) is_new: bool,
}

pub(super) fn customer(session: &mut Session, at: Place, customer: u16) -> Result<Customer, TpccError> {
    let Place { warehouse, district } = at;
    let sql = format!(
        "SELECT c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_credit = 'BC', c_data FROM customer \
         WHERE c_w_id = {warehouse} AND c_d_id = {district} AND c_id = {customer}"
    );
    let what = format!("customer {at}/{customer}");
    let row = Row::only(&what, session.query("reading a customer", &sql)?)?;
    Ok(Customer {
        balance: row.cents(0)?,
        ytd_payment: row.cents(1)?,
        payments: row.number(2)?,
        deliveries: row.number(3)?,
        bad_credit: row.text(4)? == "t",
        data: row.text(5)?.to_owned(),
    })
}

pub(super) fn money(session: &mut Session, at: Place, customer_id: u16) -> Result<Money, TpccError> {
    let Place { warehouse, district } = at;
    let sql = format!(
        "SELECT w_ytd, d_ytd, (SELECT count(*) FROM history WHERE {of}), \
         (SELECT coalesce(sum(h_amount), 0.00) FROM history WHERE {of}) \
         FROM warehouse JOIN district ON d_w_id = w_id WHERE w_id = {warehouse} AND d_id = {district}",
        of = format_args!("h_c_w_id = {warehouse} AND h_c_d_id = {district} AND h_c_id = {customer_id}")
    );
    let row = Row::only(&format!("district {at}"), session.query("reading sums of payments", &sql)?)?;
    Ok(Money {
        warehouse_ytd: row.cents(0)?,
        district_ytd: row.cents(1)?,
        history: (row.number(2)?, row.cents(3)?),
        customer: customer(session, at, customer_id)?,
    })
}

/// D_NEXT_O_ID.
pub(super) fn next_order(session: &mut Session, at: Place) -> Result<u32, TpccError> {
    let Place { warehouse, district } = at;
    let sql = format!("SELECT d_next_o_id FROM district WHERE d_w_id = {warehouse} AND d_id = {district}");
    Row::only(&format!("district {at}"), session.query("reading D_NEXT_O_ID", &sql)?)?.number(0)
}

/// `None`: no row in ORDER, ORDER-LINE or NEW-ORDER.
pub(super) fn order(session: &mut Session, at: Place, order: u32) -> Result<Option<Order>, TpccError> {
    let Place { warehouse, district } = at;
    let of = |prefix: &str| {
        format!("{prefix}w_id = {warehouse} AND {prefix}d_id = {district} AND {prefix}o_id = {order}")
    };
    let sql = format!(
        "SELECT (SELECT o_c_id FROM orders WHERE {orders}), (SELECT o_ol_cnt FROM orders WHERE {orders}), count(*), \
         coalesce(sum(ol_amount), 0.00), EXISTS (SELECT 1 FROM new_order WHERE {news}) FROM order_line WHERE {lines}",
        orders = format_args!("o_w_id = {warehouse} AND o_d_id = {district} AND o_id = {order}"),
        news = of("no_"),
        lines = of("ol_"),
    );
    let row = Row::only(&format!("order {at}/{order}"), session.query("reading an order", &sql)?)?;
    let (lines, is_new): (u32, bool) = (row.number(2)?, row.text(4)? == "t");
    if row.is_null(0) && lines == 0 && !is_new {
        return Ok(None);
    }
    // Lines without an order are returned as an order of customer 0 with 0 lines, which equals no placed order.
    let (customer, promised) = if row.is_null(0) { (0, 0) } else { (row.number(0)?, row.number(1)?) };
    Ok(Some(Order { customer, promised, lines, amount: row.cents(3)?, is_new }))
}

/// One row, with its name for messages.
pub(super) struct Row {
    what: String,
    columns: Vec<Option<String>>,
}

impl Row {
    /// The only row of an answer.
    pub(super) fn only(what: &str, mut answer: Answer) -> Result<Row, TpccError> {
        match (answer.rows.pop(), answer.rows.is_empty()) {
            (Some(columns), true) => Ok(Row { what: what.to_owned(), columns }),
            (None, _) => Err(Row::strange(what, "there is no such row")),
            (Some(_), false) => Err(Row::strange(what, "there is more than one such row")),
        }
    }

    fn strange(what: &str, found: &str) -> TpccError {
        TpccError::StrangeRow { what: what.to_owned(), found: found.to_owned() }
    }

    pub(super) fn is_null(&self, at: usize) -> bool {
        self.columns.get(at).is_none_or(Option::is_none)
    }

    pub(super) fn text(&self, at: usize) -> Result<&str, TpccError> {
        let column = self.columns.get(at).and_then(Option::as_deref);
        column.ok_or_else(|| Row::strange(&self.what, &format!("column {} is null", at + 1)))
    }

    pub(super) fn number<T: std::str::FromStr>(&self, at: usize) -> Result<T, TpccError> {
        let text = self.text(at)?;
        text.parse().map_err(|_| Row::strange(&self.what, &format!("{text} is not the expected number")))
    }

    pub(super) fn cents(&self, at: usize) -> Result<Cents, TpccError> {
        let text = self.text(at)?;
        Cents::parse(text).ok_or_else(|| Row::strange(&self.what, &format!("{text} is not a sum of money")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_exact_and_prints_as_it_was() {
        for text in ["0.00", "-10.00", "300000.07", "-0.05", "9999999999.99"] {
            assert_eq!(Cents::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Cents::parse("-0.05"), Some(Cents(-5)));
        assert_eq!(Cents::parse("12"), Some(Cents(1200)));
        assert_eq!(Cents::parse("1.5"), None);
        assert_eq!(Cents::parse("one"), None);
    }

    #[test]
    fn an_answer_of_no_row_or_of_two_is_named() {
        let rows = |count: usize| Answer { rows: vec![vec![Some("7".to_owned()), None]; count] };
        let row = Row::only("customer 1/2/3", rows(1)).unwrap();
        assert_eq!(row.number::<u32>(0).unwrap(), 7);
        assert!(row.is_null(1) && row.is_null(2));
        assert!(row.text(1).unwrap_err().to_string().contains("customer 1/2/3"));
        assert!(Row::only("customer 1/2/3", rows(0)).is_err());
        assert!(Row::only("customer 1/2/3", rows(2)).is_err());
    }
}
