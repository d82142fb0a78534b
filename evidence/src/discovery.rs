//! Many tests at once: how many of the results that look significant are due to chance.

/// The adjusted probabilities of Benjamini and Hochberg (1995), in the order of `p`: among the tests whose adjusted
/// probability is at most `q`, the expected share of false ones is at most `q`.
///
/// ```
/// // The sorted probabilities by their ranks: 0.01 * 4/1, 0.02 * 4/2, 0.03 * 4/3, 0.9; never falling.
/// let adjusted = hardmeter_evidence::false_discovery(&[0.9, 0.01, 0.03, 0.02]);
/// assert_eq!(adjusted, [0.9, 0.04, 0.04, 0.04]);
/// ```
pub fn false_discovery(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 1.0f64;
    for (place, test) in order.into_iter().enumerate() {
        let rank = p.len() - place;
        least = least.min(p[test] * p.len() as f64 / rank as f64);
        adjusted[test] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fifteen probabilities of Benjamini's and Hochberg's own example: four are significant at 0.05.
    #[test]
    fn the_example_of_the_paper() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0000,
        ];
        let adjusted = false_discovery(&p);
        assert_eq!(adjusted.iter().filter(|q| **q <= 0.05).count(), 4, "{adjusted:?}");
        assert!((adjusted[3] - 0.0095 * 15.0 / 4.0).abs() < 1e-12);
        assert_eq!(false_discovery(&[]), [0.0; 0]);
        assert_eq!(false_discovery(&[0.04]), [0.04]);
    }
}
