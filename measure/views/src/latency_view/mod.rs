//! `hardmeter latency`: what this machine's caches, memory, TLBs and cores cost, as text, JSON, SVG and a page.

mod picture;
mod plot;
mod text;

use hardmeter_evidence::envelope::envelope;
use hardmeter_samples::machine_latency::MachineLatency;
use serde_json::{json, Value};
use std::ops::Deref;

/// The view of measured latencies.
#[derive(Clone, Debug)]
pub struct LatencyReport(pub MachineLatency);

impl Deref for LatencyReport {
    type Target = MachineLatency;

    fn deref(&self) -> &MachineLatency {
        &self.0
    }
}

/// A row of the summary.
struct Row {
    name: String,
    ns: Option<f64>,
    /// Further properties.
    about: String,
}

impl LatencyReport {
    /// For programs: all that was measured, and each figure of the summary in nanoseconds and cycles.
    pub fn json(&self) -> Value {
        let mut fields = json!(self.0);
        let row =
            |row: &Row| json!({ "name": row.name, "ns": row.ns, "cycles": row.ns.map(|ns| self.cycles(ns)) });
        fields["summary"] = self.rows().iter().map(row).collect();
        fields["notes"] = json!(self.notes());
        let agrees: Vec<Value> =
            self.caches.iter().map(|cache| json!({ "name": cache.name, "agrees": cache.agrees() })).collect();
        fields["cliffs_agree"] = json!(agrees);
        envelope("latency", 1, fields)
    }

    /// The summary.
    fn rows(&self) -> Vec<Row> {
        use hardmeter_samples::machine_latency::MemoryBy;
        let mut rows: Vec<Row> = Vec::new();
        for cache in &self.caches {
            let about = match cache.cliff_bytes {
                Some(bytes) => {
                    format!("to {} by its cliff, {} by sysfs", size(bytes), size(cache.reported_bytes as f64))
                }
                None => format!("{} by sysfs, no cliff seen", size(cache.reported_bytes as f64)),
            };
            rows.push(Row { name: cache.name.into(), ns: cache.ns, about });
        }
        let about = match self.memory_by {
            MemoryBy::Flushed => "lines that were flushed from all caches".to_string(),
            MemoryBy::Largest => {
                let largest = self.huge.last().map_or(0, |point| point.bytes);
                format!("in {}; a part of it may be in a cache", size(largest as f64))
            }
        };
        rows.push(Row { name: "memory".into(), ns: Some(self.memory_ns), about });
        for (name, ns, about) in [
            ("TLB miss", self.tlb_miss_ns, "the second level has the translation"),
            ("page walk", self.page_walk_ns, "missed by every TLB; in addition to the load"),
        ] {
            rows.push(Row { name: name.into(), ns, about: about.into() });
        }
        let (nearest, farthest) = self.cores.iter().fold((None, None), |(near, far), pair| {
            let near = near.filter(|near: &&_| lower(near, pair)).or(Some(pair));
            let far = far.filter(|far: &&_| lower(pair, far)).or(Some(pair));
            (near, far)
        });
        for (name, pair) in
            [("core to core", nearest), ("the farthest", farthest.filter(|_| self.cores.len() > 1))]
        {
            let Some(pair) = pair else { continue };
            let about = format!(
                "processors {} and {}, 95 %: {:.0}..{:.0} ns",
                pair.first, pair.second, pair.low_ns, pair.high_ns
            );
            rows.push(Row { name: name.into(), ns: Some(pair.ns), about });
        }
        rows
    }

    /// Warnings: about the measurement, and where the kernel's sizes and the cliffs disagree.
    fn notes(&self) -> Vec<String> {
        let mut notes = self.0.notes.clone();
        let largest = self.huge.last().map_or(0, |point| point.bytes);
        for cache in &self.caches {
            let (reported, name) = (cache.reported_bytes, cache.name);
            match cache.agrees() {
                Some(false) => notes.push(format!(
                    "{name}: sysfs reports {}, the cliff is at {}: a virtual machine that misreports it, or has a part of it",
                    size(reported as f64),
                    size(cache.cliff_bytes.unwrap_or(0.0))
                )),
                None if reported > largest / 2 => notes.push(format!(
                    "{name}: sysfs reports {}, which the largest ring of {} does not exceed far enough for a cliff \
                     (--largest)",
                    size(reported as f64),
                    size(largest as f64)
                )),
                None => notes.push(format!(
                    "{name}: sysfs reports {}, but latency shows no cliff: a virtual machine that misreports it, or other guests that use it",
                    size(reported as f64)
                )),
                Some(true) => {}
            }
        }
        notes
    }
}

fn lower(
    a: &hardmeter_samples::machine_latency::CorePair,
    b: &hardmeter_samples::machine_latency::CorePair,
) -> bool {
    a.ns <= b.ns
}

/// A size of memory: `48 KB`, `1.5 MB`.
fn size(bytes: f64) -> String {
    let (value, unit) = match bytes {
        b if b >= (1u64 << 30) as f64 => (b / (1u64 << 30) as f64, "GB"),
        b if b >= (1 << 20) as f64 => (b / (1 << 20) as f64, "MB"),
        b => (b / 1024.0, "KB"),
    };
    match value.fract() < 0.05 || value >= 100.0 {
        true => format!("{value:.0} {unit}"),
        false => format!("{value:.1} {unit}"),
    }
}

/// A measurement made by hand, for the tests of all forms.
#[cfg(test)]
fn example() -> LatencyReport {
    use hardmeter_samples::machine_latency::{caches, CorePair, LatencyPoint, MemoryBy, PagePoint};
    let curve = |walk: f64| -> Vec<LatencyPoint> {
        (12..=29)
            .map(|power| {
                let bytes = 1u64 << power;
                let ns = match power {
                    ..=15 => 2.0,
                    16..=20 => 7.0,
                    21..=25 => 25.0 + walk,
                    _ => 95.0 + walk,
                };
                LatencyPoint { bytes, ns, low_ns: ns * 0.99, high_ns: ns * 1.02 }
            })
            .collect()
    };
    let huge = curve(0.0);
    LatencyReport(MachineLatency {
        processor: "A <processor>".into(),
        ghz: 2.0,
        ghz_measured: true,
        caches: caches(&[("L1", 32 << 10), ("L2", 1 << 20), ("L3", 256 << 20)], &huge),
        memory_ns: 97.0,
        memory_by: MemoryBy::Flushed,
        tlb_miss_ns: Some(3.5),
        page_walk_ns: None,
        huge,
        huge_pages: true,
        small: curve(60.0),
        pages: vec![PagePoint { pages: 64, spread_ns: 5.0, packed_ns: 2.0 }],
        cores: vec![
            CorePair { first: 0, second: 1, ns: 30.0, low_ns: 29.0, high_ns: 33.0 },
            CorePair { first: 0, second: 2, ns: 60.0, low_ns: 55.0, high_ns: 70.0 },
        ],
        notes: vec!["a note".into()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_each_figure_in_both_units() {
        let json = example().json();
        assert_eq!((&json["format"], &json["version"]), (&json!("hardmeter-latency"), &json!(1)));
        let summary = json["summary"].as_array().unwrap();
        let of = |name: &str| summary.iter().find(|row| row["name"] == name).unwrap();
        assert_eq!((&of("L1")["ns"], &of("L1")["cycles"]), (&json!(2.0), &json!(4.0)));
        assert_eq!(of("memory")["cycles"], json!(194.0));
        assert_eq!(of("page walk")["ns"], Value::Null);
        assert_eq!((&of("core to core")["ns"], &of("the farthest")["ns"]), (&json!(30.0), &json!(60.0)));
        assert_eq!(json["huge"].as_array().unwrap().len(), 18);
        assert_eq!(json["cliffs_agree"][2], json!({ "name": "L3", "agrees": false }));
        assert!(
            json["notes"].to_string().contains("sysfs reports 256 MB, the cliff is at"),
            "{}",
            json["notes"]
        );
    }

    #[test]
    fn sizes_read_well() {
        let of = |bytes: u64| size(bytes as f64);
        assert_eq!([48 << 10, 1536 << 10, 480 << 20, 1 << 30].map(of), ["48 KB", "1.5 MB", "480 MB", "1 GB"]);
    }
}
