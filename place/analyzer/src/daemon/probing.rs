//! The probe's sets: found and published at start, checked every minute, and found again when they are spoilt. They
//! also show other work in the caches. The search has a thread of its own, because it takes seconds during which
//! heartbeats must continue, and it is rare, because these are seconds of a processor.

use super::neighbours::{self, Opened};
use super::Stop;
use crate::state::{Probe, ProbePoint};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The interval between measurements of the neighbours, which cost 0.05 % of two processors and the lines in their
/// L2.
const NEIGHBOURS_EVERY: Duration = Duration::from_secs(20);
/// If fewer than this share of the sets is full, the probe no longer measures what was calibrated.
const SPOILT_BELOW: f64 = 0.75;
/// The number of consecutive measurements after which sets count as spoilt: a single one may be disturbed by other
/// work.
const LOOKS: u32 = 3;
/// After a search, none begins for this multiple of its duration. So searches take at most half a percent of one
/// processor, even where a kernel that moves pages, or a busy neighbour, spoils sets every minute.
const REST: u32 = 200;
/// 0: the number chosen by the library.
const COLOURS: u32 = 0;
const SECONDS: u32 = 10;
const POINTS: usize = 8;
const FULL_SETS: &str = "full sets";
/// The background displacement is subtracted from that of sections. It is measured by this many waits without work,
/// 40 ms per round.
const IDLE_SHOTS: u32 = 128;
const IDLE_NANOSECONDS: [u32; 2] = [20_000, 200_000];
/// If context switches leave fewer shots than this on each side, there is no result.
const IDLE_FEWEST: u32 = 32;

#[repr(C)]
struct Options {
    ways: u32,
    colours: u32,
    seconds: u32,
    seed: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Point {
    kilobytes: u32,
    shots: u32,
    displaced_median: f32,
    displaced_p10: f32,
    displaced_p90: f32,
}

#[repr(C)]
#[derive(Default)]
struct Summary {
    generation: u64,
    ways: u32,
    colours: u32,
    random_lines: u32,
    cost_cycles: u32,
    points: u32,
    point: [Point; POINTS],
}

/// The sums of shots that only waited: see probe.c.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Idle {
    shots: u32,
    shares: f64,
    squares: f64,
    cycles: f64,
}

extern "C" {
    fn split_probe_publish(
        directory: *const libc::c_char,
        options: *const Options,
        reason: *mut *const libc::c_char,
    ) -> libc::c_int;
    fn split_probe_open(directory: *const libc::c_char, reason: *mut *const libc::c_char) -> *mut Opened;
    fn split_probe_close(probe: *mut Opened);
    fn split_probe_verify(probe: *const Opened) -> f64;
    fn split_probe_idle(probe: *const Opened, shots: u32, nanoseconds: *const u32, idle: *mut Idle);
    fn split_probe_summarize(directory: *const libc::c_char, summary: *mut Summary) -> libc::c_int;
}

/// The result: for the state, and lines for the log if something changed.
#[derive(Debug)]
pub(super) struct News {
    pub probe: Probe,
    pub lines: Vec<String>,
}

/// Runs until a stop is requested.
pub(super) fn run(
    folder: &Path,
    seed: u64,
    mut neighbours: neighbours::Watch,
    news: &Sender<News>,
    stop: &Stop,
) {
    let Ok(directory) = CString::new(folder.as_os_str().as_bytes()) else { return };
    let mut seed = seed;
    while !stop.is_set() {
        let begun = Instant::now();
        let Some(mut found) = publish(&directory, seed) else { return };
        let rested = rested(begun, Instant::now());
        found.background_per_cycle = opened(&directory, background).unwrap_or(0.0);
        let usable = found.generation != 0;
        let mut lines = vec![describe(&found)];
        lines.extend(look_at(&mut neighbours, &directory, &mut found));
        if news.send(News { probe: found.clone(), lines }).is_err() || !usable {
            return;
        }
        watch(&directory, found, rested, &mut neighbours, news, stop);
        seed = seed.wrapping_add(1);
    }
}

/// When the next search may begin.
fn rested(begun: Instant, ended: Instant) -> Instant {
    ended + (ended - begun) * REST
}

/// Checks the sets every minute and the neighbours more often; returns when the sets are spoilt and a search
/// is allowed, or when the daemon stops. A single check may be wrong, because other load disturbs it.
fn watch(
    directory: &CStr,
    mut probe: Probe,
    rested: Instant,
    neighbours: &mut neighbours::Watch,
    news: &Sender<News>,
    stop: &Stop,
) {
    // Random lines have no sets to examine.
    let full_sets = probe.kind == FULL_SETS;
    let (mut was_spoilt, mut looked) = (false, Instant::now());
    while !stop.wait(NEIGHBOURS_EVERY) {
        if !full_sets {
            continue;
        }
        let mut lines = Vec::from_iter(look_at(neighbours, directory, &mut probe));
        let mut search = false;
        if looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            probe.background_per_cycle = opened(directory, background).unwrap_or(0.0);
            let best = (0..LOOKS).map(|_| opened(directory, verify).unwrap_or(0.0)).fold(0.0, f64::max);
            probe.verified = Some(best);
            let spoilt = best < SPOILT_BELOW;
            let left = rested.saturating_duration_since(Instant::now());
            // Reported once per period, and when it ends in a search.
            if spoilt && (left.is_zero() || !was_spoilt) {
                lines.push(spoilt_line(best, left));
            }
            was_spoilt = spoilt;
            search = spoilt && left.is_zero();
        }
        if news.send(News { probe: probe.clone(), lines }).is_err() || search {
            return;
        }
    }
}

/// Puts other work in the caches into the state; logs when two processors are first found on one core, or again
/// after an interval without.
fn look_at(neighbours: &mut neighbours::Watch, directory: &CStr, probe: &mut Probe) -> Option<String> {
    if probe.kind != FULL_SETS {
        return None;
    }
    let before = neighbours.told();
    opened(directory, |probe| neighbours.look(probe));
    probe.neighbours = neighbours.told();
    (before.together == 0 && probe.neighbours.together > 0).then(|| {
        "probe: two processors share an L2 that should each have one of its own: the host puts them on one core at times; while it \
         does, placement keeps nothing apart"
            .into()
    })
}

fn spoilt_line(share: f64, left: Duration) -> String {
    let when = match left.as_secs() {
        0 => String::new(),
        seconds => {
            format!(" in {seconds} s at the earliest, so that searches take half a percent of a processor")
        }
    };
    format!("probe: only {:.0} % of the sets are still full sets: looking for others{when}", share * 100.0)
}

fn publish(directory: &CStr, seed: u64) -> Option<Probe> {
    let options = Options { ways: 0, colours: COLOURS, seconds: SECONDS, seed };
    let mut reason: *const libc::c_char = std::ptr::null();
    // SAFETY: all pointers are to live values; the reason is a constant of the library or null.
    let (outcome, reason) = unsafe {
        let outcome = split_probe_publish(directory.as_ptr(), &options, &mut reason);
        let text = if reason.is_null() {
            String::new()
        } else {
            CStr::from_ptr(reason).to_string_lossy().into_owned()
        };
        (outcome, text)
    };
    let kind = match outcome {
        0 => FULL_SETS,
        1 => "random lines",
        _ => return Some(Probe { kind: "impossible".into(), reason, ..Probe::default() }),
    };
    let mut summary = Summary::default();
    // SAFETY: as above; the structure matches probe.c.
    if unsafe { split_probe_summarize(directory.as_ptr(), &mut summary) } != 0 {
        let reason = "the published sets cannot be read".into();
        return Some(Probe { kind: "impossible".into(), reason, ..Probe::default() });
    }
    let points = summary.point.iter().take(summary.points as usize).map(|point| ProbePoint {
        kilobytes: point.kilobytes,
        median: point.displaced_median,
        p10: point.displaced_p10,
        p90: point.displaced_p90,
    });
    Some(Probe {
        kind: kind.into(),
        reason,
        generation: summary.generation,
        points: points.collect(),
        ..Probe::default()
    })
}

/// Runs a query on the published probe; `None`: it cannot be opened.
fn opened<T>(directory: &CStr, ask: impl FnOnce(*const Opened) -> T) -> Option<T> {
    // SAFETY: the name ends with a zero, a null reason is allowed; what was opened is closed, once, after its last use.
    let probe = unsafe { split_probe_open(directory.as_ptr(), std::ptr::null_mut()) };
    if probe.is_null() {
        return None;
    }
    let answer = ask(probe);
    // SAFETY: as above.
    unsafe { split_probe_close(probe) };
    Some(answer)
}

/// The certain part of the rate at which other work displaces lines; 0 if none is certain.
fn background(probe: *const Opened) -> f64 {
    let mut idle = [Idle::default(); 2];
    // SAFETY: the probe is open; both arrays have the two elements that probe.c takes.
    unsafe { split_probe_idle(probe, IDLE_SHOTS, IDLE_NANOSECONDS.as_ptr(), idle.as_mut_ptr()) };
    rate(&idle[0], &idle[1])
}

/// The share of the remaining lines that is evicted per cycle, computed from a long and a short wait. The lower end
/// of its 95 % interval, so that noise does not excuse a polluter.
fn rate(short: &Idle, long: &Idle) -> f64 {
    if short.shots < IDLE_FEWEST || long.shots < IDLE_FEWEST {
        return 0.0;
    }
    // The mean, moved by twice its error towards less background; a minimum always remains.
    let left = |idle: &Idle, sign: f64| {
        let n = f64::from(idle.shots);
        let mean = idle.shares / n;
        let variance = (idle.squares / n - mean * mean).max(0.0);
        (1.0 - mean + sign * 2.0 * (variance / n).sqrt()).clamp(0.01, 1.0)
    };
    let cycles = long.cycles / f64::from(long.shots) - short.cycles / f64::from(short.shots);
    if cycles <= 0.0 {
        return 0.0;
    }
    ((left(short, -1.0) / left(long, 1.0)).ln() / cycles).max(0.0)
}

fn verify(probe: *const Opened) -> f64 {
    // SAFETY: the probe is open.
    unsafe { split_probe_verify(probe) }
}

/// The calibrated shares by size: "256 KB 24 %, ...".
fn displaced_by(probe: &Probe) -> String {
    let points = probe.points.iter();
    let words = points.map(|point| format!("{} KB {:.0} %", point.kilobytes, point.median * 100.0));
    words.collect::<Vec<_>>().join(", ")
}

fn describe(probe: &Probe) -> String {
    let because = if probe.reason.is_empty() { String::new() } else { format!(" ({})", probe.reason) };
    match probe.kind.as_str() {
        "impossible" => {
            format!("probe: displacement cannot be measured here{because}: sensitivity alone is learned")
        }
        "random lines" => format!("probe: random lines{because}; displaced by {}", displaced_by(probe)),
        _ => {
            let others = 1.0 - (-probe.background_per_cycle * 600_000.0).exp();
            let others = match others {
                share if share < 0.01 => String::new(),
                share => format!("; by others {:.0} % in 600,000 cycles, which is subtracted", share * 100.0),
            };
            let displaced = displaced_by(probe);
            format!("probe: full sets of L2 found and published{because}; displaced by {displaced}{others}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(shots: u32, share: f64, cycles: f64) -> Idle {
        let n = f64::from(shots);
        Idle { shots, shares: n * share, squares: n * share * share, cycles: n * cycles }
    }

    /// All shots are equal: 10 % are evicted at once, 55 % after 500,000 cycles more, half of the rest: ln 2 /
    /// 500,000.
    #[test]
    fn the_background_is_what_a_longer_wait_loses_more() {
        let found = rate(&idle(100, 0.10, 50_000.0), &idle(100, 0.55, 550_000.0));
        assert!((found - std::f64::consts::LN_2 / 500_000.0).abs() < 1e-12, "{found}");
        assert_eq!(rate(&idle(100, 0.10, 50_000.0), &idle(100, 0.05, 550_000.0)), 0.0);
        assert_eq!(rate(&idle(100, 0.10, 50_000.0), &idle(31, 0.55, 550_000.0)), 0.0, "too few");
        assert_eq!(rate(&Idle::default(), &Idle::default()), 0.0);
    }

    /// A search of three seconds rests ten minutes.
    #[test]
    fn searches_take_half_a_percent() {
        let begun = Instant::now();
        let search = Duration::from_secs(3);
        let next = rested(begun, begun + search);
        assert_eq!(next - begun, Duration::from_secs(603));
        assert_eq!(
            spoilt_line(0.504, Duration::from_secs(540)),
            "probe: only 50 % of the sets are still full sets: looking for others in 540 s at the earliest, so that searches take half \
             a percent of a processor"
        );
        assert!(spoilt_line(0.5, Duration::ZERO).ends_with("looking for others"));
    }

    /// Half of the shots all, half of them none: 50 +- 2 x 5 %, so 40 % is certain: ln(0.9 / 0.6).
    #[test]
    fn of_noise_only_what_is_sure_counts() {
        let noisy = Idle { shots: 100, shares: 50.0, squares: 50.0, cycles: 100.0 * 550_000.0 };
        let found = rate(&idle(100, 0.10, 50_000.0), &noisy);
        assert!((found * 500_000.0 - 1.5_f64.ln()).abs() < 1e-9, "{found}");
    }
}
