//! Classes, by docs/design/place.md, section 2. A kind enters or leaves a class only when a whole interval is
//! beyond the bound: in doubt it keeps its class.

use super::calibration;
use super::Point;
use crate::model::{Class, Estimate, KindProfile, Record};

/// The parameters of the classification.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The cost of moving a thread. Default: 6.5 us at 2.7 GHz (docs/design/place.md, section 1).
    pub migration_cycles: f64,
    /// Converts 150 us and 3 ms to cycles.
    pub cycles_per_second: u64,
    /// The size of one L2 cache, to derive the number of misses that is 40 % of it.
    pub l2_bytes: u64,
    /// The probe's calibration; empty: the documented one, scaled to `l2_bytes`.
    pub points: Vec<Point>,
    /// The background: the share of the remaining lines that other work displaces in each cycle (background.rs).
    pub background_per_cycle: f64,
    /// The length of the past that counts: between one and two of these.
    pub window_seconds: f64,
    /// With fewer values than this there is no result.
    pub fewest: u64,
    /// Shorter sections are never moved: the longer of this time and 20 migrations.
    pub short_seconds: f64,
    /// Longer sections rarely run without losing the processor.
    pub long_seconds: f64,
    /// A polluter replaces more of L2 than this.
    pub polluter_displaces: f64,
    /// A kind that replaces more than this finds none of its own data again, so it cannot be sensitive.
    pub everything_displaced: f64,
    /// A sensitive kind is slower than this after polluters.
    pub sensitive_slowdown: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            migration_cycles: 6.5e-6 * 2.7e9,
            cycles_per_second: 2_700_000_000,
            l2_bytes: 2 << 20,
            points: Vec::new(),
            background_per_cycle: 0.0,
            window_seconds: 30.0,
            fewest: 8,
            short_seconds: 150e-6,
            long_seconds: 3e-3,
            polluter_displaces: 0.40,
            everything_displaced: 0.95,
            sensitive_slowdown: 0.10,
        }
    }
}

impl Options {
    /// Options for a machine other than the one that the defaults describe.
    pub fn of_machine(l2_bytes: u64, cycles_per_second: u64) -> Options {
        let migration_cycles = 6.5e-6 * cycles_per_second as f64;
        Options { l2_bytes, cycles_per_second, migration_cycles, ..Options::default() }
    }

    /// The size in KB that displaces this share of lines.
    pub fn footprint(&self, share: Estimate) -> Estimate {
        if self.points.is_empty() {
            calibration::kilobytes(&calibration::documented(self.l2_bytes), share)
        } else {
            calibration::kilobytes(&self.points, share)
        }
    }

    /// Below this many cycles a section is short.
    pub fn short_cycles(&self) -> f64 {
        (self.short_seconds * self.cycles_per_second as f64).max(20.0 * self.migration_cycles)
    }

    /// The paper's threshold on L2 misses: the number of lines that a polluter displaces.
    pub fn polluter_misses(&self) -> f64 {
        self.polluter_displaces * self.l2_bytes as f64 / 64.0
    }
}

/// The duration of a kind's sections, and whether they keep the processor all the time.
pub struct Duration {
    cycles: Option<f64>,
    switched: f64,
}

impl Duration {
    /// The mean cycles of a section.
    pub fn cycles(&self) -> Option<f64> {
        self.cycles
    }
}

/// From the window if any section ended in it.
pub fn duration(window: &Record, whole: &Record) -> Duration {
    let record = if window.count > 0 { window } else { whole };
    // Elapsed time includes waits; it is used only where sections are switched so often that nothing else is known.
    let cycles = if record.exact > 0 {
        Some(record.own.mean)
    } else if record.count > 0 {
        Some(record.elapsed.0 as f64 / record.count as f64)
    } else {
        None
    };
    let switched = if record.count > 0 { record.preempted as f64 / record.count as f64 } else { 0.0 };
    Duration { cycles, switched }
}

/// The position of an interval relative to a bound.
#[derive(PartialEq)]
enum Side {
    Above,
    Below,
    Across,
}

fn side(estimate: Option<Estimate>, bound: f64, options: &Options) -> Side {
    match estimate {
        Some(estimate) if estimate.n >= options.fewest && estimate.low > bound => Side::Above,
        Some(estimate) if estimate.n >= options.fewest && estimate.high < bound => Side::Below,
        _ => Side::Across,
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn interval(estimate: Estimate) -> String {
    let (low, high) = (estimate.low.max(0.0), estimate.high.max(0.0));
    format!("{} ({} to {}, n={})", percent(estimate.mean), percent(low), percent(high), estimate.n)
}

/// The class of a kind, and the reason. `kind.class` is its previous class.
pub fn classify(kind: &KindProfile, long: &Duration, options: &Options) -> (Class, String) {
    let was = kind.class;
    let Some(cycles) = long.cycles else { return (was, "nothing ended in the window".into()) };
    let micros = |cycles: f64| format!("{:.0} us", cycles / options.cycles_per_second.max(1) as f64 * 1e6);
    let Some(own) = kind.cycles.filter(|own| own.n >= options.fewest) else {
        return unmeasured(kind, cycles, long, options);
    };
    // Leaving Short needs a tenth more than entering it, in addition to the interval: most kinds of a web site are
    // near a bound.
    let bound = options.short_cycles() * if was == Class::Short { 1.1 } else { 1.0 };
    if own.high < bound || (was == Class::Short && own.low < bound) {
        let text = format!("{} on average, too short to be moved", micros(own.mean));
        return (Class::Short, text);
    }
    let displaces = side(kind.displaced, options.polluter_displaces, options);
    let slower = side(kind.slowdown, options.sensitive_slowdown, options);
    let slowdown = || kind.slowdown.map(interval).unwrap_or_default();
    let displaced = || kind.displaced.map(interval).unwrap_or_default();
    // It finds none of its own data again, so it cannot be sensitive. While that is uncertain, a polluter stays a
    // polluter.
    let everything = side(kind.displaced, options.everything_displaced, options);
    let nothing_to_lose = everything == Side::Above
        || (was == Class::Polluter && everything != Side::Below && displaces == Side::Above);
    if slower == Side::Above && !nothing_to_lose {
        return (Class::Sensitive, format!("slower by {} after polluters", slowdown()));
    }
    // A sensitive kind stays sensitive until the opposite is certain, independent of its displacement.
    if was == Class::Sensitive && slower == Side::Across && everything != Side::Above {
        let by = kind.slowdown.map_or(String::new(), |slower| format!(" by {}", interval(slower)));
        return (was, format!("slower{by} after polluters, in doubt: as before"));
    }
    match displaces {
        Side::Above => return (Class::Polluter, format!("replaces {} of L2", displaced())),
        Side::Below => {}
        Side::Across => {
            if let Some(found) = without_probe(kind, cycles, long, options) {
                return found;
            }
        }
    }
    let leaves = |side: &Side| *side == Side::Below;
    match was {
        Class::Polluter if !leaves(&displaces) => {
            (was, format!("replaces {} of L2, in doubt: as before", displaced()))
        }
        _ if leaves(&displaces) && leaves(&slower) => (
            Class::Neutral,
            format!("replaces {} of L2, slower by {} after polluters", displaced(), slowdown()),
        ),
        // No polluter ever precedes it, so it cannot suffer.
        _ if leaves(&displaces) && kind.slowdown.is_none() => {
            (Class::Neutral, format!("replaces {} of L2; no polluter came before it", displaced()))
        }
        Class::Neutral => (was, "in doubt: as before".into()),
        Class::Short | Class::Unknown | Class::Polluter | Class::Sensitive => {
            (Class::Unknown, "not measured well enough".into())
        }
    }
}

/// The section's own cycles are not known: sections that are always preempted.
fn unmeasured(kind: &KindProfile, cycles: f64, long: &Duration, options: &Options) -> (Class, String) {
    match without_probe(kind, cycles, long, options) {
        Some(found) => found,
        None => (kind.class, format!("{} sections: not measured well enough", kind.count)),
    }
}

/// A polluter by other signs where displacement is unknown: by the paper's threshold on misses, or by duration.
fn without_probe(
    kind: &KindProfile,
    cycles: f64,
    long: &Duration,
    options: &Options,
) -> Option<(Class, String)> {
    if kind.displaced.is_some_and(|share| share.n >= options.fewest) {
        return None;
    }
    // There is no interval here, so leaving needs a fifth less than entering.
    let stays = if kind.class == Class::Polluter { 0.8 } else { 1.0 };
    if let Some(misses) = kind.misses.filter(|misses| misses.n >= options.fewest) {
        // Threshold on the mean, as in the paper: a segment keeps no variance of misses.
        return (misses.mean > stays * options.polluter_misses()).then(|| {
            (Class::Polluter, format!("{:.0} L2 misses a section (the paper's threshold)", misses.mean))
        });
    }
    let milliseconds = cycles / options.cycles_per_second.max(1) as f64 * 1e3;
    let always_switched = long.switched > stays * 0.9 && kind.count >= options.fewest;
    (milliseconds > stays * options.long_seconds * 1e3 && always_switched).then(|| {
        let text =
            format!("{milliseconds:.1} ms, always switched: by duration, displacement cannot be known");
        (Class::Polluter, text)
    })
}
