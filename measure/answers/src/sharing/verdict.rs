//! True or false sharing, with the certainty of the verdict.
//!
//! *Simulated* captures record for every miss whether the bytes accessed were written by another core since this
//! one
//! lost the line (Torrellas, Lam & Hennessy 1994): the verdict is a count.
//!
//! *Sampled* captures have only the samples' addresses. Two shares decide:
//!
//! ```text
//!   loads:  of the HITM loads, those on bytes that another thread was seen to store
//!   stores: of the stores,     those on bytes that another thread was seen to wait for
//! ```
//!
//! If the line is truly shared both are near one, if falsely, near zero. Exact binomial tests decide: "false" where
//! both shares are significantly below 10 %, "true" where both are significantly above 90 %, "mixed" where one is
//! significantly between, or they contradict each other significantly. The p-value given is the larger of the two
//! tests; above 0.05 the verdict is "unknown".

use crate::estimate::Share;
use serde::Serialize;

/// How the accesses of cores to a line overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SharingKind {
    /// The same bytes: another layout does not help, another algorithm may.
    True,
    /// Different bytes of one line: another layout helps.
    False,
    /// Both, each at least one miss in twenty.
    Mixed,
    /// The samples do not decide.
    Unknown,
}

impl SharingKind {
    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            SharingKind::True => "true",
            SharingKind::False => "false",
            SharingKind::Mixed => "mixed",
            SharingKind::Unknown => "unknown",
        }
    }
}

/// The evidence for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
pub enum Evidence {
    /// Each recorded miss was judged by the simulator.
    Simulated {
        /// Misses on bytes that no other core had written, of those judged.
        false_sharing: Share,
    },
    /// Judged by where samples fell.
    Sampled {
        /// HITM loads on bytes that another thread stores.
        loads: Share,
        /// Stores on bytes that another thread waits for.
        stores: Share,
        /// The larger p-value of the two tests.
        p: f64,
    },
}

/// A verdict on a line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LineVerdict {
    /// The verdict.
    pub kind: SharingKind,
    /// The evidence for it.
    pub evidence: Evidence,
}

/// A share below this, or above one minus this, counts as none or all.
const SLIGHT: f64 = 0.10;
/// For exact counts: a share below one in twenty does not make a verdict "mixed".
const EXACT_SLIGHT: f64 = 0.05;
/// The level of the tests.
const LEVEL: f64 = 0.05;

impl LineVerdict {
    /// The verdict of counted misses.
    pub fn simulated(true_sharing: u64, false_sharing: u64) -> LineVerdict {
        let share = Share { count: false_sharing, total: true_sharing + false_sharing };
        let kind = match share.fraction() {
            _ if share.total == 0 => SharingKind::Unknown,
            fraction if fraction > 1.0 - EXACT_SLIGHT => SharingKind::False,
            fraction if fraction < EXACT_SLIGHT => SharingKind::True,
            _ => SharingKind::Mixed,
        };
        LineVerdict { kind, evidence: Evidence::Simulated { false_sharing: share } }
    }

    /// The verdict from sampled loads and stores; each share counts the samples on bytes that the other side also
    /// uses.
    pub fn sampled(loads: Share, stores: Share) -> LineVerdict {
        let (load, load_p) = judge(loads);
        let (store, store_p) = judge(stores);
        let both = load_p.max(store_p);
        let (kind, p) = match (load, store) {
            _ if load == store => (load, both),
            (SharingKind::Mixed, _) => (SharingKind::Mixed, load_p),
            (_, SharingKind::Mixed) => (SharingKind::Mixed, store_p),
            (SharingKind::Unknown, _) | (_, SharingKind::Unknown) => (SharingKind::Unknown, both),
            _ => (SharingKind::Mixed, both),
        };
        LineVerdict { kind, evidence: Evidence::Sampled { loads, stores, p } }
    }
}

/// None, all, or between: the verdict that a share supports, with its p-value.
fn judge(share: Share) -> (SharingKind, f64) {
    if share.total == 0 {
        return (SharingKind::Unknown, 1.0);
    }
    let missed = share.total - share.count;
    // P of at most this many shared samples at a true share of 10 %; of at most this many others at 90 %.
    let none = binomial_at_most(share.count, share.total, SLIGHT);
    let all = binomial_at_most(missed, share.total, SLIGHT);
    // Between: P of at least this many of both if the rarer kind were below 10 % (upper tail, more than k-1).
    let rarer = share.count.min(missed);
    let between = if rarer == 0 { 1.0 } else { 1.0 - binomial_at_most(rarer - 1, share.total, SLIGHT) };
    if none < LEVEL {
        (SharingKind::False, none)
    } else if all < LEVEL {
        (SharingKind::True, all)
    } else if between < LEVEL {
        (SharingKind::Mixed, between)
    } else {
        (SharingKind::Unknown, none.min(all).min(between))
    }
}

/// P(X <= k) of a binomial variable of n trials, by summing its terms from 0 up.
fn binomial_at_most(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    // In logarithms: (1 - p)^n underflows from some thousand trials on.
    let ratio = (p / (1.0 - p)).ln();
    let mut term = n as f64 * (1.0 - p).ln();
    let mut sum = term.exp();
    for i in 1..=k {
        term += ((n - i + 1) as f64 / i as f64).ln() + ratio;
        sum += term.exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(count: u64, total: u64) -> Share {
        Share { count, total }
    }

    /// By hand: P(X<=0 | 10, 0.1) = 0.9^10 = 0.348678; P(X<=1) adds 10 * 0.1 * 0.9^9 = 0.387420.
    #[test]
    fn binomial_by_hand() {
        assert!((binomial_at_most(0, 10, 0.1) - 0.348_678_440_1).abs() < 1e-9);
        assert!((binomial_at_most(1, 10, 0.1) - 0.736_098_929_1).abs() < 1e-9);
        assert_eq!(binomial_at_most(10, 10, 0.1), 1.0);
        // Close to half of the distribution lies at or below the mean of a large sample.
        assert!((binomial_at_most(100_000, 1_000_000, 0.1) - 0.5).abs() < 0.001);
    }

    #[test]
    fn counts_of_the_simulator_are_judged_by_share() {
        let kind = |true_sharing, false_sharing| LineVerdict::simulated(true_sharing, false_sharing).kind;
        assert_eq!(kind(100, 0), SharingKind::True);
        assert_eq!(kind(96, 4), SharingKind::True);
        assert_eq!(kind(95, 5), SharingKind::Mixed);
        assert_eq!(kind(4, 96), SharingKind::False);
        assert_eq!(kind(0, 0), SharingKind::Unknown);
    }

    /// 0.9^28 = 0.0523, 0.9^29 = 0.0471: the verdict needs at least twenty-nine samples of one kind.
    #[test]
    fn twenty_nine_samples_tell_and_twenty_eight_do_not() {
        assert_eq!(LineVerdict::sampled(share(0, 28), share(0, 28)).kind, SharingKind::Unknown);
        let told = LineVerdict::sampled(share(0, 29), share(0, 40));
        assert_eq!(told.kind, SharingKind::False);
        let Evidence::Sampled { p, .. } = told.evidence else { panic!("sampled") };
        assert!((p - 0.9f64.powi(29)).abs() < 1e-12, "the weaker side's: {p}");
        assert_eq!(LineVerdict::sampled(share(29, 29), share(40, 40)).kind, SharingKind::True);
        assert_eq!(LineVerdict::sampled(share(0, 1000), share(0, 1)).kind, SharingKind::Unknown, "one store");
    }

    #[test]
    fn between_and_contradictions_are_mixed() {
        assert_eq!(LineVerdict::sampled(share(50, 100), share(0, 100)).kind, SharingKind::Mixed);
        assert_eq!(LineVerdict::sampled(share(100, 100), share(0, 100)).kind, SharingKind::Mixed);
        assert_eq!(LineVerdict::sampled(share(0, 0), share(0, 100)).kind, SharingKind::Unknown);
        // Ten of a hundred is neither significantly less nor more than one in ten.
        assert_eq!(LineVerdict::sampled(share(10, 100), share(10, 100)).kind, SharingKind::Unknown);
    }
}
