//! The transactions of TPC-C in plain SQL, correct and with faults: they check that the tests of clause 3
//! detect the faults.

// Each test file uses its part.
#![allow(dead_code)]

use hardmeter_session::Session;
use hardmeter_tpcc::acid::{LastOrder, Ways};
use hardmeter_tpcc::work::{Customer, Delivery, Kind, NewOrder, OrderStatus, Payment};
use hardmeter_tpcc::TpccError;

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// New-Order reads D_NEXT_O_ID, and takes its lock later.
    ReadsNextOrderWithoutLock,
    /// New-Order reads each price at its line.
    ReadsPricesOneByOne,
    /// Payment reads C_BALANCE, computes the new value, and writes it: a lost update.
    ReckonsBalanceItself,
    /// Payment writes no HISTORY.
    ForgetsHistory,
    /// Delivery takes no lock that a New-Order would wait for.
    DeliversWithoutLock,
    /// Each statement of Order-Status reads its own snapshot.
    LooksWithoutSnapshot,
    /// The first change of a transaction is committed before the rest.
    CommitsHalfway,
}

/// The transactions.
pub struct Plain(Option<Fault>);

impl Plain {
    pub fn right() -> Plain {
        Plain(None)
    }

    pub fn with(fault: Fault) -> Plain {
        Plain(Some(fault))
    }

    fn has(&self, fault: Fault) -> bool {
        self.0 == Some(fault)
    }

    fn halfway(&self, session: &mut Session) -> Result<(), TpccError> {
        if self.has(Fault::CommitsHalfway) {
            session.execute("committing halfway", "COMMIT; BEGIN")?;
        }
        Ok(())
    }
}

fn one<T: std::str::FromStr>(session: &mut Session, sql: &str) -> Result<Option<T>, TpccError> {
    Ok(session.query("asking", sql)?.single().and_then(|text| text.parse().ok()))
}

fn customer_id(customer: Customer) -> u16 {
    match customer {
        Customer::Id(id) => id,
        Customer::Name(_) => panic!("the scenarios name customers by number"),
    }
}

impl Ways for Plain {
    fn description(&self) -> String {
        format!("plain statements, fault: {:?}", self.0)
    }

    fn begin(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::OrderStatus if !self.has(Fault::LooksWithoutSnapshot) => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
            }
            _ => "BEGIN",
        }
    }

    fn new_order(&self, session: &mut Session, order: &NewOrder) -> Result<u32, TpccError> {
        let NewOrder { warehouse: w, district: d, customer: c, .. } = order;
        let district = format!("d_w_id = {w} AND d_id = {d}");
        let number: u32 = if self.has(Fault::ReadsNextOrderWithoutLock) {
            let number =
                one::<u32>(session, &format!("SELECT d_next_o_id FROM district WHERE {district}"))?.unwrap();
            let next = number + 1;
            session
                .execute("counting", &format!("UPDATE district SET d_next_o_id = {next} WHERE {district}"))?;
            number
        } else {
            let sql = format!(
                "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE {district} RETURNING d_next_o_id - 1"
            );
            one(session, &sql)?.unwrap()
        };
        let lines = order.lines();
        session.execute(
            "placing an order",
            &format!(
                "INSERT INTO orders VALUES ({number}, {d}, {w}, {c}, now(), NULL, {}, 1);
                 INSERT INTO new_order VALUES ({number}, {d}, {w})",
                lines.len()
            ),
        )?;
        self.halfway(session)?;
        let price = |item: u32| format!("SELECT i_price FROM item WHERE i_id = {item}");
        let mut prices: Vec<String> = vec![];
        if !self.has(Fault::ReadsPricesOneByOne) {
            let numbers: Vec<String> = lines.iter().map(|line| format!("({})", price(line.item))).collect();
            let answer = session.query("reading prices", &format!("SELECT {}", numbers.join(", ")))?;
            prices = answer.rows[0].iter().map(|price| price.clone().unwrap()).collect();
        }
        for (at, line) in lines.iter().enumerate() {
            let price = match prices.get(at) {
                Some(price) => price.clone(),
                None => one(session, &price(line.item))?.unwrap(),
            };
            session.execute(
                "ordering a line",
                &format!(
                    "UPDATE stock SET s_ytd = s_ytd + {quantity}, s_order_cnt = s_order_cnt + 1, s_quantity =
                         CASE WHEN s_quantity >= {quantity} + 10 THEN s_quantity - {quantity} ELSE s_quantity + 91 - {quantity} END
                         WHERE s_w_id = {supply} AND s_i_id = {item};
                     INSERT INTO order_line VALUES ({number}, {d}, {w}, {}, {item}, {supply}, NULL, {quantity}, {quantity} * {price}, 'x')",
                    at + 1,
                    item = line.item,
                    supply = line.supply,
                    quantity = line.quantity
                ),
            )?;
        }
        Ok(number)
    }

    fn payment(&self, session: &mut Session, payment: &Payment) -> Result<(), TpccError> {
        let Payment { warehouse: w, district: d, customer_warehouse: cw, customer_district: cd, .. } =
            payment;
        let id = customer_id(payment.customer);
        let amount = format!("{}.{:02}", payment.amount_cents / 100, payment.amount_cents % 100);
        let of = format!("c_w_id = {cw} AND c_d_id = {cd} AND c_id = {id}");
        let balance = if self.has(Fault::ReckonsBalanceItself) {
            one::<String>(session, &format!("SELECT c_balance FROM customer WHERE {of}"))?.unwrap()
        } else {
            "c_balance".into()
        };
        session.execute(
            "paying",
            &format!(
                "UPDATE warehouse SET w_ytd = w_ytd + {amount} WHERE w_id = {w};
                 UPDATE district SET d_ytd = d_ytd + {amount} WHERE d_w_id = {w} AND d_id = {d}"
            ),
        )?;
        self.halfway(session)?;
        session.execute(
            "paying",
            &format!(
                "UPDATE customer SET c_balance = {balance} - {amount}, c_ytd_payment = c_ytd_payment + {amount},
                     c_payment_cnt = c_payment_cnt + 1, c_data = CASE WHEN c_credit = 'BC'
                     THEN left(format('%s %s %s %s %s %s ', {id}, {cd}, {cw}, {d}, {w}, {amount}) || c_data, 500) ELSE c_data END
                     WHERE {of}"
            ),
        )?;
        if !self.has(Fault::ForgetsHistory) {
            session.execute(
                "paying",
                &format!("INSERT INTO history VALUES ({id}, {cd}, {cw}, {d}, {w}, now(), {amount}, 'x')"),
            )?;
        }
        Ok(())
    }

    fn order_status(&self, session: &mut Session, status: &OrderStatus) -> Result<LastOrder, TpccError> {
        let (w, d, c) = (status.warehouse, status.district, customer_id(status.customer));
        let sql =
            format!("SELECT max(o_id) FROM orders WHERE o_w_id = {w} AND o_d_id = {d} AND o_c_id = {c}");
        let order: u32 = one(session, &sql)?.unwrap_or(0);
        let sql = format!(
            "SELECT l::text FROM order_line l WHERE ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id = {order} ORDER BY ol_number"
        );
        let rows = session.query("asking", &sql)?.rows;
        Ok(LastOrder { order, lines: rows.into_iter().filter_map(|row| row[0].clone()).collect() })
    }

    fn delivery(&self, session: &mut Session, delivery: &Delivery) -> Result<[u32; 10], TpccError> {
        let w = delivery.warehouse;
        if !self.has(Fault::DeliversWithoutLock) {
            let sql = format!("SELECT FROM district WHERE d_w_id = {w} ORDER BY d_id FOR NO KEY UPDATE");
            session.execute("locking districts", &sql)?;
        }
        let mut delivered = [0; 10];
        for (d, order) in (1..=10).zip(&mut delivered) {
            let news = format!("no_w_id = {w} AND no_d_id = {d}");
            let sql = format!(
                "DELETE FROM new_order WHERE {news} AND no_o_id = (SELECT min(no_o_id) FROM new_order WHERE {news})
                 RETURNING no_o_id"
            );
            let Some(number) = one::<u32>(session, &sql)? else { continue };
            *order = number;
            session.execute(
                "delivering",
                &format!(
                    "UPDATE orders SET o_carrier_id = {} WHERE o_w_id = {w} AND o_d_id = {d} AND o_id = {number};
                     UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id = {number};
                     UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1, c_balance = c_balance +
                         (SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id = {number})
                         WHERE c_w_id = {w} AND c_d_id = {d} AND c_id =
                         (SELECT o_c_id FROM orders WHERE o_w_id = {w} AND o_d_id = {d} AND o_id = {number})",
                    delivery.carrier
                ),
            )?;
        }
        Ok(delivered)
    }
}
