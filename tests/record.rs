//! `hardmeter record`, `stat`, `events` and `doctor` from end to end, with software events, which every kernel has.
//!
//! Expected numbers have independent sources: the pages that a C program accesses, its writes, perf's output.

mod common;
#[path = "common/software_events.rs"]
mod software_events;

use common::{hardmeter, is_root, recorded, run, stderr, stdout, succeeded};
use software_events::{compile, has, kernel_counts, perf_script, skip, TOUCH};
use std::path::Path;
use std::process::Command;

#[test]
fn every_touched_page_is_a_sample_with_its_address() {
    if !kernel_counts() || !has("perf") || !has("cc") {
        skip!("needs perf events, perf and cc");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let touch = compile(folder.path(), "touch", TOUCH);
    let capture = folder.path().join("pages.data");
    let output = succeeded(run(hardmeter()
        .args(["record", "-e", "page-faults:u", "-o"])
        .arg(&capture)
        .arg("--")
        .arg(&touch)
        .arg("300")));
    let base = u64::from_str_radix(stdout(&output).trim().trim_start_matches("0x"), 16).expect("an address");
    let addresses: Vec<u64> = perf_script(&capture, "addr")
        .iter()
        .map(|address| u64::from_str_radix(address, 16).expect("an address"))
        .collect();
    assert_eq!(
        addresses.len() as u64,
        recorded(&output, "page-faults:u"),
        "perf and hardmeter count the same"
    );
    let touched: Vec<u64> = (0..300).map(|page| base + page * 4096 + 24).collect();
    let seen: Vec<u64> = addresses.into_iter().filter(|at| (base..base + 301 * 4096).contains(at)).collect();
    assert_eq!(seen, touched);
    // The sidecar has the same total, from the counter itself.
    let notes = std::fs::read_to_string(folder.path().join("pages.data.json")).expect("a sidecar");
    let notes: serde_json::Value = serde_json::from_str(&notes).expect("JSON");
    assert_eq!(notes["counts"]["page-faults:u"], recorded(&output, "page-faults:u"));
    assert_eq!(notes["source"], "hardware");
}

#[test]
fn a_period_of_ten_records_every_tenth_event() {
    if !kernel_counts() || !has("perf") || !has("cc") {
        skip!("needs perf events, perf and cc");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let touch = compile(folder.path(), "touch", TOUCH);
    let capture = folder.path().join("pages.data");
    succeeded(run(hardmeter()
        .args(["record", "-e", "page-faults/period=10/u", "-o"])
        .arg(&capture)
        .arg("--")
        .arg(&touch)
        .arg("5000")));
    let notes = std::fs::read_to_string(folder.path().join("pages.data.json")).expect("a sidecar");
    let notes: serde_json::Value = serde_json::from_str(&notes).expect("JSON");
    let total = notes["counts"]["page-faults:u"].as_u64().expect("a count");
    assert!(total >= 5000);
    // One partial period may be left over on each CPU.
    let samples = perf_script(&capture, "period").len() as u64;
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
    assert!(samples <= total / 10 && samples + cpus >= total / 10, "{samples} samples of {total} events");
}

#[test]
fn counting_differs_by_exactly_the_pages_touched() {
    if !kernel_counts() || !has("cc") {
        skip!("needs perf events and cc");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let touch = compile(folder.path(), "touch", TOUCH);
    // Random places of stack and libraries cost up to four pages more or less: `setarch -R` fixes them.
    let faults = |pages: &str| {
        let mut fixed = Command::new("setarch");
        fixed.arg("-R").arg(hardmeter().get_program());
        fixed.args(["stat", "-q", "-e", "page-faults:u", "--format", "json", "--"]);
        let output = run(fixed.arg(&touch).arg(pages));
        if stderr(&output).contains("personality") {
            return None;
        }
        let text = stdout(&succeeded(output));
        let json = &text[text.find('{').expect("JSON")..];
        let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(value["events"][0]["scaled"], false);
        assert_eq!(value["events"][0]["running_share"], 1.0);
        Some(value["events"][0]["count"].as_u64().expect("a count"))
    };
    let (Some(none), Some(thousand)) = (faults("0"), faults("1000")) else {
        skip!("the kernel refuses fixed addresses: setarch -R");
    };
    // 1000 pages; the page tables' own pages are not faults of the program.
    assert_eq!(thousand - none, 1000, "{none} and {thousand}");
}

#[test]
fn a_watched_variable_is_sampled_at_each_write() {
    if !kernel_counts() || !has("perf") || !has("cc") {
        skip!("needs perf events, perf and cc");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let source =
        "volatile long watched; int main(void) { for (int i = 0; i < 77; i++) watched = i; return 0; }";
    let program = compile(folder.path(), "watched", source);
    let symbols = stdout(&succeeded(run(Command::new("nm").arg(&program))));
    let address = symbols
        .lines()
        .find_map(|line| line.strip_suffix(" B watched"))
        .map(|address| u64::from_str_radix(address, 16).expect("an address"))
        .expect("a symbol");
    let capture = folder.path().join("writes.data");
    let event = format!("mem:{address:#x}/8:w:u");
    let output = run(hardmeter().args(["record", "-e", &event, "-o"]).arg(&capture).arg("--").arg(&program));
    if stderr(&output).contains("debug register") || stderr(&output).contains("cannot open") {
        skip!("{}", stderr(&output));
    }
    succeeded(output);
    let addresses = perf_script(&capture, "addr");
    assert_eq!(addresses.len(), 77);
    assert!(addresses.iter().all(|seen| u64::from_str_radix(seen, 16) == Ok(address)), "{addresses:?}");
}

/// The output of `perf evlist -v` about a capture's first event, as `key: value` pairs.
fn attribute(capture: &Path) -> Vec<(String, String)> {
    let output = succeeded(run(Command::new("perf").args(["evlist", "-v", "-i"]).arg(capture)));
    let text = stdout(&output).replace("{ sample_period, sample_freq }", "rate");
    let line = text.lines().next().expect("an event").to_string();
    line.split(", ")
        .filter_map(|pair| pair.rsplit_once(": "))
        .map(|(key, value)| {
            let key = key.rsplit_once(": ").map_or(key, |(_, key)| key);
            (key.trim().to_string(), value.trim().to_string())
        })
        .collect()
}

#[test]
fn attributes_equal_those_of_perf_record() {
    if !kernel_counts() || !has("perf") {
        skip!("needs perf events and perf");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let cases: [(&[&str], &[&str]); 4] = [
        (&["-e", "cpu-clock", "-F", "1000"], &["-e", "cpu-clock", "-F", "1000"]),
        (&["-e", "cpu-clock:u", "-c", "500000"], &["-e", "cpu-clock:u", "-c", "500000"]),
        (&["-e", "page-faults:u", "-c", "5", "-d"], &["-e", "page-faults:u", "-c", "5"]),
        (
            &["-e", "context-switches:k", "-c", "3", "-g"],
            &["-e", "context-switches:k", "-c", "3", "--call-graph"],
        ),
    ];
    for (perf, ours) in cases {
        let (theirs, own) = (folder.path().join("perf.data"), folder.path().join("own.data"));
        let recorded =
            run(Command::new("perf").arg("record").args(perf).arg("-o").arg(&theirs).args(["--", "true"]));
        if !recorded.status.success() {
            skip!("{}", stderr(&recorded)); // no right to the kernel
        }
        run(hardmeter().arg("record").args(ours).arg("-o").arg(&own).args(["--", "true"]));
        let (theirs, own) = (attribute(&theirs), attribute(&own));
        let value = |pairs: &[(String, String)], key: &str| {
            pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone()).unwrap_or_default()
        };
        for key in [
            "type",
            "config",
            "rate",
            "freq",
            "disabled",
            "inherit",
            "exclude_user",
            "exclude_kernel",
            "exclude_hv",
            "enable_on_exec",
            "mmap",
            "mmap2",
            "mmap_data",
            "comm",
            "comm_exec",
            "task",
            "sample_id_all",
            "exclude_guest",
            "precise_ip",
        ] {
            // perf leaves out exclude_guest if only the kernel is sampled.
            if key == "exclude_guest" && ours.contains(&"context-switches:k") {
                continue;
            }
            assert_eq!(
                value(&own, key),
                value(&theirs, key),
                "{key} of {ours:?}\nperf: {theirs:?}\nours: {own:?}"
            );
        }
        let (theirs, own) = (value(&theirs, "sample_type"), value(&own, "sample_type"));
        for field in ["IP", "TID", "TIME", "ADDR", "CALLCHAIN", "DATA_SRC"] {
            let has = |list: &str| list.split('|').any(|known| known == field);
            assert_eq!(has(&own), has(&theirs), "{field} of {ours:?}: perf {theirs}, ours {own}");
        }
    }
}

#[test]
fn the_timer_sees_a_busy_command_and_perf_reads_the_same() {
    if !kernel_counts() || !has("perf") {
        skip!("needs perf events and perf");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("timer.data");
    let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let output = succeeded(run(hardmeter()
        .args(["record", "--source", "timer", "--call-graph", "-o"])
        .arg(&capture)
        .args(["--", "sh", "-c", busy])));
    assert!(stderr(&output).contains("source timer (as asked)"), "{}", stderr(&output));
    let lines = perf_script(&capture, "comm,event");
    let event = if is_root() { "cpu-clock" } else { "cpu-clock:u" };
    let samples = recorded(&output, event);
    assert!(samples > 0);
    assert_eq!(lines.iter().filter(|line| line.contains("cpu-clock")).count() as u64, samples);
    // No other program of the machine is in it.
    let strangers: Vec<&String> = lines
        .iter()
        .filter(|line| {
            line.contains("cpu-clock") && !line.starts_with("sh") && !line.starts_with("hardmeter")
        })
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

#[test]
fn events_that_the_timer_would_ignore_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for command in ["record", "stat"] {
        let output = run(hardmeter().current_dir(folder.path()).args([
            command,
            "--source",
            "timer",
            "-e",
            "page-faults",
            "--",
            "true",
        ]));
        assert_eq!(output.status.code(), Some(1), "{command}");
        let told = stderr(&output);
        assert!(told.contains("counts no events: it cannot record page-faults"), "{command}: {told}");
        assert!(told.contains("remedy: leave -e out"), "{command}: {told}");
        assert!(!folder.path().join("hardmeter.data").exists());
    }
}

#[test]
fn children_of_a_running_process_are_recorded_too() {
    if !kernel_counts() || !has("perf") {
        skip!("needs perf events and perf");
    }
    let folder = tempfile::tempdir().expect("a folder");
    // A small server: a parent that forks a child for each round, and counts the rounds. Its folder looks like a
    // cluster.
    let rounds = folder.path().join("rounds");
    std::fs::write(&rounds, "").expect("written");
    let server = format!("while :; do sh -c :; sleep 0.01; echo >> {}; done", rounds.display());
    let mut server = Command::new("sh").args(["-c", &server]).spawn().expect("starts");
    // Of five ends of rounds, four are of whole rounds.
    let five_rounds = format!(
        "begun=$(wc -l < {0}); while [ $(wc -l < {0}) -lt $((begun + 5)) ]; do sleep 0.05; done",
        rounds.display()
    );
    std::fs::create_dir(folder.path().join("data")).expect("made");
    std::fs::write(folder.path().join("data/postmaster.pid"), format!("{}\n", server.id())).expect("written");
    let pid = server.id().to_string();
    let place = folder.path().to_str().expect("UTF-8").to_string();
    for target in [["-p", pid.as_str()], ["--server", place.as_str()]] {
        let capture = folder.path().join("server.data");
        succeeded(run(hardmeter()
            .args(["record", "-e", "page-faults:u", "-o"])
            .arg(&capture)
            .args(target)
            .args(["--", "sh", "-c", &five_rounds])));
        let mut processes = perf_script(&capture, "pid,comm");
        processes.sort();
        processes.dedup();
        assert!(processes.len() >= 3, "{target:?}: {processes:?}");
        assert!(processes.iter().any(|line| line.starts_with("sh")), "{target:?}: {processes:?}");
    }
    server.kill().expect("killed");
    server.wait().expect("ended");
}

/// A parent that waits, a child that spins in `spin_of_child`, and below it one that spins in `spin_of_grandchild`.
const FAMILY: &str = r#"
#include <stdio.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <signal.h>
static volatile unsigned long turns;
__attribute__((noinline)) static void spin_of_child(void) { for (;;) turns++; }
__attribute__((noinline)) static void spin_of_grandchild(void) { for (;;) turns++; }
int main(void) {
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int named[2];
        char byte;
        if (pipe(named) != 0) return 1;
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            prctl(PR_SET_NAME, "grandchild");
            if (read(named[0], &byte, 1) != 1) return 1;
            puts("ready");
            fflush(stdout);
            spin_of_grandchild();
        }
        prctl(PR_SET_NAME, "child");
        if (write(named[1], "", 1) != 1) return 1;
        spin_of_child();
    }
    pause();
    return 0;
}
"#;

/// Ends with the test, whatever its outcome.
struct Parent(std::process::Child);

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = self.0.kill(); // has ended already
        let _ = self.0.wait();
    }
}

#[test]
fn children_that_ran_before_the_recording_have_names_and_addresses() {
    if !kernel_counts() || !has("perf") || !has("cc") {
        skip!("needs perf events, perf and cc");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "family", FAMILY);
    let mut parent = Parent(
        Command::new(&program)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("starts"),
    );
    let mut ready = [0; 6];
    std::io::Read::read_exact(parent.0.stdout.as_mut().expect("a pipe"), &mut ready).expect("a line");
    let pid = parent.0.id().to_string();
    for source in [&["--source", "timer"][..], &["-e", "cpu-clock:u"]] {
        let capture = folder.path().join("family.data");
        let output = run(hardmeter().args(["record", "-o"]).arg(&capture).args(source).args([
            "--user-only",
            "-p",
            &pid,
            "--",
            "sleep",
            "1",
        ]));
        if !output.status.success() && stderr(&output).contains("timer") {
            println!("skipped: no timer here: {}", stderr(&output));
            continue;
        }
        succeeded(output);
        let mut seen: Vec<String> = perf_script(&capture, "comm,ip,sym")
            .iter()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .map(|fields| format!("{} {}", fields[0], fields[2..].join(" ")))
            .collect();
        assert!(seen.len() > 20, "{source:?}: {seen:?}");
        seen.sort();
        seen.dedup();
        assert_eq!(seen, ["child spin_of_child", "grandchild spin_of_grandchild"], "{source:?}");
    }
}

#[test]
fn the_software_pmu_stands_in_where_there_is_no_hardware() {
    let output = run(hardmeter().args(["events", "--format", "json"]));
    let events: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(events["events"].as_array().map(Vec::len), Some(13));
    let first = &events["events"][0];
    assert_eq!(first["event"], "l1d-miss");
    if first["simulated"] != true || !has("perf") {
        skip!("needs the software PMU and perf");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("simulated.data");
    let arguments =
        ["record", "--source", "simulated", "--machine", "xeon-2003", "-e", "l1d-miss/period=100/", "-o"];
    let output = succeeded(run(hardmeter().args(arguments).arg(&capture).args(["--", "true"])));
    let samples = recorded(&output, "l1d-miss");
    assert_eq!(perf_script(&capture, "ip").len() as u64, samples);
    let notes = std::fs::read_to_string(folder.path().join("simulated.data.json")).expect("a sidecar");
    let notes: serde_json::Value = serde_json::from_str(&notes).expect("JSON");
    assert_eq!(notes["machine_name"], "xeon-2003");
    // Every hundredth miss of the total is a sample, up to one per process and core that is left over.
    let total = notes["counts"]["l1d-miss"].as_u64().expect("a count");
    assert!(samples > 0 && total / 100 - samples <= 2, "{samples} samples of {total} misses");
    // `stat` counts the same program without a file, and gives a similar number.
    let arguments = ["stat", "-q", "--source", "simulated", "--machine", "xeon-2003", "-e", "l1d-miss,loads"];
    let output = succeeded(run(hardmeter().args(arguments).args(["--format", "json", "--", "true"])));
    let counts: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(counts["events"][0]["count"].as_u64() < counts["events"][1]["count"].as_u64());
    assert_eq!(counts["source"], "simulated");
}

#[test]
fn the_doctor_gives_a_verdict_for_each_source() {
    let output = run(hardmeter().args(["doctor", "--format", "json"]));
    let diagnosis: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let sources: Vec<&str> = diagnosis["sources"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|source| source["source"].as_str())
        .collect();
    assert_eq!(sources, ["hardware", "live", "simulated", "timer"]);
    let works = |name: usize| diagnosis["sources"][name]["works"] == true;
    assert_eq!(output.status.code(), Some(i32::from(!(0..3).any(works))));
}
