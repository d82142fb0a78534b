//! Short kinds before long ones: each kind gets a time slice as long as the processor time that a request of
//! it is expected to take, and kinds that take much longer than others run in the background. With admission,
//! a limited number of requests of these long kinds runs at once; policy `admit` is that alone.
//!
//! The kernel (EEVDF, Linux 6.12 on) runs, of the threads that have not had more than their share, the one
//! whose deadline is first, and a deadline is one slice away. With slices as long as requests, this runs the
//! shortest request first, as far as fairness allows: each thread's share of the processor is unchanged. A
//! thread that wakes up beyond its share waits for the next tick, up to 4 ms: these waits make up the 99th
//! percentile of short kinds. Threads in the background (SCHED_IDLE) give way at once. They would starve if
//! the others used all processors, so no kind runs there unless the others leave half of the machine.
//!
//! Admission has a place for each processor, unless another number is named: a request beyond that could only
//! share a processor with one that runs already, so waiting costs the long kinds no throughput. With fewer
//! places processors would idle wherever long requests are most of the load.

use super::apart::{self, Known, Least};
use super::way::{anywhere, nowhere, Policy};
use crate::model::{Actuation, CodeId, KindProfile, KindRef, Machine, Placement, Plan, Workload};
use std::collections::BTreeSet;
use std::num::NonZeroU32;

/// The shortest time slice that the kernel allows.
pub const SLICE_MIN_US: u32 = 100;
/// The longest one.
pub const SLICE_MAX_US: u32 = 100_000;
/// The mixture of all kinds for which the table of kinds has no space: it is not limited, since short requests would
/// wait, too.
const OTHER: CodeId = CodeId(1);

/// Two sections are enough if they took this long together.
const LONG_KNOWN_US: f64 = 1e6;

/// While kinds run in the background, the others may use this much more of the processors than they may at first.
const STAYING: f64 = 1.25;

/// Slices by predicted processor time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// Kinds with fewer measured sections get no slice, unless these took very long.
    pub fewest: u64,
    /// The longest kind must take this multiple of the shortest one: similar kinds need no order.
    pub apart: f64,
    /// Kinds that take that much longer must use this share of the time: a kind that rarely runs delays no
    /// other.
    pub share: f64,
    /// A kind runs in the background if a request takes this many microseconds: several ticks of the kernel.
    pub long_us: f64,
    /// It must also take this multiple of the mean of the other kinds.
    pub far_apart: f64,
    /// The other kinds may use this share of all processors.
    pub foreground: f64,
    /// Kinds get slices, and run in the background.
    pub slices: bool,
    /// How many requests of long kinds run at once.
    pub admission: Admission,
}

/// How many requests of long kinds run at once, in each application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Any number.
    Unlimited,
    /// One for each processor.
    Processors,
    /// This number.
    Places(NonZeroU32),
}

impl Admission {
    /// The number of places; 0: any number of requests runs.
    fn places(self, machine: &Machine) -> u32 {
        match self {
            Admission::Unlimited => 0,
            Admission::Processors => u32::try_from(machine.cpus.len()).unwrap_or(u32::MAX).max(1),
            Admission::Places(places) => places.get(),
        }
    }
}

impl Default for Time {
    fn default() -> Time {
        Time {
            fewest: 5,
            apart: 4.0,
            share: 0.05,
            long_us: 10_000.0,
            far_apart: 4.0,
            foreground: 0.5,
            slices: true,
            admission: Admission::Unlimited,
        }
    }
}

impl Time {
    /// Policy `admit`: no slices, and a place for each processor.
    pub fn admit() -> Time {
        Time { slices: false, admission: Admission::Processors, ..Time::default() }
    }

    /// The slice of a kind, if enough is known of it. A slice in force stays until the kind takes twice or
    /// half as long.
    fn slice(&self, kind: &KindProfile, before: &Plan, hertz: f64) -> Option<u32> {
        let micros = self.micros(kind, hertz)?;
        let new = quantised(micros);
        let old = before.placements.iter().find(|one| one.kind == kind.kind).map(|one| one.slice_us);
        match old {
            Some(old) if old != 0 && new <= old.saturating_mul(2) && old <= new.saturating_mul(2) => {
                Some(old)
            }
            _ => Some(new),
        }
    }

    fn micros(&self, kind: &KindProfile, hertz: f64) -> Option<f64> {
        let cycles = kind.cycles?;
        let micros = cycles.mean / hertz * 1e6;
        // Exports and reports are rare, and each takes as long as thousands of other requests.
        let known = cycles.n >= self.fewest || cycles.n >= 2 && cycles.n as f64 * micros >= LONG_KNOWN_US;
        (known && micros.is_finite() && micros > 0.0).then_some(micros)
    }

    /// The long kinds, and the processors that the others use.
    fn long(&self, workload: &Workload, before: &Plan, hertz: f64) -> (BTreeSet<KindRef>, f64) {
        let was = |kind: KindRef| {
            before.placements.iter().any(|one| one.kind == kind && (one.background || one.admit))
        };
        let known = |kind| Some(Known { kind, micros: self.micros(kind, hertz)?, was_long: was(kind.kind) });
        let known: Vec<Known> = workload.kinds.iter().filter_map(known).collect();
        let least = Least { micros: self.long_us, times: self.far_apart, shortest: f64::from(SLICE_MIN_US) };
        let long = apart::long(&known, workload, least);
        let others = known.iter().filter(|one| !long.contains(&one.kind.kind));
        let processors = others.map(|one| one.kind.rate * one.micros / 1e6).sum::<f64>();
        (long, processors)
    }

    /// True if kinds that take much longer than the shortest one use enough time.
    fn is_worth_it(&self, workload: &Workload, hertz: f64) -> bool {
        let known = || workload.kinds.iter().filter_map(|kind| Some((kind, self.micros(kind, hertz)?)));
        let Some(shortest) = known().map(|(_, micros)| micros).min_by(f64::total_cmp) else { return false };
        let shortest = shortest.max(f64::from(SLICE_MIN_US));
        let long = known().filter(|(_, micros)| *micros >= self.apart * shortest);
        long.map(|(kind, _)| kind.share).sum::<f64>() >= self.share
    }
}

/// 100, 200, 400 ... microseconds: the next above a request's time, so that most requests end within one
/// slice.
fn quantised(micros: f64) -> u32 {
    let mut slice = SLICE_MIN_US;
    while f64::from(slice) < micros && slice < SLICE_MAX_US {
        slice = (slice * 2).min(SLICE_MAX_US);
    }
    slice
}

impl Policy for Time {
    fn name(&self) -> &'static str {
        if self.slices {
            "time"
        } else {
            "admit"
        }
    }

    fn decide(&self, machine: &Machine, workload: &Workload, before: &Plan) -> Plan {
        let hertz = workload.cycles_per_second.max(1) as f64;
        if !self.is_worth_it(workload, hertz) {
            let what = if self.slices { "no slices" } else { "no admission" };
            let remark = format!("no kinds that take four times as long as others, and much time: {what}");
            return nowhere(self.name(), workload, Some(&remark));
        }
        let (long, others) = self.long(workload, before, hertz);
        // What runs in the background changes the rates of the others: without a margin the plan would alternate.
        let margin = if before.placements.iter().any(|one| one.background) { STAYING } else { 1.0 };
        let leaves_room = others <= margin * self.foreground * machine.cpus.len() as f64;
        let limited = |kind: KindRef| kind.code > OTHER && long.contains(&kind);
        let any = workload.kinds.iter().any(|kind| limited(kind.kind));
        let places = if any { self.admission.places(machine) } else { 0 };
        let placements = workload.kinds.iter().map(|kind| match self.slice(kind, before, hertz) {
            Some(slice_us) => Placement {
                actuation: Actuation::Time,
                slice_us: if self.slices { slice_us } else { 0 },
                background: self.slices && leaves_room && long.contains(&kind.kind),
                admit: places != 0 && limited(kind.kind),
                ..anywhere(kind, format!("takes {:.0} us", self.micros(kind, hertz).unwrap_or_default()))
            },
            None => anywhere(kind, kind.reason.clone()),
        });
        Plan { policy: self.name().into(), placements: placements.collect(), places, remarks: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{kind, machine, one_core, workload};
    use super::*;
    use crate::model::Class;

    fn decide(kinds: &[(u32, u32, Class, f64, f64)], before: &Plan) -> Plan {
        Time::default().decide(&one_core(), &workload(kinds), before)
    }

    fn slices(plan: &Plan) -> Vec<u32> {
        plan.placements.iter().map(|one| one.slice_us).collect()
    }

    #[test]
    fn a_slice_is_the_next_step_above_what_a_request_takes() {
        let steps = [(1.0, 100), (100.0, 100), (101.0, 200), (900.0, 1600), (30_000.0, 51_200)];
        for (micros, slice) in steps.into_iter().chain([(51_201.0, 100_000), (1e12, 100_000)]) {
            assert_eq!(quantised(micros), slice, "{micros}");
        }
    }

    /// 300 look-ups of 60 us a second, with 10 aggregates of 80 ms.
    #[test]
    fn short_kinds_get_short_slices_and_long_ones_long_ones() {
        let plan = decide(
            &[(1, 2, Class::Short, 60.0, 300.0), (1, 3, Class::Neutral, 80_000.0, 10.0)],
            &Plan::default(),
        );
        assert_eq!(slices(&plan), [100, 100_000]);
        assert_eq!(plan.placements[0].actuation, Actuation::Time);
        assert!(plan.placements.iter().all(|one| one.cpus.0.is_empty()), "no thread moves");
    }

    fn limited(policy: Time, rate: f64, before: &Plan) -> (u32, Vec<bool>, Vec<u32>, Vec<bool>) {
        let kinds = [(1, 2, Class::Short, 60.0, rate), (1, 3, Class::Neutral, 80_000.0, 6.0)];
        let plan = policy.decide(&machine(4, 1), &workload(&kinds), before);
        let admit = plan.placements.iter().map(|one| one.admit).collect();
        (plan.places, admit, slices(&plan), in_background(&plan))
    }

    /// Four processors. 40,000 look-ups of 60 us a second take 2.4 of them: more than half, so that nothing runs in
    /// the background; admission does not mind.
    #[test]
    fn long_kinds_have_a_place_for_each_processor() {
        let (before, no) = (Plan::default(), vec![false, false]);
        assert_eq!(
            limited(Time::default(), 300.0, &before),
            (0, no.clone(), vec![100, 100_000], vec![false, true])
        );
        let admitted = vec![false, true];
        assert_eq!(limited(Time::admit(), 300.0, &before), (4, admitted.clone(), vec![0, 0], no.clone()));
        assert_eq!(limited(Time::admit(), 40_000.0, &before), (4, admitted.clone(), vec![0, 0], no.clone()));
        let both = Time { admission: Admission::Places(NonZeroU32::new(1).unwrap()), ..Time::default() };
        assert_eq!(limited(both, 40_000.0, &before), (1, admitted, vec![100, 100_000], no));
        let alike = workload(&[(1, 2, Class::Short, 60.0, 300.0), (1, 3, Class::Short, 900.0, 300.0)]);
        let plan = Time::admit().decide(&machine(4, 1), &alike, &before);
        assert_eq!((plan.places, plan.placements.iter().any(|one| one.admit)), (0, false), "none is long");
        let other = workload(&[(1, 1, Class::Neutral, 80_000.0, 6.0), (1, 2, Class::Short, 60.0, 300.0)]);
        let plan = Time::admit().decide(&machine(4, 1), &other, &before);
        assert_eq!((plan.places, plan.placements.iter().any(|one| one.admit)), (0, false), "a mixture");
    }

    fn in_background(plan: &Plan) -> Vec<bool> {
        plan.placements.iter().map(|one| one.background).collect()
    }

    /// 60 us and 6 ms: 100 times as long, but not a long request. 10 ms is one; it stays in the background
    /// down to 5 ms.
    #[test]
    fn long_kinds_run_in_the_background() {
        let with = |micros: f64, before: &Plan| {
            decide(&[(1, 2, Class::Short, 60.0, 300.0), (1, 3, Class::Neutral, micros, 10.0)], before)
        };
        assert_eq!(in_background(&with(9_999.0, &Plan::default())), [false, false]);
        let long = with(10_000.0, &Plan::default());
        assert_eq!(in_background(&long), [false, true]);
        assert_eq!(in_background(&with(5_000.0, &long)), [false, true]);
        assert_eq!(in_background(&with(4_999.0, &long)), [false, false]);
        // Compared with requests of 5 ms, 19 ms is not far enough.
        let near = [(1, 2, Class::Short, 5_000.0, 20.0), (1, 3, Class::Neutral, 19_000.0, 10.0)];
        assert_eq!(in_background(&decide(&near, &Plan::default())), [false, false]);
    }

    /// 8,400 look-ups of 60 us a second take 0.504 of one processor.
    #[test]
    fn nothing_starves_in_the_background() {
        let with = |rate: f64| {
            decide(
                &[(1, 2, Class::Short, 60.0, rate), (1, 3, Class::Neutral, 80_000.0, 6.0)],
                &Plan::default(),
            )
        };
        assert_eq!(in_background(&with(8_300.0)), [false, true]);
        assert_eq!(in_background(&with(8_400.0)), [false, false]);
        assert_eq!(slices(&with(8_400.0)), [100, 100_000], "slices starve nobody");
        // Once in the background, it stays there up to 0.625 of the processor: 10,416 look-ups.
        let before = with(8_300.0);
        let then = |rate: f64| {
            let kinds = [(1, 2, Class::Short, 60.0, rate), (1, 3, Class::Neutral, 80_000.0, 6.0)];
            in_background(&decide(&kinds, &before))
        };
        assert_eq!((then(10_400.0), then(10_500.0)), (vec![false, true], vec![false, false]));
    }

    #[test]
    fn kinds_that_are_alike_get_none() {
        let kinds = [(1, 2, Class::Short, 60.0, 300.0), (1, 3, Class::Short, 200.0, 300.0)];
        let plan = decide(&kinds, &Plan::default());
        assert_eq!(slices(&plan), [0, 0]);
        assert!(plan.remarks[0].contains("no slices"), "{:?}", plan.remarks);
        // One of 10 ms in a hundred seconds: 0.5 % of the time of 2 s.
        let seldom = [(1, 2, Class::Short, 60.0, 33_000.0), (1, 3, Class::Neutral, 10_000.0, 1.0)];
        assert_eq!(slices(&decide(&seldom, &Plan::default())), [0, 0]);
    }

    #[test]
    fn a_kind_that_is_not_known_has_no_slice() {
        let mut workload = workload(&[
            (1, 2, Class::Short, 60.0, 300.0),
            (1, 3, Class::Neutral, 80_000.0, 10.0),
            (1, 4, Class::Unknown, 500.0, 1.0),
        ]);
        workload.kinds[2].cycles = None;
        let plan = Time::default().decide(&one_core(), &workload, &Plan::default());
        assert_eq!(slices(&plan), [100, 100_000, 0]);
        assert_eq!(plan.placements[2].kind, kind(1, 4));
        assert_eq!(plan.placements[2].actuation, Actuation::None);
    }

    /// Two exports of 600 ms are known; two pages of 400 ms, and one export, are not.
    #[test]
    fn few_sections_are_enough_if_they_took_long() {
        let with = |micros: f64, n: u64| {
            let kinds = [(1, 2, Class::Short, 60.0, 300.0), (1, 3, Class::Neutral, micros, 1.0)];
            let mut workload = workload(&kinds);
            workload.kinds[1].cycles.as_mut().unwrap().n = n;
            slices(&Time::default().decide(&one_core(), &workload, &Plan::default()))
        };
        assert_eq!(with(600_000.0, 2), [100, 100_000]);
        assert_eq!(with(600_000.0, 1), [0, 0]);
        assert_eq!(with(400_000.0, 2), [0, 0]);
        assert_eq!(with(400_000.0, 5), [100, 100_000]);
    }

    #[test]
    fn a_slice_stays_until_the_kind_takes_twice_as_long() {
        let with = |micros: f64, before: &Plan| {
            decide(&[(1, 2, Class::Short, 60.0, 300.0), (1, 3, Class::Neutral, micros, 10.0)], before)
        };
        let first = with(3_000.0, &Plan::default());
        assert_eq!(slices(&first), [100, 3200]);
        assert_eq!(slices(&with(6_000.0, &first)), [100, 3200], "6400 is twice that");
        assert_eq!(slices(&with(13_000.0, &first)), [100, 25_600]);
    }
}
