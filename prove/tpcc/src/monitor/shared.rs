//! State shared by the threads of a run: when and how it ends.

use crate::measure::Ending;
use crate::time::Micros;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The end of a run and its reason: as ordered, unless a thread ends it earlier.
#[derive(Debug)]
pub(super) struct Shared {
    ended: AtomicU64,
    ending: Mutex<Ending>,
}

impl Shared {
    /// The planned end.
    pub fn new(end: Micros) -> Shared {
        Shared { ended: AtomicU64::new(end.0), ending: Mutex::new(Ending::Complete) }
    }

    /// The end of counting. It can only become earlier.
    pub fn ended(&self) -> Micros {
        Micros(self.ended.load(Ordering::Acquire))
    }

    /// How the run ended, or will end.
    pub fn ending(&self) -> Ending {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the run now for a reason. After the end only a failure is recorded: otherwise the first reason stays.
    pub fn end(&self, now: Micros, how: Ending) {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let over = now >= self.ended();
        if *ending == Ending::Complete && (!over || matches!(how, Ending::Failed { .. })) {
            *ending = how;
            self.ended.fetch_min(now.0, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stands_and_what_is_over_cannot_be_interrupted() {
        let shared = Shared::new(Micros(100));
        shared.end(Micros(100), Ending::Interrupted);
        assert_eq!((shared.ended(), shared.ending()), (Micros(100), Ending::Complete));
        shared.end(Micros(60), Ending::Interrupted);
        shared.end(Micros(50), Ending::Failed { reason: "gone".into() });
        assert_eq!((shared.ended(), shared.ending()), (Micros(60), Ending::Interrupted));
    }
}
