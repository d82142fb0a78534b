//! New-Order: the first round trip takes all locks, the second writes and commits.

use super::statement::Statement;
use crate::transactions::lines::{Line, Lines};
use crate::wire::{Next, Replies, Requests, Step, Unexpected};
use crate::work::{NewOrder, Outcome, MAX_LINES};

/// Statements of the first round trip: BEGIN, then these, then an UPDATE of STOCK for each repetition.
const NUMBER: usize = 1;
const CUSTOMER: usize = 2;
const FIRST_STOCK: usize = 3;

/// A New-Order on its way.
#[derive(Debug, Default)]
pub(super) struct NewOrderScript {
    /// The outcome, once the second round trip is sent.
    end: Option<Outcome>,
    /// By OL_NUMBER - 1; `None`: the line's item does not exist.
    found: [Option<Found>; MAX_LINES],
    /// OL_DIST_INFO, by OL_NUMBER - 1: reused, so that lines need no allocation.
    dist_infos: [String; MAX_LINES],
}

/// The server's data for a line.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// I_PRICE in cents.
    price: i64,
    /// OL_AMOUNT in cents.
    amount: i64,
}

impl NewOrderScript {
    pub(super) fn begin(&mut self, order: &NewOrder, requests: &mut Requests<'_>) {
        self.end = None;
        self.found = [None; MAX_LINES];
        let (warehouse, district) = (order.warehouse as i32, i32::from(order.district));
        requests.begin();
        requests.execute(Statement::TakeOrderNumber.place(), |parameters| {
            parameters.i32(warehouse);
            parameters.i32(district);
        });
        requests.execute(Statement::ReadCustomer.place(), |parameters| {
            parameters.i32(warehouse);
            parameters.i32(district);
            parameters.i32(i32::from(order.customer));
        });
        let lines = Lines::of(order);
        // UPDATE changes each row of STOCK once. A second line of the same row has its own statement, after the
        // first.
        for repeats in 0..=lines.most_repeats() {
            requests.execute(Statement::TakeStock.place(), |parameters| {
                parameters.i32(warehouse);
                parameters.i32(district);
                let lines = lines.repeated(repeats);
                parameters.i32s(lines.clone().map(|line| i32::from(line.number)));
                parameters.i32s(lines.clone().map(|line| line.entered.item as i32));
                parameters.i32s(lines.clone().map(|line| line.entered.supply as i32));
                parameters.i32s(lines.map(|line| i32::from(line.entered.quantity)));
            });
        }
    }

    pub(super) fn reply(
        &mut self,
        order: &NewOrder,
        replies: &Replies<'_>,
        requests: &mut Requests<'_>,
    ) -> Next {
        match self.end.take() {
            Some(outcome) => Ok(Step::Done(outcome)),
            None => {
                self.write(order, replies, requests)?;
                Ok(Step::More)
            }
        }
    }

    /// The second round trip. An order with a missing item is written, too, and then rolled back: clause 2.4.2.3
    /// requires the work in any case.
    fn write(
        &mut self,
        order: &NewOrder,
        replies: &Replies<'_>,
        requests: &mut Requests<'_>,
    ) -> Result<(), Unexpected> {
        let number = replies.row(NUMBER)?.get(0)?.i32()?;
        replies.row(CUSTOMER)?;
        for place in FIRST_STOCK..replies.len() {
            for row in replies.reply(place)?.rows() {
                self.note(order, &row)?;
            }
        }
        let count = order.lines().len();
        let missing: Vec<usize> = (0..count).filter(|&at| self.found[at].is_none()).collect();
        // The database decides whether an item exists; that the driver intended it is only checked.
        if !missing.is_empty() && (!order.is_rolled_back() || missing != [count - 1]) {
            return Err(Unexpected::Data(format!(
                "stock of {} of {count} lines is not there",
                missing.len()
            )));
        }

        let (warehouse, district) = (order.warehouse as i32, i32::from(order.district));
        let all_local = order.lines().iter().all(|line| line.supply == order.warehouse);
        requests.execute(Statement::WriteOrder.place(), |parameters| {
            parameters.i32(number);
            parameters.i32(district);
            parameters.i32(warehouse);
            parameters.i32(i32::from(order.customer));
            parameters.i32(count as i32);
            parameters.i32(i32::from(all_local));
        });
        requests.execute(Statement::WriteNewOrder.place(), |parameters| {
            parameters.i32(number);
            parameters.i32(district);
            parameters.i32(warehouse);
        });
        let lines = Lines::of(order);
        let found = || {
            let there = |line: &&Line| self.found[usize::from(line.number) - 1].is_some();
            lines.all().iter().filter(there)
        };
        let at = |line: &Line| usize::from(line.number) - 1;
        requests.execute(Statement::WriteLines.place(), |parameters| {
            parameters.i32(number);
            parameters.i32(district);
            parameters.i32(warehouse);
            parameters.i32s(found().map(|line| i32::from(line.number)));
            parameters.i32s(found().map(|line| line.entered.item as i32));
            parameters.i32s(found().map(|line| line.entered.supply as i32));
            parameters.i32s(found().map(|line| i32::from(line.entered.quantity)));
            parameters.numerics(found().filter_map(|line| Some(self.found[at(line)]?.amount)), 2);
            parameters.texts(found().map(|line| self.dist_infos[at(line)].as_str()));
        });
        if missing.is_empty() {
            requests.commit();
            self.end = Some(Outcome::Ordered { order: number as u32 });
        } else {
            requests.rollback();
            self.end = Some(Outcome::RolledBack);
        }
        Ok(())
    }

    /// Records a row of TAKE_STOCK for its line.
    fn note(&mut self, order: &NewOrder, row: &crate::wire::Row<'_>) -> Result<(), Unexpected> {
        let mut columns = row.columns();
        let number = columns.i32()?;
        let at = usize::try_from(number - 1).ok().filter(|&at| at < order.lines().len());
        let at = at.ok_or_else(|| Unexpected::Data(format!("a line {number} that was not ordered")))?;
        // A repetition is read by its own statement: keep the price that was read first, even if another session
        // changes prices meanwhile (clause 3.4.1, level 2).
        let read = columns.numeric(2)?;
        let line = order.all_lines[at];
        let before = (0..order.lines().len()).filter(|&other| order.all_lines[other].item == line.item);
        let price = before.filter_map(|other| self.found[other]).next().map_or(read, |found| found.price);
        self.found[at] = Some(Found { price, amount: price * i64::from(line.quantity) });
        self.dist_infos[at].clear();
        self.dist_infos[at].push_str(columns.text()?);
        Ok(())
    }
}
