//! What the threads of a run tell each other: when it ends, and how.

use crate::measure::Ending;
use crate::time::Micros;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// When the run ends, and how: as ordered, unless somebody says otherwise first.
#[derive(Debug)]
pub(super) struct Shared {
    ended: AtomicU64,
    ending: Mutex<Ending>,
}

impl Shared {
    /// It will end then.
    pub fn new(end: Micros) -> Shared {
        Shared { ended: AtomicU64::new(end.0), ending: Mutex::new(Ending::Complete) }
    }

    /// The moment from which on nothing counts. It can only come nearer.
    pub fn ended(&self) -> Micros {
        Micros(self.ended.load(Ordering::Acquire))
    }

    /// How it ended, once it has.
    pub fn ending(&self) -> Ending {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It ends now, for another reason than that its time has come. After its end only a failure is news: the first reason
    /// stands.
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
