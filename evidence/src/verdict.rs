//! The four verdicts.

use crate::{Direction, Interval};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The verdict of a comparison, from the view of the contestant that is compared with the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Better by at least the minimum effect.
    Better,
    /// Worse.
    Worse,
    /// Different by less than the minimum effect.
    Same,
    /// The observations do not decide.
    Undecided,
}

impl Verdict {
    /// The verdict of an interval of `contestant - baseline`: better or worse if zero lies outside, same if all of it
    /// lies within `minimum`, undecided otherwise.
    ///
    /// ```
    /// use hardmeter_evidence::{Direction, Interval, Verdict};
    /// let faster = Interval { low: -3.0, high: -1.0 };
    /// assert_eq!(Verdict::of_interval(faster, 0.5, Direction::Less), Verdict::Better);
    /// ```
    pub fn of_interval(difference: Interval, minimum: f64, direction: Direction) -> Verdict {
        if difference.is_within(minimum) {
            Verdict::Same
        } else if difference.contains(0.0) {
            Verdict::Undecided
        } else if (difference.low > 0.0) == (direction == Direction::More) {
            Verdict::Better
        } else {
            Verdict::Worse
        }
    }

    /// The verdict in one word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Same => "same",
            Verdict::Undecided => "undecided",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_decide_by_zero_and_by_the_minimum() {
        let of = |low, high, direction| Verdict::of_interval(Interval { low, high }, 1.0, direction);
        assert_eq!(of(2.0, 3.0, Direction::More), Verdict::Better);
        assert_eq!(of(2.0, 3.0, Direction::Less), Verdict::Worse);
        assert_eq!(of(-3.0, -0.1, Direction::More), Verdict::Worse);
        // It excludes zero, but is below the minimum effect.
        assert_eq!(of(0.1, 0.9, Direction::More), Verdict::Same);
        assert_eq!(of(-0.5, 0.5, Direction::More), Verdict::Same);
        assert_eq!(of(-2.0, 0.5, Direction::More), Verdict::Undecided);
        assert_eq!(format!("{:>10}", Verdict::Same), "      same");
    }
}
