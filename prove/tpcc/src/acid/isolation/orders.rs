//! Tests 3 and 4: two New-Orders in one district.

use super::stage::{end, is_refused, items, outcome, trial, Ending, Stage};
use crate::acid::players::Fate;
use crate::acid::{Observations, Source, Trial};
use crate::error::TpccError;

pub(super) fn committed(stage: &mut Stage) -> Result<Trial, TpccError> {
    let (case, seen) = play(stage, Ending::Commit)?;
    Ok(trial("3.4.2.3", "two New-Orders of one district", Source::Memory, case, seen))
}

pub(super) fn rolled_back(stage: &mut Stage) -> Result<Trial, TpccError> {
    let (case, seen) = play(stage, Ending::Rollback)?;
    Ok(trial("3.4.2.4", "two New-Orders of one district, the first rolled back", Source::Memory, case, seen))
}

fn play(stage: &mut Stage, ending: Ending) -> Result<(String, Observations), TpccError> {
    let mut seen = Observations::new();
    let at = stage.place();
    let next = stage.next_order(at)?;
    seen.note(format!("district {at} has D_NEXT_O_ID {next}"));
    let (first, second) = (stage.enter("T1")?, stage.enter("T2")?);
    let customer = stage.customer();
    let one = stage.order(at, customer, &[]);
    let other = stage.order(at, customer, &items(&one));

    let number = stage.hold_new_order(&first, &one).end()?;
    seen.must_be("O_ID of T1, a New-Order held before its end,", &number, &next);
    let mut ordering = stage.hold_new_order(&second, &other);
    let fate = stage.watch(&mut ordering, &second, &first)?;
    match &fate {
        Fate::Waits(lock) => {
            seen.note(format!("T2, a New-Order of the same district, waits for T1 ({lock})"))
        }
        Fate::Ended => seen.note("T2, a New-Order of the same district, does not wait"),
    }
    end(&first, ending)?;
    seen.note(format!("T1 ends: {ending:?}"));
    let then = next + u32::from(ending == Ending::Commit);
    let (case, placed) = match outcome(ordering.end())? {
        Ok(number) => {
            seen.must_be("O_ID of T2", &number, &then);
            end(&second, Ending::Commit)?;
            let case = if fate == Fate::Ended { "T2 does not wait" } else { "T2 waits for T1" };
            (case, 1)
        }
        // T2 would be done again by its driver, on the number that is next then.
        Err(error) if is_refused(&error) => {
            seen.note(format!("the server refuses T2: {error}"));
            end(&second, Ending::Rollback)?;
            ("T2 is refused and would be done again", 0)
        }
        Err(error) => {
            seen.must(false, format!("T2 is done; it fails: {error}"));
            end(&second, Ending::Rollback)?;
            ("T2 fails", 0)
        }
    };
    let after = stage.next_order(at)?;
    seen.must_be("D_NEXT_O_ID after both", &after, &(then + placed));
    if ending == Ending::Commit {
        stage.must_be_placed(&mut seen, at, next, Some(&one))?;
    }
    if placed == 1 {
        stage.must_be_placed(&mut seen, at, then, Some(&other))?;
    } else {
        stage.must_be_placed(&mut seen, at, then, None)?;
    }
    Ok((case.into(), seen))
}
