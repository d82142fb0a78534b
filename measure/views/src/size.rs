//! The size of a finding, by which findings are ranked, and whether their order is certain.

use hardmeter_answers::{Interval, Share, StallShare};

/// In percent: of the stall time, or of the samples where the source knows no latencies.
pub(crate) fn size(stall: Option<StallShare>, share: Share) -> f64 {
    stall.map_or(share.fraction() * 100.0, |stall| stall.percent)
}

/// The 95 % interval of [`size`]; `None` without samples.
fn interval(stall: Option<StallShare>, share: Share) -> Option<Interval> {
    stall.map(|stall| stall.interval).or_else(|| Some(share.interval()?.map(|fraction| fraction * 100.0)))
}

/// A sentence if another than the first of these findings, largest first, may be the largest: each whose interval
/// meets that of the first. Intervals that meet do not show that the order is wrong, only that it is not known.
pub(crate) fn uncertain_order(findings: &[(Option<StallShare>, Share)]) -> Option<String> {
    let mut intervals = findings.iter().map_while(|(stall, share)| interval(*stall, *share));
    let first = intervals.next()?;
    let alike = 1 + intervals.take_while(|other| other.high >= first.low).count();
    (alike > 1).then(|| {
        format!("The order of the first {alike} is not certain (95 % intervals meet): record longer")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(counts: &[u64], total: u64) -> Option<String> {
        let findings: Vec<_> = counts.iter().map(|&count| (None, Share { count, total })).collect();
        uncertain_order(&findings)
    }

    #[test]
    fn an_order_is_certain_where_no_interval_meets_the_first() {
        // Wilson's intervals of n = 1,000: 40 % is 37.0..43.1, 30 % is 27.2..32.9, 38 % is 35.0..41.1.
        assert_eq!(counted(&[400, 300], 1000), None);
        let two = counted(&[400, 380, 300], 1000).unwrap();
        assert!(two.starts_with("The order of the first 2 is not certain"), "{two}");
        // Of ten times fewer samples nothing is certain: 40 % is 30.9..49.8, 30 % is 21.9..39.6.
        assert!(counted(&[40, 38, 30], 100).unwrap().contains("first 3"));
    }

    #[test]
    fn shares_of_the_stall_time_have_intervals_of_their_own() {
        let stall = |percent, low, high| Some(StallShare { percent, interval: Interval { low, high } });
        let share = Share { count: 10, total: 100 };
        let meet = [(stall(11.2, 7.4, 21.0), share), (stall(9.0, 1.5, 21.4), share)];
        assert!(uncertain_order(&meet).is_some());
        assert_eq!(
            uncertain_order(&[(stall(40.0, 35.0, 45.0), share), (stall(9.0, 1.5, 21.4), share)]),
            None
        );
        assert_eq!(size(stall(11.2, 7.4, 21.0), share), 11.2);
        assert_eq!(size(None, share), 10.0);
    }

    #[test]
    fn one_finding_or_none_has_no_order() {
        assert_eq!(counted(&[40], 100), None);
        assert_eq!(counted(&[], 100), None);
    }
}
