//! The output of an OO1 program for one run; prove/oo1/README.md documents the fields.

use serde::{Deserialize, Serialize};

/// One run of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // named as in the programs' JSON
pub struct Run {
    pub mode: String,
    pub compiler: String,
    pub seed: u64,
    /// The digest of the graph.
    pub graph: String,
    pub cache: Cache,
    pub load_seconds: f64,
    pub open_ns: f64,
    pub store_bytes: u64,
    pub phases: Vec<Phase>,
    pub visited: Vec<u64>,
    pub checksum: String,
    #[serde(default)]
    pub capped: u64,
    pub faults: Faults,
    pub reads: Reads,
    pub rss_bytes: u64,
    pub rss_peak_bytes: u64,
    #[serde(default)]
    pub raw_wall_ns: Vec<f64>,
    #[serde(default)]
    pub raw_bytes: u64,
    #[serde(default)]
    pub durable: Option<bool>,
    #[serde(default)]
    pub statistics: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// State of the page cache before the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Cache {
    pub state: String,
    #[serde(default)]
    pub resident_bytes: Option<u64>,
}

/// Units of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Phase {
    pub name: String,
    /// Number of times the pattern was followed within one unit.
    pub repeats: u64,
    pub wall_ns: Vec<f64>,
    pub cpu_ns: Vec<f64>,
}

/// Page faults of the timed phases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Faults {
    pub minor: u64,
    pub major: u64,
    pub handled: u64,
}

/// Reads of the timed phases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Reads {
    pub calls: u64,
    pub bytes: u64,
}

impl Run {
    /// A phase by its name.
    pub fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    /// Number of parts visited by a unit, if equal for all units.
    pub fn visits_per_unit(&self) -> Option<u64> {
        let first = *self.visited.first()?;
        (first > 0 && self.visited.iter().all(|visited| *visited == first)).then_some(first)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run of one cold, two warm and two hot units of 3280 visits each.
    pub(crate) fn run(mode: &str, cold: f64, warm: [f64; 2], hot: [f64; 2]) -> Run {
        let phase = |name: &str, ms: &[f64]| Phase {
            name: name.into(),
            repeats: 1,
            wall_ns: ms.iter().map(|ms| ms * 1e6).collect(),
            cpu_ns: ms.iter().map(|ms| ms * 0.5e6).collect(),
        };
        Run {
            mode: mode.into(),
            compiler: "gcc 12.2.0".into(),
            seed: 7,
            graph: "0f3a".into(),
            cache: Cache { state: "hot".into(), resident_bytes: None },
            load_seconds: 0.5,
            open_ns: 1e5,
            store_bytes: 5_000_000,
            phases: vec![phase("cold", &[cold]), phase("warm", &warm), phase("hot", &hot)],
            visited: vec![3280; 3],
            checksum: "6c62272e07bb0142".into(),
            capped: 0,
            faults: Faults { minor: 300, major: 2, handled: 10 },
            reads: Reads { calls: 40, bytes: 163_840 },
            rss_bytes: 9_437_184,
            rss_peak_bytes: 9_437_184,
            raw_wall_ns: Vec::new(),
            raw_bytes: 0,
            durable: None,
            statistics: serde_json::Map::new(),
            remarks: Vec::new(),
        }
    }

    #[test]
    fn the_programs_json_is_read() {
        let text = r#"{
          "benchmark": "oo1", "mode": "texas", "compiler": "gcc 12.2.0", "layout": "oo1", "measure": "traversal",
          "protocol": "texas", "seed": 7, "parts": 20000, "locality": true, "graph_seed": 1, "graph": "0f3a",
          "cache": {"state": "dropped", "how": "fsync, posix_fadvise(DONTNEED)", "resident_bytes": 0},
          "prefetch": false, "memory_limit": 0, "group_limit": 0,
          "load_seconds": 0.41, "open_ns": 81234, "store_bytes": 5136384,
          "phases": [{"name": "cold", "repeats": 1, "wall_ns": [1234567], "cpu_ns": [234567]}],
          "visited": [3280], "checksum": "6c62272e07bb0142", "capped": 0,
          "faults": {"minor": 312, "major": 12, "handled": 301}, "reads": {"calls": 301, "bytes": 1232896},
          "rss_bytes": 9437184, "rss_peak_bytes": 9437184, "raw_wall_ns": [], "raw_bytes": 0, "durable": null,
          "statistics": {"swizzled": 4}, "remarks": []
        }"#;
        let run: Run = serde_json::from_str(text).unwrap();
        assert_eq!(run.phase("cold").unwrap().wall_ns, [1_234_567.0]);
        assert_eq!(run.phase("hot"), None);
        assert_eq!((run.visits_per_unit(), run.faults.handled), (Some(3280), 301));
        assert_eq!(run.statistics["swizzled"], 4);
    }
}
