//! Faults of a simulated recording: each has its message, its exit status, and leaves no partial file.

mod common;

use common::{
    can_simulate, compile, files_in, hardmeter, is_root, perf_script, record, recorded, recorder, report,
    run, samples, stderr, stdout, wait_until,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder, made for one test.
struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Room {
        Room(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_string()
    }

    /// An executable file.
    fn program(&self, name: &str, content: &[u8]) -> String {
        std::fs::write(self.path(name), content).expect("written");
        self.set_mode(name, 0o755);
        self.text(name)
    }

    fn set_mode(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).expect("set");
    }

    /// Walks over `MEGABYTES` in steps of a line; writes its pid to the file `ready` after the first round; ends
    /// after `ROUNDS`, then by the signal `SIGNAL` if there is one.
    fn walker(&self, options: &[&str]) -> PathBuf {
        compile(self.0.path(), "walker", options, WALKER, None)
    }
}

const WALKER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc < 4) return 2;
    size_t size = (size_t)atol(argv[1]) << 20;
    volatile char *area = calloc(size, 1);
    for (long round = 0, rounds = atol(argv[2]); round < rounds; round++) {
        for (size_t at = 0; at < size; at += 64) area[at]++;
        if (round == 0) {
            FILE *ready = fopen("ready.new", "w");
            fprintf(ready, "%d", getpid());
            fclose(ready);
            rename("ready.new", "ready");
        }
    }
    int number = atoi(argv[3]);
    if (number) kill(getpid(), number);
    return 0;
}
"#;

/// The head of a program for a machine, and nothing that it could execute.
fn elf(class: u8, machine: u16) -> Vec<u8> {
    let mut head = b"\x7fELF".to_vec();
    head.extend([class, 1, 1, 0]); // little endian, version 1
    head.extend([0; 8]);
    head.extend(2u16.to_le_bytes()); // an executable
    head.extend(machine.to_le_bytes());
    head.resize(64, 0);
    head
}

/// A complete 32-bit program: it ends with status 7.
fn program_of_32_bits() -> Vec<u8> {
    const BASE: u32 = 0x0804_8000;
    let code = [0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80]; // exit(7)
    let mut bytes = elf(1, 3)[..20].to_vec();
    for word in [1, BASE + 84, 52, 0, 0] {
        bytes.extend(u32::to_le_bytes(word)); // version, entry, program headers, section headers, flags
    }
    for half in [52, 32, 1, 0, 0, 0] {
        bytes.extend(u16::to_le_bytes(half)); // sizes and numbers of headers
    }
    let length = 84 + code.len() as u32;
    for word in [1, 0, BASE, BASE, length, length, 5, 0x1000] {
        bytes.extend(u32::to_le_bytes(word)); // one segment, all of the file
    }
    bytes.extend(code);
    bytes
}

/// Both cause and remedy are printed.
fn assert_told(output: &Output, cause: &str, remedy: &str) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(cause), "{cause:?} is not in: {text}");
    assert!(text.contains(&format!("remedy: {remedy}")), "{remedy:?} is not in: {text}");
    assert!(!text.contains("panicked"), "{text}");
}

/// The file is complete, and perf and we count the same samples in it as the recorder did.
fn assert_readable(capture: &Path, output: &Output, event: &str) -> u64 {
    let count = recorded(output, event);
    assert_eq!(perf_script(capture, "ip").len() as u64, count);
    assert_eq!(samples(&report(capture, &["--by", "event"])), count);
    let folder = capture.parent().expect("a folder");
    let partial: Vec<_> = files_in(folder).into_iter().filter(|name| name.contains("partial")).collect();
    assert!(partial.is_empty(), "{partial:?}");
    count
}

const L1D: &[&str] = &["-e", "l1d-miss/period=100/"];

#[test]
fn what_cannot_begin_leaves_no_file() {
    if !can_simulate() {
        return;
    }
    let (room, results) = (Room::new(), Room::new());
    let written = |name: &str, content: &str| {
        std::fs::write(room.path(name), content).expect("written");
        room.text(name)
    };
    let script = room.program("script", b"#!/nonexistent/interpreter -x\n");
    let plain = room.program("plain", b"#!/bin/sh\n");
    room.set_mode("plain", 0o644);
    let of_32_bits = room.program("of_32_bits", &program_of_32_bits());
    let in_32_bits = room.program("in_32_bits", format!("#! {of_32_bits}\n").as_bytes());
    let of_arm = room.program("of_arm", &elf(2, 183));
    let no_toml = written("no.toml", "name = [");
    let no_ways = written("ways.toml", "name = \"x\"\n[l1d]\nsize = \"32 KiB\"\n");
    let none = room.text("none.toml");
    let machine = |name| ["--machine", name, "--", "true"].to_vec();
    let cases: [(Vec<&str>, &str, &str); 16] = [
        (
            machine("pdp-11"),
            "no machine model \"pdp-11\"",
            "--machine this, a TOML file, or one of: xeon-2003",
        ),
        (machine(&no_toml), "no.toml", "the form is documented in docs/record.md"),
        (machine(&no_ways), "missing field `ways`", "the form is documented in docs/record.md"),
        (machine(&none), "none.toml: No such file", "check the path and its rights"),
        (vec!["--", "no-such-command"], "it is not in PATH", "give its full path"),
        (vec!["--", "/nonexistent/program"], "No such file", "check the path and its rights"),
        (vec!["--", "/"], "Is a directory", "check the path and its rights"),
        (vec!["--", &plain], "it is not executable", "chmod +x"),
        (vec!["--", &script], "/nonexistent/interpreter is not there", "install it"),
        (vec!["--", &of_32_bits], "it is a 32-bit program", "use a 64-bit build, or --source timer"),
        (vec!["--", &in_32_bits], "it is a 32-bit program", "use a 64-bit build"),
        (vec!["--", &of_arm], "it is of another processor", "use an x86-64 build"),
        (vec!["-F", "1000", "--", "true"], "the software PMU has no frequency", "give a period with -c"),
        (vec!["-p", "1"], "a process that runs already cannot be simulated", "use --source hardware"),
        (vec!["--set-sampling", "3", "--", "true"], "--set-sampling 3 is not possible", "give 1, 2, 4, 8"),
        (vec![], "nothing to profile", "give a command after `--`"),
    ];
    for (arguments, cause, remedy) in cases {
        let output = run(hardmeter()
            .current_dir(results.path(""))
            .args(["record", "--source", "simulated"])
            .args(&arguments));
        assert_told(&output, cause, remedy);
        assert_eq!(files_in(&results.path("")), [""; 0], "{arguments:?}");
    }
    for (variable, value, cause, remedy) in [
        ("PATH", "/nonexistent", "valgrind is not installed", "apt-get install valgrind"),
        ("HARDMETER_SOFTPMU", "/nonexistent", "tool was not found (looked in /nonexistent)", "`make build`"),
    ] {
        for command in ["record", "stat"] {
            let output = run(hardmeter()
                .current_dir(results.path(""))
                .args([command, "--source", "simulated", "--", "/bin/true"])
                .env(variable, value));
            assert_told(&output, cause, remedy);
            assert_eq!(files_in(&results.path("")), [""; 0], "{variable}");
        }
    }
}

#[test]
fn a_command_that_ends_at_once_or_fails_leaves_a_readable_file() {
    if !can_simulate() {
        return;
    }
    let room = Room::new();
    let capture = room.path("true.data");
    let output = record(&capture, L1D, &["true"]);
    assert!(assert_readable(&capture, &output, "l1d-miss") > 0);

    let output = run(recorder(&capture, &["-c", "1000000000"]).args(["--", "true"]));
    assert_told(&output, "no samples in", "a shorter period (-c), a longer run");
    assert_eq!(perf_script(&capture, "ip").len(), 0);
    let output = run(hardmeter().args(["report", "-i"]).arg(&capture));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("holds no sample of l1d-miss"), "{}", stderr(&output));

    let output = run(recorder(&capture, L1D).args(["--", "sh", "-c", "exit 3"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the command ended with status 3"), "{}", stderr(&output));
    assert!(assert_readable(&capture, &output, "l1d-miss") > 0);

    let arguments = ["stat", "-q", "--source", "simulated", "--format", "json", "--", "sh", "-c", "exit 3"];
    let output = run(hardmeter().args(arguments));
    assert_eq!(output.status.code(), Some(1));
    let counted: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(counted["command_status"], 3);
}

/// Processes that a capture has samples of.
fn processes(capture: &Path) -> Vec<(String, u64)> {
    let by_process = report(capture, &["--by", "process,pid"]);
    let counts = common::counts(&by_process, &["process", "pid"]);
    counts.into_keys().map(|(_, values)| (values[0].clone(), values[1].parse().expect("a pid"))).collect()
}

#[test]
fn programs_execute_others_of_all_kinds() {
    if !can_simulate() {
        return;
    }
    let room = Room::new();
    room.walker(&["-static"]);
    room.program("of_32_bits", &program_of_32_bits());
    // A script is executed, which executes a static program, and a 32-bit one, and becomes a dynamic one.
    let text = "#!/bin/sh\n./walker 1 2 0\n./of_32_bits\necho of_32_bits=$?\nexec sort /dev/null\n";
    let script = room.program("script", text.as_bytes());
    let capture = room.path("kinds.data");
    let output = run(recorder(&capture, L1D).current_dir(room.path("")).arg("--").arg(script));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("./of_32_bits cannot run"), "{}", stderr(&output));
    assert!(stderr(&output).contains("remedy: use a 64-bit build"), "{}", stderr(&output));
    assert!(stdout(&output).contains("of_32_bits=126"), "{}", stdout(&output));
    assert_readable(&capture, &output, "l1d-miss");
    let found = processes(&capture);
    let pid = |name: &str| {
        let pids: Vec<u64> = found.iter().filter(|found| found.0 == name).map(|found| found.1).collect();
        assert!(!pids.is_empty(), "{name} in {found:?}");
        pids
    };
    // The shell had two more children, and was replaced by sort.
    assert!(pid("script").contains(&pid("sort")[0]), "{found:?}");
    assert!(!pid("sort").contains(&pid("walker")[0]), "{found:?}");
    // 2 rounds over 16,384 lines, none of which stays in 8 KiB of L1.
    let routines = common::counts(&report(&capture, &["--by", "routine", "--comm", "walker"]), &["routine"]);
    let in_main = routines[&("l1d-miss".to_string(), vec!["main".to_string()])];
    assert!((327..=329).contains(&in_main), "{in_main}");
}

#[test]
fn a_program_killed_in_the_middle_leaves_what_came_before() {
    if !can_simulate() {
        return;
    }
    let room = Room::new();
    let walker = room.walker(&[]);
    let capture = room.path("killed.data");
    let walk = ["--", walker.to_str().expect("UTF-8"), "1", "3", "9"];
    let output = run(recorder(&capture, L1D).current_dir(room.path("")).args(walk));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("the command was ended by SIGKILL"), "{}", stderr(&output));
    // calloc'ed memory is fresh: 3 rounds over 16,384 lines, plus the program's start.
    assert!((491..800).contains(&assert_readable(&capture, &output, "l1d-miss")));

    // One of several is killed while its code runs: the others continue.
    std::fs::remove_file(room.path("ready")).expect("removed");
    let script = "./walker 1 1000000000 0 & while ! [ -e ready ]; do sleep 0.1; done; kill -9 $!; wait $!; \
                  exec ./walker 1 3 0";
    let output = run(recorder(&capture, L1D).current_dir(room.path("")).args(["--", "sh", "-c", script]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(assert_readable(&capture, &output, "l1d-miss") > 900);
    let found = processes(&capture);
    assert_eq!(found.iter().filter(|found| found.0 == "walker").count(), 2, "{found:?}");
}

#[test]
fn ctrl_c_leaves_a_complete_file_and_no_command() {
    if !can_simulate() {
        return;
    }
    for (signal, name) in [(libc::SIGINT, "SIGINT"), (libc::SIGTERM, "SIGTERM")] {
        let room = Room::new();
        let walker = room.walker(&[]);
        let capture = room.path("stopped.data");
        let recorder = recorder(&capture, L1D)
            .current_dir(room.path(""))
            .arg("--")
            .arg(walker)
            .args(["1", "1000000000", "0"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        wait_until("the first round", || room.path("ready").exists());
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(recorder.id() as i32, signal) };
        let output = recorder.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("stopped by {name}")), "{}", stderr(&output));
        assert!(assert_readable(&capture, &output, "l1d-miss") > 163, "a round over 16,384 lines at least");
        let pid = std::fs::read_to_string(room.path("ready")).expect("a pid");
        assert!(!Path::new("/proc").join(pid).exists(), "the command was left running");
    }
}

#[test]
fn a_full_disk_keeps_the_beginning_and_says_so() {
    if !can_simulate() {
        return;
    }
    let room = Room::new();
    let walker = room.walker(&[]);
    let small = room.path("small");
    std::fs::create_dir(&small).expect("made");
    let mount = || run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&small));
    if !is_root() || !mount().status.success() {
        eprintln!("skipped: no right to mount a small disk");
        return;
    }
    let capture = small.join("full.data");
    // Each of 49,152 samples is some 270 bytes long.
    let mut command = recorder(&capture, &["-e", "l1d-miss/period=1/"]);
    let output = run(command.current_dir(room.path("")).arg("--").arg(walker).args(["1", "3", "0"]));
    let kept = capture.exists().then(|| perf_script(&capture, "ip").len());
    let report = run(hardmeter().args(["report", "-i"]).arg(&capture));
    let left = files_in(&small);
    assert!(run(Command::new("umount").arg(&small)).status.success());
    assert_told(&output, "no room left for", "free some space");
    assert!((1000..49_152).contains(&kept.expect("a shortened file")), "{kept:?}");
    assert!(left.iter().all(|name| name.starts_with("full.data")), "{left:?}");
    assert!(stdout(&report).contains("l1d-miss: n = "), "{}", stderr(&report));
}
