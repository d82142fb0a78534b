//! Test 7: a New-Order reads the prices of its items while another session raises them.
//!
//! The specification stops the New-Order when it has read the first price. When that is depends on the
//! implementation, so it is stopped at several points: on the lock of a row that it needs (DISTRICT, STOCK of an
//! item between the two x, STOCK of y), and before its end. In each case all prices of its lines must be old or all
//! new; if it had done everything, old.

use super::stage::{end, is_refused, new_order, outcome, trial, Ending, Stage};
use crate::acid::players::{Act, Fate, Player};
use crate::acid::rows::{Cents, Place, Row};
use crate::acid::{Observations, Source, Trial};
use crate::error::TpccError;
use crate::population::ITEMS;
use crate::work::NewOrder;
use hardmeter_session::{Session, Stop};

pub(super) fn repeatable(stage: &mut Stage) -> Result<Trial, TpccError> {
    let mut seen = Observations::new();
    let at = stage.place();
    let mut cases = vec![];
    for stop in [Held::BeforeItsEnd, Held::AtDistrict, Held::AtStockBetween, Held::AtStockOfY] {
        // Item x is ordered twice. Row locks are taken in the order of items or of lines: y is last in both.
        let drawn: Vec<u32> = (0..4).map(|_| stage.chance.uniform(1..=ITEMS / 4 - 1)).collect();
        let item = |quarter: u32| drawn[quarter as usize] + quarter * (ITEMS / 4);
        let (x, y) = (item(0), item(3));
        let customer = stage.customer();
        let order = new_order(at, customer, &[x, item(1), x, item(2), y]);
        let before = prices(&mut stage.onlooker, [x, y])?;
        seen.note(format!(
            "{}: T1 reads the prices of x, {}, and y, {}",
            stop.in_words(),
            before[0],
            before[1]
        ));
        let played = play(stage, at, stop, &order, [x, y], before, &mut seen);
        let restored = restore(stage, [x, y], before);
        cases.push(format!("{}: {}", stop.in_words(), played?));
        restored?;
    }
    Ok(trial("3.4.2.7", "New-Order against changes of prices", Source::Text, cases.join("; "), seen))
}

/// Where the New-Order is stopped while the prices are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    BeforeItsEnd,
    AtDistrict,
    AtStockBetween,
    AtStockOfY,
}

impl Held {
    fn in_words(self) -> &'static str {
        match self {
            Held::BeforeItsEnd => "held before its end",
            Held::AtDistrict => "held at DISTRICT",
            Held::AtStockBetween => "held at STOCK of an item between",
            Held::AtStockOfY => "held at STOCK of y",
        }
    }

    /// The statement that takes the lock that the New-Order needs.
    fn lock(self, at: Place, order: &NewOrder) -> Option<String> {
        let Place { warehouse, district } = at;
        let stock = |line: usize| {
            let item = order.lines()[line].item;
            format!("SELECT 1 FROM stock WHERE s_w_id = {warehouse} AND s_i_id = {item} FOR UPDATE")
        };
        match self {
            Held::BeforeItsEnd => None,
            Held::AtDistrict => Some(format!(
                "SELECT 1 FROM district WHERE d_w_id = {warehouse} AND d_id = {district} FOR UPDATE"
            )),
            Held::AtStockBetween => Some(stock(1)),
            Held::AtStockOfY => Some(stock(4)),
        }
    }
}

fn play(
    stage: &mut Stage,
    at: Place,
    stop: Held,
    order: &NewOrder,
    [x, y]: [u32; 2],
    before: [Cents; 2],
    seen: &mut Observations,
) -> Result<&'static str, TpccError> {
    let (orderer, raiser) = (stage.enter("T2")?, stage.enter("T3")?);
    let blocker = match stop.lock(at, order) {
        None => None,
        Some(sql) => {
            let blocker = stage.enter("T0")?;
            blocker.say("holding a New-Order up", format!("BEGIN; {sql}"))?;
            Some(blocker)
        }
    };
    let mut ordering = stage.hold_new_order(&orderer, order);
    match &blocker {
        Some(blocker) => {
            if let Fate::Ended = stage.watch(&mut ordering, &orderer, blocker)? {
                seen.note("T2, a New-Order of x, y and x again, does not need the row that holds it up");
            }
        }
        // Not blocked: it completes. Its answer is read below.
        None => ordering.wait()?,
    }

    let mut raising = raiser.begin(move |session| {
        let sql =
            format!("BEGIN; UPDATE item SET i_price = round(i_price * 1.1, 2) WHERE i_id IN ({x}, {y})");
        Ok(session.execute("raising prices", &sql)?)
    });
    let fate = stage.watch(&mut raising, &raiser, &orderer)?;
    let waits = matches!(fate, Fate::Waits(_));
    let mut raising = Some(raising);
    if !waits {
        finish(&mut raising, &raiser)?;
    }
    if let Some(blocker) = &blocker {
        end(blocker, Ending::Rollback)?;
    }
    let ordered = outcome(ordering.end())?;
    let number = match ordered {
        Ok(number) => {
            end(&orderer, Ending::Commit)?;
            Some(number)
        }
        Err(error) if is_refused(&error) => {
            seen.note(format!("the server refuses T2: {error}"));
            end(&orderer, Ending::Rollback)?;
            None
        }
        Err(error) => {
            seen.must(false, format!("T2 is done; it fails: {error}"));
            end(&orderer, Ending::Rollback)?;
            None
        }
    };
    if waits {
        finish(&mut raising, &raiser)?;
        seen.note("T3, which raises both prices by 10 %, waits for T2 and goes on when that has ended");
    } else {
        seen.note("T3 raises both prices by 10 % and commits without waiting");
    }
    let Some(number) = number else { return Ok("T2 is refused and would be done again") };
    let raised = prices(&mut stage.onlooker, [x, y])?;
    let lines = line_prices(stage, at, number, order)?;
    judge(stop, before, raised, &lines, waits, seen)
}

/// Waits until the prices are raised, and commits.
fn finish(raising: &mut Option<Act<()>>, raiser: &Player) -> Result<(), TpccError> {
    raising.take().map_or(Ok(()), Act::end)?;
    end(raiser, Ending::Commit)
}

fn judge(
    stop: Held,
    before: [Cents; 2],
    raised: [Cents; 2],
    lines: &[Cents; 3],
    waits: bool,
    seen: &mut Observations,
) -> Result<&'static str, TpccError> {
    seen.must(
        before[0] < raised[0] && before[1] < raised[1],
        format!("T4 reads {} and {}", raised[0], raised[1]),
    );
    let said = format!("T2 used {}, {} for x and {} for y", lines[0], lines[1], lines[2]);
    let of = |moment: [Cents; 2]| *lines == [moment[0], moment[0], moment[1]];
    if of(before) {
        seen.must(true, format!("{said}: those of T1"));
        Ok(if waits { "case A, T3 waits" } else { "case D, T3 does not wait" })
    } else if of(raised) && stop != Held::BeforeItsEnd {
        seen.must(true, format!("{said}: those of T3, all of them; it had read none yet"));
        Ok("it reads all prices behind this lock")
    } else {
        seen.must(false, format!("{said}: of one moment, and of before if it had done its work"));
        Ok("prices of two moments")
    }
}

fn prices(session: &mut Session, [x, y]: [u32; 2]) -> Result<[Cents; 2], TpccError> {
    let sql = format!(
        "SELECT (SELECT i_price FROM item WHERE i_id = {x}), (SELECT i_price FROM item WHERE i_id = {y})"
    );
    let row = Row::only("the prices of two items", session.query("reading prices", &sql)?)?;
    Ok([row.cents(0)?, row.cents(1)?])
}

/// The prices of x, x and y in an order's lines: OL_AMOUNT over OL_QUANTITY (clause 2.4.2.2).
fn line_prices(stage: &mut Stage, at: Place, number: u32, order: &NewOrder) -> Result<[Cents; 3], TpccError> {
    let sql = format!(
        "SELECT string_agg((ol_amount / ol_quantity)::numeric(12,2)::text, ' ' ORDER BY ol_i_id, ol_number) FROM order_line \
         WHERE ol_w_id = {} AND ol_d_id = {} AND ol_o_id = {number} AND ol_i_id IN ({}, {})",
        at.warehouse,
        at.district,
        order.lines()[0].item,
        order.lines()[4].item
    );
    let what = format!("the lines of order {at}/{number}");
    let answer = stage.onlooker.query("reading an order's lines", &sql)?;
    let row = Row::only(&what, answer)?;
    let text = row.text(0)?;
    let parsed: Option<Vec<Cents>> = text.split(' ').map(Cents::parse).collect();
    parsed
        .and_then(|prices| prices.try_into().ok())
        .ok_or_else(|| TpccError::StrangeRow { what, found: format!("{text} should be three prices") })
}

/// Restores the prices, even after a request to stop.
fn restore(stage: &Stage, [x, y]: [u32; 2], before: [Cents; 2]) -> Result<(), TpccError> {
    let mut session = Session::open(stage.target, &Stop::new())?;
    let sql = format!(
        "UPDATE item SET i_price = CASE i_id WHEN {x} THEN {} ELSE {} END WHERE i_id IN ({x}, {y})",
        before[0], before[1]
    );
    Ok(session.execute("putting prices back", &sql)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Verdict;

    #[test]
    fn prices_of_two_moments_are_told() {
        let (before, raised) = ([Cents(1000), Cents(2000)], [Cents(1100), Cents(2200)]);
        let verdict = |stop, lines: [i64; 3]| {
            let mut seen = Observations::new();
            judge(stop, before, raised, &lines.map(Cents), false, &mut seen).unwrap();
            seen.verdict()
        };
        assert_eq!(verdict(Held::BeforeItsEnd, [1000, 1000, 2000]), Verdict::Held);
        assert_eq!(verdict(Held::AtStockOfY, [1000, 1000, 2000]), Verdict::Held);
        assert_eq!(verdict(Held::AtStockOfY, [1100, 1100, 2200]), Verdict::Held);
        assert_eq!(
            verdict(Held::BeforeItsEnd, [1100, 1100, 2200]),
            Verdict::Short,
            "it had read them before"
        );
        assert_eq!(verdict(Held::AtStockOfY, [1000, 1100, 2200]), Verdict::Short);
        assert_eq!(verdict(Held::AtStockOfY, [1000, 1000, 2200]), Verdict::Short);
        assert_eq!(verdict(Held::AtDistrict, [1100, 1100, 2000]), Verdict::Short);
    }
}
