//! A figure: the common value type of views, charts and JSON files.

use crate::{Interval, Median, Share};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a figure was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Counted completely.
    Exact,
    /// Estimated from a sample.
    Inferred,
    /// Measured on a simulated machine.
    Simulated,
    /// Measured time, on a machine with noise.
    Measured,
}

/// The direction in which a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Less is better.
    Less,
    /// More is better.
    More,
}

impl Direction {
    /// 1 if more is better, -1 if less is: multiplied by it, a change becomes a gain.
    pub fn sign(self) -> f64 {
        match self {
            Direction::Less => -1.0,
            Direction::More => 1.0,
        }
    }
}

/// A value and the information needed to interpret it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The value, in `unit`.
    pub value: f64,
    /// "ms", "MB", "%".
    pub unit: String,
    /// Number of observations.
    pub n: u64,
    /// Its 95 % interval, if it has one.
    pub interval: Option<Interval>,
    /// How it was obtained.
    pub method: Method,
    /// The better direction; `None` if neither is.
    pub direction: Option<Direction>,
}

impl Figure {
    /// The median of repeated measurements; `None` for none.
    ///
    /// ```
    /// use hardmeter_evidence::{Direction, Figure};
    /// let blocks = [4.1, 3.9, 4.0, 4.2, 4.4, 4.0];
    /// let figure = Figure::of_median(&blocks, "ms", Some(Direction::Less)).unwrap();
    /// assert_eq!(figure.to_string(), "4.05 ms (3.9..4.4, n = 6)");
    /// ```
    pub fn of_median(values: &[f64], unit: &str, direction: Option<Direction>) -> Option<Figure> {
        let median = Median::of(values)?;
        Some(Figure {
            value: median.value,
            unit: unit.into(),
            n: median.n as u64,
            interval: median.interval_95,
            method: Method::Measured,
            direction,
        })
    }

    /// A share of samples, in per cent.
    pub fn of_share(share: Share, direction: Option<Direction>) -> Figure {
        Figure {
            value: share.fraction() * 100.0,
            unit: "%".into(),
            n: share.total,
            interval: share.interval().map(|interval| interval.map(|end| end * 100.0)),
            method: Method::Inferred,
            direction,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        write!(to, "{} {} (", self.value, self.unit)?;
        if let Some(Interval { low, high }) = self.interval {
            write!(to, "{low}..{high}, ")?;
        }
        write!(to, "n = {})", self.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_survives_json() {
        let figure = Figure::of_share(Share { count: 5, total: 20 }, Some(Direction::Less));
        let json = serde_json::to_string(&figure).unwrap();
        assert!(
            json.contains("\"method\":\"inferred\"") && json.contains("\"direction\":\"less\""),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<Figure>(&json).unwrap(), figure);
        assert_eq!((figure.value, figure.n), (25.0, 20));
        // Five values have a median but no interval.
        let few = Figure::of_median(&[1.0, 2.0, 3.0, 4.0, 5.0], "s", None).unwrap();
        assert_eq!(few.to_string(), "3 s (n = 5)");
        assert_eq!(Figure::of_median(&[], "s", None), None);
    }
}
