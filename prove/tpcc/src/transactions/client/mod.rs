//! Statements of the client: each transaction is a state machine over pipelined round trips.

mod delivery;
mod new_order;
mod statement;
pub mod statements;

use super::settings::SETTINGS;
use crate::origin::Origin;
use crate::text::last_name;
use crate::wire::{Next, Replies, Requests, Script, Scripts, StatementText, Step};
use crate::work::{Customer, Input, OrderStatus, Outcome, Payment, StockLevel};
use delivery::DeliveryScript;
use new_order::NewOrderScript;
use statement::Statement;

/// The style of client SQL.
#[derive(Debug)]
pub struct ClientSql {
    statements: Vec<StatementText>,
}

impl ClientSql {
    /// Its statements, marked with their origin if there is one.
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

    fn reply(&mut self, input: &Input, replies: &Replies<'_>, requests: &mut Requests<'_>) -> Next {
        match input {
            Input::NewOrder(order) => self.new_order.reply(order, replies, requests),
            Input::Delivery(delivery) => self.delivery.reply(delivery, replies, requests),
            Input::Payment(_) => {
                // BEGIN, the three updates, COMMIT: a missing row would lose money.
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

/// The whole Payment in one round trip: locks are held only while the server works.
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
