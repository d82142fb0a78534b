//! The recorder with ghosts writes nothing into the server: seen by strace in its system calls, and by checksums of the
//! server's shared memory in a state in which the server itself writes nothing there. And nothing goes on following when
//! the recorder is killed. (`bench/live/run --only kills` kills it many times beside a load.)
//!
//! Needs strace, hardmeter-ghost and root; otherwise skipped with a message.

#![cfg(target_arch = "x86_64")]

mod common;
#[path = "common/server.rs"]
mod server;

use common::{hardmeter, is_root, refuses_to_follow, run, stderr, wait_until};
use hardmeter_samples::sidecar::Sidecar;
use server::ThrowawayServer;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

/// Everything by which a process could write into another: requests that only read or stop are allowed.
const CALLS: &str =
    "trace=ptrace,process_vm_readv,process_vm_writev,open,openat,openat2,creat,pwrite64,pwritev";
const READING: [&str; 9] = [
    "PTRACE_SEIZE",
    "PTRACE_INTERRUPT",
    "PTRACE_SYSCALL",
    "PTRACE_CONT",
    "PTRACE_DETACH",
    "PTRACE_GETREGS",
    "PTRACE_GETREGSET",
    "PTRACE_GETSIGINFO",
    "PTRACE_GET_SYSCALL_INFO",
];

/// A query that computes for a long time, without a lock, a page or a snapshot after its start.
struct Busy {
    psql: Child,
    backend: i32,
    /// The other processes of the server, which stand still meanwhile.
    others: Vec<i32>,
}

impl Busy {
    fn new(server: &ThrowawayServer) -> Busy {
        let mut psql = Command::new("psql");
        // Both series stay in memory: a temporary file would change the backend's wait event.
        let query = "SELECT count(*) FROM generate_series(1, 200000) a, generate_series(1, 200000) b";
        psql.envs(server.cluster().environment()).env("PGOPTIONS", "-c work_mem=1GB");
        psql.args(["-qAtX", "-c", query]);
        let psql =
            psql.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        let pid_file = server.folder().path().join("data/postmaster.pid");
        let text = std::fs::read_to_string(pid_file).expect("it runs");
        let postmaster: i32 = text.lines().next().expect("a line").trim().parse().expect("a number");
        let mut busy = Busy { psql, backend: 0, others: Vec::new() };
        wait_until("the query", || {
            let children = std::fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children"));
            let children: Vec<i32> =
                children.expect("it runs").split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
            let executes = |pid: &i32| {
                std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|title| {
                    title.ends_with(b"SELECT\0") || {
                        String::from_utf8_lossy(&title).trim_end_matches(['\0', ' ']).ends_with("SELECT")
                    }
                })
            };
            busy.backend = children.iter().copied().find(executes).unwrap_or(0);
            busy.others =
                children.into_iter().filter(|pid| *pid != busy.backend).chain([postmaster]).collect();
            busy.backend != 0
        });
        // Its start, with locks and a snapshot, is over when it has used some CPU time.
        let used = || {
            let text = std::fs::read_to_string(format!("/proc/{}/schedstat", busy.backend)).expect("it runs");
            text.split_whitespace().next().expect("a number").parse::<u64>().expect("a number")
        };
        let at_first = used();
        wait_until("CPU time", || used() > at_first + 300_000_000);
        busy.signal(libc::SIGSTOP);
        wait_until("the others' stop", || {
            busy.others.iter().all(|pid| state_and_parent(*pid).is_none_or(|(state, _)| state == 'T'))
        });
        busy
    }

    fn signal(&self, signal: i32) {
        for pid in &self.others {
            // SAFETY: no memory; a process of this test's server.
            unsafe { libc::kill(*pid, signal) };
        }
    }

    /// Each page of the server's shared memory.
    fn pages(&self) -> BTreeMap<u64, Vec<u8>> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.backend)).expect("root may");
        let memory = File::open(format!("/proc/{}/mem", self.backend)).expect("root may");
        let mut pages = BTreeMap::new();
        for line in maps.lines().filter(|line| line.split_whitespace().nth(1) == Some("rw-s")) {
            let range = line.split_whitespace().next().expect("a range");
            let (start, end) = range.split_once('-').expect("two ends");
            let bound = |text: &str| u64::from_str_radix(text, 16).expect("an address");
            for at in (bound(start)..bound(end)).step_by(4096) {
                let mut page = vec![0; 4096];
                if memory.read_exact_at(&mut page, at).is_ok() {
                    pages.insert(at, page);
                }
            }
        }
        pages
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.signal(libc::SIGCONT);
        // SAFETY: as above; the query ends.
        unsafe { libc::kill(self.backend, libc::SIGINT) };
        let _ = self.psql.wait();
    }
}

#[test]
fn ghosts_and_stall_samples_write_nothing_into_the_server() {
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    // The timer of the authentication is not taken back: its signal would set the backend's latch after a minute.
    let settings = [
        "shared_buffers=32MB",
        "autovacuum=off",
        "jit=off",
        "max_parallel_workers_per_gather=0",
        "authentication_timeout=600s",
    ];
    let Some(server) = ThrowawayServer::new(&["strace", "psql"], &settings, 1) else { return };
    let busy = Busy::new(&server);
    let (trace, capture) = (server.path("trace"), server.path("ghosts.data"));
    let before = busy.pages();
    assert!(before.len() > 32 * 256, "{} pages: the buffers at least", before.len());
    let mut shows_something = false;
    // On a busy machine it takes longer until the backend has been followed.
    for seconds in ["6", "20", "60"] {
        let mut strace = Command::new("strace");
        strace.current_dir(server.room()).args(["-f", "-qq", "-s", "300", "-e", CALLS, "-o"]).arg(&trace);
        strace.arg(env!("CARGO_BIN_EXE_hardmeter")).args(["record", "--ghosts", "-o"]).arg(&capture);
        strace.args(["-p", &busy.backend.to_string(), "--", "sleep", seconds]);
        let said = stderr(&run(&mut strace));
        if refuses_to_follow(&said) || said.contains("PTRACE_TRACEME") {
            eprintln!("skipped: {said}");
            return;
        }
        let notes = Sidecar::load(&capture).expect("readable").expect("notes").ghosts;
        let notes = notes.unwrap_or_else(|| panic!("it was not followed: {said}"));
        eprintln!("{} windows, {} pauses, {} pages compared", notes.windows, notes.pauses.n, before.len());
        shows_something = notes.windows > 0 && notes.pauses.n > 0;
        if shows_something {
            break;
        }
        eprintln!("{said}");
    }
    let after = busy.pages();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", busy.backend)).expect("root may");
    drop(busy);
    assert!(shows_something, "it was not followed");
    for (at, page) in &before {
        let now = after.get(at).unwrap_or_else(|| panic!("page {at:#x} has gone"));
        let changed: Vec<(usize, u8, u8)> = (0..page.len())
            .filter(|byte| page[*byte] != now[*byte])
            .map(|byte| (byte, page[byte], now[byte]))
            .collect();
        assert!(changed.is_empty(), "page {at:#x} of shared memory has changed: {changed:x?}\n{maps}");
    }

    let text = std::fs::read_to_string(&trace).expect("a trace");
    let mut requests = BTreeSet::new();
    for call in text.lines() {
        if let Some((_, arguments)) = call.split_once("ptrace(") {
            requests.insert(arguments.split([',', ')']).next().expect("a request").to_string());
        }
        assert!(!call.contains("process_vm_writev("), "{call}");
        let writing =
            ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "creat("].iter().any(|flag| call.contains(flag));
        let of_memory = call.contains("\"/proc/") && call.contains("/mem\"");
        assert!(!(writing && of_memory), "{call}");
    }
    eprintln!("requests: {requests:?}");
    assert!(requests.contains("PTRACE_SEIZE"), "its stops were seen, or this shows nothing: {requests:?}");
    let other: Vec<&String> =
        requests.iter().filter(|request| !READING.contains(&request.as_str())).collect();
    assert!(other.is_empty(), "requests that may write: {other:?}");
}

/// The state of a process and its parent; `None` if it does not exist.
fn state_and_parent(pid: i32) -> Option<(char, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// The processes below another, nearest first.
fn below(root: i32) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").expect("readable").flatten();
    let pids: Vec<i32> = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(pids.iter().filter(|pid| state_and_parent(**pid).is_some_and(|(_, its)| its == parent)));
        next += 1;
    }
    found.split_off(1)
}

/// A container's first process, or a supervisor, may not wait for a recorder that was killed: it stays a zombie.
#[test]
fn nothing_is_followed_once_the_recorder_is_killed_though_it_stays_a_zombie() {
    let mut followed = Command::new("dd");
    followed.args(["if=/dev/zero", "of=/dev/null", "bs=1"]).stdin(Stdio::null()).stderr(Stdio::null());
    let mut followed = followed.spawn().expect("starts");
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = hardmeter();
    command.args(["record", "--ghosts", "-e", "l1d-miss", "-p", &followed.id().to_string(), "-o"]);
    let mut recorder =
        command.arg(folder.path().join("killed.data")).stderr(Stdio::piped()).spawn().expect("starts");
    let pid = recorder.id() as i32;
    let tracer = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", followed.id())).unwrap_or_default();
        status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    };
    let mut ended = false;
    wait_until("the follower", || {
        ended = recorder.try_wait().expect("a child").is_some();
        ended || tracer()
    });
    let followers = below(pid);
    if !ended {
        recorder.kill().expect("it runs");
        assert!(!followers.is_empty(), "it is traced by one of them");
        wait_until("the end of the followers", || {
            followers.iter().all(|pid| matches!(state_and_parent(*pid), None | Some(('Z' | 'X', _))))
        });
        // Nothing waits for it meanwhile.
        wait_until("a zombie", || state_and_parent(pid).is_some_and(|(state, _)| state == 'Z'));
        assert!(!tracer());
        assert!(followed.try_wait().expect("a child").is_none(), "it lives");
    }
    let output = recorder.wait_with_output().expect("ended");
    followed.kill().expect("it lives");
    followed.wait().expect("ended");
    if ended {
        let said = stderr(&output);
        assert!(refuses_to_follow(&said), "{said}");
        eprintln!("skipped: {said}");
    }
}
