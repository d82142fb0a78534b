//! Other readers of simulated captures: Debian's perf opens them without complaints and finds the same samples as
//! `hardmeter report`.

mod common;

use common::{
    can_simulate, compile, counts, hardmeter, hexadecimal, perf, perf_script, record, recorded, report, run,
    samples, stdout, succeeded, tests_folder,
};
use hardmeter_samples::model::{MemoryOperation, MissCause, Record, SharingVerdict, SimulatedDetail, Snoop};
use hardmeter_samples::perf_data::{CaptureReader, RecordOrder};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::Path;

/// Every eighth word of an area that it fills first: with lines of 64 bytes each load of `gather` is on a separate
/// line.
const GATHER_C: &str = r#"
#include <stdlib.h>
void gather(const long *base, unsigned long words);
__attribute__((noinline)) static void fill(long *area, unsigned long words) {
    for (unsigned long i = 0; i < words; i++) area[i] = (long)i;
}
int main(void) {
    unsigned long words = 1 << 15;
    long *area = malloc(words * sizeof *area);
    fill(area, words);
    for (int i = 0; i < 10; i++) gather(area, words);
    return 0;
}
"#;

/// The load is the second instruction, behind one of two bytes.
const GATHER_S: &str = r#"
    .globl gather
    .type gather, @function
gather:
    xor %ecx, %ecx
1:  mov (%rdi,%rcx,8), %rax
    add $8, %rcx
    cmp %rsi, %rcx
    jb 1b
    ret
    .size gather, . - gather
    .section .note.GNU-stack, "", @progbits
"#;
const LOAD_IN_GATHER: u64 = 2;

type Counts<Key> = BTreeMap<Key, u64>;

fn tally<Key: Ord>(keys: impl IntoIterator<Item = Key>) -> Counts<Key> {
    let mut counts = Counts::new();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// An event's name and the rest of a line of perf: `l1d-miss:  18`.
fn event_and_rest(line: &str) -> (String, &str) {
    let (event, rest) = line.split_once(": ").or(line.split_once(':')).unwrap_or_else(|| panic!("{line}"));
    (event.trim().to_string(), rest.trim())
}

/// Perf and Hardmeter agree on everything that both report about a capture.
fn perf_and_we_agree(capture: &Path, events: &[&str]) {
    let by_event = |key: &str| -> Counts<String> {
        let described = report(capture, &["--by", "event"]);
        let described = described["capture"]["events"].as_array().expect("events").clone();
        described
            .iter()
            .map(|event| {
                (event["name"].as_str().expect("a name").into(), event[key].as_u64().expect("a number"))
            })
            .collect()
    };
    let ours = by_event("samples");
    assert_eq!(ours.keys().collect::<Vec<_>>(), events, "the events' names come through");
    let lines = perf_script(capture, "event");
    assert_eq!(tally(lines.iter().map(|line| event_and_rest(line).0)), ours);

    weights_agree(capture, &by_event("events"));
    levels_agree(capture);
    places_agree(capture);
    times_never_go_back(capture);

    // A byte keeps its place in its page. An instruction that was only counted has no memory address.
    for line in perf_script(capture, "event,addr,phys_addr") {
        let (event, rest) = event_and_rest(&line);
        let (address, physical) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
        let (address, physical) = (hexadecimal(address), hexadecimal(physical.trim()));
        match event.as_str() {
            "instructions" => assert_eq!(physical, 0, "{line}"),
            _ => assert_eq!((physical & 0xfff, physical >> 12 != 0), (address & 0xfff, true), "{line}"),
        }
    }
}

/// The sum of latencies, from each sample and from both of perf's reports; and the events that samples stand for.
fn weights_agree(capture: &Path, events: &Counts<String>) {
    let (mut weights, mut in_mem_report) = (Counts::new(), Counts::new());
    for line in perf_script(capture, "event,weight") {
        let (event, weight) = event_and_rest(&line);
        let weight: u64 = weight.parse().expect("a weight");
        *weights.entry(event.clone()).or_default() += weight;
        // `perf mem report` counts an access without latency, such as an instruction, as one cycle.
        *in_mem_report.entry(event).or_default() += weight.max(1);
    }
    let mut ours = Counts::new();
    for table in report(capture, &["--by", "level"])["tables"].as_array().expect("tables") {
        let rows = table["rows"].as_array().expect("rows").iter();
        let sum: u64 = rows.map(|row| row["latencies"]["sum"].as_u64().expect("a sum")).sum();
        ours.insert(table["event"].as_str().expect("a name").to_string(), sum);
    }
    assert_eq!(weights, ours);
    assert_eq!(per_event(&perf(&["mem", "report", "--stdio"], capture), "Total weight :"), in_mem_report);
    let text = perf(&["report", "--stdio", "-g", "none"], capture);
    assert_eq!(per_event(&text, "Event count (approx.):"), *events);
}

/// A figure of each event from the head of its table in a report of perf.
fn per_event(text: &str, figure: &str) -> Counts<String> {
    let mut event = String::new();
    let mut found = Counts::new();
    for line in text.lines() {
        if let Some((_, name)) = line.split_once("of event '") {
            event = name.trim_end_matches('\'').to_string();
        } else if let Some((_, number)) = line.split_once(figure) {
            found.insert(event.clone(), number.trim().parse().expect("a number"));
        }
    }
    found
}

/// Samples by level: perf's texts for the bits of data_src compared with Hardmeter's.
fn levels_agree(capture: &Path) {
    // Up to perf 6.1 the older bits come before the newer ones: "L1 or L3 miss". Perf 6.12 prints only the newer
    // ones.
    let name = |perf: &str| match perf.rsplit_once(" or ").map_or(perf, |(_, newer)| newer) {
        "L1 hit" => "L1",
        // For a store the kernel's bits only say whether L1 had the line.
        "L2 hit" | "L2 miss" => "L2",
        "L3 hit" | "L3 miss" => "L3",
        "RAM hit" | "RAM miss" => "DRAM",
        "N/A" => "unknown", // an instruction, counted
        _ => panic!("perf says {perf}"),
    };
    let lines = perf_script(capture, "event,data_src");
    let theirs = tally(lines.iter().map(|line| {
        let (event, rest) = event_and_rest(line);
        let level = rest.split('|').find_map(|part| part.strip_prefix("LVL ")).expect(rest);
        (event, vec![name(level.trim()).to_string()])
    }));
    assert_eq!(theirs, counts(&report(capture, &["--by", "level"]), &["level"]));
}

/// Every instruction has the same number of samples, and the five hottest routines are the same.
///
/// Names are compared with perf's only where these are certain: several names may stand for one address (`memcpy`
/// and `memmove` are one routine of libc), and perf gives stubs (`@plt`) and unnamed static functions none or a
/// neighbour's name.
fn places_agree(capture: &Path) {
    let lines = perf_script(capture, "event,ip,sym");
    let mut theirs: Counts<(String, Vec<String>)> = Counts::new();
    let mut names: HashMap<String, String> = HashMap::new();
    for line in &lines {
        let (event, rest) = event_and_rest(line);
        let (ip, name) = rest.split_once(' ').unwrap_or((rest, "[unknown]"));
        let ip = format!("{:#x}", hexadecimal(ip));
        *theirs.entry((event, vec![ip.clone()])).or_default() += 1;
        names.insert(ip, name.to_string());
    }
    assert_eq!(theirs, counts(&report(capture, &["--by", "ip"]), &["ip"]));

    // Grouped by our routines, perf's samples give the same count for each name.
    let by_routine = report(capture, &["--by", "routine,ip"]);
    let mut routines: HashMap<String, (u64, Vec<String>)> = HashMap::new();
    for ((_, values), count) in counts(&by_routine, &["routine", "ip"]) {
        let [routine, ip] = values.try_into().expect("two columns");
        if !routine.starts_with('[') && !routine.contains("@plt") && routine != "null" {
            let known = routines.entry(routine).or_default();
            known.0 += count;
            known.1.push(ip);
        }
    }
    let mut hottest: Vec<_> = routines.into_iter().collect();
    hottest.sort_by_key(|(name, (count, _))| (std::cmp::Reverse(*count), name.clone()));
    hottest.truncate(5);
    // Without debug files few routines of a distribution's program have a name.
    assert!(!hottest.is_empty());
    let wanted = hottest.len() / 2 + 1;
    let per_name = tally(lines.iter().map(|line| {
        let rest = event_and_rest(line).1;
        rest.split_once(' ').map_or("[unknown]", |(_, name)| name).trim().to_string()
    }));
    let mut same = 0;
    for (routine, (count, ips)) in hottest {
        let theirs = names[&ips[0]].clone();
        assert!(ips.iter().all(|ip| names[ip] == theirs), "{routine} is one routine of perf's, too");
        assert_eq!(per_name[&theirs], count, "{routine}, which perf calls {theirs}");
        same += usize::from(theirs == routine);
    }
    assert!(same >= wanted, "most have the same name, too: {same}, not {wanted}");
}

/// In file order, which perf does not show: its reports sort by time first.
fn times_never_go_back(capture: &Path) {
    let reader = CaptureReader::open(capture).expect("readable");
    let mut last = HashMap::new();
    let summary = reader
        .for_each(RecordOrder::File, &mut |record| {
            if let Record::Sample(sample) = record {
                let (thread, time) = (sample.tid, sample.time.expect("a time"));
                let before = last.insert(thread, time).unwrap_or(time);
                assert!(before <= time, "thread {thread:?}: {time:?} after {before:?}");
            }
            ControlFlow::Continue(())
        })
        .expect("read");
    assert!(summary.is_complete(), "{:?}", summary.warnings());
    assert!(!last.is_empty());
}

#[test]
fn perf_reads_a_small_program_and_registers_give_the_data_address() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "gather", &["-no-pie"], GATHER_C, Some(GATHER_S));
    let capture = folder.path().join("gather.data");
    let events = "l1d-miss/period=17/,l2-miss/period=5/,loads/period=101/,instructions/period=5003/";
    let output = record(&capture, &["-e", events], &[&program]);
    let names = ["instructions", "l1d-miss", "l2-miss", "loads"];
    perf_and_we_agree(&capture, &names);
    let described = report(&capture, &["--by", "event"]);
    assert_eq!(samples(&described), names.iter().map(|name| recorded(&output, name)).sum::<u64>());

    // 4096 lines, of which L1, with its 128, keeps none until the next round; ten rounds.
    let by_routine = counts(&report(&capture, &["--by", "routine"]), &["routine"]);
    let in_gather = by_routine[&("l1d-miss".to_string(), vec!["gather".to_string()])];
    assert!((40_960 / 17..=40_960 / 17 + 2).contains(&in_gather), "{in_gather}");

    // The address that the load computes from its registers equals the sample's.
    let symbols = stdout(&succeeded(run(std::process::Command::new("nm").arg(&program))));
    let gather = symbols.lines().find_map(|line| line.strip_suffix(" T gather")).expect("a symbol");
    let load = hexadecimal(gather) + LOAD_IN_GATHER;
    let mut checked = 0;
    for line in perf_script(&capture, "ip,addr,iregs") {
        let words: Vec<&str> = line.split_whitespace().collect();
        if hexadecimal(words[1]) == load {
            let register = |name: &str| {
                hexadecimal(words.iter().find_map(|word| word.strip_prefix(name)).expect("a register"))
            };
            let (base, index) = (register("DI:"), register("CX:"));
            // Instructions are fetched: their samples have the address of the code.
            if hexadecimal(words[0]) != load {
                assert_eq!(hexadecimal(words[0]), base + index * 8, "{line}");
                checked += 1;
            }
            assert_eq!(register("IP:"), load, "{line}");
            assert!(index < 1 << 15 && index % 8 == 0, "{line}");
        }
    }
    assert!(checked >= in_gather, "{checked} of at least {in_gather}");

    // And so does `annotate --registers`.
    let output = succeeded(run(hardmeter()
        .args(["annotate", "gather", "--registers", "100", "--event", "l1d-miss", "--format", "json", "-i"])
        .arg(&capture)));
    let listing: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let records = listing["registers"]["records"].as_array().expect("records");
    let at_load = records.iter().filter(|record| record["registers"]["rip"] == format!("{load:#x}"));
    let number = |value: &Value| hexadecimal(value.as_str().expect("a number"));
    let mut listed = 0;
    for record in at_load {
        let registers = &record["registers"];
        let computed = number(&registers["rdi"]) + 8 * number(&registers["rcx"]);
        assert_eq!(number(&record["data_address"]), computed, "{record}");
        listed += 1;
    }
    assert!(listed >= 90, "nearly all misses of gather are its load's: {listed}");
}

/// Lines of text in no order.
fn text(folder: &Path) -> String {
    let mut number = 1u64;
    let mut next = || {
        number = number * 48_271 % 2_147_483_647;
        format!("{number:010} line\n")
    };
    let file = folder.join("lines.txt");
    std::fs::write(&file, (0..3000).map(|_| next()).collect::<String>()).expect("written");
    file.to_str().expect("UTF-8").to_string()
}

#[test]
fn perf_reads_a_capture_of_sort() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (capture, lines) = (folder.path().join("sort.data"), text(folder.path()));
    // A machine with three levels, all small.
    let machine = tests_folder().join("machines/small.toml");
    let machine = machine.to_str().expect("UTF-8");
    let events = "l1d-miss/period=97/,l3-miss/period=7/,stores/period=1009/,dtlb-miss/period=53/";
    record(&capture, &["--machine", machine, "-e", events], &["sort", &lines]);
    perf_and_we_agree(&capture, &["dtlb-miss", "l1d-miss", "l3-miss", "stores"]);
}

#[test]
fn perf_reads_a_capture_of_gzip_with_callers() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (capture, lines) = (folder.path().join("gzip.data"), text(folder.path()));
    let events = "l1d-miss/period=211/,l1i-miss/period=5/,l2-miss/period=13/";
    record(&capture, &["--call-graph", "-e", events], &["gzip", "--keep", "--force", &lines]);
    perf_and_we_agree(&capture, &["l1d-miss", "l1i-miss", "l2-miss"]);
}

#[test]
fn callers_are_those_of_the_program() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "gather", &["-no-pie"], GATHER_C, Some(GATHER_S));
    let capture = folder.path().join("gather.data");
    record(&capture, &["--call-graph", "-e", "l1d-miss/period=101/"], &[&program]);
    // Each sample is a paragraph: the address and symbol of each frame, the innermost first.
    let chains = perf(&["script", "-F", "ip,sym"], &capture);
    let mut in_gather = 0;
    for chain in chains.split("\n\n") {
        let names: Vec<&str> = chain.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        if names.first() == Some(&"gather") {
            assert_eq!(names[1], "main", "{chain}");
            in_gather += 1;
        }
    }
    let by_routine = counts(&report(&capture, &["--by", "routine"]), &["routine"]);
    assert_eq!(in_gather, by_routine[&("l1d-miss".to_string(), vec!["gather".to_string()])]);
    let output = succeeded(run(hardmeter().args(["export", "--to", "folded", "-i"]).arg(&capture)));
    let folded: u64 = stdout(&output)
        .lines()
        .filter_map(|line| line.split_once(";main;gather ")?.1.parse::<u64>().ok())
        .sum();
    assert_eq!(folded, in_gather, "{}", stdout(&output));
}

/// Two threads alternate: each has its own word on one line, and both use a word on the next.
const FIGHT_C: &str = r#"
#include <pthread.h>
#include <semaphore.h>
struct { _Alignas(64) volatile long own[2]; _Alignas(64) long both; } lines;
static _Alignas(64) sem_t turn[2];
static void *fight(void *own) {
    long me = (volatile long *)own - lines.own;
    for (long i = 0; i < 500; i++) {
        sem_wait(&turn[me]);
        (*(volatile long *)own)++;
        __atomic_fetch_add(&lines.both, 1, __ATOMIC_SEQ_CST);
        sem_post(&turn[1 - me]);
    }
    return 0;
}
int main(void) {
    pthread_t first, second;
    sem_init(&turn[0], 0, 1);
    sem_init(&turn[1], 0, 0);
    pthread_create(&first, 0, fight, (void *)&lines.own[0]);
    pthread_create(&second, 0, fight, (void *)&lines.own[1]);
    pthread_join(first, 0);
    pthread_join(second, 0);
    return lines.both != 1000;
}
"#;

#[test]
fn perf_c2c_counts_the_lines_that_cores_fight_for() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "fight", &["-no-pie", "-pthread"], FIGHT_C, None);
    let capture = folder.path().join("fight.data");
    let machine = tests_folder().join("machines/small.toml");
    let machine = machine.to_str().expect("UTF-8");
    let events = "coherence-miss/period=1/,invalidation/period=1/,l1d-miss/period=3/";
    record(&capture, &["--machine", machine, "--cores", "2", "-e", events], &[&program]);
    let symbols = stdout(&succeeded(run(std::process::Command::new("nm").arg(&program))));
    let lines = symbols.lines().find_map(|line| line.strip_suffix(" B lines")).expect("a symbol");
    let lines = hexadecimal(lines);

    let (mut modified, mut stores, mut samples) = (0, 0, 0);
    let mut verdicts: Counts<(u64, Option<SharingVerdict>)> = Counts::new();
    let reader = CaptureReader::open(&capture).expect("readable");
    let events = reader.events();
    let coherence_miss = events.iter().position(|event| event.name == "coherence-miss").expect("an event");
    reader
        .for_each(RecordOrder::File, &mut |record| {
            let Record::Sample(sample) = record else { return ControlFlow::Continue(()) };
            let source = sample.data_source.expect("a source");
            let is_load = source.operation() == MemoryOperation::Load;
            samples += 1;
            stores += u64::from(source.operation() == MemoryOperation::Store);
            modified += u64::from(is_load && source.snoop() == Snoop::HitModified);
            let address = sample.address.expect("an address").0;
            if sample.event.0 == coherence_miss && (lines..lines + 128).contains(&address) {
                let detail = SimulatedDetail::decode(sample.raw.expect("a detail")).expect("ours");
                let other = detail.sharing.expect("somebody wrote it");
                assert_eq!(Some(other.pid), sample.pid, "another thread of the same process");
                assert_eq!(detail.cause, Some(MissCause::Coherence));
                *verdicts.entry(((address - lines) / 64, other.verdict)).or_default() += 1;
            }
            ControlFlow::Continue(())
        })
        .expect("read");
    // 1000 turns; in each but the first of each thread both lines return: on one of them the thread's own word,
    // which no other thread writes, on the other the word that the other wrote. The start of a thread may hide or
    // add one.
    let of = |line, verdict| verdicts.get(&(line, Some(verdict))).copied().unwrap_or(0);
    assert!(
        (990..=1000).contains(&of(0, SharingVerdict::False)) && of(0, SharingVerdict::True) == 0,
        "{verdicts:?}"
    );
    assert!(
        (990..=1000).contains(&of(1, SharingVerdict::True)) && of(1, SharingVerdict::False) == 0,
        "{verdicts:?}"
    );

    let text = perf(&["c2c", "report", "--stats"], &capture);
    let figure = |name: &str| -> u64 {
        let line =
            text.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap_or_else(|| panic!("{text}"));
        line.trim().trim_start_matches(':').trim().parse().expect("a number")
    };
    assert_eq!(figure("Total records"), samples);
    assert_eq!(figure("Load Local HITM"), modified);
    assert_eq!(figure("Store Operations"), stores);
    assert_eq!(figure("Store L1D Hit") + figure("Store L1D Miss"), stores);
    assert_eq!(figure("Load Remote HITM"), 0);
    // Both lines lead its table, together with the line of the semaphores that pass the turn.
    let text = perf(&["c2c", "report", "--stdio"], &capture);
    let table = text.split("Shared Data Cache Line Table").nth(1).expect("a table");
    let rows = table.lines().filter_map(|line| line.split_whitespace().nth(1)?.strip_prefix("0x"));
    let hottest: Vec<u64> = rows.take(3).map(hexadecimal).collect();
    assert!(hottest.contains(&lines) && hottest.contains(&(lines + 64)), "{hottest:x?}, {lines:x}");
}
