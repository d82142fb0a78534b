//! Programs of many kinds on the software PMU: with threads, many processes, shared memory; measured late, in part,
//! and repeatedly.

mod common;

use common::{
    can_simulate, compile, counts, hardmeter, have, perf_script, printed, record, recorded, recorder, report,
    run, samples, stderr, succeeded,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The program's action is its first argument; each process prints its id.
const FAMILY: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 1 << 18 };

__attribute__((noinline)) static void walk(volatile char *area, size_t size) {
    for (size_t at = 0; at < size; at += 64) area[at]++;
}

static void *thread(void *unused) {
    (void)unused;
    volatile char *area = malloc(SIZE);
    for (int round = 0; round < 4; round++) walk(area, SIZE);
    dprintf(1, "tid=%ld\n", syscall(SYS_gettid));
    return NULL;
}

static void threads(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, thread, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static void children(void) {
    volatile char *area = malloc(SIZE);
    for (int i = 0; i < 20; i++)
        if (fork() == 0) {
            walk(area, SIZE);
            dprintf(1, "pid=%d\n", getpid());
            _exit(0);
        }
    while (wait(NULL) > 0) {}
}

/* Parent and child write the same places, one after the other. */
static void sharing(void) {
    int flags = PROT_READ | PROT_WRITE;
    volatile char *shared = mmap(NULL, 4096, flags, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile char *own = mmap(NULL, 4096, flags, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    own[128] = 1;
    pid_t child = fork();
    if (child > 0) wait(NULL);
    shared[128] = 2;
    own[128] = 2;
    if (child > 0) dprintf(1, "shared=%p own=%p\n", (void *)(shared + 128), (void *)(own + 128));
    if (child == 0) _exit(0);
}

static double now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

__attribute__((noinline)) static void early(volatile char *area) {
    for (size_t at = 0; at < SIZE; at += 64) area[at] += 3;
}

/* Runs for `seconds` after the end of the early part. */
static void phases(double seconds) {
    volatile char *area = malloc(SIZE);
    early(area);
    dprintf(1, "early=%.0f\n", now() * 1000);
    for (double end = now() + seconds; now() < end; usleep(1000)) walk(area, SIZE);
}

/* In no order over 4 MiB: the generator of Lehmer goes through all numbers below its prime. */
__attribute__((noinline)) static unsigned at_random(volatile unsigned *area) {
    unsigned sum = 0;
    unsigned long number = 1;
    for (int i = 0; i < 400000; i++) {
        number = number * 48271 % 2147483647;
        sum += area[number % (1 << 20)];
    }
    return sum;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "threads")) threads();
    else if (!strcmp(mode, "children")) children();
    else if (!strcmp(mode, "sharing")) sharing();
    else if (!strcmp(mode, "phases")) phases(atof(argv[2]));
    else if (!strcmp(mode, "random")) return at_random(calloc(1 << 20, 4)) == 1;
    else return 2;
    return 0;
}
"#;

fn family(folder: &Path) -> String {
    let options = ["-pthread", "-static", "-Wno-unused-result"];
    compile(folder, "family", &options, FAMILY, None).to_str().expect("UTF-8").to_string()
}

/// Samples in a routine by the value of a column.
fn in_routine(capture: &Path, routine: &str, column: &str) -> BTreeMap<String, u64> {
    let report = report(capture, &["--by", &format!("routine,{column}")]);
    let all = counts(&report, &["routine", column]);
    let of_routine = all.into_iter().filter(|((_, values), _)| values[0] == routine);
    of_routine.map(|((_, values), count)| (values[1].clone(), count)).collect()
}

/// The test's folder and the program's path.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("programs.data");
    (folder, capture)
}

#[test]
fn each_thread_has_its_own_samples() {
    if !can_simulate() {
        return;
    }
    let (folder, capture) = place();
    let output =
        record(&capture, &["-e", "l1d-miss/period=32/"], &[family(folder.path()).as_str(), "threads"]);
    let tids: BTreeSet<String> = printed(&output, "tid").iter().map(u64::to_string).collect();
    assert_eq!(tids.len(), 4, "{tids:?}");
    let found = in_routine(&capture, "walk", "tid");
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), tids);
    // 4096 lines, four times: L1 keeps none. Sum over all threads, since they share one counter.
    let total: u64 = found.values().sum();
    assert!((4 * 4 * 4096 / 32 - 8..=4 * 4 * 4096 / 32 + 8).contains(&total), "{found:?}");
    assert_eq!(in_routine(&capture, "walk", "pid").len(), 1);
    assert_eq!(perf_script(&capture, "ip").len() as u64, recorded(&output, "l1d-miss"));
}

#[test]
fn each_of_twenty_children_has_its_own_samples() {
    if !can_simulate() {
        return;
    }
    let (folder, capture) = place();
    // On two cores, whose clocks diverge: perf must still order all records.
    let machine = common::tests_folder().join("machines/small-2.toml");
    let arguments = ["--machine", machine.to_str().expect("UTF-8"), "-e", "l1d-miss/period=64/"];
    let output = record(&capture, &arguments, &[family(folder.path()).as_str(), "children"]);
    let pids: BTreeSet<String> = printed(&output, "pid").iter().map(u64::to_string).collect();
    assert_eq!(pids.len(), 20, "{pids:?}");
    let found = in_routine(&capture, "walk", "pid");
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), pids, "all samples of children are theirs");
    let total: u64 = found.values().sum();
    assert!((20 * 4096 / 64 - 4..=20 * 4096 / 64 + 4).contains(&total), "{found:?}");
    let described = report(&capture, &["--by", "event"]);
    assert_eq!(described["capture"]["processes"], 21);
    assert_eq!(perf_script(&capture, "ip").len() as u64, samples(&described));
}

#[test]
fn processes_that_share_a_page_see_one_line() {
    if !can_simulate() {
        return;
    }
    let (folder, capture) = place();
    let output = record(&capture, &["-e", "stores/period=1/"], &[family(folder.path()).as_str(), "sharing"]);
    let lines = perf_script(&capture, "pid,addr,phys_addr");
    let physical = |name: &str| {
        let address = format!("{:x}", printed(&output, name)[0]);
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in &lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words[1] == address {
                found.entry(words[0].to_string()).or_default().insert(words[2].to_string());
            }
        }
        assert_eq!(found.len(), 2, "parent and child write {name} at {address}");
        found
    };
    let shared: BTreeSet<String> = physical("shared").into_values().flatten().collect();
    assert_eq!(shared.len(), 1, "one place in memory");
    let own: Vec<BTreeSet<String>> = physical("own").into_values().collect();
    assert!(own[0].is_disjoint(&own[1]), "who writes after a fork has a copy: {own:?}");
}

#[test]
fn a_delay_leaves_out_what_comes_before() {
    if !can_simulate() {
        return;
    }
    let (folder, capture) = place();
    let program = family(folder.path());
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // On a busy machine the early part may come late: then try the next longer delay.
    for delay in [2u64, 8, 32, 128] {
        // SAFETY: the clock exists, and the structure is local. The program reads the same clock.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        let begun = now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000;
        let (delay_text, seconds) = (delay.to_string(), (delay + 1).to_string());
        let arguments = ["--delay", &delay_text, "-e", "l1d-miss/period=32/"];
        let output = run(recorder(&capture, &arguments).args(["--", &program, "phases", &seconds]));
        if printed(&output, "early")[0] >= begun + delay * 1000 {
            continue;
        }
        succeeded(output);
        assert!(in_routine(&capture, "walk", "pid").into_values().sum::<u64>() > 0);
        assert_eq!(in_routine(&capture, "early", "pid"), BTreeMap::new());
        return;
    }
    panic!("a machine that does not get to the program's first part in two minutes");
}

const COUNTED: &str = "l1d-miss,l2-miss,loads,stores,instructions";

/// The result of `hardmeter stat --format json` for a command.
fn stat(arguments: &[&str], command: &[&str]) -> Value {
    let output = succeeded(run(hardmeter()
        .args(["stat", "-q", "--source", "simulated", "--machine", "xeon-2003", "--format", "json"])
        .args(["-e", COUNTED])
        .args(arguments)
        .arg("--")
        .args(command)));
    assert_eq!(stderr(&output), "");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn counted(stat: &Value) -> BTreeMap<String, u64> {
    let events = stat["events"].as_array().expect("events").iter();
    events
        .map(|event| {
            (event["name"].as_str().expect("a name").into(), event["count"].as_u64().expect("a count"))
        })
        .collect()
}

#[test]
fn counts_repeat_and_sampled_sets_come_close() {
    if !have(&["valgrind", "cc"]) {
        return;
    }
    let (folder, _) = place();
    let program = family(folder.path());
    let full = stat(&[], &[&program, "random"]);
    assert_eq!(full["source"], "simulated");
    assert_eq!(full["command_status"], 0);
    assert!(full["seconds"].as_f64().expect("a number") > 0.0);
    assert!(full["notes"][0].as_str().expect("a note").starts_with("simulated on xeon-2003"), "{full}");
    for event in full["events"].as_array().expect("events") {
        assert_eq!((&event["scaled"], &event["running_share"]), (&false.into(), &1.0.into()), "{event}");
        assert_eq!(event["count"], event["counted"]);
    }
    let exact = counted(&full);
    assert_eq!(exact.keys().map(String::as_str).collect::<BTreeSet<_>>(), COUNTED.split(',').collect());
    for _ in 0..2 {
        assert_eq!(counted(&stat(&[], &[&program, "random"])), exact);
    }
    // 400,000 loads at random of 65,536 lines, 128 of which are in L1, and 8,192 in L2.
    let share = |event: &str| exact[event] as f64 / 400_000.0;
    assert!((0.97..1.03).contains(&share("l1d-miss")), "{exact:?}");
    assert!((0.85..0.93).contains(&share("l2-miss")), "{exact:?}");
    for sets in ["4", "16", "64"] {
        let some = stat(&["--set-sampling", sets], &[&program, "random"]);
        assert_eq!(some["events"][0]["scaled"], true);
        let estimated = counted(&some);
        for event in ["l1d-miss", "l2-miss"] {
            let ratio = estimated[event] as f64 / exact[event] as f64;
            assert!((0.75..1.25).contains(&ratio), "one in {sets}: {estimated:?} instead of {exact:?}");
        }
        // Events without caches are counted nevertheless.
        for event in ["loads", "stores", "instructions"] {
            assert_eq!(estimated[event], exact[event], "one in {sets}");
        }
    }
}
