//! The size of a synthetic section that displaces the same share of lines on this machine in its present
//! state.

use crate::model::Estimate;
use serde::{Deserialize, Serialize};

/// A synthetic section of known size and the share of the probe's lines that it displaced (segment.h: split_probe_point).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Point {
    pub kilobytes: f64,
    pub displaced: f64,
}

/// For machines whose probe is not calibrated yet: full sets of 16 ways of a 2 MB cache (docs/design/place.md, section 3, middle of the ranges).
pub fn documented(l2_bytes: u64) -> Vec<Point> {
    let scale = l2_bytes as f64 / (2048.0 * 1024.0);
    [
        (16.0, 0.045),
        (64.0, 0.10),
        (256.0, 0.30),
        (512.0, 0.515),
        (1024.0, 0.74),
        (2048.0, 0.97),
        (4096.0, 1.0),
    ]
    .iter()
    .map(|&(kilobytes, displaced)| Point { kilobytes: kilobytes * scale, displaced })
    .collect()
}

/// Share to size: between points by the logarithm of the size, in which the measured curve is nearly straight; from (0, 0) to the
/// first, and never beyond the last.
pub fn kilobytes(points: &[Point], share: Estimate) -> Estimate {
    let at = |share: f64| size(points, share);
    Estimate { mean: at(share.mean), low: at(share.low), high: at(share.high), n: share.n }
}

fn size(points: &[Point], share: f64) -> f64 {
    let mut below = Point { kilobytes: 0.0, displaced: 0.0 };
    for &point in points {
        if share <= point.displaced {
            let span = point.displaced - below.displaced;
            let part = if span > 0.0 { ((share - below.displaced) / span).max(0.0) } else { 0.0 };
            return if below.kilobytes > 0.0 {
                below.kilobytes * (point.kilobytes / below.kilobytes).powf(part)
            } else {
                point.kilobytes * part
            };
        }
        // A calibration under load need not be monotone: sizes never shrink.
        if point.displaced > below.displaced {
            below = point;
        }
    }
    below.kilobytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_met_and_the_middle_is_geometric() {
        let points = documented(2 << 20);
        assert_eq!(size(&points, 0.30), 256.0);
        assert_eq!(size(&points, 0.97), 2048.0);
        // Half way from 30 to 51.5 %: 256 x sqrt(2).
        assert!((size(&points, 0.4075) - 362.04).abs() < 0.1);
        assert_eq!(size(&points, 0.0), 0.0);
        assert!((size(&points, 0.0225) - 8.0).abs() < 1e-9);
    }

    #[test]
    fn beyond_the_last_point_it_is_at_least_that() {
        assert_eq!(size(&documented(2 << 20), 1.0), 4096.0);
        assert_eq!(size(&documented(1 << 20), 1.0), 2048.0);
        assert_eq!(size(&[], 0.5), 0.0);
    }

    #[test]
    fn a_dent_in_the_calibration_does_no_harm() {
        let dented = [(64.0, 0.2), (128.0, 0.1), (256.0, 0.4)]
            .map(|(kilobytes, displaced)| Point { kilobytes, displaced });
        assert!((size(&dented, 0.3) - 128.0).abs() < 1e-9);
    }
}
