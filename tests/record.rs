//! `hardmeter record`, `stat`, `events` and `doctor` from end to end, with what every kernel has: software events.
//!
//! Expected numbers are known from outside: pages that a C program touches, writes that it makes, what perf says.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn hardmeter() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hardmeter"))
}

fn run(command: &mut Command) -> Output {
    loop {
        match command.output() {
            // Another test forked while a copy of a program was being written, and holds it open until its exec.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            output => return output.expect("the program starts"),
        }
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn succeeded(output: Output) -> Output {
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    output
}

/// Says why a test is left out, so that a log shows it.
macro_rules! skip {
    ($($reason:tt)*) => {{
        println!("skipped: {}", format!($($reason)*));
        return;
    }};
}

fn is_root() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// Whether the kernel lets us count at all; containers often forbid the system call.
fn kernel_counts() -> bool {
    let output = run(hardmeter().args(["stat", "-q", "-e", "page-faults:u", "--", "true"]));
    output.status.success()
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The samples of a capture as perf sees them, one line each.
fn perf_script(capture: &Path, fields: &str) -> Vec<String> {
    let output = succeeded(run(Command::new("perf")
        .args(["script", "-F", fields, "-i"])
        .arg(capture)
        .stdin(Stdio::null())));
    stdout(&output).lines().map(|line| line.trim().to_string()).filter(|line| !line.is_empty()).collect()
}

/// Compiles a C program, position-dependent so that its variables have the addresses that `nm` prints.
fn compile(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source).expect("written");
    succeeded(run(Command::new("cc").args(["-O1", "-no-pie", "-o"]).arg(&program).arg(&file)));
    program
}

/// Touches as many fresh pages as its argument says, in an area whose address it prints.
const TOUCH: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
    long pages = atol(argv[1]);
    size_t length = (pages + 1) * 4096;
    volatile char *area = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)area, length, MADV_NOHUGEPAGE);
    for (long page = 0; page < pages; page++) area[page * 4096 + 24] = 1;
    printf("%p\n", (void *)area);
    return 0;
}
"#;

/// The number that `hardmeter record` says it has of an event.
fn recorded(output: &Output, event: &str) -> u64 {
    let text = stderr(output);
    let line = text.lines().find(|line| line.contains(" processes in ")).unwrap_or_else(|| panic!("{text}"));
    let words: Vec<&str> = line.split_whitespace().collect();
    let at =
        words.iter().position(|word| word.trim_end_matches(',') == event).unwrap_or_else(|| panic!("{line}"));
    words[at - 1].parse().expect("a number")
}

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
    // Where the stack lies is random and costs a page more or less: each way, the least of some runs.
    let faults = |pages: &str| {
        let once = || {
            let arguments = ["stat", "-q", "-e", "page-faults:u", "--format", "json", "--"];
            let output = succeeded(run(hardmeter().args(arguments).arg(&touch).arg(pages)));
            let text = stdout(&output);
            let json = &text[text.find('{').expect("JSON")..];
            let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
            assert_eq!(value["events"][0]["scaled"], false);
            assert_eq!(value["events"][0]["running_share"], 1.0);
            value["events"][0]["count"].as_u64().expect("a count")
        };
        (0..8).map(|_| once()).min().expect("eight runs")
    };
    let (none, thousand) = (faults("0"), faults("1000"));
    // 1000 pages, and the page tables' own pages are not faults of the program.
    assert!((998..=1002).contains(&(thousand - none)), "{none} and {thousand}");
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

/// What `perf evlist -v` prints of a capture's first event, as `key: value` pairs.
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
            // perf forgets guests where only the kernel is asked for.
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
    // Whatever else ran on the machine is not in it.
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
    // A server in small: a parent that forks a child for each round. Its folder looks like a cluster.
    let mut server =
        Command::new("sh").args(["-c", "while :; do sh -c :; sleep 0.01; done"]).spawn().expect("starts");
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
            .args(["--", "sleep", "0.5"])));
        let mut processes = perf_script(&capture, "pid,comm");
        processes.sort();
        processes.dedup();
        assert!(processes.len() >= 3, "{target:?}: {processes:?}");
        assert!(processes.iter().any(|line| line.starts_with("sh")), "{target:?}: {processes:?}");
    }
    server.kill().expect("killed");
    server.wait().expect("ended");
}

#[test]
fn a_server_that_crashes_leaves_a_complete_capture_and_a_message() {
    if !kernel_counts() || !has("perf") {
        skip!("needs perf events and perf");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("crash.data");
    let mut server = Command::new("sh").args(["-c", "while :; do sh -c :; done"]).spawn().expect("starts");
    let pid = server.id().to_string();
    // The command kills what is profiled, and goes on for a while.
    let script = format!("sleep 0.3; kill -SEGV {pid}; sleep 0.5");
    let recorder = hardmeter()
        .args(["record", "-e", "page-faults:u", "-p", &pid, "-o"])
        .arg(&capture)
        .args(["--", "sh", "-c", &script])
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    server.wait().expect("ended"); // a zombie would still count as running
    let output = recorder.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("ended before the command"), "{}", stderr(&output));
    assert_eq!(perf_script(&capture, "ip").len() as u64, recorded(&output, "page-faults:u"));
}

#[test]
fn a_target_that_ends_at_once_leaves_a_file_without_samples_and_a_message() {
    if !kernel_counts() || !has("perf") {
        skip!("needs perf events and perf");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("short.data");
    let output = run(hardmeter()
        .args(["record", "-e", "major-faults/period=1000000/u", "-o"])
        .arg(&capture)
        .args(["--", "true"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no samples in"), "{}", stderr(&output));
    assert!(stderr(&output).contains("remedy:"), "{}", stderr(&output));
    assert_eq!(perf_script(&capture, "ip").len(), 0);
    // The same when the measuring never begins.
    let arguments = ["record", "-e", "page-faults:u", "--delay", "3600", "-o"];
    let output = run(hardmeter().args(arguments).arg(&capture).args(["--", "true"]));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(perf_script(&capture, "ip").len(), 0);
}

#[test]
fn wrong_targets_and_events_are_named_and_leave_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new("true").spawn().expect("runs");
    child.wait().expect("ends");
    let dead = child.id().to_string();
    let cases: [(&[&str], &str); 8] = [
        (&["-e", "page-faults", "-p", &dead], "there is no process"),
        (&["-e", "page-faults", "--server", "/nonexistent"], "no server runs in /nonexistent"),
        (&["-e", "page-faults"], "nothing to profile"),
        (&["-e", "page-faults", "--", "/nonexistent/program"], "/nonexistent/program"),
        (&["-e", "no-such-event", "--", "true"], "no-such-event"),
        (&["-e", "nopmu/event=1/", "--", "true"], "no PMU named \"nopmu\""),
        (&["-e", "page-faults/period=0/", "--", "true"], "period"),
        (&["-e", "l1d-miss", "--source", "simulated", "-a"], "cannot be simulated"),
    ];
    for (arguments, message) in cases {
        let output = run(hardmeter().current_dir(folder.path()).arg("record").args(arguments));
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("remedy:"), "{arguments:?}: {}", stderr(&output));
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0, "{arguments:?}");
    }
    let output = run(hardmeter().args(["record", "-c", "5", "-F", "7", "--", "true"]));
    assert_eq!(output.status.code(), Some(2)); // wrong arguments
}

#[test]
fn the_status_of_a_failed_command_is_told() {
    if !kernel_counts() {
        skip!("needs perf events");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(hardmeter().current_dir(folder.path()).args([
        "record",
        "-e",
        "page-faults:u",
        "--",
        "sh",
        "-c",
        "exit 3",
    ]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("ended with status 3"), "{}", stderr(&output));
    assert!(folder.path().join("hardmeter.data").exists());
}

#[test]
fn ctrl_c_and_terminate_leave_a_complete_file_and_no_command() {
    if !kernel_counts() || !has("perf") {
        skip!("needs perf events and perf");
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let folder = tempfile::tempdir().expect("a folder");
        let (capture, ready) = (folder.path().join("stopped.data"), folder.path().join("ready"));
        let script = format!("echo $$ > {}; mv {0} {0}.done; exec sleep 1000", ready.display());
        let recorder = hardmeter()
            .args(["record", "-e", "page-faults:u", "-o"])
            .arg(&capture)
            .args(["--", "sh", "-c", &script])
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let done = folder.path().join("ready.done");
        while !done.exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(recorder.id() as i32, signal) };
        let output = recorder.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains("stopped by SIG"), "{}", stderr(&output));
        assert_eq!(perf_script(&capture, "ip").len() as u64, recorded(&output, "page-faults:u"));
        let command: i32 = std::fs::read_to_string(done).expect("a pid").trim().parse().expect("a pid");
        assert!(!Path::new(&format!("/proc/{command}")).exists(), "the command was left running");
        let left: Vec<_> = std::fs::read_dir(folder.path())
            .expect("readable")
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().contains("partial"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_full_disk_keeps_the_beginning_and_says_so() {
    if !is_root() || !kernel_counts() || !has("perf") || !has("cc") {
        skip!("needs root, perf events, perf and cc");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let touch = compile(folder.path(), "touch", TOUCH);
    let small = folder.path().join("small");
    std::fs::create_dir(&small).expect("made");
    let mounted = run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&small));
    if !mounted.status.success() {
        skip!("{}", stderr(&mounted));
    }
    let capture = small.join("full.data");
    // 20,000 samples of about 300 bytes do not fit into 1 MiB.
    let output = run(hardmeter()
        .args(["record", "-e", "page-faults:u", "-o"])
        .arg(&capture)
        .arg("--")
        .arg(&touch)
        .arg("20000"));
    let lines = capture.exists().then(|| perf_script(&capture, "ip").len());
    let unmounted = run(Command::new("umount").arg(&small));
    assert!(unmounted.status.success(), "{}", stderr(&unmounted));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("no room"), "{}", stderr(&output));
    assert!(stderr(&output).contains("remedy:"), "{}", stderr(&output));
    let lines = lines.expect("a shortened file");
    assert!((1..20_000).contains(&lines), "{lines}");
}

/// The command as user nobody, in a folder that nobody may write to.
fn as_nobody(folder: &Path) -> Command {
    use std::os::unix::fs::PermissionsExt;
    // The build folder may be closed to others: a copy is not.
    let copy = folder.join("hardmeter");
    if !copy.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_hardmeter"), &copy).expect("copied");
    }
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).expect("set");
    let mut command = Command::new(copy);
    command.current_dir(folder).gid(65534).uid(65534);
    command
}

#[test]
fn without_rights_only_own_programs_are_recorded_and_the_rest_has_a_remedy() {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if !is_root() || level.trim() != "2" || !kernel_counts() {
        skip!("needs root and perf_event_paranoid 2");
    }
    let folder = tempfile::Builder::new().tempdir_in("/tmp").expect("a folder");
    let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let output = succeeded(run(
        as_nobody(folder.path()).args(["record", "--source", "timer", "--", "sh", "-c", busy])
    ));
    assert!(recorded(&output, "cpu-clock:u") > 0);
    assert!(stderr(&output).contains("user mode only"), "{}", stderr(&output));
    for target in [vec!["-a"], vec!["-p", "1"]] {
        let arguments = ["record", "-e", "page-faults", "-o", "other.data"];
        let output = run(as_nobody(folder.path()).args(arguments).args(&target).args(["--", "true"]));
        assert_eq!(output.status.code(), Some(1), "{target:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("no right to profile"), "{target:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("sudo"), "{target:?}: {}", stderr(&output));
        assert!(!folder.path().join("other.data").exists());
    }
    let output = run(as_nobody(folder.path()).args(["doctor"]));
    assert!(stdout(&output).contains("sudo sysctl kernel.perf_event_paranoid=1"), "{}", stdout(&output));
}

#[test]
fn under_sudo_the_command_and_the_file_belong_to_the_caller() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    if !is_root() || !kernel_counts() {
        skip!("needs root and perf events");
    }
    let folder = tempfile::Builder::new().tempdir_in("/tmp").expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).expect("set");
    for target in [vec![], vec!["-a"]] {
        let output = succeeded(run(hardmeter()
            .current_dir(folder.path())
            .env("SUDO_UID", "65534")
            .env("SUDO_GID", "65534")
            .args(["record", "-e", "page-faults"])
            .args(&target)
            .args(["--", "id", "-u"])));
        assert_eq!(stdout(&output).trim(), "65534");
        let capture = folder.path().join("hardmeter.data");
        let owner = std::fs::metadata(&capture).expect("a file");
        assert_eq!((owner.uid(), owner.gid()), (65534, 65534));
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
    // Counting the same program gives the same kind of number, without a file.
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
    assert_eq!(sources, ["hardware", "simulated", "timer"]);
    let works = |name: usize| diagnosis["sources"][name]["works"] == true;
    assert_eq!(output.status.code(), Some(i32::from(!works(0) && !works(1))));
}
