//! Tests 5 and 6: a Payment and a Delivery for the same customer.

use super::stage::{end, is_refused, outcome, trial, Ending, Stage};
use crate::acid::players::Fate;
use crate::acid::rows::{self, Cents};
use crate::acid::{Observations, Source, Trial};
use crate::error::TpccError;
use crate::work::{Customer, Delivery, Payment};

pub(super) fn committed(stage: &mut Stage) -> Result<Trial, TpccError> {
    let (case, seen) = play(stage, Ending::Commit)?;
    Ok(trial("3.4.2.5", "Payment against a Delivery to its customer", Source::Memory, case, seen))
}

pub(super) fn rolled_back(stage: &mut Stage) -> Result<Trial, TpccError> {
    let (case, seen) = play(stage, Ending::Rollback)?;
    Ok(trial("3.4.2.6", "Payment against a Delivery that is rolled back", Source::Memory, case, seen))
}

fn play(stage: &mut Stage, ending: Ending) -> Result<(String, Observations), TpccError> {
    let mut seen = Observations::new();
    let at = stage.place();
    // Make sure that there is an order to deliver.
    let anybody = stage.customer();
    let order = stage.order(at, anybody, &[]);
    stage.place_order(&order)?;

    let (deliverer, payer) = (stage.enter("T1")?, stage.enter("T2")?);
    let delivery = Delivery { warehouse: at.warehouse, carrier: 7 };
    let delivered = stage.hold_delivery(&deliverer, &delivery).end()?[usize::from(at.district) - 1];
    let order = rows::order(&mut stage.onlooker, at, delivered)?;
    let Some(order) = order else {
        seen.must(
            false,
            format!(
                "T1, a Delivery, delivers an order of district {at} that is there: it reports {delivered}"
            ),
        );
        end(&deliverer, Ending::Rollback)?;
        return Ok(("T1 delivers nothing".into(), seen));
    };
    let customer = order.customer;
    let before = rows::customer(&mut stage.onlooker, at, customer)?;
    seen.note(format!(
        "T1, a Delivery, delivers order {at}/{delivered} of {} to customer {customer} and is held before its end",
        order.amount
    ));
    seen.note(format!("C_BALANCE was {}", before.balance));

    let payment = Payment {
        warehouse: at.warehouse,
        district: at.district,
        customer_warehouse: at.warehouse,
        customer_district: at.district,
        customer: Customer::Id(customer),
        amount_cents: 123_456,
    };
    let paid = i64::from(payment.amount_cents);
    let mut paying = stage.hold_payment(&payer, &payment);
    let fate = stage.watch(&mut paying, &payer, &deliverer)?;
    match &fate {
        Fate::Waits(lock) => {
            seen.note(format!("T2, a Payment of {} by the customer, waits for T1 ({lock})", Cents(paid)))
        }
        Fate::Ended => seen.note(format!("T2, a Payment of {} by the customer, does not wait", Cents(paid))),
    }
    end(&deliverer, ending)?;
    seen.note(format!("T1 ends: {ending:?}"));
    let (case, done) = match outcome(paying.end())? {
        Ok(()) => {
            end(&payer, Ending::Commit)?;
            (if fate == Fate::Ended { "T2 does not wait" } else { "T2 waits for T1" }, true)
        }
        Err(error) if is_refused(&error) => {
            seen.note(format!("the server refuses T2: {error}"));
            end(&payer, Ending::Rollback)?;
            ("T2 is refused and would be done again", false)
        }
        Err(error) => {
            seen.must(false, format!("T2 is done; it fails: {error}"));
            end(&payer, Ending::Rollback)?;
            ("T2 fails", false)
        }
    };
    let (delivers, pays) = (ending == Ending::Commit, i64::from(done));
    let after = rows::customer(&mut stage.onlooker, at, customer)?;
    let received = if delivers { order.amount.0 } else { 0 };
    seen.must_be("C_BALANCE after both", &after.balance, &(before.balance + received + -paid * pays));
    seen.must_be("C_DELIVERY_CNT after both", &after.deliveries, &(before.deliveries + i64::from(delivers)));
    seen.must_be("C_PAYMENT_CNT after both", &after.payments, &(before.payments + pays));
    let still = rows::order(&mut stage.onlooker, at, delivered)?.is_some_and(|order| order.is_new);
    let what = if delivers { "is delivered" } else { "is still to be delivered" };
    seen.must(still != delivers, format!("order {at}/{delivered} {what}"));
    Ok((case.into(), seen))
}
