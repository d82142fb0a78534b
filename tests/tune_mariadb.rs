//! `hardmeter tune` on a throwaway MariaDB: a planted fault is named, a variable is tried and set back, and after any kill
//! the server's variables are those of before.
//!
//! Needs mariadbd and the client `mariadb`.

mod common;

use common::{hardmeter, have, run, stderr, stdout, succeeded};
use hardmeter_servers::{Cluster, Engine, Programs, ProgramsWanted, ServerFolder, StartOptions};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// The server, which ends with the test.
struct Maria {
    temporary: tempfile::TempDir,
}

impl Maria {
    fn new() -> Option<Maria> {
        if !have(&["mariadb"]) {
            return None;
        }
        let programs = match Programs::find(Engine::Mariadb, &ProgramsWanted::default()) {
            Ok(programs) => programs,
            Err(error) => {
                eprintln!("skipped: {error}");
                return None;
            }
        };
        let temporary = tempfile::tempdir().unwrap();
        fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let server = Maria { temporary };
        let mut cluster = Cluster::create(&server.folder(), &programs, &|_| {}).unwrap();
        cluster.start(&StartOptions::default(), &|_| {}).unwrap();
        Some(server)
    }

    fn folder(&self) -> ServerFolder {
        ServerFolder::new(self.path("server"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }

    fn query(&self, sql: &str) -> String {
        let cluster = Cluster::open(&self.folder()).unwrap();
        cluster.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// `hardmeter tune` with a ledger of the test's own.
    fn tune(&self, words: &[&str]) -> Command {
        let mut command = hardmeter();
        command.env("XDG_STATE_HOME", self.path("state")).arg("tune").args(words);
        command
    }

    fn on_server(&self, words: &[&str]) -> Command {
        let mut command = self.tune(words);
        command.arg("--server").arg(self.folder().path());
        command
    }

    /// A load that sends one statement repeatedly. The client is the command itself: it ends with the trial.
    fn load(&self, statement: &str) -> [String; 4] {
        let file = self.path("load.sql");
        fs::write(&file, format!("{statement};\n").repeat(50_000)).unwrap();
        let script = format!(
            "exec mariadb --socket=\"$MYSQL_UNIX_PORT\" -u root test < {} > /dev/null",
            file.display()
        );
        ["--".into(), "sh".into(), "-c".into(), script]
    }

    fn log(&self) -> Vec<Value> {
        let output = succeeded(run(&mut self.tune(&["log", "--format", "json"])));
        let log: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        log["entries"].as_array().expect("entries").clone()
    }

    fn is_open(&self) -> bool {
        self.log().iter().any(|entry| entry["closed"].is_null())
    }

    /// The watchdogs of this server.
    fn watchdogs(&self) -> Vec<i32> {
        let folder = self.folder().path().display().to_string();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            words.contains("tune\0watchdog") && words.contains(&folder)
        })
        .collect()
    }
}

impl Drop for Maria {
    fn drop(&mut self) {
        if let Ok(mut cluster) = Cluster::open(&self.folder()) {
            let _ = cluster.stop(&|_| {});
        }
    }
}

fn within(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(50));
    }
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: a signal to a process that this test started, or that one of those did.
    unsafe { libc::kill(i32::try_from(pid).unwrap(), signal) };
}

fn a_missing_index_is_named(server: &Maria) {
    server.query("CREATE TABLE ox (id int PRIMARY KEY, customer int, note char(50))");
    server.query("INSERT INTO ox SELECT seq, seq % 20000, 'x' FROM seq_1_to_200000");
    server.query("ANALYZE TABLE ox");
    let mut command = server.on_server(&["--seconds", "3", "--format", "json", "--database", "test"]);
    let output = succeeded(run(command.args(server.load("SELECT id FROM ox WHERE customer = 77"))));
    let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(page["findings"][0]["remedy"], "missing-index", "{page:#}");
    let create = page["findings"][0]["apply"][0].as_str().expect("a statement").to_owned();
    assert_eq!(create, "CREATE INDEX `ox_customer_idx` ON `ox` (`customer`) ALGORITHM=INPLACE LOCK=NONE;");
    let time = &page["look"]["time"];
    let shares = time["shares"].as_array().expect("shares");
    let sum: f64 = shares.iter().filter_map(|share| share["seconds"].as_f64()).sum();
    let total = time["total"].as_f64().expect("a total");
    assert!(total > 0.0 && (sum / total - 1.0).abs() < 1e-6, "{sum} of {total}");

    // As it is printed, and undone.
    server.query(create.trim_end_matches(';'));
    let undo = page["findings"][0]["undo"][0].as_str().expect("a statement");
    server.query(undo.trim_end_matches(';'));
    let text = stdout(&succeeded(run(&mut server.on_server(&["--seconds", "1"]))));
    assert!(text.starts_with("MariaDB ") && text.contains("No session worked"), "{text}");
}

fn a_variable_is_tried_and_set_back(server: &Maria) {
    let before = server.query("SELECT @@GLOBAL.table_open_cache");
    let words = ["try", "--set", "table_open_cache=3000", "--yes", "--block", "0.5", "--settle", "0.1"];
    let mut command = server.on_server(&words);
    command.args(["--rounds", "7", "--format", "json", "--database", "test"]);
    let output = run(command.args(server.load("SELECT 1")));
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(&output), stderr(&output)));
    assert_eq!(value["closed"], "undone", "{value:#}");
    assert_eq!(value["proposal"]["apply"][0], "SET GLOBAL table_open_cache = 3000;");
    assert_eq!(value["proposal"]["undo"][0], format!("SET GLOBAL table_open_cache = {before};"));
    assert!(value["result"]["rounds"].as_u64().expect("rounds") >= 1, "{value:#}");
    assert_eq!(server.query("SELECT @@GLOBAL.table_open_cache"), before);
    let entry = server.log().pop().expect("an entry");
    assert_eq!(entry["switches"][0]["prior"], before, "{entry:#}");
}

/// A trial that runs until it is stopped.
fn background(server: &Maria) -> Child {
    let words = ["try", "--set", "table_open_cache=3000", "--yes", "--block", "0.5", "--settle", "0.1"];
    let mut command = server.on_server(&words);
    command.args(["--rounds", "500", "--minimum", "0.1", "--database", "test"]).args(server.load("SELECT 1"));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn killed_trials_leave_nothing(server: &Maria) {
    let now = || server.query("SELECT @@GLOBAL.table_open_cache");
    let before = now();
    for number in 0..2 {
        let mut trial = background(server);
        within("the variable is set", || now() == "3000");
        if number % 2 == 1 {
            server.watchdogs().into_iter().for_each(|pid| signal(u32::try_from(pid).unwrap(), libc::SIGKILL));
        }
        signal(trial.id(), libc::SIGKILL);
        trial.wait().unwrap();
        if number % 2 == 1 {
            succeeded(run(&mut server.on_server(&["undo"])));
        }
        within("the entry is closed", || !server.is_open());
        within("the watchdog has ended", || server.watchdogs().is_empty());
        assert_eq!(now(), before, "number {number}");
    }
    let mut trial = background(server);
    within("the variable is set", || now() == "3000");
    signal(trial.id(), libc::SIGTERM);
    assert_eq!(trial.wait().unwrap().code(), Some(1));
    assert_eq!(now(), before);
    assert_eq!(server.log().pop().expect("an entry")["note"], "ended early: interrupted");
}

fn what_is_refused(server: &Maria) {
    let refused = |words: &[&str]| {
        let output = run(&mut server.on_server(words));
        assert!(!output.status.success(), "{words:?}: {}", stdout(&output));
        stderr(&output)
    };
    let error = refused(&["try", "--set", "innodb_flush_log_at_trx_commit=2"]);
    assert!(error.contains("could lose transactions"), "{error}");
    let error = refused(&["try", "--set", "sort_buffer_size=16M"]);
    assert!(error.contains("-- LOAD"), "{error}");
    let error = refused(&["try", "--set", "table_open_cache=3000", "--copy"]);
    assert!(error.contains("not copied"), "{error}");
    let text = stdout(&succeeded(run(&mut server.on_server(&["try", "--set", "table_open_cache=3000"]))));
    assert!(
        text.contains("SET GLOBAL table_open_cache = 3000;") && text.contains("Nothing was changed"),
        "{text}"
    );
    assert_eq!(server.log().len(), 0);
}

#[test]
fn mariadb_is_looked_at_tuned_and_left_as_it_was() {
    let Some(server) = Maria::new() else { return };
    what_is_refused(&server);
    a_missing_index_is_named(&server);
    a_variable_is_tried_and_set_back(&server);
    killed_trials_leave_nothing(&server);
}
