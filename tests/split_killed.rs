//! `hardmeter split analyze --policy time` on a real PostgreSQL, killed at any moment. The server continues,
//! and all threads get their own time slice and class back.

mod common;
#[path = "common/split.rs"]
mod split;
#[path = "common/split_postgres.rs"]
mod split_postgres;

use common::{hardmeter, wait_until};
use split::time_slice;
use split_postgres::Server;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Two kinds of requests: one takes some ten microseconds, the other some twenty milliseconds.
const REQUESTS: [&str; 2] =
    ["SELECT name FROM items WHERE id=1", "SELECT sum(i) FROM generate_series(1, 100000) i"];

/// A client that sends the same request repeatedly, until it is dropped.
struct Asking {
    backend: i32,
    answers: Arc<AtomicU64>,
    pause: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Asking {
    fn for_(server: &Server, request: &'static str) -> Asking {
        let mut client = server.connect();
        let backend = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
        let answers = Arc::new(AtomicU64::new(0));
        let [pause, stop] = [(), ()].map(|()| Arc::new(AtomicBool::new(false)));
        let (counted, paused, stopped) = (Arc::clone(&answers), Arc::clone(&pause), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if !paused.load(Ordering::Relaxed) {
                    client.simple_query(request).unwrap();
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Asking { backend, answers, pause, stop, thread: Some(thread) }
    }

    fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    fn pause(&self, pause: bool) {
        self.pause.store(pause, Ordering::Relaxed);
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn analyze(folder: &Path) -> Child {
    let mut command = hardmeter();
    command.args(["split", "analyze", "--policy", "time", "--no-guard", "--no-probe", "--interval", "100ms"]);
    command.arg("--directory").arg(folder).stderr(Stdio::null()).spawn().unwrap()
}

/// The thread's time slice and scheduling class.
fn schedule(thread: i32) -> (u64, i32) {
    // SAFETY: the call gets no pointer to memory.
    (time_slice(thread), unsafe { libc::sched_getscheduler(thread) })
}

/// Names of this project's files in shared memory. The tests of libsplit, which may run beside this one, keep their
/// sets in folders `split-probe-*` there; the analyzer here is without a probe.
fn in_shared_memory() -> Vec<String> {
    let mut names = common::files_in(Path::new("/dev/shm"));
    let of_project = |name: &String| name.contains("split") || name.contains("hardmeter");
    names.retain(|name| of_project(name) && !name.starts_with("split-probe-"));
    names
}

fn kill(times: u32) {
    let own = schedule(std::process::id() as i32);
    if own.0 == 0 {
        return eprintln!("skipped: this kernel has no time slices");
    }
    let Some(server) = Server::new(&[]) else { return };
    let left = in_shared_memory();
    let asking = REQUESTS.map(|request| Asking::for_(&server, request));
    let backends = asking.each_ref().map(|one| one.backend);
    let mut longest = Duration::ZERO;
    for number in 0..times {
        let mut analyzer = analyze(&server.segments);
        wait_until("a time slice", || backends.iter().any(|&backend| schedule(backend) != own));
        // The analyzer is killed at any moment of its work. Every fourth time the server is idle afterwards,
        // so that no section begins that would notice the kill.
        std::thread::sleep(Duration::from_millis(u64::from(number * 37 % 120)));
        analyzer.kill().unwrap();
        let killed = Instant::now();
        analyzer.wait().unwrap();
        asking.iter().for_each(|one| one.pause(number % 4 == 3));
        wait_until("what they had before", || backends.iter().all(|&backend| schedule(backend) == own));
        longest = longest.max(killed.elapsed());
        asking.iter().for_each(|one| one.pause(false));
        let before = asking.each_ref().map(Asking::answers);
        wait_until("more answers", || asking.iter().zip(before).all(|(one, before)| one.answers() > before));
    }
    eprintln!("{times} kills; all had their own slice and class after at most {} ms", longest.as_millis());
    assert_eq!(in_shared_memory(), left);
}

#[test]
fn a_killed_analyzer_leaves_no_slice_and_no_class() {
    kill(4);
}

/// `HM_KILLS=50 cargo test -p hardmeter --test split_killed -- --ignored --nocapture` runs fewer rounds.
#[test]
#[ignore = "takes eight minutes"]
fn two_hundred_times() {
    kill(std::env::var("HM_KILLS").map_or(200, |kills| kills.parse().unwrap()));
}
