//! Computes scores from counters: the damage of a kind to the caches, its sensitivity, and its class.
//!
//! ```text
//!  Snapshot, earlier ──┐                      displaced (damage) ──────┐
//!                      ├─> condensed: later minus earlier, all CPUs ───┤
//!  Snapshot, now ──────┘                      after[...] (slowdown) ───┼─> class, reason
//!  ring entries ─────────> transitions: who makes whom slower ─────────┘
//! ```
//!
//! Damage and sensitivity are two scores: a kind can have both, and one counter cannot separate them (Tang et
//! al. 2011). Every score has its 95 % interval, and a class changes only when an interval has crossed its
//! bound.

mod background;
mod calibration;
mod classes;
mod condensed;
mod moments;
mod records;
mod transitions;

pub use calibration::Point;
pub use classes::Options;
pub use moments::{difference, ratio};
pub use transitions::Transitions;

use crate::model::{AppId, KindProfile, KindRef, Record, Snapshot, Workload, AFTER_SAME};
use crate::model::{Class, Estimate, Moments};
use crate::trace::Section;
use condensed::{condense, Condensed};
use std::collections::BTreeMap;

/// Repeated classification over a sliding window.
#[derive(Debug)]
pub struct Scores {
    options: Options,
    transitions: Transitions,
    /// The window begins here, or up to one window's length earlier ...
    begin: Option<Condensed>,
    /// ... and the next one will begin here.
    next: Option<Condensed>,
    /// The last results: a kind in doubt keeps its class.
    last: Last,
}

/// The results of a round, for the next one.
#[derive(Clone, Debug, Default)]
struct Last {
    classes: BTreeMap<KindRef, Class>,
    /// Whether it replaces so much of the cache that other kinds suffer, whatever its class; missing: never
    /// measured.
    polluting: BTreeMap<KindRef, bool>,
}

impl Scores {
    /// The scores before the first observation.
    pub fn new(options: Options) -> Scores {
        Scores {
            options,
            transitions: Transitions::default(),
            begin: None,
            next: None,
            last: Last::default(),
        }
    }

    /// The parameters, which may change: for example, the probe's points become known later.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Adds ended sections, in any order: the pairs of predecessors and successors.
    pub fn sections(&mut self, sections: &[Section]) {
        for section in sections {
            self.transitions.add(section);
        }
    }

    /// Adds a snapshot of all applications.
    pub fn observe(&mut self, snapshots: &[Snapshot]) -> Workload {
        let now = condense(snapshots);
        let empty = Condensed::default();
        let begin = self.begin.as_ref().or(self.next.as_ref()).unwrap_or(&empty);
        let (workload, found) = judge(snapshots, begin, &now, &self.transitions, &self.options, &self.last);
        self.last = found;
        // No application yet: an unknown time must not begin a window, otherwise no rate would be known until that
        // window is over.
        if now.taken_ns == 0 {
            return workload;
        }
        let window_ns = (self.options.window_seconds * 1e9) as u64;
        match &self.next {
            Some(next) if now.taken_ns < next.taken_ns.saturating_add(window_ns) => {}
            _ => {
                self.begin = self.next.take();
                self.next = Some(now);
                self.transitions.fade();
            }
        }
        workload
    }
}

/// The difference between two snapshots of some applications. A kind whose class is in doubt keeps the class in the
/// later snapshot.
pub fn workload(
    before: &[Snapshot],
    after: &[Snapshot],
    transitions: &Transitions,
    options: &Options,
) -> Workload {
    judge(after, &condense(before), &condense(after), transitions, options, &Last::default()).0
}

fn judge(
    snapshots: &[Snapshot],
    before: &Condensed,
    now: &Condensed,
    transitions: &Transitions,
    options: &Options,
    last: &Last,
) -> (Workload, Last) {
    let seconds = now.seconds_since(before);
    let hertz = snapshots.iter().map(|snapshot| snapshot.cycles_per_second).max().unwrap_or(0);
    let mut kinds = Vec::new();
    for snapshot in snapshots {
        for seen in &snapshot.kinds {
            let kind = KindRef { app: snapshot.app, code: seen.code };
            let Some(whole) = now.records.get(&kind) else { continue };
            let window = before.records.get(&kind).map_or_else(|| whole.clone(), |then| whole.since(then));
            if whole.count == 0 {
                continue;
            }
            let mut profile = KindProfile {
                kind,
                label: seen.label.clone(),
                statement: seen.statement,
                count: window.count,
                rate: if seconds > 0.0 { window.count as f64 / seconds } else { 0.0 },
                share: 0.0,
                cycles: enough(&window.own, &whole.own, options),
                misses: enough(&window.misses, &whole.misses, options),
                displaced: displaced(&window, whole, options),
                footprint_kb: None,
                slowdown: None,
                class: last.classes.get(&kind).copied().unwrap_or(seen.class),
                reason: String::new(),
                related: seen.related,
            };
            profile.footprint_kb = profile.displaced.map(|share| options.footprint(share));
            kinds.push((profile, window));
        }
    }
    share_time(&mut kinds);
    let polluting: BTreeMap<KindRef, bool> = kinds
        .iter()
        .map(|(kind, _)| {
            let before = last.polluting.get(&kind.kind).copied().unwrap_or(false);
            (kind.kind, is_beyond(kind.displaced, options.polluter_displaces, before))
        })
        .collect();
    for (kind, window) in &mut kinds {
        let whole = &now.records[&kind.kind];
        kind.slowdown =
            transitions.slowdown(kind.kind, &polluting).or_else(|| slowdown(window, whole, options));
        let long = classes::duration(window, whole);
        (kind.class, kind.reason) = classes::classify(kind, &long, options);
    }
    let mut kinds: Vec<KindProfile> = kinds.into_iter().map(|(kind, _)| kind).collect();
    kinds.sort_by_key(|kind| kind.kind);
    let apps: Vec<(AppId, String, Option<AppId>)> =
        snapshots.iter().map(|app| (app.app, app.name.clone(), app.related)).collect();
    let found = Last { classes: kinds.iter().map(|kind| (kind.kind, kind.class)).collect(), polluting };
    let transitions = transitions.estimates();
    (Workload { seconds, cycles_per_second: hertz, apps, kinds, transitions }, found)
}

/// Above or below a bound if the whole interval is; in doubt, as before.
fn is_beyond(estimate: Option<Estimate>, bound: f64, before: bool) -> bool {
    match estimate {
        Some(estimate) if before => estimate.high >= bound,
        Some(estimate) => estimate.low > bound,
        None => false,
    }
}

/// The damage without the background.
fn displaced(window: &Record, whole: &Record, options: &Options) -> Option<Estimate> {
    let share = enough(&window.displaced, &whole.displaced, options)?;
    let cycles = classes::duration(window, whole).cycles();
    Some(background::less(share, options.background_per_cycle, cycles.unwrap_or(0.0)))
}

/// From the window if it has enough values, otherwise from all values: known kinds are probed rarely.
fn enough(window: &Moments, whole: &Moments, options: &Options) -> Option<Estimate> {
    if window.count >= options.fewest {
        window.estimate()
    } else {
        whole.estimate()
    }
}

fn share_time(kinds: &mut [(KindProfile, Record)]) {
    let time = |record: &Record| {
        // Sections whose own cycles are unknown (preempted) are assumed to be like the others.
        if record.exact > 0 {
            record.cycles.0 as f64 / record.exact as f64 * record.count as f64
        } else {
            record.elapsed.0 as f64
        }
    };
    let all: f64 = kinds.iter().map(|(_, record)| time(record)).sum();
    for (kind, record) in kinds {
        kind.share = if all > 0.0 { time(record) / all } else { 0.0 };
    }
}

/// By the class of the predecessor, from the kind's own record: the worse of "after polluters" and "after sensitive kinds" (two
/// clean kinds that do not fit together are each other's polluters) against "after its own kind or a neutral one".
fn slowdown(window: &Record, whole: &Record, options: &Options) -> Option<Estimate> {
    let of = |record: &Record| {
        let mut baseline = record.after[AFTER_SAME];
        baseline.add(&record.after[Class::Neutral as usize]);
        [Class::Polluter, Class::Sensitive]
            .iter()
            .filter_map(|&class| {
                let after = &record.after[class as usize];
                let known = after.count >= options.fewest && baseline.count >= options.fewest;
                if known {
                    ratio(after, &baseline)
                } else {
                    None
                }
            })
            .max_by(|a, b| a.low.total_cmp(&b.low))
    };
    of(window).or_else(|| of(whole))
}

#[cfg(test)]
mod tests;
