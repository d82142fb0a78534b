//! Captures recorded on real hardware by several versions of perf, against golden figures and perf's own decoder.

mod common;

use common::{each_sample, fixture, perf_lines};
use hardmeter_samples::model::{Record, VirtualAddress};
use hardmeter_samples::perf_data::{CaptureReader, RecordOrder};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

const PEBS: &str = "google-perf_data_converter/perf.data.weight_struct";
const BRANCHES: &str = "google-perf_data_converter/perf.data.branch_stack_hw_index";
const LOST: &str = "google-perf_data_converter/perf.data.lost_samples-4.4";

/// The golden facts of the fixtures' README, for a Skylake-SP load-latency capture.
#[test]
fn load_latency_capture_has_its_golden_figures() {
    let Some(path) = fixture(PEBS) else { return };
    let reader = CaptureReader::open(path).expect("opens");
    for order in [RecordOrder::File, RecordOrder::Time] {
        let (mut weights, mut sources) = (Vec::new(), BTreeMap::new());
        let (mut addresses, mut lines, mut ips) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let summary = each_sample(&reader, order, |sample| {
            weights.push(sample.weight.expect("weight").latency.0);
            *sources.entry(sample.data_source.expect("data source").0).or_insert(0) += 1;
            let address = sample.address.expect("address");
            addresses.insert(address);
            lines.insert(address.cache_line(64));
            ips.insert(sample.ip.expect("ip"));
            assert!(sample.exact_ip, "precise=2");
            assert_eq!(sample.period.0, 10009);
        });
        assert_eq!(weights.len(), 14);
        assert_eq!(weights.iter().sum::<u64>(), 1725);
        assert_eq!(weights.iter().min(), Some(&70));
        assert_eq!(weights.iter().max(), Some(&249));
        assert_eq!((addresses.len(), lines.len(), ips.len()), (14, 14, 14));
        let golden = [
            (0x10268100142, 2),
            (0x1026a100142, 2),
            (0x10468100442, 1),
            (0x10650100842, 1),
            (0x10668100842, 3),
            (0x11868100242, 5),
        ];
        assert_eq!(sources.into_iter().collect::<Vec<_>>(), golden);
        assert_eq!(summary.samples, [14, 0]);
        assert_eq!((summary.unparsable, summary.skipped.len()), (0, 0), "{summary:?}");
    }
}

/// The README's figures: 2955 forks and 6930 MMAP2; and the header as in `perf script --header-only`.
#[test]
fn load_latency_capture_has_its_processes_and_header() {
    let Some(path) = fixture(PEBS) else { return };
    let reader = CaptureReader::open(path).expect("opens");
    let (mut forks, mut mappings, mut data_mappings) = (0, 0, 0);
    reader
        .for_each(RecordOrder::File, &mut |record| {
            match record {
                Record::Fork(_) => forks += 1,
                Record::Mmap(mmap) if mmap.protection.is_some() => {
                    mappings += 1;
                    data_mappings += usize::from(!mmap.executable);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })
        .expect("readable");
    assert_eq!((forks, mappings), (2955, 6930));
    assert!(data_mappings > 0, "recorded with -d: data mappings too");
    let header = reader.header();
    assert_eq!(header.hostname.as_deref(), Some("oxco15.prod.google.com"));
    assert_eq!(header.architecture.as_deref(), Some("x86_64"));
    assert_eq!(header.cpu_id.as_deref(), Some("GenuineIntel,6,85,4"));
    assert_eq!((header.cpus_online, header.cpus_available), (Some(112), Some(112)));
    assert_eq!(header.total_memory.map(|bytes| bytes.0), Some(196853420 * 1024));
    assert_eq!(header.command_line[..3], ["/usr/bin/perf5", "record", "-a"]);
    assert!(!header.unfinished);
    let event = &reader.events()[0];
    assert_eq!(event.name, "MEM_TRANS_RETIRED.LOAD_LATENCY:ldlat=64:precise=2:mh:mg:pinned");
    assert_eq!((event.precise_ip, event.period.map(|period| period.0)), (2, Some(10009)));
    assert_eq!(reader.attributes()[0].ids.len(), 112);
}

/// Hardmeter's samples, one line each, in the form of `perf script`.
fn as_perf_prints(
    path: &std::path::Path,
    fields: &dyn Fn(&hardmeter_samples::model::Sample<'_>) -> String,
) -> Vec<String> {
    let reader = CaptureReader::open(path).expect("opens");
    let mut lines = Vec::new();
    each_sample(&reader, RecordOrder::Time, |sample| lines.push(fields(sample)));
    lines
}

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn hex(address: Option<VirtualAddress>) -> String {
    format!("{:x}", address.map_or(0, |address| address.0))
}

#[test]
fn load_latency_samples_equal_perfs() {
    let Some(path) = fixture(PEBS) else { return };
    let file = path.to_str().expect("a plain path");
    let arguments = ["script", "-i", file, "--ns", "-F", "pid,tid,cpu,time,ip,addr,weight,data_src"];
    let Some(theirs) = perf_lines(&arguments) else { return };
    // pid/tid [cpu] seconds.nanoseconds: addr |data_src text| weight ip
    let theirs: Vec<String> = theirs
        .iter()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (head, tail) = (&words[..5], &words[words.len() - 2..]);
            [head, tail].concat().join(" ")
        })
        .collect();
    let ours = as_perf_prints(&path, &|sample| {
        let time = sample.time.expect("time").0;
        format!(
            "{}/{} [{:03}] {}.{:09}: {} {:x} {} {}",
            sample.pid.expect("pid"),
            sample.tid.expect("tid"),
            sample.cpu.expect("cpu").0,
            time / 1_000_000_000,
            time % 1_000_000_000,
            hex(sample.address),
            sample.data_source.expect("source").0,
            sample.weight.expect("weight").latency,
            hex(sample.ip),
        )
    });
    assert_eq!(ours, theirs);
}

#[test]
fn branch_stacks_with_hardware_index_equal_perfs() {
    let Some(path) = fixture(BRANCHES) else { return };
    let file = path.to_str().expect("a plain path");
    let Some(theirs) = perf_lines(&["script", "-i", file, "-F", "ip,brstack"]) else { return };
    let ours = as_perf_prints(&path, &|sample| {
        // perf prints 0x<from>/0x<to>/flags...; only the addresses are compared.
        let branches =
            sample.branches.iter().map(|branch| format!("{:#x}/{:#x}", branch.from.0, branch.to.0));
        let ip = hex(sample.ip);
        std::iter::once(ip).chain(branches).collect::<Vec<_>>().join(" ")
    });
    let theirs: Vec<String> = theirs
        .iter()
        .map(|line| {
            let cut = |word: &str| word.split('/').take(2).collect::<Vec<_>>().join("/");
            line.split_whitespace().map(cut).collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(ours.len(), 5);
    assert!(ours.iter().all(|line| line.contains('/')), "every sample has branches: {ours:?}");
    assert_eq!(ours, theirs);
}

#[test]
fn lost_samples_and_periods_equal_perfs() {
    let Some(path) = fixture(LOST) else { return };
    let reader = CaptureReader::open(&path).expect("opens");
    let summary = each_sample(&reader, RecordOrder::Time, |_| {});
    assert_eq!(summary.total_samples(), 191);
    assert!(summary.lost_samples > 0, "{summary:?}");
    assert!(!summary.is_complete());
    assert!(summary.warnings().iter().any(|warning| warning.contains("samples lost")), "{summary:?}");
    let names: Vec<&str> = reader.events().iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["cycles:pp", "instructions:pp", "branch-instructions:pp"]);
    assert_eq!(reader.header().caches.len(), 0);
    let file = path.to_str().expect("a plain path");
    let Some(theirs) = perf_lines(&["script", "-i", file, "--ns", "-F", "pid,tid,time,event,ip,period"])
    else {
        return;
    };
    let theirs: Vec<String> = theirs.iter().map(|line| words(line)).collect();
    let ours = as_perf_prints(&path, &|sample| {
        let time = sample.time.expect("time").0;
        format!(
            "{}/{} {}.{:09}: {} {}: {}",
            sample.pid.expect("pid"),
            sample.tid.expect("tid"),
            time / 1_000_000_000,
            time % 1_000_000_000,
            sample.period,
            names[sample.event.0],
            hex(sample.ip),
        )
    });
    assert_eq!(ours, theirs);
}

/// perf 6.1 refuses these three; the expected figure is the README's, the rest is consistency.
#[test]
fn captures_of_newer_perfs_open_plain_and_compressed() {
    for (name, samples) in
        [("sleep.data", Some(7)), ("sleep.compressed.data", None), ("sleep.compressed2.data", None)]
    {
        let Some(path) = fixture(&format!("linux-perf-data/{name}")) else { return };
        let reader = CaptureReader::open(path).expect("opens");
        let mut times = Vec::new();
        let summary = each_sample(&reader, RecordOrder::Time, |sample| {
            times.push(sample.time.expect("time"));
            assert!(sample.ip.is_some() && sample.pid.is_some());
        });
        if let Some(samples) = samples {
            assert_eq!(summary.total_samples(), samples, "{name}");
        }
        assert!(summary.total_samples() > 0, "{name}: {summary:?}");
        assert!(summary.skipped.is_empty() && summary.unparsable == 0, "{name}: {summary:?}");
        assert!(summary.unknown_records.is_empty(), "{name}: {summary:?}");
        assert!(times.is_sorted(), "{name}");
        // perf records the times of the first and last sample only if they are uncompressed.
        match reader.header().sample_time {
            Some(fence) => {
                assert_eq!(Some(fence), times.first().copied().zip(times.last().copied()), "{name}")
            }
            None => assert!(name.contains("compressed"), "{name}"),
        }
    }
}
