//! The description of the machine in a capture's header.

use hardmeter_samples::machine::Machine;
use hardmeter_samples::model::ByteCount;
use hardmeter_samples::perf_data::{CaptureHeader, MemoryNode};
use std::fs;
use std::path::Path;

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
        memory_nodes: memory_nodes(Path::new("/sys/devices/system/node")),
        memory_block: line("/sys/devices/system/memory/block_size_bytes")
            .and_then(|size| u64::from_str_radix(&size, 16).ok())
            .map(ByteCount),
        command_line: command_line.to_vec(),
        ..CaptureHeader::default()
    }
}

/// Adapts the description to the simulated machine: its processors, all on one memory node.
pub fn simulated(header: CaptureHeader, machine: &Machine) -> CaptureHeader {
    let total = header.total_memory.unwrap_or_default();
    let cpus = match machine.cores {
        0 | 1 => "0".to_string(),
        cores => format!("0-{}", cores - 1),
    };
    CaptureHeader {
        cpus_online: Some(machine.cores),
        cpus_available: Some(machine.cores),
        memory_nodes: vec![MemoryNode { number: 0, total, free: total, cpus, blocks: (0..16).collect() }],
        memory_block: Some(ByteCount(1 << 30)), // there are 2^22 frames
        ..header
    }
}

/// The kernel's memory nodes, lowest number first; empty if it has none.
fn memory_nodes(folder: &Path) -> Vec<MemoryNode> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut nodes: Vec<MemoryNode> = entries
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
            let memory = read("meminfo")?;
            let inside = fs::read_dir(entry.path()).into_iter().flatten().flatten();
            let block =
                |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("memory")?.parse().ok();
            let mut blocks: Vec<u64> = inside.filter_map(block).collect();
            blocks.sort_unstable();
            // "Node 0 MemTotal:       24576000 kB"
            let amount = |name: &str| {
                let line = memory.lines().find_map(|line| line.split_once(name))?.1;
                line.trim()
                    .strip_suffix(" kB")?
                    .trim()
                    .parse()
                    .ok()
                    .map(|kilobytes: u64| ByteCount(kilobytes * 1024))
            };
            Some(MemoryNode {
                number,
                total: amount("MemTotal:")?,
                free: amount("MemFree:")?,
                cpus: read("cpulist")?.trim().to_string(),
                blocks,
            })
        })
        .collect();
    nodes.sort_by_key(|node| node.number);
    nodes
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
    fn nodes_are_read_as_a_kernel_writes_them() {
        let folder = tempfile::tempdir().expect("a folder");
        for (number, cpus) in [(10, "2-3"), (2, "0-1")] {
            let node = folder.path().join(format!("node{number}"));
            fs::create_dir(&node).expect("a folder");
            let memory = format!("Node {number} MemTotal:    64 kB\nNode {number} MemFree:    32 kB\n");
            fs::write(node.join("meminfo"), memory).expect("written");
            fs::write(node.join("cpulist"), format!("{cpus}\n")).expect("written");
            fs::create_dir(node.join("memory37")).expect("a folder");
            fs::create_dir(node.join("memory4")).expect("a folder");
        }
        fs::write(folder.path().join("online"), "2,10\n").expect("written");
        let node = |number, cpus: &str| MemoryNode {
            number,
            total: ByteCount(65_536),
            free: ByteCount(32_768),
            cpus: cpus.to_string(),
            blocks: vec![4, 37],
        };
        assert_eq!(memory_nodes(folder.path()), [node(2, "0-1"), node(10, "2-3")]);
        assert_eq!(memory_nodes(Path::new("/nowhere")), []);
    }

    #[test]
    fn this_machine_has_a_name_and_processors() {
        let header = header(&["hardmeter".into(), "record".into()]);
        assert!(header.hostname.is_some() && header.os_release.is_some());
        assert!(header.cpus_online.is_some_and(|count| count > 0));
    }
}
