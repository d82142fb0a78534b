//! One call of a stored procedure for each transaction.

use super::lines::Lines;
use super::settings::SETTINGS;
use crate::origin::Origin;
use crate::text::last_name;
use crate::wire::types::{INT4, INT4_ARRAY, NUMERIC, VARCHAR};
use crate::wire::{Next, Refusal, Replies, Requests, Script, Scripts, StatementText, Step, Unexpected};
use crate::work::{Customer, Input, Kind, Outcome};

/// The functions that [`super::install`] installs.
pub(super) const FUNCTIONS: &str = include_str!("procedures.sql");
/// The same where Citus distributes the tables.
pub(super) const CITUS_FUNCTIONS: &str = include_str!("procedures_citus.sql");

/// SQLSTATE that New-Order raises once all of its work is done, if an item is not there (clause 2.4.2.3).
pub const ITEM_NOT_VALID: &str = "HM001";

/// The calls, as prepared statements.
pub mod calls {
    /// W_ID, D_ID, C_ID; then of the lines, sorted by supplying warehouse and item: OL_NUMBER, OL_I_ID, OL_SUPPLY_W_ID,
    /// OL_QUANTITY as arrays. O_ID is the first column.
    pub const NEW_ORDER: &str = "SELECT * FROM hardmeter_tpcc_new_order($1, $2, $3, $4, $5, $6, $7)";
    /// W_ID, D_ID, C_W_ID, C_D_ID, C_ID or 0, C_LAST or null, H_AMOUNT.
    pub const PAYMENT: &str = "SELECT * FROM hardmeter_tpcc_payment($1, $2, $3, $4, $5, $6, $7)";
    /// W_ID, D_ID, C_ID or 0, C_LAST or null.
    pub const ORDER_STATUS: &str = "SELECT * FROM hardmeter_tpcc_order_status($1, $2, $3, $4)";
    /// W_ID, O_CARRIER_ID. O_ID by district as an array.
    pub const DELIVERY: &str = "SELECT * FROM hardmeter_tpcc_delivery($1, $2)";
    /// W_ID, D_ID, threshold.
    pub const STOCK_LEVEL: &str = "SELECT * FROM hardmeter_tpcc_stock_level($1, $2, $3)";
}

/// The style of stored procedures.
#[derive(Debug)]
pub struct Procedures {
    statements: Vec<StatementText>,
}

impl Procedures {
    /// Its statements, marked with their origin if there is one.
    pub fn new(origin: Option<Origin>) -> Procedures {
        let text = |kind| match kind {
            Kind::NewOrder => StatementText::typed(
                calls::NEW_ORDER,
                &[INT4, INT4, INT4, INT4_ARRAY, INT4_ARRAY, INT4_ARRAY, INT4_ARRAY],
            ),
            Kind::Payment => {
                StatementText::typed(calls::PAYMENT, &[INT4, INT4, INT4, INT4, INT4, VARCHAR, NUMERIC])
            }
            Kind::OrderStatus => StatementText::typed(calls::ORDER_STATUS, &[INT4, INT4, INT4, VARCHAR]),
            Kind::Delivery => StatementText::typed(calls::DELIVERY, &[INT4, INT4]),
            Kind::StockLevel => StatementText::typed(calls::STOCK_LEVEL, &[INT4, INT4, INT4]),
        };
        Procedures { statements: Kind::ALL.map(|kind| text(kind).signed(origin, kind)).into() }
    }
}

impl Scripts for Procedures {
    fn statements(&self) -> &[StatementText] {
        &self.statements
    }

    fn settings(&self) -> &str {
        SETTINGS
    }

    fn new_script(&self) -> Box<dyn Script> {
        Box::new(Call)
    }

    fn description(&self) -> String {
        "stored procedures".into()
    }
}

/// A call: one round trip without state.
#[derive(Debug)]
struct Call;

/// Statements are prepared in the order of [`Kind::ALL`].
impl Script for Call {
    fn begin(&mut self, input: &Input, requests: &mut Requests<'_>) {
        requests.execute(input.kind().index(), |parameters| {
            parameters.i32(input.warehouse() as i32);
            match input {
                Input::NewOrder(order) => {
                    parameters.i32(i32::from(order.district));
                    parameters.i32(i32::from(order.customer));
                    let lines = Lines::of(order);
                    let lines = lines.all();
                    parameters.i32s(lines.iter().map(|line| i32::from(line.number)));
                    parameters.i32s(lines.iter().map(|line| line.entered.item as i32));
                    parameters.i32s(lines.iter().map(|line| line.entered.supply as i32));
                    parameters.i32s(lines.iter().map(|line| i32::from(line.entered.quantity)));
                }
                Input::Payment(payment) => {
                    parameters.i32(i32::from(payment.district));
                    parameters.i32(payment.customer_warehouse as i32);
                    parameters.i32(i32::from(payment.customer_district));
                    customer(payment.customer, parameters);
                    parameters.numeric(i64::from(payment.amount_cents), 2);
                }
                Input::OrderStatus(status) => {
                    parameters.i32(i32::from(status.district));
                    customer(status.customer, parameters);
                }
                Input::Delivery(delivery) => parameters.i32(i32::from(delivery.carrier)),
                Input::StockLevel(level) => {
                    parameters.i32(i32::from(level.district));
                    parameters.i32(i32::from(level.threshold));
                }
            }
        });
    }

    fn reply(&mut self, input: &Input, replies: &Replies<'_>, _requests: &mut Requests<'_>) -> Next {
        let mut columns = replies.row(0)?.columns();
        Ok(Step::Done(match input.kind() {
            Kind::NewOrder => Outcome::Ordered { order: columns.i32()? as u32 },
            Kind::Delivery => {
                let mut orders = [0; 10];
                let delivered = columns.value()?.array()?;
                if delivered.len() != orders.len() {
                    return Err(Unexpected::Data(format!("a delivery of {} districts", delivered.len())));
                }
                for (order, delivered) in orders.iter_mut().zip(delivered) {
                    *order = delivered?.i32()? as u32;
                }
                Outcome::Delivered { orders }
            }
            Kind::Payment | Kind::OrderStatus | Kind::StockLevel => Outcome::Committed,
        }))
    }

    fn refused(&mut self, input: &Input, refusal: &Refusal) -> Option<Outcome> {
        let meant = matches!(input, Input::NewOrder(order) if order.is_rolled_back());
        (meant && refusal.code == ITEM_NOT_VALID).then_some(Outcome::RolledBack)
    }
}

/// C_ID or 0, C_LAST or null.
fn customer(customer: Customer, parameters: &mut crate::wire::Parameters<'_>) {
    match customer {
        Customer::Id(id) => {
            parameters.i32(i32::from(id));
            parameters.null();
        }
        Customer::Name(number) => {
            parameters.i32(0);
            parameters.text(&last_name(u32::from(number)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, parameters and results, without their layout.
    fn signatures(functions: &str) -> Vec<String> {
        let of = |text: &str| {
            text.split("LANGUAGE").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        functions.split("CREATE FUNCTION ").skip(1).map(of).collect()
    }

    #[test]
    fn the_procedures_for_citus_have_the_same_calls_and_results() {
        assert_eq!(signatures(FUNCTIONS).len(), 5);
        assert_eq!(signatures(FUNCTIONS), signatures(CITUS_FUNCTIONS));
        // A generic plan has no node.
        assert_eq!(CITUS_FUNCTIONS.matches("SET plan_cache_mode = force_custom_plan AS").count(), 5);
    }
}
