//! Converts a recorded trace to a workload for the simulator.

use super::scenario::{App, Kind, Load, Request, Scenario};
use super::Damage;
use crate::model::{AppId, KindRef, Moments};
use crate::scores::Options;
use crate::trace::{self, Entry, Reader, TraceError};
use std::collections::BTreeMap;
use std::io::BufRead;

/// The limit of replayed sections, which is days of a busy server.
const SECTIONS: usize = 50_000_000;

/// The reason why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace is empty.
    #[error(
        "the trace has no sections: record one while requests come in (hardmeter split analyze --trace FILE)"
    )]
    Empty,
    /// The trace has too many sections.
    #[error("the trace has more than {SECTIONS} sections: cut it (head -n)")]
    Large,
}

#[derive(Default)]
struct Seen {
    told: Option<trace::Kind>,
    after_itself: Moments,
    own: Vec<u64>,
    elapsed: Moments,
    displaced: Moments,
}

/// Each section that is not within another becomes a request, at the time at which it began. Its warm duration
/// and the size of its data come from the trace's description of its kind, else they are inferred from its
/// sections.
///
/// # Errors
///
/// [`ReplayError`] if the trace is damaged, too large, or holds no section.
pub fn scenario<R: BufRead>(
    name: &str,
    reader: &mut Reader<R>,
    l2_bytes: u64,
    damage: &Damage,
) -> Result<Scenario, ReplayError> {
    let hertz = reader.header().cycles_per_second as f64;
    let mut kinds: BTreeMap<KindRef, Seen> = BTreeMap::new();
    let mut sections: Vec<(f64, KindRef)> = Vec::new();
    for entry in reader.by_ref() {
        match entry? {
            Entry::Kind(kind) => {
                let known = kinds.entry(kind.kind).or_default();
                known.told = Some(kind);
            }
            Entry::Section(section) => {
                let seen = kinds.entry(section.kind).or_default();
                seen.elapsed.push(section.elapsed.0 as f64);
                if let (Some(own), false) = (section.own, section.preempted || section.migrated) {
                    if section.previous == Some(section.kind) {
                        seen.after_itself.push(own.0 as f64);
                    }
                    // For an error of a tenth of a percent, no more values are needed.
                    if seen.own.len() < 100_000 {
                        seen.own.push(own.0);
                    }
                }
                if let Some(share) = section.displaced {
                    seen.displaced.push(share);
                }
                if section.nested {
                    continue;
                }
                if sections.len() >= SECTIONS {
                    return Err(ReplayError::Large);
                }
                let began = section.ended_ns as f64 - section.elapsed.0 as f64 / hertz * 1e9;
                sections.push((began / 1e3, section.kind));
            }
        }
    }
    if sections.is_empty() {
        return Err(ReplayError::Empty);
    }
    sections.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut apps: Vec<App> = Vec::new();
    let mut index: BTreeMap<KindRef, usize> = BTreeMap::new();
    let mut scenario_kinds: Vec<Kind> = Vec::new();
    for (kind, seen) in &kinds {
        if seen.elapsed.count == 0 {
            continue;
        }
        let app = app_of(&mut apps, kind.app, seen);
        index.insert(*kind, scenario_kinds.len());
        scenario_kinds.push(model(*kind, app, seen, hertz, l2_bytes, damage));
    }
    let first = sections[0].0;
    let arrivals = sections.iter().map(|(at, kind)| (at - first, index[kind])).collect();
    let request =
        |(i, kind): (usize, &Kind)| Request { name: kind.label.clone(), steps: vec![i], weight: 1.0 };
    Ok(Scenario {
        name: name.into(),
        title: reader.header().source.clone(),
        requests: scenario_kinds.iter().enumerate().map(request).collect(),
        kinds: scenario_kinds,
        apps,
        load: Load::Recorded(arrivals),
    })
}

fn app_of(apps: &mut Vec<App>, id: AppId, seen: &Seen) -> usize {
    if let Some(at) = apps.iter().position(|app| app.id == id) {
        return at;
    }
    let name = seen.told.as_ref().map(|told| told.application.clone()).filter(|name| !name.is_empty());
    apps.push(App {
        id,
        name: name.unwrap_or_else(|| id.to_string()),
        related: None,
        threads: 256,
        code_kb: 0.0,
        code_pass_us: 0.0,
    });
    apps.len() - 1
}

fn model(kind: KindRef, app: usize, seen: &Seen, hertz: f64, l2_bytes: u64, damage: &Damage) -> Kind {
    let told = seen.told.as_ref();
    let us = |cycles: f64| cycles / hertz * 1e6;
    let warm = told
        .and_then(|told| told.warm_cycles)
        .or_else(|| (seen.after_itself.count >= 8).then_some(seen.after_itself.mean))
        .or_else(|| fast_quarter(&seen.own))
        .unwrap_or(seen.elapsed.mean);
    let warm_us = us(warm).max(0.1);
    let footprint_kb = told.and_then(|told| told.footprint_kb).or_else(|| {
        let share = seen.displaced.estimate()?;
        Some(Options { l2_bytes, ..Options::default() }.footprint(share).mean)
    });
    let footprint_kb = footprint_kb.unwrap_or(0.0).max(0.0);
    // The slowdown after polluters comes from data that it would have found; it does not use the rest of its data
    // again.
    let slowdown = told.and_then(|told| told.slowdown).unwrap_or(0.0).max(0.0);
    let resident_kb = (slowdown * warm_us / damage.reload_us_per_kb.max(1e-6)).min(footprint_kb);
    let label = told.map(|told| told.label.clone()).filter(|label| !label.is_empty());
    let mut model =
        Kind::new(app, kind.app, kind.code.0, &label.unwrap_or_else(|| kind.to_string()), warm_us);
    model.resident_kb = resident_kb;
    model.stream_kb = footprint_kb - resident_kb;
    model.spread = 0.05;
    model
}

/// The mean of the fastest quarter: sections that found their data.
fn fast_quarter(own: &[u64]) -> Option<f64> {
    let mut ordered = own.to_vec();
    ordered.sort_unstable();
    ordered.get(ordered.len() / 4).map(|&cycles| cycles as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Class, CodeId, CpuId};
    use crate::trace::{Header, Section, Writer};
    use hardmeter_samples::model::Cycles;

    fn kind(code: u32) -> KindRef {
        KindRef { app: AppId(7), code: CodeId(code) }
    }

    fn section(ended_us: u64, code: u32, own_us: u64) -> Section {
        Section {
            ended_ns: ended_us * 1000,
            cpu: CpuId(0),
            kind: kind(code),
            previous: Some(kind(code)),
            elapsed: Cycles(own_us * 1000),
            own: Some(Cycles(own_us * 1000)),
            displaced: Some(0.74),
            preempted: false,
            migrated: false,
            placed: false,
            nested: false,
        }
    }

    fn replayed(sections: &[Section], slowdown: Option<f64>) -> Result<Scenario, ReplayError> {
        let mut writer = Writer::new(Vec::new(), &Header::new(1_000_000_000, "a test")).unwrap();
        for code in [2, 3] {
            let kind = trace::Kind {
                kind: kind(code),
                label: format!("kind {code}"),
                application: "web".into(),
                class: Class::Unknown,
                warm_cycles: None,
                footprint_kb: None,
                slowdown,
            };
            writer.kind(&kind).unwrap();
        }
        for section in sections {
            writer.section(section).unwrap();
        }
        let bytes = writer.finish().unwrap();
        scenario("test", &mut Reader::new(&bytes[..]).unwrap(), 2 << 20, &Damage::documented())
    }

    #[test]
    fn sections_become_arrivals_and_kinds() {
        let mut sections: Vec<_> = (0..10).map(|i| section(1000 * i + 300, 2, 300)).collect();
        sections.push(section(550, 3, 50));
        sections.push(Section { nested: true, ..section(560, 3, 10) });
        let scenario = replayed(&sections, Some(0.5)).unwrap();
        let Load::Recorded(arrivals) = &scenario.load else { panic!() };
        assert_eq!(arrivals.len(), 11);
        assert_eq!(arrivals[..3], [(0.0, 0), (500.0, 1), (1000.0, 0)]);
        let kind = &scenario.kinds[0];
        assert_eq!((kind.label.as_str(), kind.warm_us), ("kind 2", 300.0));
        // 74 % is 1 MB by the documented calibration; half of 300 us at 0.3 us a KB are 500 KB that are used again.
        assert!((kind.resident_kb - 500.0).abs() < 1.0 && (kind.stream_kb - 524.0).abs() < 1.0, "{kind:?}");
        assert_eq!(scenario.apps[0].name, "web");
    }

    #[test]
    fn nothing_to_replay_is_an_error() {
        assert!(matches!(replayed(&[], None), Err(ReplayError::Empty)));
    }
}
