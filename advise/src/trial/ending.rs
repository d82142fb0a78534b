//! The end of a trial: the change is kept or undone, then its entry is closed, then its watchdog is released.

use super::ledger::Ledger;
use super::outcome::{Closing, Undone};
use super::undo::closing;
use super::watchdog::Watchdog;
use super::{TrialResult, TryError};
use hardmeter_evidence::Verdict;

/// The change that a trial made.
pub(super) trait Changed {
    /// Leaves the change in place; returns a note on it. `None`: it cannot be kept.
    fn keep(&mut self) -> Option<String>;

    /// Restores the state before the trial.
    ///
    /// # Errors
    /// If it could not be restored: the watchdog continues to try.
    fn undo(&mut self) -> Result<Undone, TryError>;

    /// A note on a complete trial that was undone.
    fn note(&self) -> String {
        String::new()
    }
}

/// Ends a trial. A gain that is proven is kept if `keep` says so; all else is undone.
///
/// # Errors
/// [`TryError::NotUndone`], with the entry open; [`TryError::EndedEarly`] if `measured` is an error; the error of the
/// ledger.
pub(super) fn end(
    changed: &mut dyn Changed,
    keep: bool,
    (ledger, entry): (&Ledger, u64),
    measured: Result<TrialResult, TryError>,
    watching: Option<Watchdog>,
) -> Result<(Closing, String, TrialResult), TryError> {
    let gained = keep && matches!(&measured, Ok(result) if result.verdict == Verdict::Better);
    let kept = if gained { changed.keep() } else { None };
    let (how, note) = match kept {
        Some(note) => (Closing::Kept, note),
        None => {
            let undone = changed.undo().map_err(|error| TryError::NotUndone { reason: error.to_string() })?;
            let (how, why) = closing(&undone);
            let note = match &measured {
                _ if !why.is_empty() => why.to_owned(),
                Ok(_) => changed.note(),
                Err(error) => format!("ended early: {error}"),
            };
            (how, note)
        }
    };
    if let Ok(result) = &measured {
        ledger.result(entry, result.clone())?;
    }
    ledger.close(entry, how, &note)?;
    if let Some(watching) = watching {
        watching.done();
    }
    match measured {
        Ok(result) => Ok((how, note, result)),
        Err(error) => Err(TryError::EndedEarly { cause: Box::new(error), how }),
    }
}

/// Restores, with five more attempts: DDL waits for transactions that use the table, and fails after the limit of a lock.
pub(super) fn patiently(mut restore: impl FnMut() -> Result<Undone, TryError>) -> Result<Undone, TryError> {
    let mut attempts = 0;
    loop {
        match restore() {
            Err(error) if attempts < 5 && !error.is_passing() => attempts += 1,
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::ledger::tests::begin;
    use crate::trial::result::tests::result;

    /// Counts its calls.
    #[derive(Default)]
    struct Counting {
        may_keep: bool,
        undone: u32,
    }

    impl Changed for Counting {
        fn keep(&mut self) -> Option<String> {
            self.may_keep.then(|| "it gained".to_owned())
        }

        fn undo(&mut self) -> Result<Undone, TryError> {
            self.undone += 1;
            Ok(Undone::Restored)
        }

        fn note(&self) -> String {
            "as it was".into()
        }
    }

    #[test]
    fn only_a_proven_gain_that_can_be_kept_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(folder.path().join("ledger.jsonl"));
        let ended = |keep, may_keep, verdict| {
            let entry = ledger.begin(begin("jit")).unwrap();
            let mut changed = Counting { may_keep, undone: 0 };
            let (how, note, _) =
                end(&mut changed, keep, (&ledger, entry), Ok(result(verdict, -0.5)), None).unwrap();
            let stored = ledger.entry(entry).unwrap().unwrap();
            assert_eq!((stored.closed, stored.note.as_str()), (Some(how), note.as_str()));
            assert!(stored.result.is_some());
            (how, changed.undone, note)
        };
        assert_eq!(ended(true, true, Verdict::Better), (Closing::Kept, 0, "it gained".into()));
        let undone = (Closing::Undone, 1, "as it was".to_owned());
        assert_eq!(ended(false, true, Verdict::Better), undone);
        assert_eq!(ended(true, true, Verdict::Same), undone);
        assert_eq!(ended(true, false, Verdict::Better), undone);
    }

    #[test]
    fn a_trial_that_failed_is_undone_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(folder.path().join("ledger.jsonl"));
        let entry = ledger.begin(begin("jit")).unwrap();
        let mut changed = Counting { may_keep: true, undone: 0 };
        let ended = end(&mut changed, true, (&ledger, entry), Err(TryError::Interrupted), None);
        assert!(matches!(ended, Err(TryError::EndedEarly { how: Closing::Undone, .. })));
        let stored = ledger.entry(entry).unwrap().unwrap();
        assert_eq!((stored.note.as_str(), changed.undone), ("ended early: interrupted", 1));
    }
}
