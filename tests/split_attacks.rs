//! An account without rights attacks the analyzer that root runs, in a folder that all users may write into.

mod common;
#[path = "split/requests.rs"]
mod requests;

use common::{hardmeter, run, stdout, succeeded};
use hardmeter_split::segment::monotonic_ns;
use hardmeter_split::state::{State, FILE};
use requests::{serve, wait_for, Running, APP};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The account `nobody`, which no file of the test belongs to.
const NOBODY: u32 = 65534;
/// Where a segment has its application's number: segment.h.
const NUMBER_AT: usize = 24;
const SECRET: &str = "root's own, unchanged\n";

/// A folder as /tmp is, and beside it a file that only root may read.
struct Place {
    all: TempDir,
}

impl Place {
    fn new() -> Option<Place> {
        // SAFETY: no arguments.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("skipped: a second account needs root");
            return None;
        }
        let all = tempfile::tempdir().expect("a folder");
        let place = Place { all };
        fs::set_permissions(place.all.path(), Permissions::from_mode(0o755)).expect("set");
        fs::create_dir(place.folder()).expect("made");
        fs::set_permissions(place.folder(), Permissions::from_mode(0o1777)).expect("set");
        fs::write(place.victim(), SECRET).expect("written");
        fs::set_permissions(place.victim(), Permissions::from_mode(0o600)).expect("set");
        Some(place)
    }

    fn folder(&self) -> PathBuf {
        self.all.path().join("split")
    }

    fn victim(&self) -> PathBuf {
        self.all.path().join("victim")
    }

    /// Runs a script as the unprivileged account, in the folder.
    fn attack(&self, script: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).uid(NOBODY).gid(NOBODY).current_dir(self.folder());
        succeeded(run(&mut shell));
    }

    /// An analyzer by root whose messages go to a file.
    fn analyzer(&self) -> Running {
        let messages = fs::File::create(self.all.path().join("messages")).expect("made");
        let mut command = hardmeter();
        command.args(["split", "analyze", "--interval=200ms", "--no-probe", "--directory"]);
        command.arg(self.folder()).stderr(messages).stdin(Stdio::null());
        Running(command.spawn().expect("started"))
    }

    fn messages(&self) -> String {
        fs::read_to_string(self.all.path().join("messages")).expect("read")
    }

    fn status(&self) -> String {
        let mut command = hardmeter();
        stdout(&succeeded(run(command.args(["split", "status", "--directory"]).arg(self.folder()))))
    }
}

/// Waits until the analyzer has written a state after now.
fn goes_on(folder: &Path, analyzer: &Running) {
    let now = monotonic_ns();
    let path = folder.join(FILE);
    wait_for("a new state", || {
        // Never the attacker's file.
        let is_roots = fs::symlink_metadata(&path).is_ok_and(|file| file.is_file() && file.uid() == 0);
        let state = State::read(folder).ok().filter(|state| is_roots && state.pid == analyzer.pid())?;
        (state.written_ns > now).then_some(())
    });
}

/// The largest memory that a process has used, in kilobytes.
fn peak_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn files_of_another_account_are_neither_followed_nor_waited_for() {
    let Some(place) = Place::new() else { return };
    place.attack(
        "ln -s ../victim app-51.segment
         mkfifo app-52.segment
         mkdir app-53.segment
         truncate -s 1T app-54.segment
         head -c 65536 /dev/urandom >app-55.segment
         ln -s app-55.segment app-56.segment
         ln -s ../victim analyzer-state.json",
    );
    let _server = serve(&place.folder(), 1, &["/a:16:100"]);
    let analyzer = place.analyzer();
    goes_on(&place.folder(), &analyzer);
    for number in 51..=56 {
        let name = format!("app-{number}.segment");
        wait_for(&name, || place.messages().contains(&name).then_some(()));
    }
    assert!(place.status().contains("requests (2a): 1 kinds"), "the server beside them: {}", place.status());
    assert_eq!(fs::read_to_string(place.victim()).expect("read"), SECRET);
    assert!(peak_kb(analyzer.pid()) < 256 << 10, "{} kB", peak_kb(analyzer.pid()));
}

/// In place of the lock: what root would truncate and write its process number into.
#[test]
fn a_lock_that_is_another_file_is_refused_with_its_name() {
    let Some(place) = Place::new() else { return };
    let lock = place.folder().join("analyzer.lock");
    // Where protected_hardlinks is set, the kernel forbids the second to the unprivileged account: root makes
    // it here.
    let attacks: [&dyn Fn(); 3] = [
        &|| place.attack("ln -s ../victim analyzer.lock"),
        &|| fs::hard_link(place.victim(), &lock).expect("linked"),
        &|| place.attack("mkfifo analyzer.lock"),
    ];
    for attack in attacks {
        attack();
        let mut analyzer = place.analyzer();
        assert_eq!(analyzer.0.wait().expect("ended").code(), Some(1), "{}", place.messages());
        assert!(place.messages().contains("analyzer.lock"), "{}", place.messages());
        assert_eq!(fs::read_to_string(place.victim()).expect("read"), SECRET);
        fs::remove_file(&lock).expect("removed");
    }
    let analyzer = place.analyzer();
    goes_on(&place.folder(), &analyzer);
}

#[test]
fn a_segment_that_its_owner_forges_and_cuts_is_dropped_and_the_others_are_served() {
    let Some(place) = Place::new() else { return };
    let _server = serve(&place.folder(), 1, &["/a:16:100"]);
    // A copy of the server's segment, with its threads, under another number.
    let mut forged = fs::read(place.folder().join(format!("app-{APP:x}.segment"))).expect("read");
    assert_eq!(forged[NUMBER_AT..NUMBER_AT + 4], APP.to_le_bytes());
    forged[NUMBER_AT..NUMBER_AT + 4].copy_from_slice(&0x77_u32.to_le_bytes());
    let beside = place.all.path().join("forged");
    fs::write(&beside, &forged).expect("written");
    fs::set_permissions(&beside, Permissions::from_mode(0o644)).expect("set");
    place.attack("cp ../forged app-77.segment");
    let analyzer = place.analyzer();
    for attack in [
        "true",
        "truncate -s 0 app-77.segment",
        "truncate -s 1T app-77.segment",
        "rm app-77.segment; mkfifo app-77.segment",
    ] {
        place.attack(attack);
        goes_on(&place.folder(), &analyzer);
    }
    assert!(place.status().contains("requests (2a): 1 kinds"), "{}", place.status());
}
