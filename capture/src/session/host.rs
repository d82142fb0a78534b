//! What the head of a capture says about the machine.

use hardmeter_samples::model::ByteCount;
use hardmeter_samples::perf_data::CaptureHeader;
use std::fs;

/// Describes this machine and this recording.
pub fn header(command_line: &[String]) -> CaptureHeader {
    let line = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_string());
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_string())
        })
    };
    let cpu_list = |path: &str| line(path).and_then(|list| crate::pmu::sysfs::cpu_list(&list));
    let cpu_id = match (field("vendor_id"), field("cpu family"), field("model"), field("stepping")) {
        (Some(vendor), Some(family), Some(model), Some(stepping)) => {
            Some(format!("{vendor},{family},{model},{stepping}"))
        }
        _ => None,
    };
    CaptureHeader {
        hostname: line("/proc/sys/kernel/hostname"),
        os_release: line("/proc/sys/kernel/osrelease"),
        recorder_version: Some(format!("hardmeter {}", env!("CARGO_PKG_VERSION"))),
        architecture: Some(std::env::consts::ARCH.to_string()),
        cpus_online: cpu_list("/sys/devices/system/cpu/online").map(|cpus| cpus.len() as u32),
        cpus_available: cpu_list("/sys/devices/system/cpu/possible").map(|cpus| cpus.len() as u32),
        cpu_description: field("model name"),
        cpu_id,
        total_memory: total_memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        command_line: command_line.to_vec(),
        ..CaptureHeader::default()
    }
}

fn total_memory(meminfo: &str) -> Option<ByteCount> {
    let kilobytes: u64 = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.trim().parse().ok())?;
    Some(ByteCount(kilobytes * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(total_memory("MemTotal:        8000 kB\nMemFree: 1 kB\n"), Some(ByteCount(8_192_000)));
        assert_eq!(total_memory(""), None);
    }

    #[test]
    fn this_machine_has_a_name_and_processors() {
        let header = header(&["hardmeter".into(), "record".into()]);
        assert!(header.hostname.is_some() && header.os_release.is_some());
        assert!(header.cpus_online.is_some_and(|count| count > 0));
    }
}
