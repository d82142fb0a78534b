//! Computes the rest of a kind's decision besides its placement: the share of its sections that is probed,
//! whether its cycles come from the CPU clock, and the expected duration of its next section. Pure.

use crate::model::{Class, KindProfile, KindRef, KindSnapshot, Plan, Record};
use crate::segment::Decision;
use hardmeter_samples::model::Cycles;
use std::collections::BTreeMap;

/// This number of probes makes a kind known (docs/design/place.md, section 2); until then all its sections are probed, within the budget.
const PROBES_KNOWN: u64 = 24;
/// Probes at least one of 2^7 sections: 0.8 %.
const PROBES_SELDOM: u8 = 8;
/// A known kind is still probed about this many times a second.
const PROBES_PER_SECOND: f64 = 2.0;
/// Reading the CPU clock costs 0.34 us a section: not used for sections shorter than this number of seconds
/// (0.3 % of it).
const CLOCK_FROM_SECONDS: f64 = 100e-6;
/// Kinds of which at least this share of sections loses the processor are measured by the CPU clock,
/// otherwise mostly their short sections would be counted; below the second value the clock is no longer
/// used.
const CLOCK_ABOVE: f64 = 0.15;
const CLOCK_BELOW: f64 = 0.05;
/// With fewer sections, the share is not reliable.
const CLOCK_COUNT: u64 = 20;

/// Of sections whose key is set later, one of 2^3 is probed.
const UNNAMED_PROBES: u8 = 4;

/// The decision for code 0: sections whose key is set later (split_note) begin with it, before their kind is
/// known. Such a request is usually long and waits for others: the CPU clock measures its own time.
pub(super) fn unnamed() -> Decision {
    Decision { wants_probes: UNNAMED_PROBES, uses_cpu_clock: true, ..Decision::default() }
}

/// Data about kinds that is kept from one decision to the next.
#[derive(Debug, Default)]
pub(super) struct Deciding {
    clocks: BTreeMap<KindRef, Clock>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    used: bool,
    count: u64,
    preempted: u64,
}

impl Deciding {
    /// Returns the decision for a kind. `placements`: the plan's, by kind.
    pub fn decision(
        &mut self,
        kind: KindRef,
        snapshot: &KindSnapshot,
        profile: Option<&KindProfile>,
        placements: &BTreeMap<KindRef, usize>,
        plan: &Plan,
        cycles_per_second: u64,
    ) -> Decision {
        let mut whole: Option<Record> = None;
        for (_, record) in &snapshot.records {
            match &mut whole {
                Some(sum) => sum.add(record),
                None => whole = Some(record.clone()),
            }
        }
        let placement = placements.get(&kind).map(|&index| &plan.placements[index]);
        let mut decision = Decision {
            class: profile.map_or(Class::Unknown, |profile| profile.class),
            actuation: placement.map(|placement| placement.actuation).unwrap_or_default(),
            wants_probes: 1,
            queue: placement.map_or(0, |placement| placement.queue),
            slice_us: placement.map_or(0, |placement| placement.slice_us),
            background: placement.is_some_and(|placement| placement.background),
            admit: placement.is_some_and(|placement| placement.admit),
            cpus: placement.map(|placement| placement.cpus.clone()).unwrap_or_default(),
            ..Decision::default()
        };
        if let Some(whole) = &whole {
            decision.wants_probes =
                probes(whole.displaced.count, profile.map_or(0.0, |profile| profile.rate));
            decision.uses_cpu_clock = self.clock(kind, whole, cycles_per_second);
            decision.expected = expected(snapshot);
        }
        decision
    }

    fn clock(&mut self, kind: KindRef, whole: &Record, cycles_per_second: u64) -> bool {
        let clock = self.clocks.entry(kind).or_default();
        let count = whole.count.saturating_sub(clock.count);
        if count < CLOCK_COUNT {
            return clock.used;
        }
        let preempted = whole.preempted.saturating_sub(clock.preempted) as f64 / count as f64;
        let seconds = whole.elapsed.0 as f64 / whole.count as f64 / cycles_per_second.max(1) as f64;
        let bound = if clock.used { CLOCK_BELOW } else { CLOCK_ABOVE };
        *clock = Clock {
            used: seconds >= CLOCK_FROM_SECONDS && preempted >= bound,
            count: whole.count,
            preempted: whole.preempted,
        };
        clock.used
    }
}

/// The code of "one of 2^(n-1)": all sections of a kind that is not known yet, then about this many a second,
/// but at least one of 128.
fn probes(known: u64, rate: f64) -> u8 {
    if known < PROBES_KNOWN {
        return 1;
    }
    let passed_over = (rate / PROBES_PER_SECOND).max(1.0).log2().floor();
    (passed_over as u8).saturating_add(1).min(PROBES_SELDOM)
}

/// The value of equation (1) for all processors, weighted by their numbers of sections.
fn expected(snapshot: &KindSnapshot) -> Cycles {
    let exact: u64 = snapshot.records.iter().map(|(_, record)| record.exact).fold(0, u64::saturating_add);
    let sum: f64 = snapshot.records.iter().map(|(_, record)| record.adaptive * record.exact as f64).sum();
    Cycles(if exact == 0 { 0 } else { (sum / exact as f64) as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AppId, CodeId, CpuId, Moments};

    const KIND: KindRef = KindRef { app: AppId(7), code: CodeId(2) };
    const HERTZ: u64 = 2_000_000_000;

    fn record(count: u64, preempted: u64, microseconds: u64) -> Record {
        let cycles = microseconds * HERTZ / 1_000_000;
        Record {
            count,
            exact: count,
            preempted,
            elapsed: Cycles(count * cycles),
            cycles: Cycles(count * cycles),
            own: Moments { count, mean: cycles as f64, m2: 0.0 },
            adaptive: cycles as f64,
            ..Record::default()
        }
    }

    fn snapshot(records: Vec<Record>) -> KindSnapshot {
        let records =
            records.into_iter().enumerate().map(|(cpu, record)| (CpuId(cpu as u32), record)).collect();
        let (code, class) = (KIND.code, Class::Unknown);
        KindSnapshot {
            code,
            label: String::new(),
            note: String::new(),
            statement: None,
            related: None,
            class,
            records,
        }
    }

    fn decide(deciding: &mut Deciding, records: Vec<Record>) -> Decision {
        deciding.decision(KIND, &snapshot(records), None, &BTreeMap::new(), &Plan::default(), HERTZ)
    }

    #[test]
    fn known_kinds_are_probed_about_twice_a_second() {
        assert_eq!(probes(23, 1e6), 1, "not known yet: all");
        assert_eq!(probes(24, 1e6), 8, "one of 128 at least");
        assert_eq!(probes(24, 64.0), 6, "64 a second: one of 32");
        assert_eq!(probes(24, 0.5), 1);
        assert_eq!(probes(24, f64::NAN), 1);
    }

    #[test]
    fn long_kinds_that_lose_their_processor_are_measured_by_the_cpu_clock() {
        let mut deciding = Deciding::default();
        assert!(!decide(&mut deciding, vec![record(100, 10, 2000)]).uses_cpu_clock, "10 %");
        assert!(decide(&mut deciding, vec![record(200, 60, 2000)]).uses_cpu_clock, "50 of the next 100");
        assert!(decide(&mut deciding, vec![record(210, 60, 2000)]).uses_cpu_clock, "ten say nothing");
        assert!(decide(&mut deciding, vec![record(300, 68, 2000)]).uses_cpu_clock, "8 %: stays");
        assert!(!decide(&mut deciding, vec![record(400, 70, 2000)]).uses_cpu_clock, "2 %");
        assert!(
            !decide(&mut Deciding::default(), vec![record(100, 90, 50)]).uses_cpu_clock,
            "too short to be worth it"
        );
    }

    #[test]
    fn what_is_expected_weighs_processors_by_their_sections() {
        let expected =
            decide(&mut Deciding::default(), vec![record(300, 0, 10), record(100, 0, 50)]).expected;
        // (300 x 20000 + 100 x 100000) / 400
        assert_eq!(expected, Cycles(40_000));
    }
}
