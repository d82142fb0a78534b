//! Compares the inferred causes with the simulator's, for the same misses.

use super::kind::Cause;
use crate::estimate::Share;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// The causes that samples alone can distinguish, and "unknown".
const COMPARED: [Cause; 5] =
    [Cause::Cold, Cause::Capacity, Cause::Conflict, Cause::Coherence, Cause::Unknown];

/// Counts of inferred causes by exact cause (a confusion matrix).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// `counts[inferred][exact]`, in the order of [`Score::inferred`] and [`Score::exact`].
    counts: [[u64; 4]; 5],
}

impl Score {
    /// The rows: inferred causes.
    pub fn inferred() -> [Cause; 5] {
        COMPARED
    }

    /// The columns: exact causes.
    pub fn exact() -> [Cause; 4] {
        [Cause::Cold, Cause::Capacity, Cause::Conflict, Cause::Coherence]
    }

    /// Counts one miss; a miss without an exact cause is skipped.
    pub fn add(&mut self, inferred: Cause, exact: Cause) {
        let position =
            |cause: Cause| COMPARED.iter().position(|known| *known == cause.without_sharing_verdict());
        if let (Some(row), Some(column)) = (position(inferred), position(exact).filter(|column| *column < 4))
        {
            self.counts[row][column] += 1;
        }
    }

    /// Number of misses with this inferred and this exact cause.
    pub fn count(&self, inferred: Cause, exact: Cause) -> u64 {
        let position = |cause: Cause| COMPARED.iter().position(|known| *known == cause);
        match (position(inferred), position(exact)) {
            (Some(row), Some(column)) if column < 4 => self.counts[row][column],
            _ => 0,
        }
    }

    /// Misses compared.
    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// Share of the misses with a verdict other than unknown.
    pub fn decided(&self) -> Share {
        let decided: u64 = self.counts[..4].iter().flatten().sum();
        Share { count: decided, total: self.total() }
    }

    /// Right verdicts, of those given.
    pub fn agreement(&self) -> Share {
        let right = (0..4).map(|k| self.counts[k][k]).sum();
        Share { count: right, total: self.decided().count }
    }

    /// Cohen's kappa of the verdicts: 1 is full agreement, 0 is agreement by chance with the same frequencies of
    /// causes. `None` if both sides have only one cause, where chance always agrees.
    pub fn kappa(&self) -> Option<f64> {
        let n = self.decided().count as f64;
        let row = |k: usize| self.counts[k].iter().sum::<u64>() as f64;
        let column = |k: usize| self.counts[..4].iter().map(|row| row[k]).sum::<u64>() as f64;
        let by_chance: f64 = (0..4).map(|k| row(k) * column(k) / (n * n)).sum();
        let seen = self.agreement().fraction();
        (n > 0.0 && by_chance < 1.0).then(|| (seen - by_chance) / (1.0 - by_chance))
    }
}

impl Serialize for Score {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut score = serializer.serialize_struct("Score", 7)?;
        score.serialize_field("n", &self.total())?;
        score.serialize_field("decided", &self.decided())?;
        score.serialize_field("agreement", &self.agreement())?;
        score.serialize_field("kappa", &self.kappa())?;
        score.serialize_field("rows_inferred", &Score::inferred())?;
        score.serialize_field("columns_exact", &Score::exact())?;
        score.serialize_field("counts", &self.counts)?;
        score.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 + 15 of 50 verdicts agree, 0.7; by chance (25 * 30 + 25 * 20) / 2500 = 0.5: kappa is (0.7 - 0.5) / 0.5 =
    /// 0.4, a textbook example.
    #[test]
    fn the_textbooks_kappa() {
        let mut score = Score::default();
        let add =
            |score: &mut Score, times, inferred, exact| (0..times).for_each(|_| score.add(inferred, exact));
        add(&mut score, 20, Cause::Conflict, Cause::Conflict);
        add(&mut score, 5, Cause::Conflict, Cause::Capacity);
        add(&mut score, 10, Cause::Capacity, Cause::Conflict);
        add(&mut score, 15, Cause::Capacity, Cause::Capacity);
        add(&mut score, 7, Cause::Unknown, Cause::Capacity);
        add(&mut score, 9, Cause::Cold, Cause::Unknown);
        assert_eq!(score.total(), 57, "an unknown truth is not a case");
        assert_eq!(score.decided(), Share { count: 50, total: 57 });
        assert_eq!(score.agreement(), Share { count: 35, total: 50 });
        assert!((score.kappa().expect("two causes") - 0.4).abs() < 1e-12);
    }

    #[test]
    fn sharing_is_right_whatever_its_kind_and_nothing_has_no_kappa() {
        let mut score = Score::default();
        assert_eq!(score.kappa(), None);
        score.add(Cause::Coherence, Cause::TrueSharing);
        assert_eq!(score.count(Cause::Coherence, Cause::Coherence), 1);
        assert_eq!(score.kappa(), None, "one cause only: chance is right, too");
    }
}
