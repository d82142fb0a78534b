//! Shared by the scenarios: sessions, transactions held open, and reads of the database.

use crate::acid::players::{watch, Act, Fate, Player};
use crate::acid::rows::{self, Place};
use crate::acid::{LastOrder, Observations, Source, Trial, Ways};
use crate::error::TpccError;
use crate::population::{CUSTOMERS, DISTRICTS, ITEMS};
use crate::random::Stream;
use crate::work::{Customer, Delivery, Kind, NewOrder, OrderLine, OrderStatus, Payment, MAX_LINES};
use hardmeter_session::{Session, Stop, Target};
use std::sync::Arc;

/// How T1 ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Commit,
    Rollback,
}

/// Sessions and state of the scenarios.
pub(super) struct Stage<'a> {
    pub(super) target: &'a Target,
    pub(super) stop: &'a Stop,
    pub(super) ways: Arc<dyn Ways>,
    pub(super) onlooker: Session,
    /// Whether Citus distributes the tables.
    pub(super) distributed: bool,
    pub(super) warehouses: u32,
    pub(super) chance: Stream,
}

impl Stage<'_> {
    pub(super) fn enter(&self, name: &'static str) -> Result<Player, TpccError> {
        Player::enter(name, self.target, self.ways.settings(), self.stop)
    }

    pub(super) fn place(&mut self) -> Place {
        Place {
            warehouse: self.chance.uniform(1..=self.warehouses),
            district: self.chance.uniform(1..=DISTRICTS) as u8,
        }
    }

    pub(super) fn customer(&mut self) -> u16 {
        self.chance.uniform(1..=CUSTOMERS) as u16
    }

    /// An order of five lines of different items, all from the home warehouse. Items are chosen at random, so two
    /// such orders share no row of STOCK except by chance, which `but_not` excludes.
    pub(super) fn order(&mut self, at: Place, customer: u16, but_not: &[u32]) -> NewOrder {
        let mut items: Vec<u32> = vec![];
        while items.len() < 5 {
            let item = self.chance.uniform(1..=ITEMS);
            if !items.contains(&item) && !but_not.contains(&item) {
                items.push(item);
            }
        }
        new_order(at, customer, &items)
    }

    /// Begins a transaction in a player's session and does all of it but its end.
    pub(super) fn hold<T: Send + 'static>(
        &self,
        player: &Player,
        kind: Kind,
        body: impl FnOnce(&dyn Ways, &mut Session) -> Result<T, TpccError> + Send + 'static,
    ) -> Act<T> {
        let ways = self.ways.clone();
        player.begin(move |session| {
            session.execute("beginning a transaction", ways.begin(kind))?;
            body(ways.as_ref(), session)
        })
    }

    pub(super) fn hold_new_order(&self, player: &Player, order: &NewOrder) -> Act<u32> {
        let order = order.clone();
        self.hold(player, Kind::NewOrder, move |ways, session| ways.new_order(session, &order))
    }

    pub(super) fn hold_order_status(&self, player: &Player, at: Place, customer: u16) -> Act<LastOrder> {
        let status =
            OrderStatus { warehouse: at.warehouse, district: at.district, customer: Customer::Id(customer) };
        self.hold(player, Kind::OrderStatus, move |ways, session| ways.order_status(session, &status))
    }

    pub(super) fn hold_delivery(&self, player: &Player, delivery: &Delivery) -> Act<[u32; 10]> {
        let delivery = delivery.clone();
        self.hold(player, Kind::Delivery, move |ways, session| ways.delivery(session, &delivery))
    }

    pub(super) fn hold_payment(&self, player: &Player, payment: &Payment) -> Act<()> {
        let payment = payment.clone();
        self.hold(player, Kind::Payment, move |ways, session| ways.payment(session, &payment))
    }

    /// Whether an action ends while the other transaction is held open, or waits for it.
    pub(super) fn watch<T>(
        &mut self,
        act: &mut Act<T>,
        who: &Player,
        other: &Player,
    ) -> Result<Fate, TpccError> {
        watch(&mut self.onlooker, self.distributed, act, who, other)
    }

    /// An order that is placed and committed.
    pub(super) fn place_order(&mut self, order: &NewOrder) -> Result<u32, TpccError> {
        let player = self.enter("T0")?;
        let placed = self.hold_new_order(&player, order).end()?;
        end(&player, Ending::Commit)?;
        Ok(placed)
    }

    /// An Order-Status from its beginning to its end.
    pub(super) fn look(&mut self, at: Place, customer: u16) -> Result<LastOrder, TpccError> {
        let player = self.enter("T0")?;
        let shown = self.hold_order_status(&player, at, customer).end()?;
        end(&player, Ending::Commit)?;
        Ok(shown)
    }

    pub(super) fn next_order(&mut self, at: Place) -> Result<u32, TpccError> {
        rows::next_order(&mut self.onlooker, at)
    }

    /// Checks an order: complete if it was committed, no row of it if not.
    pub(super) fn must_be_placed(
        &mut self,
        seen: &mut Observations,
        at: Place,
        order: u32,
        wanted: Option<&NewOrder>,
    ) -> Result<(), TpccError> {
        let found = rows::order(&mut self.onlooker, at, order)?;
        match wanted {
            None => seen.must(found.is_none(), format!("order {at}/{order} does not exist")),
            Some(wanted) => {
                let lines = u32::from(wanted.line_count);
                let whole = found.is_some_and(|found| {
                    (found.customer, found.promised, found.lines, found.is_new)
                        == (wanted.customer, lines, lines, true)
                });
                seen.must(
                    whole,
                    format!("order {at}/{order} of customer {} has its {lines} lines", wanted.customer),
                );
            }
        }
        Ok(())
    }
}

pub(super) fn new_order(at: Place, customer: u16, items: &[u32]) -> NewOrder {
    let mut all_lines = [OrderLine::default(); MAX_LINES];
    for (line, &item) in all_lines.iter_mut().zip(items) {
        *line = OrderLine { item, supply: at.warehouse, quantity: 3 };
    }
    NewOrder {
        warehouse: at.warehouse,
        district: at.district,
        customer,
        line_count: items.len() as u8,
        all_lines,
    }
}

pub(super) fn items(order: &NewOrder) -> Vec<u32> {
    order.lines().iter().map(|line| line.item).collect()
}

pub(super) fn end(player: &Player, ending: Ending) -> Result<(), TpccError> {
    match ending {
        Ending::Commit => player.say("committing", "COMMIT"),
        Ending::Rollback => player.say("rolling back", "ROLLBACK"),
    }
}

/// Whether the error is a refusal by the server to keep isolation: a client would retry. Other errors count as
/// failures of the transaction.
pub(super) fn is_refused(error: &TpccError) -> bool {
    let TpccError::Session(hardmeter_session::SessionError::Statement { code, .. }) = error else {
        return false;
    };
    ["40001", "40P01"].contains(&code.as_str())
}

/// The result of a transaction, or its error. The end of a connection is an error of the test.
pub(super) fn outcome<T>(result: Result<T, TpccError>) -> Result<Result<T, TpccError>, TpccError> {
    match result {
        Err(TpccError::Session(error)) if error.ends_session() => Err(error.into()),
        Err(error @ TpccError::Session(hardmeter_session::SessionError::Statement { .. })) => Ok(Err(error)),
        Err(error) => Err(error),
        Ok(given) => Ok(Ok(given)),
    }
}

pub(super) fn trial(
    clause: &'static str,
    name: &str,
    source: Source,
    case: String,
    seen: Observations,
) -> Trial {
    Trial { clause, name: name.into(), source, verdict: seen.verdict(), case: Some(case), seen: seen.seen }
}
