//! Tests 8 and 9: rows inserted into a range that a transaction has read.

use super::stage::{end, trial, Ending, Stage};
use crate::acid::players::{Fate, Player};
use crate::acid::rows::{self, Place};
use crate::acid::{Observations, Source, Trial};
use crate::error::TpccError;
use crate::work::{Customer, Delivery, OrderStatus};
use hardmeter_session::{Session, Stop};

/// Test 8. Removes the district's rows of NEW-ORDER before the test and restores them after it.
pub(super) fn delivery(stage: &mut Stage) -> Result<Trial, TpccError> {
    let at = stage.place();
    let taken = take_away(stage, at)?;
    let played = play_delivery(stage, at, taken);
    // Restore in any case; report the first error.
    let put_back = put_back(stage, at);
    let (case, mut seen) = played?;
    let back = put_back?;
    seen.must_be("rows of NEW-ORDER put back", &back, &taken);
    Ok(trial("3.4.2.8", "Delivery and New-Order: no phantom", Source::Text, case, seen))
}

fn play_delivery(stage: &mut Stage, at: Place, taken: u64) -> Result<(String, Observations), TpccError> {
    let mut seen = Observations::new();
    let (deliverer, orderer) = (stage.enter("T1")?, stage.enter("T2")?);
    seen.note(format!("the {taken} rows of NEW-ORDER of district {at} are deleted"));
    let delivery = Delivery { warehouse: at.warehouse, carrier: 3 };
    let delivered = stage.hold_delivery(&deliverer, &delivery).end()?[usize::from(at.district) - 1];
    seen.must(delivered == 0, "T1, a Delivery, finds none there and is held before its end");

    let customer = stage.customer();
    let order = stage.order(at, customer, &[]);
    let mut ordering = stage.hold_new_order(&orderer, &order);
    let fate = stage.watch(&mut ordering, &orderer, &deliverer)?;
    let (case, number) = match fate {
        Fate::Ended => {
            let number = ordering.end()?;
            end(&orderer, Ending::Commit)?;
            seen.note(format!("T2, a New-Order of the district, does not wait and commits order {number}"));
            must_find_none(&deliverer, &mut seen, at)?;
            end(&deliverer, Ending::Commit)?;
            ("T2 does not wait, and T1 does not see its row", number)
        }
        Fate::Waits(lock) => {
            seen.note(format!("T2, a New-Order of the district, waits for T1 ({lock})"));
            must_find_none(&deliverer, &mut seen, at)?;
            end(&deliverer, Ending::Commit)?;
            let number = ordering.end()?;
            end(&orderer, Ending::Commit)?;
            seen.note(format!("T1 commits; T2 goes on and commits order {number}"));
            ("T2 waits for T1", number)
        }
    };
    stage.must_be_placed(&mut seen, at, number, Some(&order))?;
    Ok((case.into(), seen))
}

/// T1 repeats its read, which must give the same result.
fn must_find_none(deliverer: &Player, seen: &mut Observations, at: Place) -> Result<(), TpccError> {
    let sql = format!(
        "SELECT count(*) FROM new_order WHERE no_w_id = {} AND no_d_id = {}",
        at.warehouse, at.district
    );
    let again: u64 = deliverer.act(move |session| {
        rows::Row::only("rows of NEW-ORDER", session.query("looking for rows of NEW-ORDER again", &sql)?)?
            .number(0)
    })?;
    seen.must(
        again == 0,
        format!("T1 reads again and finds {again} rows of NEW-ORDER in the district, which should be none"),
    );
    Ok(())
}

/// Removes the rows of NEW-ORDER of a district. No copy is needed: they can be derived from the orders without a
/// carrier (clause 3.3.2.5).
fn take_away(stage: &mut Stage, at: Place) -> Result<u64, TpccError> {
    let sql = format!(
        "WITH gone AS (DELETE FROM new_order WHERE no_w_id = {} AND no_d_id = {} RETURNING 1) SELECT count(*) FROM gone",
        at.warehouse, at.district
    );
    let answer = stage.onlooker.query("taking rows of NEW-ORDER away", &sql)?;
    rows::Row::only("rows of NEW-ORDER", answer)?.number(0)
}

/// Restores them, even after a request to stop.
fn put_back(stage: &Stage, at: Place) -> Result<u64, TpccError> {
    let mut session = Session::open(stage.target, &Stop::new())?;
    let sql = format!(
        "WITH back AS (INSERT INTO new_order (no_o_id, no_d_id, no_w_id) SELECT o_id, o_d_id, o_w_id FROM orders \
         WHERE o_w_id = {} AND o_d_id = {} AND o_carrier_id IS NULL AND NOT EXISTS (SELECT 1 FROM new_order \
         WHERE no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id) RETURNING 1) SELECT count(*) FROM back",
        at.warehouse, at.district
    );
    let answer = session.query("putting rows of NEW-ORDER back", &sql)?;
    rows::Row::only("rows of NEW-ORDER", answer)?.number(0)
}

/// Test 9.
pub(super) fn order_status(stage: &mut Stage) -> Result<Trial, TpccError> {
    let mut seen = Observations::new();
    let (at, customer) = (stage.place(), stage.customer());
    let (reader, orderer) = (stage.enter("T1")?, stage.enter("T2")?);
    let first = stage.hold_order_status(&reader, at, customer).end()?;
    seen.note(format!(
        "T1, an Order-Status of customer {at}/{customer}, shows {first} and is held before its end"
    ));

    let order = stage.order(at, customer, &[]);
    let mut ordering = stage.hold_new_order(&orderer, &order);
    let fate = stage.watch(&mut ordering, &orderer, &reader)?;
    let status =
        OrderStatus { warehouse: at.warehouse, district: at.district, customer: Customer::Id(customer) };
    let again = {
        let ways = stage.ways.clone();
        move |session: &mut Session| ways.order_status(session, &status)
    };
    let (case, number) = match fate {
        Fate::Ended => {
            let number = ordering.end()?;
            end(&orderer, Ending::Commit)?;
            seen.note(format!("T2, a New-Order of the customer, does not wait and commits order {number}"));
            let shown = reader.act(again)?;
            seen.must(shown == first, format!("T1 reads again and shows {shown}, as at first"));
            end(&reader, Ending::Commit)?;
            ("T2 does not wait, and T1 does not see its order", number)
        }
        Fate::Waits(lock) => {
            seen.note(format!("T2, a New-Order of the customer, waits for T1 ({lock})"));
            let shown = reader.act(again)?;
            seen.must(shown == first, format!("T1 reads again and shows {shown}, as at first"));
            end(&reader, Ending::Commit)?;
            let number = ordering.end()?;
            end(&orderer, Ending::Commit)?;
            ("T2 waits for T1", number)
        }
    };
    let after = stage.look(at, customer)?;
    seen.must_be("the order that an Order-Status shows after both", &after.order, &number);
    stage.must_be_placed(&mut seen, at, number, Some(&order))?;
    Ok(trial("3.4.2.9", "Order-Status and New-Order: no phantom", Source::Memory, case.into(), seen))
}
