//! Tests 1 and 2: Order-Status of a customer whose New-Order is not committed yet.

use super::stage::{end, trial, Ending, Stage};
use crate::acid::players::Fate;
use crate::acid::{Observations, Source, Trial};
use crate::error::TpccError;

pub(super) fn committed(stage: &mut Stage) -> Result<Trial, TpccError> {
    let (case, seen) = play(stage, Ending::Commit)?;
    Ok(trial("3.4.2.1", "Order-Status against a New-Order", Source::Memory, case, seen))
}

pub(super) fn rolled_back(stage: &mut Stage) -> Result<Trial, TpccError> {
    let (case, seen) = play(stage, Ending::Rollback)?;
    Ok(trial("3.4.2.2", "Order-Status against a New-Order that is rolled back", Source::Memory, case, seen))
}

fn play(stage: &mut Stage, ending: Ending) -> Result<(String, Observations), TpccError> {
    let mut seen = Observations::new();
    let (at, customer) = (stage.place(), stage.customer());
    let before = stage.look(at, customer)?;
    seen.note(format!("customer {at}/{customer} has {before}"));

    let (writer, reader) = (stage.enter("T1")?, stage.enter("T2")?);
    let order = stage.order(at, customer, &[]);
    let number = stage.hold_new_order(&writer, &order).end()?;
    seen.note(format!(
        "T1, a New-Order of the customer, has done its work as order {number} and is held before its end"
    ));
    let mut reading = stage.hold_order_status(&reader, at, customer);
    let case = match stage.watch(&mut reading, &reader, &writer)? {
        Fate::Ended => {
            let shown = reading.end()?;
            seen.must(
                shown == before,
                format!("T2, an Order-Status, does not wait and shows {shown}, as before"),
            );
            end(&reader, Ending::Commit)?;
            end(&writer, ending)?;
            "T2 does not wait, and reads what was committed before T1"
        }
        Fate::Waits(lock) => {
            seen.note(format!("T2, an Order-Status, waits for T1 ({lock})"));
            end(&writer, ending)?;
            let shown = reading.end()?;
            let wanted = if ending == Ending::Commit { number } else { before.order };
            seen.must_be("the order that T2 shows then", &shown.order, &wanted);
            end(&reader, Ending::Commit)?;
            "T2 waits for T1"
        }
    };
    let after = stage.look(at, customer)?;
    match ending {
        Ending::Commit => {
            let whole = after.order == number && after.lines.len() == usize::from(order.line_count);
            seen.must(whole, format!("after T1's commit an Order-Status shows {after}, that of T1"));
        }
        Ending::Rollback => {
            seen.must(
                after == before,
                format!("after T1's rollback an Order-Status shows {after}, as before"),
            );
        }
    }
    stage.must_be_placed(&mut seen, at, number, (ending == Ending::Commit).then_some(&order))?;
    Ok((case.into(), seen))
}
