//! `hardmeter tpcc compare` by blocks that take turns, and `tpcc run --set`, on a real PostgreSQL.
//!
//! Runs as root (the server then runs as `postgres`) and as an ordinary user.

mod common;
#[path = "common/server.rs"]
mod server;
#[path = "common/tpcc.rs"]
mod tpcc;

use common::{hardmeter, run, stderr, stdout, succeeded, wait_until};
use serde_json::Value;
use std::process::{Command, Stdio};
use tpcc::{ended, failed_saying, interrupt, Tpcc};

fn compare(tpcc: &Tpcc, arguments: &[&str]) -> Command {
    let mut command = hardmeter();
    command.args(["tpcc", "compare", "--clients", "2", "--server"]).arg(tpcc.server.folder().path());
    command.args(arguments);
    command
}

/// As JSON, by short blocks.
fn compared(tpcc: &Tpcc, a: &str, b: &str, blocks: &str) -> Value {
    let mut command = compare(tpcc, &["--a", a, "--b", b, "--blocks", blocks]);
    command.args(["--seconds", "1", "--warm-up", "0.2", "--format", "json"]);
    serde_json::from_str(&stdout(&succeeded(run(&mut command)))).unwrap()
}

/// Each order waits for as long as the setting `planted.pause` says.
fn plant(tpcc: &Tpcc) {
    tpcc.sql(
        "CREATE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         PERFORM pg_sleep(coalesce(current_setting('planted.pause', true), '0')::float8); RETURN NEW; END $$",
    );
    tpcc.sql("CREATE TRIGGER planted BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION planted()");
}

#[test]
fn a_planted_effect_is_found_and_one_setting_is_not_judged_against_itself() {
    let Some(tpcc) = Tpcc::loaded(1) else { return };
    plant(&tpcc);
    // Six pairs cannot decide, whatever they are: no chance of a wrong verdict in this test.
    let same = compared(&tpcc, "planted.pause=0", "planted.pause=0", "12");
    let answer = &same["blocks"]["answer"];
    assert_eq!((&answer["verdict"], &answer["pairs"]), (&"undecided".into(), &6.into()), "{same}");

    let found = compared(&tpcc, "planted.pause=0", "planted.pause=0.05", "48");
    let answer = &found["blocks"]["answer"];
    assert_eq!(answer["verdict"], "worse", "{found}");
    let orders = &answer["rows"][0];
    assert_eq!(orders["measure"], "throughput");
    // Two clients, each 50 ms an order: at most 2,400 orders a minute.
    assert!(orders["b"].as_f64().unwrap() <= 2_400.0 && orders["change"].as_f64().unwrap() < 0.0, "{orders}");
    // The server runs here: its CPU time is a measure.
    assert_eq!(answer["rows"][2]["measure"], "server-cpu");
    assert!(answer["rows"][2]["a"].as_f64().unwrap() > 0.0, "{answer}");
    assert_eq!(found["settings"]["b"]["planted.pause"], "0.05");
    let blocks = found["blocks"]["blocks"].as_array().unwrap();
    let of = |side: &str| blocks.iter().filter(|block| block["side"] == side).count();
    assert_eq!((of("a"), of("b")), (blocks.len() / 2, blocks.len() / 2));
}

#[test]
fn an_interruption_ends_it_with_what_is_known_and_sides_of_two_kinds_are_refused() {
    let Some(tpcc) = Tpcc::loaded(1) else { return };
    let mut command = compare(&tpcc, &["--a", "", "--b", "jit=on", "--seconds", "600"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the first transactions", || tpcc.is_under_way());
    interrupt(&child);
    let output = ended(child);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("interrupted; so far undecided: 0 pairs"), "{text}");
    assert!(text.contains("A: the server's own\nB: jit=on\n"), "{text}");

    let mixed = run(&mut compare(&tpcc, &["--a", "a.json", "--b", "jit=on"]));
    failed_saying(&mixed, &["one side is settings, the other one results", "remedy"]);
    let twice = run(&mut compare(&tpcc, &["--a", "", "--b", "jit=on,jit=off"]));
    failed_saying(&twice, &["jit is set twice"]);
    let unknown = run(&mut compare(&tpcc, &["--a", "", "--b", "shared_buffers=64MB"]));
    failed_saying(
        &unknown,
        &["shared_buffers is a setting of the whole server", "--set shared_buffers=64MB"],
    );
}

#[test]
fn a_run_has_the_settings_that_were_given_and_no_other_session_has() {
    let Some(tpcc) = Tpcc::loaded(1) else { return };
    tpcc.sql("CREATE TABLE seen (work_mem text, jit text, enable_seqscan text, note text)");
    tpcc.sql(
        "CREATE FUNCTION note_settings() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         INSERT INTO seen VALUES (current_setting('work_mem'), current_setting('jit'), \
             current_setting('enable_seqscan'), current_setting('my.note', true)); RETURN NEW; END $$",
    );
    tpcc.sql("CREATE TRIGGER noted AFTER INSERT ON history FOR EACH ROW EXECUTE FUNCTION note_settings()");
    let short = ["--mode", "closed", "--clients", "2", "--ramp", "0s", "--interval", "1s", "--no-check"];
    let set = ["--set", "work_mem=64MB", "--set", r"my.note=two words \ one", "--set", "JIT=on"];
    let output = tpcc.run("set", &[&short[..], &set].concat());
    let text = stdout(&succeeded(output));
    assert!(
        text.contains(r"settings of its connections: jit=on, my.note=two words \ one, work_mem=64MB"),
        "{text}"
    );
    // Hardmeter's own settings remain, except for jit, which the user chose.
    assert_eq!(tpcc.sql("SELECT DISTINCT * FROM seen"), r"64MB|on|off|two words \ one");
    assert_eq!(tpcc.sql("SHOW work_mem"), "4MB");
    let result = tpcc.result("set");
    assert_eq!(result["order"]["settings"]["work_mem"], "64MB");

    let refused = |setting: &str, words: &[&str]| {
        failed_saying(&tpcc.run("refused", &[&short[..], &["--set", setting]].concat()), words);
    };
    refused(
        "shared_buffers=64MB",
        &["a setting of the whole server", "server start --dir DIR --set shared_buffers=64MB"],
    );
    refused(
        "checkpoint_timeout=1h",
        &["checkpoint_timeout is a setting of the whole server", "pg_reload_conf"],
    );
    refused("server_version=1", &["server_version cannot be changed"]);
    refused("wrok_mem=1MB", &["wrok_mem is not a setting of this server"]);
    refused("work_mem=much", &["invalid value for parameter", "work_mem"]);
    assert!(!tpcc.file("refused.json").exists());
    let reserved = tpcc.run("refused", &[&short[..], &["--set", "search_path=x"]].concat());
    assert_eq!(reserved.status.code(), Some(2), "{}", stderr(&reserved));
}
