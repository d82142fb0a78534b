//! Clause 3.2.2: a Payment changes all of its rows or none.

use super::players::Player;
use super::rows::{money, Money, Place};
use super::{Observations, Source, Trial, Ways};
use crate::error::TpccError;
use crate::population::{CUSTOMERS, DISTRICTS};
use crate::random::{Part, Stream};
use crate::work::{Customer, Kind, Payment};
use hardmeter_session::{Session, Stop, Target};
use std::sync::Arc;

/// Both tests, for a customer of the home warehouse, by number, drawn by the seed.
///
/// # Errors
///
/// [`TpccError::Session`] if a statement fails, the connection is lost, or `stop` was requested.
pub fn run(
    target: &Target,
    ways: &Arc<dyn Ways>,
    warehouses: u32,
    seed: u64,
    stop: &Stop,
) -> Result<Vec<Trial>, TpccError> {
    let mut onlooker = Session::open(target, stop)?;
    let mut chance = Stream::of(seed, Part::Constants, u32::MAX);
    let mut trials = vec![];
    for ending in [Ending::Commit, Ending::Rollback] {
        let place = Place {
            warehouse: chance.uniform(1..=warehouses),
            district: chance.uniform(1..=DISTRICTS) as u8,
        };
        let customer = chance.uniform(1..=CUSTOMERS) as u16;
        let payment = Payment {
            warehouse: place.warehouse,
            district: place.district,
            customer_warehouse: place.warehouse,
            customer_district: place.district,
            customer: Customer::Id(customer),
            amount_cents: chance.uniform(100..=500_000),
        };
        let player = Player::enter("T1", target, ways.settings(), stop)?;
        let before = money(&mut onlooker, place, customer)?;
        player.say("beginning a Payment", ways.begin(Kind::Payment))?;
        let (paying, how) = (payment.clone(), ways.clone());
        player.act(move |session| how.payment(session, &paying))?;
        player.say("ending a Payment", ending.statement())?;
        let after = money(&mut onlooker, place, customer)?;
        trials.push(judge(ending, place, customer, &payment, &before, &after));
    }
    Ok(trials)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Commit,
    Rollback,
}

impl Ending {
    fn statement(self) -> &'static str {
        match self {
            Ending::Commit => "COMMIT",
            Ending::Rollback => "ROLLBACK",
        }
    }
}

fn judge(
    ending: Ending,
    place: Place,
    customer: u16,
    payment: &Payment,
    before: &Money,
    after: &Money,
) -> Trial {
    let paid = match ending {
        Ending::Commit => i64::from(payment.amount_cents),
        Ending::Rollback => 0,
    };
    let one = i64::from(paid > 0);
    let mut seen = Observations::new();
    seen.note(format!(
        "a Payment of {} by customer {place}/{customer}, {} credit",
        super::rows::Cents(i64::from(payment.amount_cents)),
        if before.customer.bad_credit { "bad" } else { "good" }
    ));
    let (old, new) = (&before.customer, &after.customer);
    for (what, was, is, should) in [
        ("W_YTD", before.warehouse_ytd, after.warehouse_ytd, before.warehouse_ytd + paid),
        ("D_YTD", before.district_ytd, after.district_ytd, before.district_ytd + paid),
        ("C_BALANCE", old.balance, new.balance, old.balance + -paid),
        ("C_YTD_PAYMENT", old.ytd_payment, new.ytd_payment, old.ytd_payment + paid),
        ("sum of H_AMOUNT", before.history.1, after.history.1, before.history.1 + paid),
    ] {
        seen.must(is == should, format!("{what} {was} -> {is}"));
    }
    for (what, was, is, should) in [
        ("C_PAYMENT_CNT", old.payments, new.payments, old.payments + one),
        ("rows of HISTORY", before.history.0, after.history.0, before.history.0 + one),
        ("C_DELIVERY_CNT", old.deliveries, new.deliveries, old.deliveries),
    ] {
        seen.must(is == should, format!("{what} {was} -> {is}"));
    }
    // Clause 2.5.2.2: for a customer with bad credit the payment is written to C_DATA before the old contents.
    let (kept, rewritten) = (old.data == new.data, old.bad_credit && one == 1);
    seen.must(kept != rewritten, format!("C_DATA is {}", if kept { "as it was" } else { "another" }));
    if rewritten {
        let rest: String = old.data.chars().take(100).collect();
        seen.must(
            new.data.contains(&rest) && !new.data.starts_with(&rest),
            "the old C_DATA follows the payment in it",
        );
    }
    let (clause, name) = match ending {
        Ending::Commit => ("3.2.2.1", "a Payment that is committed changes all of its rows"),
        Ending::Rollback => ("3.2.2.2", "a Payment that is rolled back changes nothing"),
    };
    Trial {
        clause,
        name: name.into(),
        source: Source::Text,
        verdict: seen.verdict(),
        case: None,
        seen: seen.seen,
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::{Cents, Customer as CustomerRow};
    use super::*;
    use crate::audit::Verdict;

    fn money(paid: i64, payments: i64) -> Money {
        Money {
            warehouse_ytd: Cents(30_000_000 + paid),
            district_ytd: Cents(3_000_000 + paid),
            customer: CustomerRow {
                balance: Cents(-1000 - paid),
                ytd_payment: Cents(1000 + paid),
                payments,
                deliveries: 0,
                bad_credit: false,
                data: "data".into(),
            },
            history: (payments, Cents(1000 + paid)),
        }
    }

    fn payment() -> Payment {
        Payment {
            warehouse: 1,
            district: 2,
            customer_warehouse: 1,
            customer_district: 2,
            customer: Customer::Id(3),
            amount_cents: 12_345,
        }
    }

    fn verdict(ending: Ending, after: &Money) -> Verdict {
        let payment = payment();
        let place = Place { warehouse: 1, district: 2 };
        judge(ending, place, 3, &payment, &money(0, 1), after).verdict
    }

    #[test]
    fn each_row_that_is_not_as_it_should_be_is_told() {
        let paid = money(12_345, 2);
        assert_eq!(verdict(Ending::Commit, &paid), Verdict::Held);
        assert_eq!(verdict(Ending::Rollback, &money(0, 1)), Verdict::Held);
        assert_eq!(verdict(Ending::Commit, &money(0, 1)), Verdict::Short);
        assert_eq!(verdict(Ending::Rollback, &paid), Verdict::Short);
        let breaks: [fn(&mut Money); 7] = [
            |money| money.warehouse_ytd.0 += 1,
            |money| money.district_ytd.0 -= 12_345,
            |money| money.customer.balance.0 = -1000,
            |money| money.customer.ytd_payment.0 = 0,
            |money| money.customer.payments = 1,
            |money| money.history.0 = 1,
            |money| money.customer.data = "new".into(),
        ];
        for part in breaks {
            let mut after = paid.clone();
            part(&mut after);
            assert_eq!(verdict(Ending::Commit, &after), Verdict::Short);
        }
    }

    #[test]
    fn bad_credit_is_written_down() {
        let payment = payment();
        let place = Place { warehouse: 1, district: 2 };
        let (mut before, mut after) = (money(0, 1), money(12_345, 2));
        before.customer.bad_credit = true;
        after.customer.bad_credit = true;
        let judged = |after: &Money| judge(Ending::Commit, place, 3, &payment, &before, after).verdict;
        assert_eq!(judged(&after), Verdict::Short, "nothing was written down");
        after.customer.data = "3 2 1 2 1 123.45 data".into();
        assert_eq!(judged(&after), Verdict::Held);
        after.customer.data = "something else".into();
        assert_eq!(judged(&after), Verdict::Short);
    }
}
