//! Statements of the client: each transaction is a state machine over pipelined round trips.

mod delivery;
mod new_order;
pub mod statements;

use super::SETTINGS;
use crate::origin::Origin;
use crate::text::last_name;
use crate::wire::types::{INT4, INT4_ARRAY, NUMERIC, NUMERIC_ARRAY, TEXT_ARRAY, VARCHAR};
use crate::wire::{Replies, Requests, Script, Scripts, StatementText, Step, Unexpected};
use crate::work::{Customer, Input, Kind, OrderStatus, Outcome, Payment, StockLevel};
use delivery::DeliveryScript;
use new_order::NewOrderScript;

/// The style of client SQL.
#[derive(Debug)]
pub struct ClientSql {
    statements: Vec<StatementText>,
}

/// A statement, by its place among those that are prepared.
#[derive(Clone, Copy, Debug)]
enum Statement {
    TakeOrderNumber,
    ReadCustomer,
    TakeStock,
    WriteOrder,
    WriteNewOrder,
    WriteLines,
    PayWarehouse,
    PayDistrict,
    PayCustomer,
    PayCustomerByName,
    OrderStatus,
    OrderStatusByName,
    ChooseOrders,
    LockDistricts,
    RemoveNewOrders,
    Deliver,
    StockLevel,
}

impl Statement {
    const ALL: [Statement; 17] = {
        use Statement::*;
        [
            TakeOrderNumber,
            ReadCustomer,
            TakeStock,
            WriteOrder,
            WriteNewOrder,
            WriteLines,
            PayWarehouse,
            PayDistrict,
            PayCustomer,
            PayCustomerByName,
            OrderStatus,
            OrderStatusByName,
            ChooseOrders,
            LockDistricts,
            RemoveNewOrders,
            Deliver,
            StockLevel,
        ]
    };

    /// Its text, and the types of its parameters.
    fn text(self) -> StatementText {
        let (sql, parameters): (&str, &[u32]) = match self {
            Statement::TakeOrderNumber => (statements::TAKE_ORDER_NUMBER, &[INT4; 2]),
            Statement::ReadCustomer => (statements::READ_CUSTOMER, &[INT4; 3]),
            Statement::TakeStock => {
                (statements::TAKE_STOCK, &[INT4, INT4, INT4_ARRAY, INT4_ARRAY, INT4_ARRAY, INT4_ARRAY])
            }
            Statement::WriteOrder => (statements::WRITE_ORDER, &[INT4; 6]),
            Statement::WriteNewOrder => (statements::WRITE_NEW_ORDER, &[INT4; 3]),
            Statement::WriteLines => (
                statements::WRITE_LINES,
                &[
                    INT4,
                    INT4,
                    INT4,
                    INT4_ARRAY,
                    INT4_ARRAY,
                    INT4_ARRAY,
                    INT4_ARRAY,
                    NUMERIC_ARRAY,
                    TEXT_ARRAY,
                ],
            ),
            Statement::PayWarehouse => (statements::PAY_WAREHOUSE, &[NUMERIC, INT4]),
            Statement::PayDistrict => (statements::PAY_DISTRICT, &[NUMERIC, INT4, INT4]),
            Statement::PayCustomer => (statements::PAY_CUSTOMER, &[NUMERIC, INT4, INT4, INT4, INT4, INT4]),
            Statement::PayCustomerByName => {
                (statements::PAY_CUSTOMER_BY_NAME, &[NUMERIC, INT4, INT4, INT4, INT4, VARCHAR])
            }
            Statement::OrderStatus => (statements::ORDER_STATUS, &[INT4; 3]),
            Statement::OrderStatusByName => (statements::ORDER_STATUS_BY_NAME, &[INT4, INT4, VARCHAR]),
            Statement::ChooseOrders => (statements::CHOOSE_ORDERS, &[INT4]),
            Statement::LockDistricts => (statements::LOCK_DISTRICTS, &[INT4, INT4_ARRAY]),
            Statement::RemoveNewOrders => (statements::REMOVE_NEW_ORDERS, &[INT4, INT4_ARRAY]),
            Statement::Deliver => (statements::DELIVER, &[INT4, INT4_ARRAY, INT4]),
            Statement::StockLevel => (statements::STOCK_LEVEL, &[INT4; 3]),
        };
        StatementText::typed(sql, parameters)
    }

    /// The transaction that sends it.
    fn kind(self) -> Kind {
        use Statement::*;
        match self {
            TakeOrderNumber | ReadCustomer | TakeStock | WriteOrder | WriteNewOrder | WriteLines => {
                Kind::NewOrder
            }
            PayWarehouse | PayDistrict | PayCustomer | PayCustomerByName => Kind::Payment,
            OrderStatus | OrderStatusByName => Kind::OrderStatus,
            ChooseOrders | LockDistricts | RemoveNewOrders | Deliver => Kind::Delivery,
            StockLevel => Kind::StockLevel,
        }
    }

    /// Its place.
    fn place(self) -> usize {
        self as usize
    }
}

impl ClientSql {
    /// Its statements, which say who sends them if he has a name.
    pub fn new(origin: Option<Origin>) -> ClientSql {
        ClientSql {
            statements: Statement::ALL
                .map(|statement| statement.text().signed(origin, statement.kind()))
                .into(),
        }
    }
}

impl Scripts for ClientSql {
    fn statements(&self) -> &[StatementText] {
        &self.statements
    }

    fn settings(&self) -> &str {
        SETTINGS
    }

    fn new_script(&self) -> Box<dyn Script> {
        Box::new(ClientScript::default())
    }

    fn description(&self) -> String {
        "client SQL".into()
    }
}

/// The transactions of one connection.
#[derive(Debug, Default)]
struct ClientScript {
    new_order: NewOrderScript,
    delivery: DeliveryScript,
}

impl Script for ClientScript {
    fn begin(&mut self, input: &Input, requests: &mut Requests<'_>) {
        match input {
            Input::NewOrder(order) => self.new_order.begin(order, requests),
            Input::Payment(payment) => pay(payment, requests),
            Input::OrderStatus(status) => ask_status(status, requests),
            Input::Delivery(delivery) => self.delivery.begin(delivery, requests),
            Input::StockLevel(level) => ask_level(level, requests),
        }
    }

    fn reply(
        &mut self,
        input: &Input,
        replies: &Replies<'_>,
        requests: &mut Requests<'_>,
    ) -> Result<Step, Unexpected> {
        match input {
            Input::NewOrder(order) => self.new_order.reply(order, replies, requests),
            Input::Delivery(delivery) => self.delivery.reply(delivery, replies, requests),
            Input::Payment(_) => {
                // BEGIN, the three updates, COMMIT: all must be there, or money is lost.
                for place in 1..=3 {
                    replies.row(place)?;
                }
                Ok(Step::Done(Outcome::Committed))
            }
            Input::OrderStatus(_) | Input::StockLevel(_) => {
                replies.row(0)?;
                Ok(Step::Done(Outcome::Committed))
            }
        }
    }
}

/// All of Payment in one round trip: the locks are held no longer than the server works.
fn pay(payment: &Payment, requests: &mut Requests<'_>) {
    let amount = i64::from(payment.amount_cents);
    let (warehouse, district) = (payment.warehouse as i32, i32::from(payment.district));
    requests.begin();
    requests.execute(Statement::PayWarehouse.place(), |parameters| {
        parameters.numeric(amount, 2);
        parameters.i32(warehouse);
    });
    requests.execute(Statement::PayDistrict.place(), |parameters| {
        parameters.numeric(amount, 2);
        parameters.i32(warehouse);
        parameters.i32(district);
    });
    let statement = match payment.customer {
        Customer::Id(_) => Statement::PayCustomer,
        Customer::Name(_) => Statement::PayCustomerByName,
    };
    requests.execute(statement.place(), |parameters| {
        parameters.numeric(amount, 2);
        parameters.i32(warehouse);
        parameters.i32(district);
        parameters.i32(payment.customer_warehouse as i32);
        parameters.i32(i32::from(payment.customer_district));
        customer(payment.customer, parameters);
    });
    requests.commit();
}

fn ask_status(status: &OrderStatus, requests: &mut Requests<'_>) {
    let statement = match status.customer {
        Customer::Id(_) => Statement::OrderStatus,
        Customer::Name(_) => Statement::OrderStatusByName,
    };
    requests.execute(statement.place(), |parameters| {
        parameters.i32(status.warehouse as i32);
        parameters.i32(i32::from(status.district));
        customer(status.customer, parameters);
    });
}

fn ask_level(level: &StockLevel, requests: &mut Requests<'_>) {
    requests.execute(Statement::StockLevel.place(), |parameters| {
        parameters.i32(level.warehouse as i32);
        parameters.i32(i32::from(level.district));
        parameters.i32(i32::from(level.threshold));
    });
}

/// C_ID or C_LAST.
fn customer(customer: Customer, parameters: &mut crate::wire::Parameters<'_>) {
    match customer {
        Customer::Id(id) => parameters.i32(i32::from(id)),
        Customer::Name(number) => parameters.text(&last_name(u32::from(number))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_stand_where_they_say() {
        for (at, statement) in Statement::ALL.into_iter().enumerate() {
            assert_eq!(statement.place(), at, "{statement:?}");
            let text = statement.text();
            // As many types as there are parameters.
            for number in 1..=text.parameters.len() {
                assert!(text.sql.contains(&format!("${number}")), "{statement:?} has no ${number}");
            }
            assert!(!text.sql.contains(&format!("${}", text.parameters.len() + 1)), "{statement:?}");
        }
    }
}
