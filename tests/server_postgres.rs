//! A throwaway PostgreSQL from end to end: created, started, loaded, used, stopped, and its faults.
//!
//! Runs as root (the server then runs as `postgres`) and as an ordinary user. Needs PostgreSQL; `make setup` brings it.

mod common;

use common::{run, wait_until};
use hardmeter_servers::{
    Cluster, Engine, Programs, ProgramsWanted, ServerError, ServerFolder, StartOptions, Status, StopOutcome,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const HARDMETER: &str = env!("CARGO_BIN_EXE_hardmeter");

/// A server folder that all users may enter, whose server is stopped at the end of the test.
struct Playground {
    temporary: TempDir,
}

impl Playground {
    fn new() -> Playground {
        let temporary = tempfile::tempdir().unwrap();
        fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Playground { temporary }
    }

    fn folder(&self) -> ServerFolder {
        ServerFolder::new(self.temporary.path().join("server"))
    }

    fn create(&self) -> Cluster {
        Cluster::create(&self.folder(), &programs(), &|_| {}).unwrap()
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        if let Ok(mut cluster) = Cluster::open(&self.folder()) {
            let _ = cluster.stop(&|_| {});
        }
    }
}

fn programs() -> Programs {
    Programs::find(Engine::Postgres, &ProgramsWanted::default()).unwrap()
}

fn start(cluster: &mut Cluster) {
    cluster.start(&StartOptions::default(), &|_| {}).unwrap();
}

fn hardmeter(arguments: &[&str], folder: &ServerFolder) -> Output {
    Command::new(HARDMETER).args(arguments).arg("--dir").arg(folder.path()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Inodes of the sockets that a process has open.
fn sockets_of(pid: i32) -> Vec<String> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets
        .filter_map(|target| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']').map(str::to_owned))
        .collect()
}

/// Whether a table of sockets in `/proc/net` holds one of these inodes.
fn listed(table: &str, inodes: &[String]) -> bool {
    let table = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
    table.split_whitespace().any(|word| inodes.iter().any(|inode| inode == word))
}

#[test]
fn a_server_holds_no_lock_of_its_starter_and_takes_no_port() {
    let playground = Playground::new();
    let folder = playground.folder();
    let lock = playground.temporary.path().join("lock");
    let started = Command::new("flock")
        .arg(&lock)
        .args([HARDMETER, "server", "start", "postgres", "--dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(started.status.success(), "{}", text(&started.stderr));
    // flock waits only for its command; a descriptor left open in the server would hold the lock.
    let free = Command::new("flock").arg("--nonblock").arg(&lock).arg("true").status().unwrap();
    assert!(free.success(), "the lock is held");
    let stopped = hardmeter(&["server", "stop", "postgres"], &folder);
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    for setting in ["port=5433", "listen_addresses=*"] {
        let refused = hardmeter(&["server", "start", "postgres", "--set", setting], &folder);
        assert_eq!(refused.status.code(), Some(1), "{setting}");
        assert!(text(&refused.stderr).contains("cannot be changed"), "{}", text(&refused.stderr));
    }
    assert!(hardmeter(&["server", "start", "postgres"], &folder).status.success(), "nothing of it stays");
}

#[test]
fn pgbench_runs_on_a_server_that_opens_no_port_and_is_not_root() {
    let playground = Playground::new();
    let folder = playground.folder();
    let started = hardmeter(&["server", "start", "postgres", "--format", "json"], &folder);
    assert!(started.status.success(), "{}", text(&started.stderr));
    let told: serde_json::Value = serde_json::from_slice(&started.stdout).unwrap();
    assert_eq!((told["status"].as_str(), told["engine"].as_str()), (Some("running"), Some("postgres")));
    let pid = told["pid"].as_i64().unwrap() as i32;

    let loaded = hardmeter(&["server", "load", "postgres", "--scale", "1", "--format", "json"], &folder);
    assert!(loaded.status.success(), "{}", text(&loaded.stderr));
    let told: serde_json::Value = serde_json::from_slice(&loaded.stdout).unwrap();
    assert_eq!(told["loaded"], serde_json::json!([{ "workload": "pgbench", "scale": 1 }]));

    let cluster = Cluster::open(&folder).unwrap();
    assert_eq!(cluster.status(), Status::Running(hardmeter_samples::model::Pid(pid)));
    assert_eq!(cluster.query("SELECT count(*) FROM pgbench_accounts").unwrap(), "100000");
    assert_eq!(cluster.query("SHOW shared_buffers").unwrap(), "128MB");
    assert_eq!(cluster.query("SHOW listen_addresses").unwrap(), "");

    // As a user's workload finds the server: by the environment alone.
    let pgbench = Command::new("pgbench")
        .args(["-n", "-c", "2", "-t", "10"])
        .envs(cluster.environment())
        .current_dir(playground.temporary.path())
        .output()
        .unwrap();
    assert!(pgbench.status.success(), "{}", text(&pgbench.stderr));
    assert!(text(&pgbench.stdout).contains("number of transactions actually processed: 20/20"));
    // Every transaction of pgbench adds one row of history.
    assert_eq!(cluster.query("SELECT count(*) FROM pgbench_history").unwrap(), "20");

    // The first process, its helpers, and no process that serves a client now.
    let processes = cluster.processes();
    assert_eq!(processes[0].0, pid);
    assert!(processes.len() >= 5, "checkpointer, writers, launchers: {processes:?}");
    // A client ends before its backend does.
    wait_until("the end of the last backend", || cluster.backends().unwrap().is_empty());

    for process in &processes {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let uid = status.lines().find(|line| line.starts_with("Uid:")).unwrap_or("Uid:\t1");
        assert!(!uid.split_whitespace().skip(1).any(|id| id == "0"), "process {process} is root: {uid}");
    }
    let sockets = sockets_of(pid);
    assert!(listed("unix", &sockets), "it listens on a unix socket: {sockets:?}");
    assert!(!listed("tcp", &sockets) && !listed("tcp6", &sockets), "it listens on no network port");

    let stopped = hardmeter(&["server", "stop", "postgres"], &folder);
    assert!(
        stopped.status.success() && text(&stopped.stdout).contains("stopped"),
        "{}",
        text(&stopped.stderr)
    );
    assert!(!Path::new(&format!("/proc/{pid}/fd/0")).exists(), "the process is gone");

    // The data are kept: a second start finds them.
    let mut cluster = Cluster::open(&folder).unwrap();
    start(&mut cluster);
    assert_eq!(cluster.query("SELECT count(*) FROM pgbench_history").unwrap(), "20");
    let removed = hardmeter(&["server", "remove"], &folder);
    assert!(removed.status.success(), "{}", text(&removed.stderr));
    assert!(!folder.path().exists());
}

#[test]
fn a_wrapper_runs_the_server_and_a_killed_one_is_recognised() {
    let playground = Playground::new();
    let mut cluster = playground.create();
    let wrapper = |words: Vec<std::ffi::OsString>| {
        let mut command = Command::new("/usr/bin/env");
        command.arg("HARDMETER_WRAPPED=yes").args(words);
        command
    };
    let options = StartOptions { wrapper: Some(Box::new(wrapper)), ..StartOptions::default() };
    let pid = cluster.start(&options, &|_| {}).unwrap();
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(
        text(&environment).contains("HARDMETER_WRAPPED=yes"),
        "the wrapper's environment is the server's"
    );
    match cluster.start(&StartOptions::default(), &|_| {}) {
        Err(ServerError::AlreadyRunning { pid: running, .. }) => assert_eq!(running, pid),
        other => panic!("{other:?}"),
    }

    kill(pid.0);
    let end = Instant::now() + Duration::from_secs(60);
    while cluster.status() != Status::Died(pid) {
        assert!(Instant::now() < end, "the death is seen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let error = cluster.query("SELECT 1").unwrap_err();
    assert!(matches!(error, ServerError::Died { .. }), "{error}");
    assert!(error.to_string().contains("ready to accept connections"), "the log is quoted: {error}");
    assert!(error.remedy().contains("server start"), "{}", error.remedy());
    let status = hardmeter(&["server", "status"], &playground.folder());
    assert!(text(&status.stdout).contains("died"), "{}", text(&status.stdout));

    // Its children notice its death and exit; then it starts again and recovers.
    while cluster.start(&StartOptions::default(), &|_| {}).is_err() {
        assert!(Instant::now() < end, "it starts again: {}", cluster.log_tail());
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(cluster.query("SELECT 1").unwrap(), "1");
    assert_eq!(cluster.stop(&|_| {}).unwrap(), StopOutcome::Clean);
    assert_eq!(cluster.stop(&|_| {}).unwrap(), StopOutcome::NotRunning);
}

fn kill(pid: i32) {
    assert!(Command::new("/bin/kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
}

#[test]
fn faults_of_settings_and_data_name_cause_and_remedy() {
    let playground = Playground::new();
    let folder = playground.folder();
    let mut cluster = playground.create();

    let unknown =
        StartOptions { settings: vec!["shared_bufers=1MB".parse().unwrap()], ..StartOptions::default() };
    let error = cluster.start(&unknown, &|_| {}).unwrap_err();
    assert!(error.to_string().contains("unrecognized configuration parameter"), "{error}");
    assert_eq!(error.remedy(), "check the name given to --set");
    start(&mut cluster); // the failed setting was dropped
    assert_eq!(cluster.stop(&|_| {}).unwrap(), StopOutcome::Clean);

    let wanted = hardmeter(&["server", "query"], &folder);
    assert_eq!(wanted.status.code(), Some(2), "a wrong argument");
    let load = hardmeter(&["server", "load"], &folder);
    assert_eq!(load.status.code(), Some(1));
    assert!(text(&load.stderr).contains("is not running") && text(&load.stderr).contains("remedy: start it"));

    // A version that these programs cannot read.
    let version = folder.data().join("PG_VERSION");
    let right = fs::read_to_string(&version).unwrap();
    fs::write(&version, "9.6\n").unwrap();
    let error = cluster.start(&StartOptions::default(), &|_| {}).unwrap_err();
    assert!(error.to_string().contains("made by PostgreSQL 9.6"), "{error}");
    assert!(error.remedy().contains("--version 9.6"), "{}", error.remedy());
    fs::write(&version, &right).unwrap();

    // A control file of zeroes: PostgreSQL itself refuses.
    let control = folder.data().join("global/pg_control");
    let whole = fs::read(&control).unwrap();
    fs::write(&control, vec![0; whole.len()]).unwrap();
    let error = cluster.start(&StartOptions::default(), &|_| {}).unwrap_err();
    assert!(matches!(&error, ServerError::Failed { log, .. } if !log.is_empty()), "{error}");
    fs::remove_file(&control).unwrap();
    let error = cluster.start(&StartOptions::default(), &|_| {}).unwrap_err();
    assert!(matches!(error, ServerError::Damaged { .. }) && error.remedy().contains("remove"), "{error}");
    assert_eq!(cluster.status(), Status::Stopped, "no failed start leaves a process behind");

    // An invalid state file is reported, and the folder can still be removed.
    fs::write(folder.path().join("state.json"), "{\"format\":").unwrap();
    let status = hardmeter(&["server", "status"], &folder);
    assert_eq!(status.status.code(), Some(1));
    assert!(text(&status.stderr).contains("damaged"), "{}", text(&status.stderr));
    assert!(hardmeter(&["server", "remove"], &folder).status.success());
    assert!(!folder.path().exists());
}

#[test]
fn a_folder_that_is_not_ours_is_left_alone() {
    let playground = Playground::new();
    let folder = playground.folder();
    fs::create_dir(folder.path()).unwrap();
    fs::write(folder.path().join("thesis.txt"), "years of work").unwrap();
    let start = hardmeter(&["server", "start"], &folder);
    assert_eq!(start.status.code(), Some(1));
    assert!(text(&start.stderr).contains("not made by Hardmeter"), "{}", text(&start.stderr));
    let remove = hardmeter(&["server", "remove"], &folder);
    assert_eq!(remove.status.code(), Some(1));
    assert_eq!(fs::read_to_string(folder.path().join("thesis.txt")).unwrap(), "years of work");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_long_path_still_has_a_socket_and_what_is_lent_can_be_read() {
    let playground = Playground::new();
    let deep = playground.temporary.path().join("d".repeat(100));
    let folder = ServerFolder::new(deep.join("server"));
    let mut cluster = Cluster::create(&folder, &programs(), &|_| {}).unwrap();
    start(&mut cluster);
    let socket_folder = cluster.state().socket_folder.clone();
    assert!(!socket_folder.starts_with(&deep), "{}", socket_folder.display());
    assert_eq!(fs::metadata(&socket_folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(cluster.query("SELECT 41 + 1").unwrap(), "42");

    // A tool in a home folder that other users cannot enter, such as a clone in root's home.
    let home = playground.temporary.path().join("home");
    fs::create_dir_all(home.join("tool")).unwrap();
    fs::write(home.join("tool/run"), "#!/bin/sh\necho lent\n").unwrap();
    fs::set_permissions(home.join("tool/run"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    for _ in 0..2 {
        let lent = cluster.lend(&home.join("tool")).unwrap();
        let output = run(&mut cluster.command(vec![lent.join("run").into()]));
        assert_eq!(text(&output.stdout), "lent\n", "{}", text(&output.stderr));
    }

    cluster.stop(&|_| {}).unwrap();
    drop(cluster);
    Cluster::remove(&folder).unwrap();
    assert!(!socket_folder.exists() && !folder.path().exists());
}

#[test]
fn the_server_runs_inside_valgrind() {
    if !Path::new("/usr/bin/valgrind").exists() {
        eprintln!("skipped: no valgrind");
        return;
    }
    let playground = Playground::new();
    let mut cluster = playground.create();
    let wrapper = |words: Vec<std::ffi::OsString>| {
        let mut command = Command::new("/usr/bin/valgrind");
        command.args(["--tool=none", "--quiet", "--trace-children=yes"]).args(words);
        command
    };
    let options = StartOptions { wrapper: Some(Box::new(wrapper)), ..StartOptions::default() };
    let pid = cluster.start(&options, &|_| {}).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    assert!(maps.contains("/none-amd64-linux"), "process {pid} is Valgrind's");
    assert_eq!(cluster.query("SELECT sum(n) FROM generate_series(1, 100) n").unwrap(), "5050");
    assert!(cluster.processes().len() >= 5);
    assert_eq!(cluster.stop(&|_| {}).unwrap(), StopOutcome::Clean);
}

#[test]
fn a_server_that_never_gets_ready_is_given_up_and_ended() {
    let playground = Playground::new();
    let mut cluster = playground.create();
    let wrapper = |_| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo still warming up; exec sleep 600"]);
        command
    };
    let patience = Some(Duration::from_secs(5));
    let options = StartOptions { wrapper: Some(Box::new(wrapper)), patience, ..StartOptions::default() };
    let error = cluster.start(&options, &|_| {}).unwrap_err();
    assert!(matches!(error, ServerError::TimedOut { seconds: 5, .. }), "{error}");
    assert!(
        error.to_string().contains("still warming up") && error.remedy().contains("--timeout"),
        "{error}"
    );
    assert_eq!(cluster.status(), Status::Stopped);
    start(&mut cluster);
}

#[test]
fn a_full_disk_is_named_and_nothing_half_made_stays() {
    let small = tempfile::tempdir().unwrap();
    let mount = |program: &str, arguments: &[&str]| {
        Command::new(program)
            .args(arguments)
            .arg(small.path())
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if !mount("mount", &["-t", "tmpfs", "-o", "size=20m,mode=755", "tmpfs"]) {
        eprintln!("skipped: a small disk can be mounted only with the right to");
        return;
    }
    let folder = ServerFolder::new(small.path().join("server"));
    let made = Cluster::create(&folder, &programs(), &|_| {});
    let left = folder.path().exists();
    // A child of another test has the files of this one open until its exec.
    wait_until("the end of the mount", || mount("umount", &[]));
    let error = made.unwrap_err();
    assert!(error.to_string().contains("No space left on device"), "{error}");
    assert!(error.remedy().contains("disk space"), "{}", error.remedy());
    assert!(!left, "the folder is gone");
}
