//! Who asks.

use crate::measure::Recorder;
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
