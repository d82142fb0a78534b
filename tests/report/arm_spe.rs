//! A capture of Arm SPE from `perf record -e arm_spe//`, in every view of memory samples.

#[path = "../../ground/samples/tests/common/spe.rs"]
mod spe;

use super::bench::{compiled, symbol, Bench};
use super::{counts, json, pairs, text};
use spe::{load, trace, Operation, SpeCapture, EVENT, PERIOD, TICK};
use std::path::Path;

/// The contents of the capture's trace, on two CPUs, in the thread "worker" of the process "server":
///
/// ```text
///               loads  served by   latency   line of data
///  hot_routine    6    DRAM          300     six lines
///  hot_routine    1    L1              4     one line
///  cold_routine   2    L2             14     one line
///  cold_routine   1    store           9     the same line; no Neoverse records the source
///  main           3    branches        1     none
/// ```
fn made(bench: &Bench) -> Option<String> {
    let program = compiled(bench)?;
    let at = |name: &str| symbol(&program, name);
    let (hot, cold, main) = (at("hot_routine")?, at("cold_routine")?, at("main")?);
    let path = bench.path("spe.data");
    let mut capture = SpeCapture::create(Path::new(&path));
    capture.map_part(&program, 0x40_1000..0x40_2000, 0x1000, Some(10 * TICK));
    let access = |n: u64, instruction: u64, source: u8, latency: u16| Operation {
        instruction,
        source: Some(source),
        latency,
        ..load(n)
    };
    let mut first: Vec<Operation> = (0..6).map(|n| access(n, hot, 14, 300)).collect();
    first.push(access(100, hot, 0, 4));
    let mut second = vec![access(200, cold, 8, 14); 2];
    second.push(Operation { kind: (1, 1), source: None, ..access(200, cold, 0, 9) });
    let branch = Operation { kind: (2, 1), events: 2, data: None, physical: None, ..access(300, main, 0, 1) };
    second.extend([Operation { source: None, target: Some(hot), ..branch }; 3]);
    capture.trace(0, &trace(&first));
    capture.trace(1, &trace(&second));
    capture.round();
    capture.finish();
    Some(path)
}

#[test]
fn arm_spe_is_reported_as_other_memory_samples_are() {
    let bench = Bench::new();
    let Some(path) = made(&bench) else { return };
    let report = |by: &str| json(&["report", "-i", &path, "--format", "json", "--by", by]);
    let by_routine = report("routine");
    assert_eq!(
        by_routine["tables"].as_array().unwrap().len(),
        1,
        "the event that only tells of processes has none"
    );
    assert_eq!(by_routine["tables"][0]["event"], EVENT);
    assert_eq!(
        counts(&by_routine, "routine"),
        pairs(&[("hot_routine", 7), ("cold_routine", 3), ("main", 3)])
    );
    // Each sample stands for the operations between two samples.
    assert_eq!(by_routine["tables"][0]["rows"][0]["events"].as_u64(), Some(7 * PERIOD));
    let by_level = report("level");
    assert_eq!(
        counts(&by_level, "level"),
        pairs(&[("DRAM", 6), ("-", 3), ("L2", 2), ("L1", 1), ("unknown", 1)])
    );
    assert_eq!(by_level["tables"][0]["rows"][0]["latencies"]["sum"].as_u64(), Some(6 * 300));
    assert_eq!(counts(&report("process"), "process"), pairs(&[("worker", 13)]));
    let lines = report("cache-line");
    let data: u64 = counts(&lines, "cache-line").iter().filter(|row| row.0 != "-").map(|row| row.1).sum();
    assert_eq!(data, 10, "ten accesses have an address, three branches have none");
    let slow = json(&["report", "-i", &path, "--format", "json", "--by", "routine", "--min-latency", "100"]);
    assert_eq!(counts(&slow, "routine"), pairs(&[("hot_routine", 6)]));
}

#[test]
fn arm_spe_is_annotated_and_explained() {
    let bench = Bench::new();
    let Some(path) = made(&bench) else { return };
    let annotated = text(&["annotate", "-i", &path, "hot_routine"]);
    assert!(annotated.contains("7 samples here, 53.85 % of n = 13"), "{annotated}");
    let hot = symbol(&bench.path("program"), "hot_routine").unwrap();
    let line = annotated.lines().find(|line| line.contains(&format!(" {hot:x}:")));
    let line = line.unwrap_or_else(|| panic!("{annotated}"));
    assert_eq!(line.split_whitespace().next(), Some("7"), "{line}");
    let why = text(&["why", "--full", "-i", &path]);
    for expected in
        ["13 samples of accesses, 8 not served by the first level", "hot_routine (program.c:2) 75.00 %"]
    {
        assert!(why.contains(expected), "{why}");
    }
}
