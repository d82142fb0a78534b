//! `hardmeter report --quality`: on a simulated capture, whose addresses must agree with its registers, on one with
//! falsified addresses, and on foreign ones.

mod common;

use common::{can_simulate, compile, fixture, hardmeter, record, run, stderr, stdout, succeeded};
use serde_json::Value;
use std::path::Path;

/// Sums a list and an array, in straight lines of several loads.
const SUMS: &str = r#"
#include <stdlib.h>
struct item { struct item *next; long value[7]; };
__attribute__((noinline)) static long of_list(struct item *item) {
    long sum = 0;
    for (; item; item = item->next) sum += item->value[0] ^ item->value[6];
    return sum;
}
__attribute__((noinline)) static long of_array(const long *array, long length) {
    long sum = 0;
    for (long i = 0; i < length; i += 4)
        sum += (array[i] ^ array[i + 1]) + (array[i + 2] ^ array[i + 3]);
    return sum;
}
int main(void) {
    enum { ITEMS = 4096 };
    struct item *items = calloc(ITEMS, sizeof *items);
    for (int i = 0; i < ITEMS; i++) items[i].next = i + 1 < ITEMS ? &items[i + 1] : NULL;
    long sum = 0;
    for (int round = 0; round < 10; round++) sum += of_list(items) + of_array((long *)items, ITEMS * 8);
    return sum == 42;
}
"#;

fn quality(capture: &Path) -> Value {
    let arguments = ["report", "--quality", "--format", "json", "-i"];
    let output = succeeded(run(hardmeter().args(arguments).arg(capture)));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn event<'q>(quality: &'q Value, name: &str) -> &'q Value {
    let events = quality["events"].as_array().expect("events");
    events.iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("no {name}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn addresses_of_the_software_pmu_agree_with_its_registers() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "sums", &["-fno-tree-vectorize"], SUMS, None);
    let capture = folder.path().join("sums.data");
    record(&capture, &["-e", "l1d-miss/period=7/,loads/period=101/,stores/period=11/"], &[&program]);
    let graded = quality(&capture);
    for name in ["l1d-miss", "loads", "stores"] {
        let event = event(&graded, name);
        let addresses = &event["addresses"];
        let samples = number(&event["samples"]);
        let agree = number(&addresses["agree"]);
        assert!(samples > 500, "{event}");
        assert_eq!(number(&event["with_address"]), samples);
        // A few of the loader's cannot be computed (xsave, %fs), which is not a contradiction.
        assert!(agree * 100 >= samples * 98, "{event}");
        assert!(number(&addresses["disagree"]) * 1000 <= samples, "{event}");
    }
    // The loop over the array has four loads in a straight line, and each has its quarter.
    let shadowing = &event(&graded, "loads")["shadowing"];
    assert!(number(&shadowing["blocks"]) >= 2, "{shadowing}");
    assert_eq!(shadowing["uneven"], 0, "{shadowing}");
    assert_eq!(event(&graded, "l1d-miss")["shadowing"], Value::Null, "misses need not be even");

    let heading = stdout(&succeeded(run(hardmeter().args(["report", "--full", "-i"]).arg(&capture))));
    let line = heading.lines().find(|line| line.trim_start().starts_with("addresses")).expect("a line");
    assert!(line.contains("computed again from registers agree"), "{line}");
}

#[test]
fn falsified_addresses_disagree() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "sums", &["-fno-tree-vectorize"], SUMS, None);
    let capture = folder.path().join("sums.data");
    record(&capture, &["-e", "l1d-miss/period=7/"], &[&program]);
    // The address is the sixth word of a sample (identifier, ip, pid and tid, time, address): add 1 MiB to each.
    let mut bytes = std::fs::read(&capture).expect("readable");
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    let (begin, length) = (word(&bytes, 40) as usize, word(&bytes, 48) as usize);
    let (mut at, mut moved) = (begin, 0);
    while at < begin + length {
        let header = word(&bytes, at);
        if header as u32 == 9 {
            let address = word(&bytes, at + 40) ^ 1 << 20;
            bytes[at + 40..at + 48].copy_from_slice(&address.to_le_bytes());
            moved += 1;
        }
        at += (header >> 48) as usize;
    }
    std::fs::write(&capture, bytes).expect("written");
    let graded = quality(&capture);
    let addresses = &event(&graded, "l1d-miss")["addresses"];
    assert!(moved > 500);
    assert_eq!(addresses["agree"], 0, "{addresses}");
    assert!(number(&addresses["disagree"]) * 1000 >= moved * 995, "{addresses}");
}

const SKYLAKE: [&str; 6] = [
    "what samples carry",
    "event samples address registers exact ip source unknown source foreign bits",
    "MEM_TRANS_RETIRED.LOAD_LATENCY:ldlat=64:precise=2:mh:mg:pinned 14 100.00 % 0.00 % 100.00 % 100.00 % 0 0",
    "data addresses, computed again from registers and instruction",
    "none can be checked: no sample carries registers beside its data address; record a memory event",
    "with registers (hardmeter record does; perf record -d --intr-regs)",
];

/// The programs of this capture are not on this machine, and it has no registers: the view reports both.
#[test]
fn a_foreign_capture_says_what_it_lacks() {
    let Some(path) = fixture("google-perf_data_converter/perf.data.weight_struct") else { return };
    let output = succeeded(run(hardmeter().args(["report", "--quality", "-q", "--full", "-i"]).arg(&path)));
    let text = stdout(&output);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(words).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines[..SKYLAKE.len()], SKYLAKE);
    assert!(text.contains("skid cannot be determined"), "{text}");
    let graded = quality(&path);
    assert_eq!(graded["capture"]["addresses"], Value::Null);
}

#[test]
fn lost_samples_are_counted() {
    let Some(path) = fixture("google-perf_data_converter/perf.data.lost_samples-4.4") else { return };
    let output = run(hardmeter().args(["report", "--quality", "-q", "--full", "-i"]).arg(&path));
    let text = stdout(&output);
    let lost = text
        .lines()
        .find(|line| line.contains(" lost, throttled "))
        .unwrap_or_else(|| panic!("{}", stderr(&output)));
    assert!(!lost.trim_start().starts_with("0 samples and 0 other"), "{lost}");
}
