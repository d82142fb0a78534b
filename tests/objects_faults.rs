//! Faults while observing a server: an unknown version, missing rights, an early end, damaged side files. Each has
//! its message, and the rest of the profile is complete.
//!
//! Runs as root (the server then runs as `postgres`); what needs no other account, as an ordinary user too.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{counts, hardmeter, have, is_root, recorded, report, run, samples, stderr, stdout, wait_until};
use hardmeter_samples::object_notes::{ObjectNotes, TextId};
use hardmeter_samples::sidecar::Sidecar;
use serde_json::{json, Value};
use server::ObservedServer;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const VIEWS: [&str; 4] = ["report", "objects", "queries", "why"];

/// A view's complete output for a capture; it must not fail.
fn view(capture: &Path, words: &[&str]) -> String {
    let output = run(hardmeter().arg(words[0]).args(["--full", "-i"]).arg(capture).args(&words[1..]));
    let text = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {text}");
    assert!(!text.contains("panicked"), "{words:?}: {text}");
    text.split_whitespace().collect::<Vec<_>>().join(" ") // however it was folded
}

/// Every view of the capture reports it.
fn assert_all_tell(capture: &Path, what: &str) {
    for name in VIEWS {
        let text = view(capture, &[name]);
        assert!(text.contains(what), "{name} does not tell {what:?}: {text}");
    }
}

/// The capture holds the reported number of samples, and no partial file is left.
fn assert_complete(capture: &Path, output: &Output, events: &[&str]) {
    let told: u64 = events.iter().map(|event| recorded(output, event)).sum();
    assert!(told > 0, "{}", stderr(output));
    assert_eq!(samples(&report(capture, &["--by", "event"])), told);
    let files = common::files_in(capture.parent().unwrap());
    assert!(!files.iter().any(|name| name.contains("partial")), "{files:?}");
}

fn postmaster(server: &ObservedServer) -> i32 {
    server.cluster().processes()[0].0
}

/// Records pgbench with the kernel's own events, which need no PMU; page faults have addresses.
fn on_the_kernel(server: &ObservedServer, capture: &str, target: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hardmeter"));
    command.current_dir(server.path("")).stdin(Stdio::null());
    command.args(["record", "--source", "hardware", "-e", "cpu-clock/freq=1000/,page-faults", "-o", capture]);
    command.args(target).args(["--", "pgbench", "-n", "-c", "2", "-t", "100", "postgres"]);
    command.envs(server.cluster().environment());
    command
}

/// Whether this machine allows recording the kernel's own events; prints if not.
fn can_record(output: &Output) -> bool {
    let allowed = output.status.success();
    if !allowed {
        eprintln!("skipped: the kernel's own events cannot be recorded here: {}", stderr(output));
    }
    allowed
}

/// Restores a file's contents on drop.
struct Restored(PathBuf, Vec<u8>);

impl Restored {
    fn with(path: PathBuf, content: &str) -> Restored {
        let before = fs::read(&path).unwrap();
        fs::write(&path, content).unwrap();
        Restored(path, before)
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        fs::write(&self.0, &self.1).unwrap();
    }
}

#[test]
fn an_unknown_version_and_a_server_that_may_not_be_read_cost_the_objects_only() {
    let Some(server) = ObservedServer::new(1) else { return };
    let pid = postmaster(&server).to_string();
    let folder = server.folder().path().display().to_string();
    let sound = run(&mut on_the_kernel(&server, "sound.data", &["--server", &folder]));
    if !can_record(&sound) {
        return;
    }
    assert!(!stderr(&sound).contains("objects were not recorded"), "{}", stderr(&sound));

    let version = server.folder().path().join("data/PG_VERSION");
    let changed = Restored::with(version, "99\n");
    for target in [["--server", &folder], ["-p", &pid]] {
        let output = run(&mut on_the_kernel(&server, "major.data", &target));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let told =
            "objects were not recorded: PostgreSQL 99 is not supported, only 15, 16, 17, 18; make a table";
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
        assert_complete(&server.path("major.data"), &output, &["cpu-clock", "page-faults"]);
        assert_all_tell(&server.path("major.data"), told);
        assert!(!ObjectNotes::path_for(&server.path("major.data")).exists());
        let text = view(&server.path("major.data"), &["objects"]);
        assert!(text.contains("this capture has no side file of a server's objects"), "{text}");
    }
    drop(changed);

    if !is_root() || !have(&["setpriv"]) {
        eprintln!("skipped: only root can give up rights");
        return;
    }
    for (rights, target, told) in [
        (
            "-sys_ptrace,-dac_read_search",
            ["-p", &pid],
            "objects were not recorded: no right to read the memory",
        ),
        ("-dac_override,-dac_read_search", ["-p", &pid], "cannot be read (Permission denied"),
    ] {
        let inner = on_the_kernel(&server, "rights.data", &target);
        let mut command = Command::new("setpriv");
        // The command needs the folder of the server's socket, which the recorder cannot enter.
        command.current_dir(server.path("")).stdin(Stdio::null()).envs(server.cluster().environment());
        command.args([format!("--bounding-set={rights}"), format!("--inh-caps={rights}")]);
        command.arg(inner.get_program()).args(inner.get_args().take_while(|word| *word != "--"));
        command.args(["--", "sh", "-c", "read line < go; :"]);
        let go = server.path("go");
        let _ = fs::remove_file(&go);
        assert!(run(Command::new("mkfifo").arg(&go)).status.success());
        let recording = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let work = "pgbench -n -c 2 -t 100 postgres >/dev/null 2>&1; echo >go";
        let mut outside = Command::new("sh");
        outside.current_dir(server.path("")).envs(server.cluster().environment());
        // The gate opens when the recorded command reads from it: by then the recording runs.
        assert!(run(outside.args(["-c", &format!("exec 3>go; {work}")])).status.success());
        let output = recording.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{rights}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{rights}: {}", stderr(&output));
        assert!(stderr(&output).contains("run as root"), "{rights}: {}", stderr(&output));
        assert_complete(&server.path("rights.data"), &output, &["cpu-clock", "page-faults"]);
        assert_all_tell(&server.path("rights.data"), told);
    }
    // By its folder, it is not even found; the message must differ from "no server".
    let inner = on_the_kernel(&server, "folder.data", &["--server", &folder]);
    let mut command = Command::new("setpriv");
    command.current_dir(server.path("")).stdin(Stdio::null());
    command
        .args(["--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]);
    let output = run(command.arg(inner.get_program()).args(inner.get_args()));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("data/postmaster.pid"), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("remedy: run as root or as the server's account"),
        "{}",
        stderr(&output)
    );
    assert!(!server.path("folder.data").exists());
}

/// Records pgbench without end on the software PMU, and kills a process once it has counted some transactions.
fn killed(server: &ObservedServer, capture: &str, victim: impl Fn() -> i32) -> Output {
    let mut recorder = server.recorder(capture, "pgbench -n -c 2 -T 3000 >/dev/null 2>&1");
    let recorder = recorder.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // Each transaction of pgbench adds a row; the queries of this test add none.
    let committed = || {
        let text = "SELECT count(*) FROM pgbench_history";
        server.cluster().query(text).ok().and_then(|text| text.parse::<u64>().ok())
    };
    wait_until("pgbench", || server.cluster().backends().is_ok_and(|serving| serving.len() >= 2));
    let before = committed().unwrap_or_default();
    wait_until("transactions", || committed().is_some_and(|now| now >= before + 20));
    // SAFETY: a process of a server that this test started.
    unsafe { libc::kill(victim(), libc::SIGKILL) };
    recorder.wait_with_output().unwrap()
}

#[test]
fn a_server_that_dies_in_the_middle_leaves_what_was_known_until_then() {
    let Some(server) = ObservedServer::new(1) else { return };
    for (capture, whole) in [("postmaster.data", true), ("backend.data", false)] {
        let victim = || match whole {
            true => postmaster(&server),
            false => server.cluster().backends().unwrap()[0].0,
        };
        let output = killed(&server, capture, victim);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("the command ended with status"), "{}", stderr(&output));
        let path = server.path(capture);
        assert_complete(&path, &output, &["l1d-miss", "l2-miss"]);
        if whole {
            let told = "the server ended while it was recorded; the capture has what was found until then";
            assert!(stderr(&output).contains(told), "{}", stderr(&output));
            assert_all_tell(&path, told);
        }
        let notes = ObjectNotes::load(&path).unwrap().expect("notes");
        let of_class =
            |class: &str| notes.facts.iter().filter(|fact| notes.text(fact.path.class) == class).count();
        for class in ["table", "index", "memory context"] {
            assert!(of_class(class) > 0, "{capture}: no fact of class {class:?}");
        }
        let statements = report(&path, &["--by", "statement"]);
        let told = counts(&statements, &["statement"]);
        let updates =
            told.keys().filter(|(_, values)| values[0].starts_with("update pgbench_accounts")).count();
        assert!(updates > 0, "{capture}: {told:?}");
        assert!(server.cluster().is_running(), "it is put back");
        assert_eq!(server.cluster().query("SELECT count(*) FROM pgbench_accounts").unwrap(), "100000");
    }
}

fn json_of(capture: &Path, words: &[&str]) -> Value {
    let output = run(hardmeter()
        .arg(words[0])
        .args(["--all", "--format", "json", "-i"])
        .arg(capture)
        .args(&words[1..]));
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The rows of each table add up to its samples.
fn assert_adds_up(view: &Value) {
    for table in view["tables"].as_array().unwrap() {
        let rows = table["rows"].as_array().unwrap();
        let sum: u64 = rows.iter().map(|row| row["count"].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), table["samples"].as_u64(), "{} adds up", table["event"]);
    }
}

#[test]
fn short_lived_backends_are_known_and_damaged_notes_are_told() {
    let Some(server) = ObservedServer::new(1) else { return };
    // Each connection stays for a moment: the recorder asks the server for new backends now and then, and gets its turn
    // on a CPU late where other programs run.
    let script = server.path("visit.sql");
    let update = "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid";
    std::fs::write(&script, format!("\\set aid random(1, 100000)\n{update};\n\\sleep 300 ms\n")).unwrap();
    let visits = format!("pgbench -n -C -c 2 -t 20 -f {} >/dev/null 2>&1", script.display());
    let output = run(&mut server.recorder("short.data", &visits));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let path = server.path("short.data");
    assert_complete(&path, &output, &["l1d-miss", "l2-miss"]);
    let notes = ObjectNotes::load(&path).unwrap().expect("notes");
    let backends = notes.roles.iter().filter(|role| notes.text(role.role) == "client backend").count();
    assert!(backends >= 40, "{backends} of 40 connections and those before have their role");
    let ended = |pid: i32| !Path::new("/proc").join(pid.to_string()).exists();
    let facts_of_ended = notes.facts.iter().filter(|fact| fact.pid.is_some_and(|pid| ended(pid.0))).count();
    assert!(facts_of_ended > 0);
    let by_role = json_of(&path, &["queries", "--by", "role"]);
    for words in [&["queries"][..], &["objects"], &["queries", "--by", "statement,role"]] {
        assert_adds_up(&json_of(&path, words));
    }
    let backends = &by_role["tables"][1];
    let of_role = |role: &str| {
        let rows = backends["rows"].as_array().unwrap();
        rows.iter().find(|row| row["role"] == role).map_or(0, |row| row["count"].as_u64().unwrap())
    };
    let all = backends["samples"].as_u64().unwrap();
    assert!(of_role("client backend") * 100 >= all * 80, "{backends}");

    // Another of few samples, for all views of it.
    let output = run(&mut server.recorder("few.data", "pgbench -n -c 1 -t 2 >/dev/null 2>&1"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    damaged_notes_are_told(&server.path("few.data"));
}

/// Damages of side files, each with whether the file can still be read.
fn damages(notes: &ObjectNotes) -> Vec<(&'static str, Vec<u8>, Option<&'static str>)> {
    let whole = serde_json::to_vec(notes).unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut value = serde_json::to_value(notes).unwrap();
        change(&mut value);
        serde_json::to_vec(&value).unwrap()
    };
    let facts = |key: &'static str, told: Value| {
        changed(&|notes| {
            for fact in notes["facts"].as_array_mut().unwrap() {
                fact[key] = told.clone();
            }
        })
    };
    let hostile = {
        let mut notes = notes.clone();
        for (number, fact) in notes.facts.iter_mut().enumerate() {
            fact.length.0 = [u64::MAX, 1 << 63, 0, fact.length.0][number % 4];
            fact.seen.0 .0 = [u64::MAX, 0][number % 2];
            fact.origin.0 = [0, u64::MAX, 1 << 63][number % 3];
            fact.path.name = TextId(u32::MAX - number as u32 % 3);
        }
        notes.marks.iter_mut().for_each(|mark| (mark.start, mark.end) = (u64::MAX, 0));
        notes.pages.iter_mut().for_each(|page| page.page_size = u32::MAX);
        serde_json::to_vec(&notes).unwrap()
    };
    vec![
        ("garbage", b"\xff\x00{".to_vec(), Some(".objects is damaged")),
        ("nothing", Vec::new(), Some(".objects is damaged")),
        ("truncated", whole[..whole.len() / 2].to_vec(), Some(".objects is damaged")),
        (
            "newer",
            changed(&|notes| notes["version"] = json!(2)),
            Some(".objects has version 2, this hardmeter knows 1"),
        ),
        (
            "too deep",
            [b"{\"version\":1,\"server\":".to_vec(), vec![b'['; 100_000]].concat(),
            Some("is damaged"),
        ),
        ("a length below 0", facts("length", json!(-1)), Some(".objects is damaged")),
        ("lengths of 2^63", facts("length", json!(1u64 << 63)), None),
        ("no texts", changed(&|notes| notes["texts"] = json!([])), None),
        ("all at once", hostile, None),
    ]
}

fn damaged_notes_are_told(capture: &Path) {
    let notes = ObjectNotes::load(capture).unwrap().expect("notes");
    for (what, bytes, told) in damages(&notes) {
        fs::write(ObjectNotes::path_for(capture), bytes).unwrap();
        let text = view(capture, &["objects"]);
        assert!(told.is_none_or(|told| text.contains(told)), "{what}: {text}");
    }
    // The last of them, in the other views; a page cannot be drawn, with the reason.
    for words in [
        &["report", "--by", "class,object,role"][..],
        &["queries", "--by", "role,object"],
        &["why"],
        &["pages", "pgbench_accounts"],
    ] {
        view(capture, words);
    }
    notes.store(capture).unwrap();
    let sidecar = Sidecar::path_for(capture);
    let good: Value = serde_json::from_slice(&fs::read(&sidecar).unwrap()).unwrap();
    let changed = |key: &str, value: Value| {
        let mut notes = good.clone();
        notes[key] = value;
        serde_json::to_vec(&notes).unwrap()
    };
    let (most, no_cache) = (u64::MAX, json!({"size": 0, "ways": 0, "latency": 0}));
    let mut machine = good["machine"].clone();
    machine["l1d"] = no_cache;
    let buckets = json!([{"lines": most, "count": most}, {"lines": most, "count": most}]);
    for (what, bytes, told) in [
        ("garbage", b"\xff\x00{".to_vec(), ".json is damaged"),
        ("truncated", fs::read(&sidecar).unwrap()[..300].to_vec(), ".json is damaged"),
        ("newer", changed("version", json!(3)), ".json has version 3"),
        ("no cache", changed("machine", machine), "its caches are not known"),
        ("reuse", changed("reuse", json!({"one_line_in": 0, "cold": most, "buckets": buckets})), "l2-miss"),
        ("losses", changed("lost", json!(most)), "18,446,744,073,709,551,615 samples"),
    ] {
        fs::write(&sidecar, bytes).unwrap();
        for words in [&["report"][..], &["why"]] {
            let text = view(capture, words);
            assert!(text.contains(told), "{what}: {words:?}: {text}");
        }
    }
}

#[test]
fn without_objects_the_profile_is_whole_and_says_so() {
    let Some(server) = ObservedServer::new(1) else { return };
    let mut arguments = server.arguments("plain.data", "pgbench -n -c 2 -t 5 >/dev/null 2>&1");
    arguments.insert(1, "--no-objects".into());
    let output = run(hardmeter().current_dir(server.path("")).args(arguments));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let path = server.path("plain.data");
    assert_complete(&path, &output, &["l1d-miss", "l2-miss"]);
    assert!(!ObjectNotes::path_for(&path).exists());
    assert_all_tell(&path, "the server's memory was not read, as requested");
    let text = view(&path, &["pages", "pgbench_accounts"]);
    assert!(text.contains("no page can be drawn"), "{text}");
    let text = view(&path, &["queries"]);
    assert!(text.contains("the capture records no statement"), "{text}");
}
