//! Faults while `hardmeter record` samples software events: targets that end, crash or are missing, a full disk,
//! signals, missing rights. Each has its message and its remedy, and loses no data.

mod common;
#[path = "common/software_events.rs"]
mod software_events;

use common::{hardmeter, is_root, recorded, run, stderr, stdout, succeeded};
use software_events::{compile, has, kernel_counts, perf_script, skip, TOUCH};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_server_that_crashes_leaves_a_complete_capture_and_a_message() {
    if !kernel_counts() || !has("perf") {
        skip!("needs perf events and perf");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("crash.data");
    let mut server = Command::new("sh").args(["-c", "while :; do sh -c :; done"]).spawn().expect("starts");
    let pid = server.id().to_string();
    // The command kills the profiled process, and continues for a while after this test has reaped it.
    let script =
        format!("sleep 0.3; kill -SEGV {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.05; done; sleep 3");
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

/// The command as user nobody, in a folder that this user cannot write to.
fn as_nobody(folder: &Path) -> Command {
    use std::os::unix::fs::PermissionsExt;
    // Other users may not be able to enter the build folder: use a copy.
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
    let live = ["record", "--source", "live", "--", "true"];
    let output = run(as_nobody(folder.path()).args(live));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("no right to profile the whole system"), "{}", stderr(&output));
    assert!(stderr(&output).contains("sudo"), "{}", stderr(&output));
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
