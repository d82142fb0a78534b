//! `hardmeter record --cgroup` and `--container`: the processes of a real cgroup, which the test makes.
//!
//! Needs the right to make cgroups, and to sample CPUs: root. Otherwise skipped with a message.

mod common;

use common::{compile, hardmeter, have, run, stderr, succeeded, wait_until};
use hardmeter_samples::model::Record;
use hardmeter_samples::perf_data::{CaptureReader, RecordOrder};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Maps and touches pages until it is killed: CPU time, and page faults.
const WORK: &str = r#"
#include <sys/mman.h>
int main(void) {
  for (;;) {
    volatile char *pages = mmap(0, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return 1;
    for (int i = 0; i < 64; i++) pages[i * 4096] = 1;
    munmap((void *)pages, 64 * 4096);
  }
}
"#;

/// A cgroup of a test, which goes with it.
struct Group {
    folder: PathBuf,
    name: String,
}

impl Group {
    /// `None`, with a message, if none can be made here. The best hierarchy first, as the recorder searches them.
    fn new(name: &str) -> Option<Group> {
        let mounts = std::fs::read_to_string("/proc/mounts").expect("readable");
        let of_type = |kind: &str| -> Vec<PathBuf> {
            let lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<&str>>());
            lines.filter(|fields| fields[2] == kind).map(|fields| PathBuf::from(fields[1])).collect()
        };
        let mut refusals = Vec::new();
        for mount in of_type("cgroup2").into_iter().chain(of_type("cgroup")) {
            let folder = mount.join(name);
            match std::fs::create_dir(&folder) {
                Ok(()) => return Some(Group { folder, name: name.to_string() }),
                Err(error) => refusals.push(format!("{}: {error}", mount.display())),
            }
        }
        eprintln!("skipped: no cgroup can be made: {refusals:?}");
        None
    }

    /// Moves a process into it; false, with a message, if this is not allowed here.
    fn add(&self, process: &Child) -> bool {
        let moved = std::fs::write(self.folder.join("cgroup.procs"), process.id().to_string());
        if let Err(error) = &moved {
            eprintln!("skipped: no process can be moved into {}: {error}", self.folder.display());
        }
        moved.is_ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have been waited for; the kernel may still count one.
        for _ in 0..500 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("{} stays behind", self.folder.display());
    }
}

/// A process that is killed at the end.
struct Running(Child);

impl Running {
    fn new(program: &Path) -> Running {
        Running(Command::new(program).stdin(Stdio::null()).spawn().expect("starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The names of the processes that have samples; `None` if the file cannot be read, or not yet.
fn sampled(capture: &Path) -> Option<BTreeSet<String>> {
    let (mut names, mut sampled) = (BTreeMap::new(), BTreeSet::new());
    let reader = CaptureReader::open(capture).ok()?;
    reader
        .for_each(RecordOrder::Time, &mut |record| {
            match record {
                Record::Comm(comm) => drop(names.insert(comm.pid, comm.name)),
                Record::Sample(sample) => sampled.extend(sample.pid),
                _ => {}
            }
            ControlFlow::Continue(())
        })
        .ok()?;
    let unnamed = || "no name".to_string();
    Some(sampled.iter().map(|pid| names.get(pid).cloned().unwrap_or_else(unnamed)).collect())
}

fn refused(output: &Output) -> bool {
    let refusals = ["no right to profile", "no perf_event_open", "this kernel has no"];
    let refused = refusals.iter().any(|refusal| stderr(output).contains(refusal));
    if refused {
        eprintln!("skipped: {}", stderr(output));
    }
    refused
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| name.to_string()).collect()
}

#[test]
fn the_timer_samples_a_cgroup_and_what_enters_it_later() {
    if !have(&["cc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = |name: &str| compile(folder.path(), name, &[], WORK, None);
    let (inside, outside, later) = (program("inside"), program("outside"), program("later"));
    let Some(group) = Group::new(&format!("hardmeter-timer-{}", std::process::id())) else { return };
    let (inside, _outside) = (Running::new(&inside), Running::new(&outside));
    if !group.add(&inside.0) {
        return;
    }
    let capture = folder.path().join("timer.data");
    let mut command = hardmeter();
    command.args(["record", "--source", "timer", "-F", "400", "--cgroup", &group.name, "-o"]).arg(&capture);
    let mut recorder = command.stderr(Stdio::piped()).spawn().expect("starts");
    let mut over = false;
    let partial = || {
        let files = common::files_in(folder.path());
        files.iter().find(|name| name.ends_with(".partial")).map(|name| folder.path().join(name))
    };
    wait_until("the recording", || {
        over = recorder.try_wait().expect("a child").is_some();
        over || partial().is_some()
    });
    // It was started outside, and its mappings are older than its entry.
    let later = Running::new(&later);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(group.add(&later.0), "as the first");
    let both = set(&["inside", "later"]);
    wait_until("samples of both", || {
        over = over || recorder.try_wait().expect("a child").is_some();
        over || partial().and_then(|partial| sampled(&partial)).is_some_and(|names| names.is_superset(&both))
    });
    if !over {
        // SAFETY: no memory; a process of this test, not yet waited for.
        unsafe { libc::kill(recorder.id() as i32, libc::SIGINT) };
    }
    let output = recorder.wait_with_output().expect("ended");
    if refused(&output) {
        return;
    }
    succeeded(output);
    assert_eq!(sampled(&capture), Some(both));
    drop((inside, later));
}

#[test]
fn the_kernel_s_events_are_of_a_cgroup_or_container_alone() {
    if !have(&["cc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = |name: &str| compile(folder.path(), name, &[], WORK, None);
    let (inside, outside) = (program("inside"), program("outside"));
    // As docker names the cgroup of a container.
    let id = format!("{:064x}", u128::from(std::process::id()) << 96 | 0xabcdef);
    let Some(group) = Group::new(&format!("docker-{id}.scope")) else { return };
    let (inside, _outside) = (Running::new(&inside), Running::new(&outside));
    if !group.add(&inside.0) {
        return;
    }
    for (number, target) in
        [["--cgroup", &group.name], ["--container", &id], ["--container", &id[..44]]].iter().enumerate()
    {
        let capture = folder.path().join(format!("faults-{number}.data"));
        let mut command = hardmeter();
        command.args(["record", "-e", "page-faults/period=1000/u"]).args(target).arg("-o").arg(&capture);
        let output = run(command.args(["--", "sleep", "1"]));
        if refused(&output) {
            return;
        }
        let said = stderr(&succeeded(output));
        assert_eq!(sampled(&capture), Some(set(&["inside"])), "{target:?}: {said}");
    }
    drop(inside);
}

#[test]
fn what_is_no_cgroup_or_container_has_a_remedy() {
    let Some(group) = Group::new(&format!("hardmeter-empty-{}", std::process::id())) else { return };
    let wrong = group.name.replace("hardmeter", "hardmetre");
    for (arguments, status, texts) in [
        (&["--cgroup", &wrong][..], 1, &["there is no cgroup", &group.name, "/proc/PID/cgroup"][..]),
        (&["--cgroup", &group.name], 1, &["holds no process", "one above it"]),
        (&["--container", "hardmeter-has-none"], 1, &["no cgroup of a container named", "docker ps"]),
        (&["--cgroup", &group.name, "-p", "1"], 2, &["cannot be used with"]),
        (&["--cgroup", &group.name, "--container", "x"], 2, &["cannot be used with"]),
        (&["--container", "x", "--server", "y"], 2, &["cannot be used with"]),
    ] {
        let output =
            run(hardmeter().args(["record", "--source", "timer"]).args(arguments).args(["--", "true"]));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(texts.iter().all(|text| said.contains(text)), "{arguments:?}: {said}");
    }
}
