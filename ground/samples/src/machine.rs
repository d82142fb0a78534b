//! The geometry of a memory hierarchy, which the software PMU simulates, and which the analysis of cache sets
//! uses.

use serde::{Deserialize, Deserializer, Serialize};

pub use crate::core_model::{CoreModel, Prefetcher};

/// Bytes of a cache line on every machine the software PMU simulates.
pub const LINE_SIZE: u32 = 64;

/// One cache level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheGeometry {
    /// Capacity in bytes.
    #[serde(deserialize_with = "size_in_bytes")]
    pub size: u32,
    /// Associativity.
    pub ways: u32,
    /// Load-to-use latency in cycles when this level hits.
    pub latency: u32,
}

impl CacheGeometry {
    /// Number of sets.
    pub fn sets(&self) -> u32 {
        self.size / (LINE_SIZE * self.ways)
    }

    /// Distance in bytes between addresses of the same set: the paper's "2 KB" for 8 KB, 4-way.
    pub fn stride(&self) -> u32 {
        self.size / self.ways
    }
}

/// One TLB level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbGeometry {
    /// Number of entries.
    pub entries: u32,
    /// Associativity; equal to `entries` when fully associative.
    pub ways: u32,
    /// Cycles added when this level hits and the one above does not.
    #[serde(default)]
    pub latency: u32,
}

/// The origin of a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyMethod {
    /// On this machine, by `hardmeter latency`.
    Measured,
    /// From published figures of a like machine, or from other latencies of the model.
    Estimated,
}

/// A machine: its hierarchy, and the source of the numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Short name, the argument of `--machine`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The source of the numbers.
    pub source: String,
    /// Number of simulated cores. Processes are pinned to them round robin.
    pub cores: u32,
    /// Core clock in MHz.
    pub clock_mhz: u32,
    /// Cycles per instruction when every access hits the first level.
    pub base_cpi: f64,
    /// Cycles to main memory.
    pub memory_latency: u32,
    /// Cycles of a page walk.
    pub page_walk_latency: u32,
    /// Cycles from the request for a line that another core modified to its arrival; `None`: those of L3 and L2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_latency: Option<u32>,
    /// The origin of `transfer_latency`; `None`: not stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_method: Option<LatencyMethod>,
    /// True if a process switch empties the TLBs (no address-space identifiers).
    #[serde(default)]
    pub tlb_flush_on_switch: bool,
    /// Limits of the model; shown in every report of a capture.
    #[serde(default)]
    pub notes: Vec<String>,
    /// First-level instruction cache of a core.
    pub l1i: CacheGeometry,
    /// First-level data cache of a core.
    pub l1d: CacheGeometry,
    /// Second level of a core.
    pub l2: Option<CacheGeometry>,
    /// Third level, shared by all cores.
    pub l3: Option<CacheGeometry>,
    /// First-level instruction TLB.
    pub itlb: Option<TlbGeometry>,
    /// First-level data TLB.
    pub dtlb: Option<TlbGeometry>,
    /// Second-level TLB, for code and data.
    pub stlb: Option<TlbGeometry>,
    /// How the core hides latency; `None`: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<Box<CoreModel>>,
}

/// Why a machine description cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The text is not valid TOML, or not a machine model.
    #[error("{origin}: {detail}\n  remedy: the form is documented in docs/record.md, \"Machine models\"")]
    Syntax {
        /// File or name.
        origin: String,
        /// The parser's message.
        detail: String,
    },
    /// The numbers contradict each other or the simulator's limits.
    #[error("{origin}: [{part}] {problem}")]
    Geometry {
        /// File or name.
        origin: String,
        /// Which table.
        part: &'static str,
        /// The problem.
        problem: String,
    },
}

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        const BUILTIN: &[(&str, &str)] = &[$(($name, include_str!(concat!("../machines/", $name, ".toml")))),*];
    };
}

builtin!(
    "xeon-2003",
    "pentium4-willamette",
    "core2-conroe",
    "nehalem-ep",
    "sandybridge-ep",
    "haswell-ep",
    "skylake-sp",
    "cascadelake-sp",
    "icelake-sp",
    "sapphire-rapids",
    "zen2-rome",
    "zen3-milan",
    "zen4-genoa",
    "neoverse-n1",
    "neoverse-v1",
);

impl Machine {
    /// Names of the machines that are built in.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// A built-in machine by its name.
    pub fn builtin(name: &str) -> Option<Machine> {
        let (name, text) = BUILTIN.iter().find(|(known, _)| *known == name)?;
        Some(Machine::parse(name, text).expect("built-in machines are checked by a test"))
    }

    /// The description as a file that [`Machine::parse`] reads.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("numbers, text and tables have a form in TOML")
    }

    /// Reads a machine description; `origin` is named in errors.
    ///
    /// # Errors
    ///
    /// [`MachineError`] if the text is not TOML of a machine, or describes caches that cannot exist.
    pub fn parse(origin: &str, text: &str) -> Result<Machine, MachineError> {
        let machine: Machine = toml::from_str(text).map_err(|error| MachineError::Syntax {
            origin: origin.to_string(),
            detail: error.to_string(),
        })?;
        machine.check(origin)?;
        Ok(machine)
    }

    /// Reads a machine description from a side file; `origin` is named in errors.
    ///
    /// # Errors
    ///
    /// [`MachineError`] if the value does not describe a machine, or describes caches that cannot exist.
    pub fn from_json(origin: &str, value: &serde_json::Value) -> Result<Machine, MachineError> {
        let machine = Machine::deserialize(value).map_err(|error| MachineError::Syntax {
            origin: origin.to_string(),
            detail: error.to_string(),
        })?;
        machine.check(origin)?;
        Ok(machine)
    }

    /// Checks the limits of the simulator, the same as in `measure/simulate/sim/machine.c`.
    fn check(&self, origin: &str) -> Result<(), MachineError> {
        let geometry = |part, problem: &str| {
            Err(MachineError::Geometry { origin: origin.to_string(), part, problem: problem.to_string() })
        };
        if self.cores == 0 || self.cores > 64 {
            return geometry("machine", "cores must be 1 to 64");
        }
        if self.clock_mhz == 0 || !(0.01..=100.0).contains(&self.base_cpi) {
            return geometry("machine", "clock_mhz must be positive and base_cpi between 0.01 and 100");
        }
        for (part, cache, first) in [
            ("l1i", Some(self.l1i), true),
            ("l1d", Some(self.l1d), true),
            ("l2", self.l2, false),
            ("l3", self.l3, false),
        ] {
            let Some(cache) = cache else { continue };
            if cache.ways == 0 || cache.ways > 32 {
                return geometry(part, "ways must be 1 to 32");
            }
            if cache.size == 0 || cache.size % (LINE_SIZE * cache.ways) != 0 {
                return geometry(part, "size must be a multiple of ways x 64 bytes");
            }
            if first && (!cache.sets().is_power_of_two() || cache.sets() > 1024) {
                return geometry(part, "a first level needs a power of two of sets, at most 1024");
            }
        }
        for (part, tlb) in [("itlb", self.itlb), ("dtlb", self.dtlb), ("stlb", self.stlb)] {
            let Some(tlb) = tlb else { continue };
            if tlb.entries == 0 || tlb.ways == 0 || tlb.entries % tlb.ways != 0 {
                return geometry(part, "entries must be a positive multiple of ways");
            }
        }
        if let Some(problem) = self.core.as_ref().and_then(|core| core.problem()) {
            return geometry("core", problem);
        }
        Ok(())
    }
}

/// Accepts a number of bytes or text such as `"8 KiB"`, `"32 MiB"`.
fn size_in_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Size {
        Bytes(u32),
        Text(String),
    }
    match Size::deserialize(deserializer)? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Text(text) => {
            let (number, unit) = text.trim().split_once(' ').unwrap_or((text.trim(), "B"));
            let factor: u64 = match unit.trim() {
                "B" => 1,
                "KiB" => 1 << 10,
                "MiB" => 1 << 20,
                _ => return Err(serde::de::Error::custom(format!("unit of {text:?} is not B, KiB or MiB"))),
            };
            let bytes = number.parse::<f64>().map_err(serde::de::Error::custom)? * factor as f64;
            if bytes.fract() != 0.0 || !(1.0..=u32::MAX as f64).contains(&bytes) {
                return Err(serde::de::Error::custom(format!(
                    "{text:?} is not a whole number of bytes below 4 GiB"
                )));
            }
            Ok(bytes as u32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_of_foreign_notes_is_checked_as_one_of_a_file_is() {
        let machine = Machine::builtin("xeon-2003").expect("built in");
        let mut notes = serde_json::to_value(&machine).expect("JSON");
        assert_eq!(Machine::from_json("notes", &notes).expect("unchanged"), machine);
        notes["l2"]["ways"] = 0.into();
        let error = Machine::from_json("notes", &notes).expect_err("no cache has no ways").to_string();
        assert_eq!(error, "notes: [l2] ways must be 1 to 32");
        assert!(Machine::from_json("notes", &7.into()).is_err());
    }

    #[test]
    fn every_builtin_machine_parses_under_its_own_name() {
        for name in Machine::builtin_names() {
            assert_eq!(Machine::builtin(name).expect("built in").name, name);
        }
    }

    #[test]
    fn the_papers_machine_repeats_every_2_kb_and_64_kb() {
        let machine = Machine::builtin("xeon-2003").expect("built in");
        assert_eq!(machine.l1d.stride(), 2048);
        assert_eq!(machine.l1d.sets(), 32); // address bits 10..6
        assert_eq!(machine.l2.expect("has an L2").stride(), 65536);
        assert!(machine.l3.is_none());
    }

    #[test]
    fn every_builtin_machine_hides_latency_and_says_by_which_numbers() {
        for name in Machine::builtin_names() {
            let core =
                Machine::builtin(name).expect("built in").core.unwrap_or_else(|| panic!("{name}: [core]"));
            assert!(core.reorder_window >= core.fill_buffers, "{name}");
            assert!(!core.source.is_empty(), "{name}");
        }
        let core = Machine::builtin("sapphire-rapids").and_then(|machine| machine.core).expect("[core]");
        assert_eq!((core.reorder_window, core.fill_buffers, core.prefetchers()), (512, 16, 0b1111));
    }

    /// A line that another core modified comes through the shared level, and costs no more than one from memory.
    #[test]
    fn every_builtin_machine_estimates_its_transfers_between_its_own_latencies() {
        for name in Machine::builtin_names() {
            let machine = Machine::builtin(name).expect("built in");
            let transfer = machine.transfer_latency.unwrap_or_else(|| panic!("{name}: transfer_latency"));
            assert_eq!(machine.transfer_method, Some(LatencyMethod::Estimated), "{name}");
            let l2 = machine.l2.expect("has an L2").latency;
            let least = machine.l3.map_or(machine.memory_latency, |l3| l3.latency);
            assert!((least..=machine.memory_latency + l2).contains(&transfer), "{name}: {transfer}");
        }
    }

    #[test]
    fn a_core_that_cannot_be_simulated_is_refused_and_none_is_allowed() {
        let text = include_str!("../machines/sapphire-rapids.toml");
        let refused = Machine::parse("test", &text.replace("fill_buffers = 16", "fill_buffers = 65"));
        assert_eq!(refused.expect_err("too many").to_string(), "test: [core] fill_buffers must be 1 to 64");
        let (plain, _) = text.split_once("[core]").expect("a core");
        assert_eq!(Machine::parse("test", plain).expect("as before there were cores").core, None);
    }

    #[test]
    fn impossible_geometry_is_refused_by_name() {
        let text = include_str!("../machines/xeon-2003.toml").replace("size = \"8 KiB\"", "size = \"7 KiB\"");
        let error = Machine::parse("test", &text).expect_err("7 KiB in 4 ways are 28 sets");
        assert!(error.to_string().contains("[l1d]"), "{error}");
        assert!(matches!(Machine::parse("test", "name = 3"), Err(MachineError::Syntax { .. })));
    }
}
