//! Who asks.

use crate::measure::Recorder;
use crate::time::Micros;
use crate::work::{Kind, TerminalId, Work};

/// The source of transactions for one driver thread.
pub trait Source {
    /// Appends what is due by now, its `entered` being now.
    fn due(&mut self, now: Micros, recorder: &mut Recorder, work: &mut Vec<Work>);

    /// A lower bound of the next due time that does not depend on an answer.
    fn next_due(&self) -> Option<Micros>;

    /// A terminal has its answer (or the transaction was given up): it will think, key and be due again.
    fn answered(&mut self, terminal: TerminalId, kind: Kind, answered: Micros);

    /// Number of terminals or clients; 0 for [`crate::order::Mode::Open`].
    fn terminals(&self) -> u32;
}
