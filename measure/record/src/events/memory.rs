//! Each processor's own events for the memory events.
//!
//! | question | Intel | AMD | Arm |
//! |---|---|---|---|
//! | which accesses missed a level | retired loads by level (PEBS: exact instruction, data address) | IBS op, kept by its data source | SPE |
//! | which code misses | FRONTEND_RETIRED (Skylake on) | generic L1I and ITLB events | generic |
//! | who waits for another core | retired loads that hit a modified line of another core (HITM) | none | none |
//!
//! No processor reports stores that invalidate lines, so `invalidation` has no event here.
//!
//! Codes are `umask << 8 | event` of the manufacturers' event lists; a test compares them with libpfm4's tables.
//! Each event has several candidates, best first; the last resort is the kernel's generic cache event, which has
//! the instruction of a miss but not its address.

use super::processor::Microarchitecture;
use super::EventRequest;
use crate::pmu::encoding::{device_encoding, event_type, hw_cache, Encoding};
use crate::pmu::filter::SampleFilter;
use crate::pmu::open::OpenError;
use crate::pmu::sysfs::Device;
use hardmeter_samples::model::MemoryEvent;
use std::collections::BTreeMap;

/// One way to measure a memory event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The processor's name for it.
    pub name: &'static str,
    /// Its encoding.
    pub encoding: Encoding,
    /// Accesses missing in its samples; empty if they are exactly what the event's name says.
    pub caveat: &'static str,
    /// Whether its counter counts the event (not so where a filter chooses among samples).
    pub counts: bool,
}

/// One row of a processor's table.
struct Row {
    event: MemoryEvent,
    name: &'static str,
    /// `umask << 8 | event`.
    code: u64,
    /// `config1`: the frontend filter of FRONTEND_RETIRED.
    config1: u64,
    kind: Kind,
    caveat: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Sampled precisely, with a data address.
    Memory,
    /// Sampled precisely, no data address.
    Precise,
    /// An ordinary counter.
    Plain,
}

const fn row(event: MemoryEvent, name: &'static str, code: u64, kind: Kind, caveat: &'static str) -> Row {
    Row { event, name, code, config1: 0, kind, caveat }
}

const fn frontend(event: MemoryEvent, name: &'static str, config1: u64) -> Row {
    Row { event, name, code: 0x1c6, config1, kind: Kind::Precise, caveat: "" }
}

const LOADS_ONLY: &str = "loads only";
/// HITM: another core had the line modified.
const MODIFIED_NEARBY: &str = "loads only, of lines that another core of this package had modified";

/// Retired loads and stores: PEBS, with a data address.
const fn retired(event: MemoryEvent, name: &'static str, code: u64) -> Row {
    let caveat = match event {
        MemoryEvent::Loads | MemoryEvent::Stores => "",
        _ => LOADS_ONLY,
    };
    row(event, name, code, Kind::Memory, caveat)
}

const fn snooped(name: &'static str) -> Row {
    row(MemoryEvent::CoherenceMiss, name, 0x4d2, Kind::Memory, MODIFIED_NEARBY)
}

const fn dtlb(code: u64) -> Row {
    row(
        MemoryEvent::DtlbMiss,
        "DTLB_LOAD_MISSES:STLB_HIT",
        code,
        Kind::Plain,
        "loads that the second level had",
    )
}

const fn itlb(code: u64) -> Row {
    row(MemoryEvent::ItlbMiss, "ITLB_MISSES:STLB_HIT", code, Kind::Plain, "only what the second level had")
}

const MISPREDICTED: Row =
    row(MemoryEvent::BranchesMispredicted, "BR_MISP_RETIRED:ALL_BRANCHES", 0xc5, Kind::Precise, "");

/// Retired loads and stores from Skylake on.
const INSTRUCTIONS_RETIRED: &[Row] = &[
    retired(MemoryEvent::L1dMiss, "MEM_LOAD_RETIRED:L1_MISS", 0x8d1),
    retired(MemoryEvent::L2Miss, "MEM_LOAD_RETIRED:L2_MISS", 0x10d1),
    retired(MemoryEvent::L3Miss, "MEM_LOAD_RETIRED:L3_MISS", 0x20d1),
    retired(MemoryEvent::StlbMiss, "MEM_INST_RETIRED:STLB_MISS_LOADS", 0x11d0),
    retired(MemoryEvent::Loads, "MEM_INST_RETIRED:ALL_LOADS", 0x81d0),
    retired(MemoryEvent::Stores, "MEM_INST_RETIRED:ALL_STORES", 0x82d0),
    frontend(MemoryEvent::L1iMiss, "FRONTEND_RETIRED:L1I_MISS", 0x12),
    frontend(MemoryEvent::ItlbMiss, "FRONTEND_RETIRED:ITLB_MISS", 0x14),
    MISPREDICTED,
];

/// Retired loads and stores before Skylake.
const UOPS_RETIRED: &[Row] = &[
    retired(MemoryEvent::L1dMiss, "MEM_LOAD_UOPS_RETIRED:L1_MISS", 0x8d1),
    retired(MemoryEvent::L2Miss, "MEM_LOAD_UOPS_RETIRED:L2_MISS", 0x10d1),
    retired(MemoryEvent::L3Miss, "MEM_LOAD_UOPS_RETIRED:L3_MISS", 0x20d1),
    retired(MemoryEvent::StlbMiss, "MEM_UOPS_RETIRED:STLB_MISS_LOADS", 0x11d0),
    retired(MemoryEvent::Loads, "MEM_UOPS_RETIRED:ALL_LOADS", 0x81d0),
    retired(MemoryEvent::Stores, "MEM_UOPS_RETIRED:ALL_STORES", 0x82d0),
    row(MemoryEvent::L1iMiss, "ICACHE:MISSES", 0x280, Kind::Plain, ""),
    MISPREDICTED,
];

/// Alder Lake's big cores, Sapphire Rapids and later.
const GOLDEN_COVE: &[Row] = &[snooped("MEM_LOAD_L3_HIT_RETIRED:XSNP_FWD"), dtlb(0x2012), itlb(0x2011)];

/// Skylake to Tiger Lake; Skylake, Cascade Lake and Ice Lake servers.
const SKYLAKE: &[Row] = &[snooped("MEM_LOAD_L3_HIT_RETIRED:XSNP_HITM"), dtlb(0x2008)];

/// Haswell and Broadwell.
const HASWELL: &[Row] = &[snooped("MEM_LOAD_UOPS_L3_HIT_RETIRED:XSNP_HITM"), dtlb(0x6008), itlb(0x6085)];

/// Ivy Bridge.
const IVY_BRIDGE: &[Row] = &[snooped("MEM_LOAD_UOPS_LLC_HIT_RETIRED:XSNP_HITM"), dtlb(0x45f), itlb(0x1085)];

/// AMD Zen 1 to 5, core counters: for counting, and for machines without IBS.
const ZEN: &[Row] = &[
    row(
        MemoryEvent::L2Miss,
        "CORE_TO_L2_CACHEABLE_REQUEST_ACCESS_STATUS:LS_RD_BLK_C",
        0x864,
        Kind::Plain,
        "data side only; the sampled instruction is a few behind",
    ),
    row(
        MemoryEvent::Loads,
        "LS_DISPATCH:LD_DISPATCH",
        0x129,
        Kind::Plain,
        "dispatched, not retired; the sampled instruction is a few behind",
    ),
    row(
        MemoryEvent::Stores,
        "LS_DISPATCH:STORE_DISPATCH",
        0x229,
        Kind::Plain,
        "dispatched, not retired; the sampled instruction is a few behind",
    ),
];

/// The rows of a processor: those of its family, and its own.
fn table(architecture: Microarchitecture) -> impl Iterator<Item = &'static Row> {
    let (family, own): (&[Row], &[Row]) = match architecture {
        Microarchitecture::GoldenCove => (INSTRUCTIONS_RETIRED, GOLDEN_COVE),
        Microarchitecture::Skylake => (INSTRUCTIONS_RETIRED, SKYLAKE),
        Microarchitecture::Haswell => (UOPS_RETIRED, HASWELL),
        Microarchitecture::IvyBridge => (UOPS_RETIRED, IVY_BRIDGE),
        Microarchitecture::Zen | Microarchitecture::Zen3 => (&[], ZEN),
        Microarchitecture::Arm | Microarchitecture::Other => (&[], &[]),
    };
    family.iter().chain(own)
}

/// The encodings of an event on a processor with these PMUs, best first.
pub fn candidates(
    event: MemoryEvent,
    architecture: Microarchitecture,
    devices: &BTreeMap<String, Device>,
) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    found.extend(by_ibs(event, devices));
    found.extend(by_spe(event, devices));
    // The performance cores of a hybrid processor have a PMU of their own; the efficiency cores have other codes
    // and are left out.
    let core = devices.get("cpu_core").or_else(|| devices.get("cpu"));
    // Best first: with an address, then with an exact instruction, then a count.
    let mut rows: Vec<&Row> = table(architecture).filter(|row| row.event == event).collect();
    rows.sort_by_key(|row| match row.kind {
        Kind::Memory => 0,
        Kind::Precise => 1,
        Kind::Plain => 2,
    });
    found.extend(rows.into_iter().map(|row| Candidate {
        name: row.name,
        encoding: Encoding {
            event_type: core.map_or(event_type::RAW, |device| device.event_type),
            config: row.code,
            config1: row.config1,
            data_address: row.kind == Kind::Memory,
            precise: if row.kind == Kind::Plain { 0 } else { 3 },
            cpus: core.and_then(|device| device.cpus.clone()),
            ..Encoding::default()
        },
        caveat: row.caveat,
        counts: true,
    }));
    found.extend(generic(event));
    found
}

/// AMD's instruction-based sampling: every n-th operation is sampled, and a filter keeps the requested ones.
fn by_ibs(event: MemoryEvent, devices: &BTreeMap<String, Device>) -> Option<Candidate> {
    let device = devices.get("ibs_op")?;
    let filter = match event {
        MemoryEvent::L1dMiss => SampleFilter::MissedL1,
        MemoryEvent::L2Miss => SampleFilter::MissedL2,
        MemoryEvent::L3Miss => SampleFilter::MissedL3,
        MemoryEvent::DtlbMiss => SampleFilter::MissedL1Tlb,
        MemoryEvent::StlbMiss => SampleFilter::PageWalk,
        MemoryEvent::Loads => SampleFilter::Loads,
        MemoryEvent::Stores => SampleFilter::Stores,
        _ => return None,
    };
    // cnt_ctl: count dispatched operations, not cycles, so that the period is in operations.
    let words = device.encode("cnt_ctl=1").ok()?;
    let encoding = Encoding { filter: Some(filter), ..device_encoding(device, words) };
    Some(Candidate {
        name: "ibs_op",
        encoding,
        caveat: "the period counts operations; only those with this event are kept",
        counts: false,
    })
}

/// Arm's statistical profiling extension: a trace, recorded by perf and decoded by Hardmeter's reader.
fn by_spe(event: MemoryEvent, devices: &BTreeMap<String, Device>) -> Option<Candidate> {
    let device = devices.values().find(|device| device.name.starts_with("arm_spe"))?;
    let words = device.encode(spe_terms(event)?).ok()?;
    Some(Candidate {
        name: "arm_spe",
        encoding: device_encoding(device, words),
        caveat: "recorded by `perf record -e arm_spe/.../` (docs/record.md), read by `hardmeter report -i perf.data`",
        counts: false,
    })
}

/// The terms by which Arm SPE samples the operations of an event, and no others.
fn spe_terms(event: MemoryEvent) -> Option<&'static str> {
    Some(match event {
        MemoryEvent::Loads => "ts_enable=1,pa_enable=1,jitter=1,load_filter=1",
        MemoryEvent::Stores => "ts_enable=1,pa_enable=1,jitter=1,store_filter=1",
        // Bits of PMSEVFR: 3 is an L1 data refill, 5 a TLB walk, 9 a last-level miss.
        MemoryEvent::L1dMiss => {
            "ts_enable=1,pa_enable=1,jitter=1,load_filter=1,store_filter=1,event_filter=0x8"
        }
        MemoryEvent::StlbMiss => {
            "ts_enable=1,pa_enable=1,jitter=1,load_filter=1,store_filter=1,event_filter=0x20"
        }
        MemoryEvent::L3Miss => {
            "ts_enable=1,pa_enable=1,jitter=1,load_filter=1,store_filter=1,event_filter=0x200"
        }
        _ => return None,
    })
}

/// Why an event that only Arm SPE has is not recorded here, and how to record it with perf.
pub fn only_by_spe(request: &EventRequest) -> OpenError {
    let own = MemoryEvent::from_name(&request.name).and_then(spe_terms);
    let terms = own.or(request.terms.as_deref()).filter(|terms| !terms.is_empty());
    // Loads and stores of all kinds, a sensible default without terms.
    let terms = terms.unwrap_or("ts_enable=1,pa_enable=1,jitter=1,load_filter=1,store_filter=1");
    OpenError {
        event: request.name.clone(),
        reason: "it is only offered as a trace (Arm SPE), which hardmeter reads but does not record"
            .to_string(),
        remedy: format!(
            "record it with `perf record -e arm_spe/{terms}/`, with the command or -p PID behind it, then: \
             hardmeter report -i perf.data"
        ),
        errno: libc::EOPNOTSUPP,
    }
}

/// The kernel's generic events, known to every core PMU.
fn generic(event: MemoryEvent) -> Option<Candidate> {
    const SKID: &str = "the sampled instruction may be a few behind, and there is no data address";
    let cache = |name, cache, caveat| {
        Some(Candidate { name, encoding: hw_cache(cache, 0, true), caveat, counts: true })
    };
    let hardware = |name, config, precise| {
        let encoding = Encoding { event_type: event_type::HARDWARE, config, precise, ..Encoding::default() };
        Some(Candidate { name, encoding, caveat: "", counts: true })
    };
    match event {
        MemoryEvent::L1dMiss => cache("L1-dcache-load-misses", 0, SKID),
        MemoryEvent::L1iMiss => cache("L1-icache-load-misses", 1, SKID),
        MemoryEvent::L3Miss => cache("LLC-load-misses", 2, SKID),
        MemoryEvent::DtlbMiss => {
            cache("dTLB-load-misses", 3, "on Intel these are page walks; no data address")
        }
        MemoryEvent::StlbMiss => {
            cache("dTLB-load-misses", 3, "on some processors first-level misses; no data address")
        }
        MemoryEvent::ItlbMiss => cache("iTLB-load-misses", 4, SKID),
        MemoryEvent::Loads => Some(Candidate {
            name: "L1-dcache-loads",
            encoding: hw_cache(0, 0, false),
            caveat: SKID,
            counts: true,
        }),
        MemoryEvent::Stores => Some(Candidate {
            name: "L1-dcache-stores",
            encoding: hw_cache(0, 1, false),
            caveat: SKID,
            counts: true,
        }),
        MemoryEvent::Instructions => hardware("instructions", 1, 2),
        MemoryEvent::BranchesMispredicted => hardware("branch-misses", 5, 2),
        // No generic event is between the first and the last level, or concerns other cores.
        MemoryEvent::L2Miss | MemoryEvent::CoherenceMiss | MemoryEvent::Invalidation => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmu::pfm::{Pfm, PfmError};
    use crate::pmu::sysfs::Format;

    /// The codes of the tables against libpfm4's own, processor by processor.
    #[test]
    fn codes_are_those_of_libpfm4() {
        let machines = [
            ("spr", Microarchitecture::GoldenCove),
            ("skx", Microarchitecture::Skylake),
            ("icx", Microarchitecture::Skylake),
            ("hsw", Microarchitecture::Haswell),
            ("ivb", Microarchitecture::IvyBridge),
            ("amd64_fam17h_zen2", Microarchitecture::Zen),
            ("amd64_fam19h_zen3", Microarchitecture::Zen3),
        ];
        // The library reads its environment only at its start: each processor needs a process of its own.
        if let Ok(forced) = std::env::var("LIBPFM_FORCE_PMU") {
            let (_, architecture) = machines.iter().find(|(name, _)| *name == forced).expect("one of ours");
            let pfm = Pfm::load().expect("libpfm4 was there a moment ago");
            for row in table(*architecture) {
                let encoding = pfm.encode(row.name).unwrap_or_else(|error| panic!("{}: {error}", row.name));
                assert_eq!(
                    (encoding.config & 0xffff, encoding.config1),
                    (row.code, row.config1),
                    "{} on {forced}",
                    row.name
                );
            }
            return;
        }
        if let Err(PfmError::Missing(reason)) = Pfm::load().map(drop) {
            println!("skipped: {reason}");
            return;
        }
        for (name, _) in machines {
            let test = std::env::current_exe().expect("the test's own binary");
            let output = std::process::Command::new(test)
                .args(["--exact", "events::memory::tests::codes_are_those_of_libpfm4", "--nocapture"])
                .env("LIBPFM_FORCE_PMU", name)
                .output()
                .expect("runs");
            assert!(
                output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed"),
                "{name}: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }

    #[test]
    fn on_intel_an_address_comes_first_and_a_generic_event_last() {
        let found = candidates(MemoryEvent::L1dMiss, Microarchitecture::Skylake, &BTreeMap::new());
        assert_eq!(found[0].encoding.config, 0x8d1);
        assert!(found[0].encoding.data_address && found[0].encoding.precise == 3);
        assert_eq!(found.last().map(|last| last.name), Some("L1-dcache-load-misses"));
        // The precise frontend event is preferred to the plain counter.
        let found = candidates(MemoryEvent::ItlbMiss, Microarchitecture::GoldenCove, &BTreeMap::new());
        assert_eq!(found[0].name, "FRONTEND_RETIRED:ITLB_MISS");
    }

    #[test]
    fn amd_samples_by_ibs_and_counts_by_the_core() {
        let ibs = Device {
            name: "ibs_op".into(),
            event_type: 9,
            formats: BTreeMap::from([("cnt_ctl".into(), Format::parse("config:19").expect("a format"))]),
            ..Device::default()
        };
        let devices = BTreeMap::from([(ibs.name.clone(), ibs)]);
        let found = candidates(MemoryEvent::L2Miss, Microarchitecture::Zen3, &devices);
        assert_eq!((found[0].encoding.event_type, found[0].encoding.config), (9, 1 << 19));
        assert_eq!(found[0].encoding.filter, Some(SampleFilter::MissedL2));
        assert!(!found[0].counts && found[1].counts);
        assert_eq!(found[1].encoding.config, 0x864);
    }

    /// The terms of the kernel's driver, as its sysfs describes them (drivers/perf/arm_spe_pmu.c).
    #[test]
    fn arm_samples_by_spe_which_perf_records() {
        let formats = [
            ("ts_enable", "config:0"),
            ("pa_enable", "config:1"),
            ("pct_enable", "config:2"),
            ("jitter", "config:16"),
            ("branch_filter", "config:32"),
            ("load_filter", "config:33"),
            ("store_filter", "config:34"),
            ("event_filter", "config1:0-63"),
            ("min_latency", "config2:0-11"),
        ];
        let spe = Device {
            name: "arm_spe_0".into(),
            event_type: 12,
            formats: formats.map(|(term, bits)| (term.into(), Format::parse(bits).expect("a format"))).into(),
            ..Device::default()
        };
        let devices = BTreeMap::from([(spe.name.clone(), spe)]);
        let found = candidates(MemoryEvent::StlbMiss, Microarchitecture::Arm, &devices);
        let encoding = &found[0].encoding;
        assert!(encoding.aux && !found[0].counts);
        assert_eq!((encoding.event_type, encoding.config), (12, 1 | 1 << 1 | 1 << 16 | 3 << 33));
        assert_eq!((encoding.config1, encoding.config2), (0x20, 0));
        assert_eq!(found[1].name, "dTLB-load-misses", "what hardmeter itself can record");

        let remedy = |name: &str, terms: Option<&str>| {
            let terms = terms.map(str::to_string);
            only_by_spe(&EventRequest { terms, ..EventRequest::named(name) }).remedy
        };
        assert!(remedy("l1d-miss", None).contains("event_filter=0x8/`"));
        assert!(
            remedy("arm_spe_0", Some("min_latency=30")).contains("perf record -e arm_spe/min_latency=30/`")
        );
        assert!(remedy("arm_spe_0", Some("")).contains("load_filter=1,store_filter=1/`"));
        assert!(remedy("arm_spe_0", Some("")).ends_with("hardmeter report -i perf.data"));
    }

    #[test]
    fn every_event_but_those_of_l2_and_other_cores_has_a_generic_fallback() {
        let without = [MemoryEvent::L2Miss, MemoryEvent::CoherenceMiss, MemoryEvent::Invalidation];
        for event in MemoryEvent::ALL {
            let found = candidates(event, Microarchitecture::Other, &BTreeMap::new());
            assert_eq!(found.is_empty(), without.contains(&event), "{}", event.name());
        }
    }
}
