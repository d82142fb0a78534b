//! Who asks, and when: the specification's terminals in a timer wheel, clients without think time, a Poisson process.
//!
//! A terminal is 16 to 32 bytes and no thread, no task, no connection: 390,000 of them (the number of Kuroki et al. 2001)
//! are one driver's. Everything about a terminal is decided by the run's seed and its number, whatever the server does.

use crate::measure::Recorder;
use crate::order::RunOrder;
use crate::time::Micros;
use crate::work::{Kind, TerminalId, Work};

/// Who asks: of one thread of the driver.
pub trait Source {
    /// Appends what is due by now, its `entered` being now.
    fn due(&mut self, now: Micros, recorder: &mut Recorder, work: &mut Vec<Work>);

    /// When something will be due next, if it does not depend on an answer; never later than it is.
    fn next_due(&self) -> Option<Micros>;

    /// A terminal has its answer (or the transaction was given up); it thinks, keys, and will be due again.
    fn answered(&mut self, terminal: TerminalId, kind: Kind, answered: Micros);

    /// How many terminals or clients there are; for [`crate::order::Mode::Open`], 0.
    fn terminals(&self) -> u32;
}

/// The source of a thread of the driver: thread `number` of `order.threads` takes every so-manieth warehouse.
pub fn source(_order: &RunOrder, _number: u32) -> Box<dyn Source + Send> {
    unimplemented!("terminals")
}
