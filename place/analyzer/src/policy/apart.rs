//! Where short kinds end and long ones begin, among kinds that compete for the same processors.
//!
//! Long kinds give way to short ones. That work is only shifted: what the short ones gain in seconds, the long ones
//! lose. But a request of 50 ms that no longer waits for 1 s of others gains more of its own time than one of 1 s
//! loses that waits for 50 ms. So requests are counted by their slowdown, and the boundary is where the
//! requests a second below it times the processors that those above use, less the requests above times the
//! processors below, is greatest. That is the gain of two classes over sharing alike, in a queue with
//! preemption, but for a factor that is the same for all boundaries near saturation.
//!
//! Requests much shorter than [`BOUND_US`] count little (bounded slowdown, Feitelson 2001): their time slices protect
//! them already, and hundreds of files of 0.3 ms a second must not draw the boundary below the pages that they belong
//! to.
//!
//! A page waits for its statements. So what is short is judged among the kinds of one application, not across the
//! tiers of a request: beside look-ups of 60 us all pages of PHP would be long. Applications that do not cause each
//! other's requests are judged together.

use crate::model::{AppId, KindProfile, KindRef, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// Requests that take this long, several ticks of the kernel, count a quarter; much longer ones count whole.
const BOUND_US: f64 = 10_000.0;

/// A kind whose time is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub kind: &'a KindProfile,
    /// Microseconds of processor time of a request.
    pub micros: f64,
    /// It is long according to the plan in force.
    pub was_long: bool,
}

impl Known<'_> {
    /// Leaving the long kinds takes half of what entering them takes.
    fn considered(&self) -> f64 {
        if self.was_long {
            2.0 * self.micros
        } else {
            self.micros
        }
    }

    fn processors(&self) -> f64 {
        self.kind.rate * self.micros / 1e6
    }

    fn weight(&self) -> f64 {
        let part = self.micros / (self.micros + BOUND_US);
        self.kind.rate * part * part
    }
}

/// The least that a long kind takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Least {
    /// In microseconds.
    pub micros: f64,
    /// This multiple of the mean of the short kinds, which counts as this many microseconds at least.
    pub times: f64,
    pub shortest: f64,
}

/// The long kinds of all applications.
pub(super) fn long(known: &[Known], workload: &Workload, least: Least) -> BTreeSet<KindRef> {
    let tiers = tiers(workload);
    let mut found = BTreeSet::new();
    for &(app, _, _) in &workload.apps {
        let competes = |other: AppId| other == app || tiers.get(&other) != tiers.get(&app);
        let pool = known.iter().filter(|one| competes(one.kind.kind.app)).copied().collect();
        found.extend(above(pool, least).into_iter().filter(|kind| kind.app == app));
    }
    found
}

/// The kinds above the best boundary; none if there is no boundary.
fn above(mut pool: Vec<Known>, least: Least) -> Vec<KindRef> {
    pool.sort_by(|a, b| a.considered().total_cmp(&b.considered()));
    let weight = |part: &[Known]| part.iter().map(Known::weight).sum::<f64>();
    let processors = |part: &[Known]| part.iter().map(Known::processors).sum::<f64>();
    let gain = |at: usize| {
        let (short, long) = pool.split_at(at);
        weight(short) * processors(long) - weight(long) * processors(short)
    };
    let is_boundary = |at: &usize| {
        let short = &pool[..*at];
        let sum = short.iter().map(|one| one.weight() * one.micros).sum::<f64>();
        let mean = if sum > 0.0 { sum / weight(short) } else { 0.0 };
        pool[*at].considered() >= least.micros.max(least.times * mean.max(least.shortest))
    };
    let best = (1..pool.len()).filter(is_boundary).max_by(|a, b| gain(*a).total_cmp(&gain(*b)));
    best.map_or_else(Vec::new, |at| pool[at..].iter().map(|one| one.kind.kind).collect())
}

/// For each application a number that it shares with those that cause its requests, and whose requests it causes.
fn tiers(workload: &Workload) -> BTreeMap<AppId, usize> {
    let mut numbers: BTreeMap<AppId, usize> =
        workload.apps.iter().enumerate().map(|(number, (app, _, _))| (*app, number)).collect();
    let named = workload.apps.iter().filter_map(|(app, _, cause)| Some((*app, (*cause)?)));
    let seen = workload.kinds.iter().filter_map(|kind| Some((kind.kind.app, kind.related?.app)));
    for (app, cause) in named.chain(seen) {
        let (Some(&from), Some(&to)) = (numbers.get(&app), numbers.get(&cause)) else { continue };
        numbers.values_mut().filter(|number| **number == from).for_each(|number| *number = to);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::super::testing::{kind, workload, HERTZ};
    use super::*;
    use crate::model::Class;

    const LEAST: Least = Least { micros: 10_000.0, times: 4.0, shortest: 100.0 };

    /// Kinds: (app, code, microseconds, rate); which are long.
    fn long_of(kinds: &[(u32, u32, f64, f64)], change: impl Fn(&mut Workload)) -> Vec<(u32, u32)> {
        let profiles: Vec<_> = kinds
            .iter()
            .map(|&(app, code, micros, rate)| (app, code, Class::Neutral, micros, rate))
            .collect();
        let mut workload = workload(&profiles);
        change(&mut workload);
        let micros = |kind: &KindProfile| kind.cycles.unwrap().mean / HERTZ * 1e6;
        let known: Vec<_> =
            workload.kinds.iter().map(|kind| Known { kind, micros: micros(kind), was_long: false }).collect();
        long(&known, &workload, LEAST).into_iter().map(|kind| (kind.app.0, kind.code.0)).collect()
    }

    const FILES: (u32, u32, f64, f64) = (1, 2, 300.0, 40.0);
    const POSTS: (u32, u32, f64, f64) = (1, 3, 45_000.0, 4.0);
    const SEARCHES: (u32, u32, f64, f64) = (1, 4, 35_000.0, 8.0);
    const EXPORTS: (u32, u32, f64, f64) = (1, 5, 1_200_000.0, 0.4);

    /// A weblog: files, posts, searches, exports: 0.2 and 0.3 of a processor for pages, 0.5 for exports.
    #[test]
    fn the_boundary_is_between_pages_and_exports_not_between_files_and_pages() {
        assert_eq!(long_of(&[FILES, POSTS, SEARCHES, EXPORTS], |_| {}), [(1, 5)]);
        assert_eq!(long_of(&[(1, 2, 300.0, 400.0), POSTS, EXPORTS], |_| {}), [(1, 5)]);
        assert_eq!(long_of(&[FILES, POSTS, SEARCHES], |_| {}), [(1, 3), (1, 4)], "pages beside files alone");
        assert_eq!(long_of(&[POSTS, SEARCHES], |_| {}), [], "alike");
    }

    /// Look-ups of 60 us of the database, and a scan of 36 ms.
    #[test]
    fn pages_are_not_long_because_their_statements_are_short() {
        let kinds = [POSTS, EXPORTS, (2, 2, 60.0, 2_000.0), (2, 3, 36_000.0, 8.0)];
        let caused = |workload: &mut Workload| workload.kinds[2].related = Some(kind(1, 3));
        assert_eq!(long_of(&kinds, caused), [(1, 5), (2, 3)]);
        let named = |workload: &mut Workload| workload.apps[1].2 = Some(AppId(1));
        assert_eq!(long_of(&kinds, named), [(1, 5), (2, 3)]);
    }

    /// An application of its own beside the database of another one.
    #[test]
    fn applications_that_have_nothing_to_do_with_each_other_are_judged_together() {
        let kinds = [(1, 2, 60.0, 2_000.0), (2, 2, 80_000.0, 6.0)];
        assert_eq!(long_of(&kinds, |_| {}), [(2, 2)]);
        assert_eq!(long_of(&kinds, |workload| workload.kinds[1].related = Some(kind(1, 2))), []);
    }

    #[test]
    fn kinds_that_never_run_have_no_part() {
        assert_eq!(long_of(&[(1, 2, 60.0, 0.0), (1, 3, 80_000.0, 6.0)], |_| {}), [(1, 3)]);
        assert_eq!(long_of(&[], |_| {}), []);
    }
}
