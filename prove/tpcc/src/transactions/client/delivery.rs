//! Delivery: the oldest orders in the first round trip, all else in the last; one more between them if a district
//! has no order.

use super::statement::Statement;
use crate::wire::{Next, Replies, Requests, Step, Unexpected};
use crate::work::{Delivery, Outcome};

/// A Delivery on its way.
#[derive(Debug, Default)]
pub(super) struct DeliveryScript {
    orders: [u32; 10],
    stage: Stage,
}

/// The meaning of the next answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Chosen,
    /// Chosen once more, behind the lock of districts that had none.
    ChosenAgain,
    Delivered,
}

impl DeliveryScript {
    pub(super) fn begin(&mut self, delivery: &Delivery, requests: &mut Requests<'_>) {
        self.stage = Stage::Chosen;
        requests.begin();
        choose(delivery, requests);
    }

    pub(super) fn reply(
        &mut self,
        delivery: &Delivery,
        replies: &Replies<'_>,
        requests: &mut Requests<'_>,
    ) -> Next {
        if self.stage == Stage::Delivered {
            return Ok(Step::Done(Outcome::Delivered { orders: self.orders }));
        }
        // After BEGIN, or after the locking.
        let chosen = replies.reply(1)?;
        if chosen.row_count() as usize != self.orders.len() {
            return Err(Unexpected::Data(format!("orders of {} districts", chosen.row_count())));
        }
        for (order, row) in self.orders.iter_mut().zip(chosen.rows()) {
            *order = row.get(0)?.i32()? as u32;
        }
        let warehouse = delivery.warehouse as i32;
        if self.stage == Stage::Chosen && self.orders.contains(&0) {
            let empty = (1..).zip(self.orders).filter(|(_, order)| *order == 0).map(|(district, _)| district);
            requests.execute(Statement::LockDistricts.place(), |parameters| {
                parameters.i32(warehouse);
                parameters.i32s(empty);
            });
            choose(delivery, requests);
            self.stage = Stage::ChosenAgain;
        } else {
            let orders = self.orders.map(|order| order as i32);
            requests.execute(Statement::RemoveNewOrders.place(), |parameters| {
                parameters.i32(warehouse);
                parameters.i32s(orders);
            });
            requests.execute(Statement::Deliver.place(), |parameters| {
                parameters.i32(warehouse);
                parameters.i32s(orders);
                parameters.i32(i32::from(delivery.carrier));
            });
            requests.commit();
            self.stage = Stage::Delivered;
        }
        Ok(Step::More)
    }
}

fn choose(delivery: &Delivery, requests: &mut Requests<'_>) {
    requests.execute(Statement::ChooseOrders.place(), |parameters| parameters.i32(delivery.warehouse as i32));
}
