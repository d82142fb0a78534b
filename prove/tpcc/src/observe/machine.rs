//! The machine that this program runs on.

use std::fs;

/// A description of a machine, as needed in a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The processor's model, and how many CPUs.
    pub processor: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel and its version.
    pub kernel: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Machine {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let name = rustix::system::uname();
        Machine {
            processor: processor(&read("/proc/cpuinfo")),
            memory_bytes: memory(&read("/proc/meminfo")),
            kernel: format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy()),
        }
    }
}

/// The model and the number of CPUs from `/proc/cpuinfo`, which has no model on ARM.
fn processor(cpuinfo: &str) -> String {
    let values = |name: &'static str| {
        cpuinfo.lines().filter_map(move |line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    let count = values("processor").count();
    let model = values("model name").next().unwrap_or("unknown");
    format!("{model}, {count} CPUs")
}

/// MemTotal of `/proc/meminfo`, in bytes.
fn memory(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_prints_is_read() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\n\nprocessor\t: 1\nmodel name\t: Some CPU @ 2.00GHz\n";
        assert_eq!(processor(cpuinfo), "Some CPU @ 2.00GHz, 2 CPUs");
        assert_eq!(processor(""), "unknown, 0 CPUs");
        assert_eq!(memory("MemTotal:       24689352 kB\nMemFree: 1 kB\n"), 24_689_352 * 1024);
        assert!(Machine::here().kernel.starts_with("Linux "));
    }
}
