//! Sources of transactions: the specification's terminals in a timer wheel, clients without think time, a Poisson
//! process.
//!
//! ```text
//! specified   terminals with keying and think times    ([`Mode::Terminals`])    wheel           their timers
//! clients     each asks again at once                  ([`Mode::Closed`])       deck, weights   which transaction (5.2.4.2)
//! poisson     they come at a rate                      ([`Mode::Open`])         pause           keying, think times (5.2.5)
//! homes       which warehouses are whose                                        entry           what is entered (2.4.1 to 2.8.1)
//! ```
//!
//! A terminal takes 24 bytes including its timer, without a thread, task or connection: one driver has 390,000 of
//! them (the number of Kuroki et al. 2001). The run's seed and a terminal's number determine its draws, independent
//! of the server and of the number of threads: each transaction has a random stream of its own.
//!
//! Verified against the text of TPC-C 5.11: keying and think times, least shares (clause 5.2.5.7). Not verified
//! against it: that Stock-Level's district is the terminal's, that a customer of the only warehouse there is may
//! live in another district (clause 2.5.1.2).

mod clients;
mod deck;
mod entry;
mod homes;
mod pause;
mod poisson;
mod source;
mod specified;
mod weights;
mod wheel;

pub use deck::DECK;
pub use homes::TERMINALS_OF_A_WAREHOUSE;
pub use pause::{KEYING_SECONDS, LONGEST_THINK, THINK_SECONDS};
pub use source::Source;
pub use weights::WEIGHTS;

use crate::order::{Mode, RunOrder};
use homes::Homes;

/// The source of a thread of the driver: thread `number` of `order.threads` takes every n-th warehouse. A thread
/// without a warehouse has no work.
pub fn source(order: &RunOrder, number: u32) -> Box<dyn Source + Send> {
    let homes = Homes::of(order, number);
    match order.mode {
        Mode::Terminals { time_factor } => Box::new(specified::Terminals::new(order, time_factor, homes)),
        Mode::Closed { clients } => Box::new(clients::Clients::new(order, clients, homes)),
        Mode::Open { rate } => Box::new(poisson::Poisson::new(order, rate, homes)),
    }
}

#[cfg(test)]
mod test;
