//! `hardmeter tune --auto` on a throwaway PostgreSQL: a planted fault is tried, kept and undone later; a healthy server has
//! nothing to gain; a run that is killed leaves nothing.
//!
//! Needs PostgreSQL with pg_stat_statements, and pgbench. The runs share one server and run one after the other.

mod common;
#[path = "common/server.rs"]
mod server;
#[path = "common/tuning.rs"]
mod tuning;

use common::{hardmeter, run, stderr, stdout, succeeded};
use server::ThrowawayServer;
use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tuning::{json, sql, tune};

const SHORT: [&str; 7] = ["--auto", "--seconds", "2", "--block", "0.8", "--settle", "0.3"];
const SUMS: &str = "SELECT sum(abalance * 2), avg(bid + 1) FROM pgbench_accounts WHERE aid < 2000;";
const LOOKUPS: &str = "\\set aid random(1, 100000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;";

/// A run under pgbench with this script.
fn auto(server: &ThrowawayServer, words: &[&str], script: &str) -> Command {
    let file = server.path("load.sql");
    fs::write(&file, script).unwrap();
    let mut command = tune(server, &SHORT);
    command.args(words).arg("--server").arg(server.folder().path());
    command.args(["--", "pgbench", "-n", "-c", "2", "-T", "600", "-M", "prepared", "-f"]).arg(file);
    command
}

/// The lines that ALTER SYSTEM has written, and what sessions see.
fn state(server: &ThrowawayServer) -> (String, String) {
    let file = fs::read_to_string(server.folder().data().join("postgresql.auto.conf")).unwrap();
    (
        file,
        sql(server, "SELECT string_agg(concat_ws(' ', name, setting), ',' ORDER BY name) FROM pg_settings"),
    )
}

/// Waits for a reload to reach sessions.
fn becomes(server: &ThrowawayServer, expected: &(String, String)) {
    let end = Instant::now() + Duration::from_secs(120);
    while state(server) != *expected && Instant::now() < end {
        sleep(Duration::from_millis(100));
    }
    assert_eq!(&state(server), expected);
}

fn without_yes_it_is_only_printed(server: &ThrowawayServer) {
    let before = state(server);
    let text = stdout(&succeeded(run(&mut auto(server, &[], SUMS))));
    for part in [
        "1  jit: switch just-in-time compilation off",
        "ALTER SYSTEM SET jit = 'off';",
        "Nothing was changed.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(state(server), before);
    assert!(!server.path("state/hardmeter/tune/ledger.jsonl").exists());
}

fn a_run_that_is_killed_leaves_nothing(server: &ThrowawayServer) {
    let before = state(server);
    let mut command = auto(server, &["--yes"], SUMS);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while sql(server, "SHOW jit") != "off" && Instant::now() < end {
        sleep(Duration::from_millis(50));
    }
    assert_eq!(sql(server, "SHOW jit"), "off", "the first round has begun");
    child.kill().unwrap();
    child.wait().unwrap();
    becomes(server, &before);
}

fn a_gain_is_kept_and_undone_later(server: &ThrowawayServer) {
    let before = state(server);
    let output = run(&mut auto(server, &["--yes", "--format", "json"], SUMS));
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(
        (&report["format"], &report["end"]["why"]),
        (&"hardmeter-tune-auto".into(), &"nothing_to_gain".into())
    );
    let step = &report["steps"][0];
    assert_eq!((&step["remedy"], &step["closed"]), (&"jit".into(), &"kept".into()), "{report:#}");
    assert_eq!(step["result"]["verdict"], "better");
    assert!(step["result"]["gauges"][0]["interval"]["high"].as_f64().expect("an end") < 0.0, "{step:#}");
    assert!(stderr(&output).contains("step 1, jit: better"), "{}", stderr(&output));
    assert_eq!(sql(server, "SHOW jit"), "off");

    let log = json(&succeeded(run(&mut tune(server, &["log", "--format", "json"]))));
    let entry = log["entries"].as_array().expect("entries").last().expect("an entry").clone();
    assert_eq!((&entry["run"], &entry["closed"]), (&report["run"], &"kept".into()));
    let page = server.path("tuning.html");
    succeeded(run(tune(server, &["report", "--html"]).arg(&page)));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("Entry {}: jit, kept: the gain is proven", entry["entry"])), "{page}");
    assert!(page.contains("undone: the trial ended early"), "the one that was killed: {page}");

    let undo = ["undo", &entry["entry"].to_string(), "--server"];
    succeeded(run(tune(server, &undo).arg(server.folder().path())));
    becomes(server, &before);
}

fn a_healthy_server_has_nothing_to_gain(server: &ThrowawayServer) {
    let before = state(server);
    let text = stdout(&succeeded(run(&mut auto(server, &["--yes"], LOOKUPS))));
    assert!(text.starts_with("No remedy for postgres at "), "{text}");
    assert!(text.lines().count() <= 40, "{text}");
    let idle = run(tune(server, &["--auto", "--seconds", "1", "--server"]).arg(server.folder().path()));
    assert_eq!(idle.status.code(), Some(1));
    assert!(stdout(&idle).contains("No session was active during the look"), "{}", stdout(&idle));
    assert_eq!(state(server), before);
}

#[test]
fn a_bad_server_is_tuned_and_a_good_one_left_alone() {
    let settings = ["shared_preload_libraries=pg_stat_statements"];
    let Some(server) = ThrowawayServer::new(&["pgbench", "psql"], &settings, 1) else { return };
    sql(&server, "CREATE EXTENSION pg_stat_statements");
    sql(&server, "VACUUM ANALYZE");
    a_healthy_server_has_nothing_to_gain(&server);
    a_target_is_estimated(&server);
    if sql(&server, "SELECT pg_jit_available()") != "t" {
        eprintln!("skipped: this PostgreSQL has no just-in-time compilation");
        return;
    }
    // Without optimizing: a block must see many calls, on a busy machine, too.
    sql(&server, "ALTER DATABASE postgres SET jit_above_cost = 0");
    without_yes_it_is_only_printed(&server);
    a_run_that_is_killed_leaves_nothing(&server);
    a_gain_is_kept_and_undone_later(&server);
}

fn a_target_is_estimated(server: &ThrowawayServer) {
    let file = server.path("load.sql");
    fs::write(&file, LOOKUPS).unwrap();
    let mut command =
        tune(server, &["estimate", "--tps", "1000000", "--seconds", "2", "--format", "json", "--server"]);
    command
        .arg(server.folder().path())
        .args(["--", "pgbench", "-n", "-c", "2", "-T", "60", "-M", "prepared", "-f"]);
    let value = json(&succeeded(run(command.arg(file))));
    assert_eq!(
        (&value["format"], &value["first"]),
        (&"hardmeter-tune-estimate".into(), &"CPU".into()),
        "{value:#}"
    );
    let cpu = &value["estimate"]["needs"][0];
    let (now, carries) = (cpu["now"].as_f64().expect("CPUs"), cpu["carries"].as_f64().expect("a rate"));
    let (seen, there) =
        (value["estimate"]["seen"].as_f64().expect("a rate"), cpu["available"].as_f64().expect("CPUs"));
    assert!(now > 0.0 && (carries - seen * there / now).abs() < 1e-6 * carries, "{value:#}");
}

#[test]
fn options_of_trials_need_auto() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |words: &[&str], code: i32, word: &str| {
        let output = run(hardmeter().arg("tune").args(words).arg("--server").arg(folder.path()));
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(word), "{word}: {}", stderr(&output));
    };
    refused(&["--yes"], 2, "--auto");
    refused(&["--ddl"], 2, "--auto");
    refused(&["--block", "3"], 1, "add --auto");
    refused(&["--auto", "--block", "0.1"], 1, "cannot be measured");
    refused(&["--auto", "--least-memory", "200"], 1, "out of range");
    refused(&["--auto"], 1, "no running server in");
}
