//! A model of the running machine: caches from sysfs, TLBs from CPUID.

use super::SoftPmuError;
use hardmeter_samples::machine::{CacheGeometry, CoreModel, Machine, TlbGeometry, LINE_SIZE};
use std::path::Path;

/// Describes the running machine. Values that the kernel does not report (latencies, often the TLBs of a virtual
/// machine) are assumed; the model's notes state each assumption.
///
/// # Errors
///
/// [`SoftPmuError`] if the kernel does not describe the caches.
pub fn this_machine() -> Result<Machine, SoftPmuError> {
    let levels = read_caches(Path::new("/sys/devices/system/cpu/cpu0/cache"))?;
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get().min(64)) as u32;
    let clock_mhz = clock_from_cpuinfo(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
    let (title, tlbs) = processor();
    let mut notes =
        vec!["latencies are assumed: L1 4, L2 14, L3 46, memory 300, page walk 30 cycles".to_string()];
    let core = CoreModel::assumed();
    notes.push(format!(
        "how much of a miss the core hides is assumed: a window of {} instructions, {} fill buffers, four prefetchers",
        core.reorder_window, core.fill_buffers
    ));
    let tlbs = tlbs.unwrap_or_else(|| {
        notes.push(
            "TLBs are assumed, because CPUID does not report them: 64, 64 and 1536 entries".to_string(),
        );
        [(64, 8), (64, 4), (1536, 12)].map(|(entries, ways)| TlbGeometry { entries, ways, latency: 0 })
    });
    let [itlb, dtlb, stlb] = tlbs;
    Ok(Machine {
        name: "this".to_string(),
        title,
        source: "sysfs (/sys/devices/system/cpu/cpu0/cache) and CPUID of this machine".to_string(),
        cores,
        clock_mhz,
        base_cpi: 0.5,
        memory_latency: 300,
        page_walk_latency: 30,
        transfer_latency: None,
        transfer_method: None,
        tlb_flush_on_switch: false,
        notes,
        l1i: levels.l1i,
        l1d: levels.l1d,
        l2: levels.l2,
        l3: levels.l3,
        itlb: Some(itlb),
        dtlb: Some(dtlb),
        stlb: Some(TlbGeometry { latency: 7, ..stlb }),
        core: Some(Box::new(core)),
    })
}

struct Levels {
    l1i: CacheGeometry,
    l1d: CacheGeometry,
    l2: Option<CacheGeometry>,
    l3: Option<CacheGeometry>,
}

/// Reads `index*/{level,type,size,ways_of_associativity,coherency_line_size}` below `folder`.
fn read_caches(folder: &Path) -> Result<Levels, SoftPmuError> {
    let mut found: [Option<CacheGeometry>; 4] = [None; 4];
    for index in 0..8 {
        let folder = folder.join(format!("index{index}"));
        let read =
            |name: &str| std::fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_string());
        let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size")) else {
            continue;
        };
        let slot = match (level.as_str(), kind.as_str()) {
            ("1", "Instruction") => 0,
            ("1", "Data" | "Unified") => 1,
            ("2", _) => 2,
            ("3", _) => 3,
            _ => continue,
        };
        let line = read("coherency_line_size").and_then(|text| text.parse::<u32>().ok());
        if line.is_some_and(|line| line != LINE_SIZE) {
            return Err(SoftPmuError::ThisMachine(format!(
                "its lines are {} bytes long, and only 64 can be simulated",
                line.unwrap_or_default()
            )));
        }
        let Some(size) = parse_size(&size) else { continue };
        // A virtual machine may hide the associativity; 8 ways are then assumed, 16 for the last level.
        let ways = read("ways_of_associativity")
            .and_then(|text| text.parse().ok())
            .filter(|ways| (1..=32).contains(ways) && size % (LINE_SIZE * ways) == 0)
            .unwrap_or(if slot == 3 { 16 } else { 8 });
        found[slot] = Some(CacheGeometry { size, ways, latency: [4, 4, 14, 46][slot] });
    }
    let missing = |what: &str| SoftPmuError::ThisMachine(format!("{} has no {what}", folder.display()));
    let l1d = found[1].ok_or_else(|| missing("first-level data cache"))?;
    Ok(Levels { l1i: found[0].unwrap_or(l1d), l1d, l2: found[2], l3: found[3] })
}

/// `32K`, `1024K`, `32M`.
fn parse_size(text: &str) -> Option<u32> {
    let (number, factor) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    number.parse::<u32>().ok()?.checked_mul(factor)
}

/// The clock rate that the kernel measured at boot; 2 GHz if unknown.
fn clock_from_cpuinfo(cpuinfo: &str) -> u32 {
    cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("cpu MHz")?.split_once(':')?.1.trim().parse::<f64>().ok())
        .map_or(2000, |mhz| mhz.round().max(1.0) as u32)
}

/// The processor's name, and its instruction, data and second-level TLB for 4 KiB pages.
#[cfg(target_arch = "x86_64")]
fn processor() -> (String, Option<[TlbGeometry; 3]>) {
    use raw_cpuid::{Associativity, CpuId};
    let cpuid = CpuId::new();
    let title = cpuid
        .get_processor_brand_string()
        .map_or_else(|| "unknown processor".to_string(), |brand| brand.as_str().trim().to_string());
    let tlb = |entries: u32, associativity: Associativity| {
        let ways = match associativity {
            Associativity::FullyAssociative => entries,
            Associativity::DirectMapped => 1,
            Associativity::NWay(ways) => u32::from(ways),
            Associativity::Disabled | Associativity::Unknown => 0,
        };
        (entries > 0 && ways > 0).then(|| TlbGeometry {
            entries,
            // Some processors report entries that are not a multiple of the ways.
            ways: if entries.is_multiple_of(ways) { ways } else { entries },
            latency: 0,
        })
    };
    // AMD: leaves 8000_0005h and 8000_0006h.
    let amd = || {
        let first = cpuid.get_l1_cache_and_tlb_info()?;
        let second = cpuid.get_l2_l3_cache_and_tlb_info()?;
        Some([
            tlb(first.itlb_4k_size().into(), first.itlb_4k_associativity())?,
            tlb(first.dtlb_4k_size().into(), first.dtlb_4k_associativity())?,
            tlb(second.dtlb_4k_size().into(), second.dtlb_4k_associativity())?,
        ])
    };
    // Intel: leaf 18h.
    let intel = || {
        let mut found: [Option<TlbGeometry>; 3] = [None; 3];
        for entry in cpuid.get_deterministic_address_translation_info()? {
            use raw_cpuid::DatType;
            let slot = match (entry.cache_type(), entry.cache_level()) {
                (DatType::InstructionTLB, _) => 0,
                (DatType::DataTLB | DatType::LoadOnly, 1) => 1,
                (DatType::UnifiedTLB, _) => 2,
                _ => continue,
            };
            let (ways, sets) = (u32::from(entry.ways()), entry.sets());
            if entry.has_4k_entries() && ways > 0 && found[slot].is_none() {
                let ways = if entry.is_fully_associative() { ways * sets } else { ways };
                found[slot] = Some(TlbGeometry { entries: u32::from(entry.ways()) * sets, ways, latency: 0 });
            }
        }
        Some([found[0]?, found[1]?, found[2]?])
    };
    (title, amd().or_else(intel))
}

#[cfg(not(target_arch = "x86_64"))]
fn processor() -> (String, Option<[TlbGeometry; 3]>) {
    (format!("unknown {} processor", std::env::consts::ARCH), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysfs_is_read_as_a_kernel_writes_it() {
        let folder = tempfile::tempdir().expect("temporary folder");
        for (index, level, kind, size, ways) in [
            (0, "1", "Data", "48K", "12"),
            (1, "1", "Instruction", "32K", "8"),
            (2, "2", "Unified", "2048K", "16"),
        ] {
            let cache = folder.path().join(format!("index{index}"));
            std::fs::create_dir(&cache).expect("folder");
            for (name, text) in [
                ("level", level),
                ("type", kind),
                ("size", size),
                ("ways_of_associativity", ways),
                ("coherency_line_size", "64"),
            ] {
                std::fs::write(cache.join(name), format!("{text}\n")).expect("file");
            }
        }
        let levels = read_caches(folder.path()).expect("three caches");
        assert_eq!((levels.l1d.size, levels.l1d.ways, levels.l1d.sets()), (48 << 10, 12, 64));
        assert_eq!((levels.l1i.size, levels.l1i.ways), (32 << 10, 8));
        assert_eq!(levels.l2.map(|cache| cache.size), Some(2 << 20));
        assert!(levels.l3.is_none());
        assert!(matches!(read_caches(Path::new("/nowhere")), Err(SoftPmuError::ThisMachine(_))));
    }

    #[test]
    fn the_clock_is_read_from_cpuinfo() {
        assert_eq!(clock_from_cpuinfo("processor\t: 0\ncpu MHz\t\t: 2595.123\n"), 2595);
        assert_eq!(clock_from_cpuinfo(""), 2000);
    }
}
