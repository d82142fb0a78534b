//! The probe's sets: found and published at start, looked at every minute, found anew if they are none any more. On a thread of its
//! own, since finding them takes seconds in which heartbeats must go on.

use super::Stop;
use crate::state::{Probe, ProbePoint};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Fewer full sets than this share: what the probe says is another thing than its calibration.
const SPOILT_BELOW: f64 = 0.75;
/// Looks in a row with which sets are called spoilt: one may be disturbed by what else runs.
const LOOKS: u32 = 3;
const COLOURS: u32 = 4;
const SECONDS: u32 = 10;
const POINTS: usize = 8;

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

#[repr(C)]
struct Opened {
    _private: [u8; 0],
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
    fn split_probe_summarize(directory: *const libc::c_char, summary: *mut Summary) -> libc::c_int;
}

/// What came of it: for the state, and a line for the log if something changed.
#[derive(Debug)]
pub(super) struct News {
    pub probe: Probe,
    pub line: Option<String>,
}

/// Runs until told to stop.
pub(super) fn run(folder: &Path, seed: u64, news: &Sender<News>, stop: &Stop) {
    let Ok(directory) = CString::new(folder.as_os_str().as_bytes()) else { return };
    let mut seed = seed;
    while !stop.is_set() {
        let Some(found) = publish(&directory, seed) else { return };
        let usable = found.generation != 0;
        let line = describe(&found);
        if news.send(News { probe: found.clone(), line: Some(line) }).is_err() || !usable {
            return;
        }
        watch(&directory, found, news, stop);
        seed = seed.wrapping_add(1);
    }
}

/// Looks every minute; returns when the sets are spoilt, or the daemon stops.
fn watch(directory: &CStr, mut probe: Probe, news: &Sender<News>, stop: &Stop) {
    // Random lines have no sets to look at.
    let full_sets = probe.kind == "full sets";
    while !stop.wait(LOOK_EVERY) {
        if !full_sets {
            continue;
        }
        let best = (0..LOOKS).map(|_| verify(directory)).fold(0.0, f64::max);
        probe.verified = Some(best);
        let spoilt = best < SPOILT_BELOW;
        let line = spoilt.then(|| {
            format!("probe: only {:.0} % of the sets are still full sets: looking for others", best * 100.0)
        });
        if news.send(News { probe: probe.clone(), line }).is_err() || spoilt {
            return;
        }
    }
}

fn publish(directory: &CStr, seed: u64) -> Option<Probe> {
    let options = Options { ways: 0, colours: COLOURS, seconds: SECONDS, seed };
    let mut reason: *const libc::c_char = std::ptr::null();
    // SAFETY: all pointers are to living values; the reason is a constant of the library or null.
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
        0 => "full sets",
        1 => "random lines",
        _ => return Some(Probe { kind: "impossible".into(), reason, ..Probe::default() }),
    };
    let mut summary = Summary::default();
    // SAFETY: as above; the structure is that of probe.c.
    if unsafe { split_probe_summarize(directory.as_ptr(), &mut summary) } != 0 {
        let reason = "what was published cannot be read".into();
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
        verified: None,
        points: points.collect(),
    })
}

fn verify(directory: &CStr) -> f64 {
    // SAFETY: what was opened is closed, once; a null reason is allowed.
    unsafe {
        let probe = split_probe_open(directory.as_ptr(), std::ptr::null_mut());
        if probe.is_null() {
            return 0.0;
        }
        let share = split_probe_verify(probe);
        split_probe_close(probe);
        share
    }
}

fn describe(probe: &Probe) -> String {
    let because = if probe.reason.is_empty() { String::new() } else { format!(" ({})", probe.reason) };
    match probe.kind.as_str() {
        "impossible" => {
            format!("probe: displacement cannot be measured here{because}: sensitivity alone is learned")
        }
        "random lines" => {
            format!("probe: no full sets were found{because}: random lines tell 512 KB from 2 MB only")
        }
        _ => {
            let points: Vec<_> = probe
                .points
                .iter()
                .map(|point| format!("{} KB {:.0} %", point.kilobytes, point.median * 100.0))
                .collect();
            format!("probe: full sets of L2 found and published{because}; displaced by {}", points.join(", "))
        }
    }
}
