//! The kernel's descriptions of its PMUs: `/sys/bus/event_source/devices`.
//!
//! A device has a type number, *formats* that map a named term to bits of `config`, `config1` or `config2`, and
//! ready-made *aliases* such as `mem-loads`. Parsing takes strings, so that it can be tested without the hardware.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder with the kernel's PMUs.
pub const DEVICES: &str = "/sys/bus/event_source/devices";

/// One PMU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// Its name, for example `cpu`, `ibs_op`, `arm_spe_0`.
    pub name: String,
    /// `perf_event_attr.type`.
    pub event_type: u32,
    /// Terms and the bits they fill.
    pub formats: BTreeMap<String, Format>,
    /// Predefined events, as lists of terms.
    pub aliases: BTreeMap<String, String>,
    /// The CPUs to open it on, where it is not every one.
    pub cpus: Option<Vec<u32>>,
}

/// Bits of one configuration word, lowest first: `config:0-7,32-35`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// 0 for `config`, 1 for `config1`, 2 for `config2`.
    pub word: usize,
    /// Inclusive bit ranges.
    pub ranges: Vec<(u32, u32)>,
}

impl Format {
    /// Parses a format file.
    pub fn parse(text: &str) -> Option<Format> {
        let (word, bits) = text.trim().split_once(':')?;
        let word = match word {
            "config" => 0,
            "config1" => 1,
            "config2" => 2,
            _ => return None,
        };
        let ranges = bits
            .split(',')
            .map(|range| {
                let (low, high) = range.split_once('-').unwrap_or((range, range));
                let (low, high) = (low.parse().ok()?, high.parse().ok()?);
                (low <= high && high < 64).then_some((low, high))
            })
            .collect::<Option<Vec<(u32, u32)>>>()?;
        Some(Format { word, ranges })
    }

    /// Distributes a value over the bits; `None` if it has more bits than the format.
    pub fn place(&self, value: u64) -> Option<u64> {
        let mut rest = u128::from(value);
        let mut word = 0u64;
        for (low, high) in &self.ranges {
            let width = high - low + 1;
            let part = (rest & ((1u128 << width) - 1)) as u64;
            word |= part << low;
            rest >>= width;
        }
        (rest == 0).then_some(word)
    }
}

/// The reason why a list of terms is not an event of a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TermError {
    /// The device has no term of this name.
    #[error("PMU {device} has no term {term:?}; it has {known}")]
    Unknown {
        /// The device.
        device: String,
        /// The rejected term.
        term: String,
        /// The device's terms.
        known: String,
    },
    /// The value is not a number or too large.
    #[error("PMU {device}: {value:?} does not fit the term {term:?}")]
    Value {
        /// The device.
        device: String,
        /// The term.
        term: String,
        /// The rejected value.
        value: String,
    },
}

/// A number as in users' input and sysfs: decimal, or hexadecimal after `0x`.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Device {
    /// The three configuration words of terms such as `event=0xd1,umask=0x8` or `mem-loads,ldlat=30`.
    ///
    /// # Errors
    ///
    /// [`TermError`] if a term is not in the device's format, or its value does not fit.
    pub fn encode(&self, terms: &str) -> Result<[u64; 3], TermError> {
        let mut words = [0u64; 3];
        for term in terms.split(',').map(str::trim).filter(|term| !term.is_empty()) {
            self.encode_term(term, &mut words)?;
        }
        Ok(words)
    }

    fn encode_term(&self, term: &str, words: &mut [u64; 3]) -> Result<(), TermError> {
        let (name, value) = match term.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (term, None),
        };
        // Aliases are written by the kernel and do not nest.
        if let (Some(alias), None) = (self.aliases.get(name), value) {
            for inner in alias.split(',').filter(|inner| !self.aliases.contains_key(*inner)) {
                self.encode_term(inner.trim(), words)?;
            }
            return Ok(());
        }
        let invalid = || TermError::Value {
            device: self.name.clone(),
            term: name.to_string(),
            value: value.unwrap_or("").to_string(),
        };
        let value_number = match value {
            // A question mark is a value that the user has to give (uncore devices).
            Some(text) => number(text).ok_or_else(invalid)?,
            None => 1,
        };
        // The words themselves may be set, as in perf.
        if let Some(index) = ["config", "config1", "config2"].iter().position(|word| *word == name) {
            words[index] = value_number;
            return Ok(());
        }
        let Some(format) = self.formats.get(name) else {
            let known: Vec<&str> =
                self.formats.keys().chain(self.aliases.keys()).map(String::as_str).collect();
            return Err(TermError::Unknown {
                device: self.name.clone(),
                term: name.to_string(),
                known: known.join(", "),
            });
        };
        // A later term replaces an earlier one: `mem-loads,ldlat=100` sets 100.
        let mask = format
            .ranges
            .iter()
            .fold(0u64, |mask, (low, high)| mask | (u64::MAX >> (63 - (high - low))) << low);
        let bits = format.place(value_number).ok_or_else(invalid)?;
        words[format.word] = words[format.word] & !mask | bits;
        Ok(())
    }

    fn load(path: &Path) -> Option<Device> {
        let text = |name: &str| std::fs::read_to_string(path.join(name)).ok();
        let mut device = Device {
            name: path.file_name()?.to_string_lossy().into_owned(),
            event_type: text("type")?.trim().parse().ok()?,
            // `cpumask` names one CPU per package of an uncore device, `cpus` the cores of a hybrid one.
            cpus: text("cpus").or_else(|| text("cpumask")).and_then(|list| cpu_list(&list)),
            ..Device::default()
        };
        for (name, contents) in small_files(&path.join("format")) {
            if let Some(format) = Format::parse(&contents) {
                device.formats.insert(name, format);
            }
        }
        for (name, contents) in small_files(&path.join("events")) {
            if !name.contains('.') {
                device.aliases.insert(name, contents.trim().to_string()); // `NAME.unit`, `NAME.scale` are no events
            }
        }
        Some(device)
    }
}

fn small_files(folder: &Path) -> Vec<(String, String)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let contents = std::fs::read_to_string(entry.path()).ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), contents))
        })
        .collect()
}

/// All PMUs of this machine, by name; empty if sysfs is not mounted.
pub fn devices() -> BTreeMap<String, Device> {
    let Ok(entries) = std::fs::read_dir(DEVICES) else { return BTreeMap::new() };
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.iter().filter_map(|path| Device::load(path)).map(|device| (device.name.clone(), device)).collect()
}

/// Whether a PMU of this name counts or samples what a core does.
pub fn is_core_pmu(name: &str) -> bool {
    name == "cpu" || ["cpu_", "armv", "ibs_", "arm_spe"].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether this machine has a core PMU.
pub fn has_core_pmu() -> bool {
    let entries = std::fs::read_dir(DEVICES).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| is_core_pmu(&entry.file_name().to_string_lossy()))
}

/// Parses a CPU list such as `0-3,8`.
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        // 8192 is NR_CPUS of the largest distribution kernels.
        if high < low || high >= 8192 {
            return None;
        }
        cpus.extend(low..=high);
    }
    Some(cpus)
}

/// The CPUs that are running now.
pub fn online_cpus() -> Vec<u32> {
    std::fs::read_to_string("/sys/devices/system/cpu/online")
        .ok()
        .and_then(|list| cpu_list(&list))
        .filter(|cpus| !cpus.is_empty())
        .unwrap_or_else(|| {
            let count = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
            (0..count).collect()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The core PMU of a Skylake server, from its sysfs.
    fn skylake() -> Device {
        let formats = [
            ("event", "config:0-7"),
            ("umask", "config:8-15"),
            ("edge", "config:18"),
            ("inv", "config:23"),
            ("cmask", "config:24-31"),
            ("ldlat", "config1:0-15"),
            ("frontend", "config1:0-23"),
            ("offcore_rsp", "config1:0-63"),
        ];
        Device {
            name: "cpu".into(),
            event_type: 4,
            formats: formats
                .iter()
                .map(|(name, format)| (name.to_string(), Format::parse(format).expect("a format")))
                .collect(),
            aliases: BTreeMap::from([("mem-loads".into(), "event=0xcd,umask=0x1,ldlat=3".into())]),
            cpus: None,
        }
    }

    #[test]
    fn terms_fill_the_bits_their_format_names() {
        let cpu = skylake();
        assert_eq!(cpu.encode("event=0xd1,umask=0x8"), Ok([0x8d1, 0, 0]));
        assert_eq!(cpu.encode("mem-loads"), Ok([0x1cd, 3, 0]));
        assert_eq!(cpu.encode("mem-loads,ldlat=100"), Ok([0x1cd, 100, 0]));
        assert_eq!(cpu.encode("event=0xc6,umask=1,frontend=0x12"), Ok([0x1c6, 0x12, 0]));
        assert_eq!(cpu.encode("event=1,edge,offcore_rsp=0xffffffffffffffff"), Ok([0x40001, u64::MAX, 0]));
        assert_eq!(cpu.encode("config=0x1234"), Ok([0x1234, 0, 0]));
    }

    #[test]
    fn a_wrong_term_or_value_is_named() {
        let cpu = skylake();
        assert!(matches!(cpu.encode("evnt=1"), Err(TermError::Unknown { term, .. }) if term == "evnt"));
        assert!(matches!(cpu.encode("umask=0x100"), Err(TermError::Value { term, .. }) if term == "umask"));
        assert!(matches!(cpu.encode("umask=?"), Err(TermError::Value { value, .. }) if value == "?"));
    }

    #[test]
    fn a_format_in_two_pieces_is_filled_from_its_low_end() {
        // AMD: the event select is split.
        let format = Format::parse("config:0-7,32-35\n").expect("a format");
        assert_eq!(format.place(0x1_87), Some(0x1_0000_0087));
        assert_eq!(format.place(0x1000), None);
        assert_eq!(Format::parse("config:7-0"), None);
        assert_eq!(Format::parse("config9:0-7"), None);
    }

    #[test]
    fn cpu_lists_are_ranges_and_singles() {
        assert_eq!(cpu_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(cpu_list(""), Some(vec![]));
        assert_eq!(cpu_list("3-1"), None);
        assert_eq!(cpu_list("0-4294967295"), None);
    }
}
