//! Clause 3.4.2: the nine isolation scenarios. T1 is held open before its end, T2 is begun, and what becomes of it is seen.
//!
//! ```text
//! 1, 2  Order-Status against a New-Order that commits, that is rolled back     ([`mod@status`])
//! 3, 4  New-Order against a New-Order of its district, likewise                ([`mod@orders`])
//! 5, 6  Payment against a Delivery to its customer, likewise                   ([`mod@money`])
//! 7     New-Order reads prices while they are changed                          ([`mod@prices`])
//! 8     Delivery finds nothing in a district; a New-Order of it arrives        ([`mod@phantoms`])
//! 9     Order-Status finds a last order; a New-Order of the customer arrives   ([`mod@phantoms`])
//! ```

mod money;
mod orders;
mod phantoms;
mod prices;
mod status;

use super::players::{watch, Act, Fate, Player};
use super::rows::{self, Place};
use super::{Observations, Source, Trial, Ways};
use crate::error::TpccError;
use crate::population::{CUSTOMERS, DISTRICTS, ITEMS};
use crate::random::{Part, Stream};
use crate::work::{Customer, Delivery, Kind, NewOrder, OrderLine, OrderStatus, Payment, MAX_LINES};
use hardmeter_session::{Progress, Session, Stop, Target};
use std::sync::Arc;

/// How many scenarios there are.
pub const SCENARIOS: u8 = 9;

/// Plays the wanted scenarios, 1 to 9; returns a trial for each.
///
/// # Errors
///
/// [`TpccError::Session`] if a statement fails, the connection is lost, or `stop` was requested.
pub fn run(
    target: &Target,
    ways: &Arc<dyn Ways>,
    warehouses: u32,
    seed: u64,
    wanted: &[u8],
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Vec<Trial>, TpccError> {
    progress.phase("playing isolation scenarios", wanted.len() as u64);
    let mut stage = Stage {
        target,
        stop,
        ways: ways.clone(),
        onlooker: Session::open(target, stop)?,
        warehouses,
        chance: Stream::of(seed, Part::Constants, u32::MAX - 1),
    };
    let mut trials = vec![];
    for &number in wanted {
        let scenario = match number {
            1 => status::committed,
            2 => status::rolled_back,
            3 => orders::committed,
            4 => orders::rolled_back,
            5 => money::committed,
            6 => money::rolled_back,
            7 => prices::repeatable,
            8 => phantoms::delivery,
            _ => phantoms::order_status,
        };
        trials.push(scenario(&mut stage)?);
        progress.advance(1);
    }
    Ok(trials)
}

/// How T1 ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Commit,
    Rollback,
}

/// Where the scenarios are played.
struct Stage<'a> {
    target: &'a Target,
    stop: &'a Stop,
    ways: Arc<dyn Ways>,
    onlooker: Session,
    warehouses: u32,
    chance: Stream,
}

impl Stage<'_> {
    fn enter(&self, name: &'static str) -> Result<Player, TpccError> {
        Player::enter(name, self.target, self.ways.settings(), self.stop)
    }

    fn place(&mut self) -> Place {
        Place {
            warehouse: self.chance.uniform(1..=self.warehouses),
            district: self.chance.uniform(1..=DISTRICTS) as u8,
        }
    }

    fn customer(&mut self) -> u16 {
        self.chance.uniform(1..=CUSTOMERS) as u16
    }

    /// An order of five lines of different items, all from the home warehouse: items are nowhere but in it, so that two
    /// such orders have no row of STOCK in common but by chance, which `but_not` excludes.
    fn order(&mut self, at: Place, customer: u16, but_not: &[u32]) -> NewOrder {
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
    fn hold<T: Send + 'static>(
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

    fn hold_new_order(&self, player: &Player, order: &NewOrder) -> Act<u32> {
        let order = order.clone();
        self.hold(player, Kind::NewOrder, move |ways, session| ways.new_order(session, &order))
    }

    fn hold_order_status(&self, player: &Player, at: Place, customer: u16) -> Act<super::LastOrder> {
        let status =
            OrderStatus { warehouse: at.warehouse, district: at.district, customer: Customer::Id(customer) };
        self.hold(player, Kind::OrderStatus, move |ways, session| ways.order_status(session, &status))
    }

    fn hold_delivery(&self, player: &Player, delivery: &Delivery) -> Act<[u32; 10]> {
        let delivery = delivery.clone();
        self.hold(player, Kind::Delivery, move |ways, session| ways.delivery(session, &delivery))
    }

    fn hold_payment(&self, player: &Player, payment: &Payment) -> Act<()> {
        let payment = payment.clone();
        self.hold(player, Kind::Payment, move |ways, session| ways.payment(session, &payment))
    }

    /// Whether something that was begun ends while the other is held open, or waits for it.
    fn watch<T>(&mut self, act: &mut Act<T>, who: &Player, other: &Player) -> Result<Fate, TpccError> {
        watch(&mut self.onlooker, act, who, other)
    }

    /// An order that is placed and committed.
    fn place_order(&mut self, order: &NewOrder) -> Result<u32, TpccError> {
        let player = self.enter("T0")?;
        let placed = self.hold_new_order(&player, order).end()?;
        end(&player, Ending::Commit)?;
        Ok(placed)
    }

    /// An Order-Status from its beginning to its end.
    fn look(&mut self, at: Place, customer: u16) -> Result<super::LastOrder, TpccError> {
        let player = self.enter("T0")?;
        let shown = self.hold_order_status(&player, at, customer).end()?;
        end(&player, Ending::Commit)?;
        Ok(shown)
    }

    fn next_order(&mut self, at: Place) -> Result<u32, TpccError> {
        rows::next_order(&mut self.onlooker, at)
    }

    /// What must be of an order: whole if it was committed, nothing of it if not.
    fn must_be_placed(
        &mut self,
        seen: &mut Observations,
        at: Place,
        order: u32,
        wanted: Option<&NewOrder>,
    ) -> Result<(), TpccError> {
        let found = rows::order(&mut self.onlooker, at, order)?;
        match wanted {
            None => seen.must(found.is_none(), format!("there is nothing of an order {at}/{order}")),
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

fn new_order(at: Place, customer: u16, items: &[u32]) -> NewOrder {
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

fn items(order: &NewOrder) -> Vec<u32> {
    order.lines().iter().map(|line| line.item).collect()
}

fn end(player: &Player, ending: Ending) -> Result<(), TpccError> {
    match ending {
        Ending::Commit => player.say("committing", "COMMIT"),
        Ending::Rollback => player.say("rolling back", "ROLLBACK"),
    }
}

/// An error by which the server itself keeps a transaction from doing harm: it would be done again. What else it says is
/// reported as a failure of the transaction.
fn is_refused(error: &TpccError) -> bool {
    let TpccError::Session(hardmeter_session::SessionError::Statement { code, .. }) = error else {
        return false;
    };
    ["40001", "40P01"].contains(&code.as_str())
}

/// What a transaction gave, or how it failed. The connection's end is not an answer.
fn outcome<T>(result: Result<T, TpccError>) -> Result<Result<T, TpccError>, TpccError> {
    match result {
        Err(TpccError::Session(error)) if error.ends_session() => Err(error.into()),
        Err(error @ TpccError::Session(hardmeter_session::SessionError::Statement { .. })) => Ok(Err(error)),
        Err(error) => Err(error),
        Ok(given) => Ok(Ok(given)),
    }
}

fn trial(clause: &'static str, name: &str, source: Source, case: String, seen: Observations) -> Trial {
    Trial { clause, name: name.into(), source, verdict: seen.verdict(), case: Some(case), seen: seen.seen }
}
