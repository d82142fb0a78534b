//! A real MariaDB on the software PMU: one process whose threads share a simulated core. MariaDB is not part of
//! `make setup`: without it the test prints that.

mod common;

use common::{
    counts, hardmeter, have, perf_script, recorded, report, run, samples, stderr, succeeded, wait_until,
};
use hardmeter_servers::{Cluster, Engine, Programs, ProgramsWanted, ServerFolder, StartOptions, Status};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

const CLIENTS: usize = 3;

#[test]
fn the_threads_of_a_server_are_sampled_and_it_runs_as_before_afterwards() {
    if !have(&["valgrind", "perf", "mariadb-slap"]) {
        return;
    }
    let programs = match Programs::find(Engine::Mariadb, &ProgramsWanted::default()) {
        Ok(programs) => programs,
        Err(error) => return eprintln!("skipped: {error}; {}", error.remedy()),
    };
    let temporary = tempfile::tempdir().unwrap();
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = ServerFolder::new(temporary.path().join("server"));
    let mut cluster = Cluster::create(&folder, &programs, &|_| {}).unwrap();
    let before = cluster.start(&StartOptions::default(), &|_| {}).unwrap();
    cluster
        .query(
            "CREATE TABLE numbers (n INT PRIMARY KEY, square INT) ENGINE=InnoDB; \
             INSERT INTO numbers SELECT seq, seq * seq FROM seq_1_to_2000",
        )
        .unwrap();

    // The client gets no address of the server: Hardmeter sets its environment.
    let capture = temporary.path().join("server.data");
    let query = "SELECT COUNT(*) FROM numbers a JOIN numbers b ON b.n = a.square % 2000 + 1";
    let recording = succeeded(run(hardmeter()
        .current_dir(temporary.path())
        .args(["record", "--source", "simulated", "--machine", "xeon-2003"])
        .args(["-e", "l1d-miss/period=101/,l2-miss/period=11/", "-o"])
        .arg(&capture)
        .arg("--server")
        .arg(folder.path())
        .args(["--", "mariadb-slap", "--create-schema=test", "--no-drop", "--query", query])
        .args([format!("--concurrency={CLIENTS}"), format!("--number-of-queries={}", 2 * CLIENTS)])));

    // It was restored: running without the simulator, with its data.
    let cluster = Cluster::open(&folder).unwrap();
    let Status::Running(after) = cluster.status() else { panic!("{:?}", cluster.status()) };
    assert_ne!(after, before, "it was restarted for the recording");
    let program = fs::read_link(format!("/proc/{after}/exe")).unwrap();
    assert_eq!(program.file_name().unwrap(), "mariadbd", "no simulator is left under it");
    assert_eq!(cluster.query("SELECT COUNT(*) FROM numbers").unwrap(), "2000");

    // One process, and one of its threads for each client; perf, Hardmeter's report and the recorder agree on the
    // samples.
    let threads: BTreeSet<String> = perf_script(&capture, "pid,tid").into_iter().collect();
    let pids: BTreeSet<&str> = threads.iter().filter_map(|both| both.split('/').next()).collect();
    assert_eq!(pids.len(), 1, "{threads:?}");
    assert!(threads.len() > CLIENTS, "{threads:?}");
    let by_thread = report(&capture, &["--by", "tid"]);
    let told = recorded(&recording, "l1d-miss") + recorded(&recording, "l2-miss");
    assert_eq!(samples(&by_thread), told, "{}", stderr(&recording));
    assert_eq!(perf_script(&capture, "ip").len() as u64, told);
    let clients = counts(&by_thread, &["tid"])
        .into_iter()
        .filter(|((event, _), count)| event == "l1d-miss" && *count * 10 > recorded(&recording, "l1d-miss"));
    assert!(clients.count() >= CLIENTS, "each client's thread has a good share: {by_thread:#}");

    // The join runs where MariaDB runs joins.
    let routines = counts(&report(&capture, &["--by", "routine", "--event", "l1d-miss"]), &["routine"]);
    let seen = |wanted: &str| routines.keys().any(|(_, names)| names[0].contains(wanted));
    assert!(seen("sub_select") || seen("handler::") || seen("evaluate_join_record"), "{routines:?}");

    // Without simulation, it is sampled in place.
    let timed = temporary.path().join("timed.data");
    let recording = succeeded(run(hardmeter()
        .current_dir(temporary.path())
        .args(["record", "--source", "timer", "--user-only", "-o"])
        .arg(&timed)
        .arg("--server")
        .arg(folder.path())
        .args(["--", "mariadb-slap", "--create-schema=test", "--no-drop", "--query", query])
        .args(["--concurrency=2", "--number-of-queries=200"])));
    assert!(recorded(&recording, "cpu-clock:u") > 0, "{}", stderr(&recording));
    let pids: BTreeSet<String> = perf_script(&timed, "pid").into_iter().collect();
    assert_eq!(pids, BTreeSet::from([after.to_string()]));

    // A user who interrupts the simulated start gets the server back.
    let capture = temporary.path().join("interrupted.data");
    let mut recorder = hardmeter()
        .args(["record", "--source", "simulated", "-o"])
        .arg(&capture)
        .arg("--server")
        .arg(folder.path())
        .args(["--", "true"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the simulated start", || {
        let Status::Running(pid) = Cluster::open(&folder).unwrap().status() else { return false };
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.contains("--tool=softpmu"))
    });
    // SAFETY: kill takes plain numbers; the process is our child and not waited for yet.
    unsafe { libc::kill(recorder.id() as i32, libc::SIGINT) };
    assert_eq!(recorder.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    recorder.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("before the recording began; the server is as it was"), "{said}");
    assert!(!capture.exists(), "{said}");
    let mut cluster = Cluster::open(&folder).unwrap();
    assert_eq!(cluster.query("SELECT COUNT(*) FROM numbers").unwrap(), "2000");

    cluster.stop(&|_| {}).unwrap();
    Cluster::remove(&folder).unwrap();
    assert!(!folder.path().exists(), "nothing is left of it");
}
