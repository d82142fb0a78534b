//! `hardmeter tpcc run` from end to end on a real PostgreSQL: the results of a run equal the contents of the
//! database.
//!
//! Runs as root (the server then runs as `postgres`) and as an ordinary user.

mod common;
#[path = "common/server.rs"]
mod server;
#[path = "common/tpcc.rs"]
mod tpcc;

use common::{hardmeter, run, stderr, stdout, succeeded, wait_until};
use serde_json::Value;
use std::fs;
use tpcc::{ended, interrupt, Tpcc};

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

fn lines(tpcc: &Tpcc, name: &str) -> Vec<String> {
    let text = fs::read_to_string(tpcc.file(name)).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(String::from).collect()
}

/// All twelve hold, except the eleventh, which applies only to an unused population.
#[track_caller]
fn conditions_hold(result: &Value) {
    let held: Vec<&Value> =
        result["conditions"].as_array().unwrap().iter().map(|condition| &condition["held"]).collect();
    assert_eq!(held.len(), 12);
    for (number, held) in (1..).zip(held) {
        let wanted = if number == 11 { Value::Null } else { Value::Bool(true) };
        assert_eq!(*held, wanted, "condition {number}");
    }
}

#[test]
fn an_empty_server_is_loaded_and_run_on_and_the_files_say_what_is_in_the_database() {
    let Some(tpcc) = Tpcc::new() else { return };
    let (successes, deliveries) = (tpcc.file("successes"), tpcc.file("deliveries"));
    let output = succeeded(run(tpcc
        .command("first", &["--warehouses", "2", "--mode", "closed", "--clients", "6", "--connections", "4"])
        .args(["--ramp", "1s", "--interval", "3s", "--checkpoint-every", "1s", "--format", "json"])
        .arg("--successes")
        .arg(&successes)
        .arg("--deliveries")
        .arg(&deliveries)));
    let text = stderr(&output);
    assert!(text.contains("loading 2 warehouses"), "{text}");
    assert!(text.contains("not as specified: clients ask without keying and thinking"), "{text}");

    let result = tpcc.result("first");
    let printed: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let shown = run(hardmeter().args(["tpcc", "show", "--format", "json"]).arg(tpcc.file("first.json")));
    assert_eq!(printed, serde_json::from_str::<Value>(&stdout(&shown)).unwrap(), "show tells the same");
    assert_eq!(result["ending"]["how"], "complete");
    assert_eq!(result["measured_seconds"], 3.0);
    conditions_hold(&result);

    // Exactly the acknowledged New-Orders are there: the run ended in an orderly way.
    let orders = tpcc.orders_of_runs();
    assert_eq!(lines(&tpcc, "successes").len() as u64, orders);
    let completed: Vec<u64> =
        result["kinds"].as_array().unwrap().iter().map(|kind| number(&kind["completed"])).collect();
    assert!(completed.iter().all(|&count| count > 0), "{completed:?}");
    assert!(completed[0] - number(&result["kinds"][0]["rolled_back"]) <= orders);
    // Deliveries, too: every line of the result file has the orders that lost their row of NEW-ORDER.
    let undelivered: u64 = tpcc.sql("SELECT count(*) FROM new_order").parse().unwrap();
    let delivered = tpcc.sql("SELECT count(*) FROM orders WHERE o_carrier_id IS NOT NULL AND o_id > 2100");
    assert_eq!(2 * 10 * 900 + orders - undelivered, delivered.parse::<u64>().unwrap());
    assert_eq!(lines(&tpcc, "deliveries").len() as u64, completed_deliveries(&result));

    // C-Run is at a distance from C-Load that clause 2.1.6.1 allows.
    let distance =
        number(&result["order"]["constants"]["last"]).abs_diff(number(&result["order"]["load_last"]));
    assert!((65..=119).contains(&distance) && distance != 96 && distance != 112, "{distance}");

    let environment = &result["environment"];
    assert!(environment["system"].as_str().unwrap().starts_with("PostgreSQL "), "{environment}");
    assert_eq!(environment["settings"]["fsync"], "off");
    let bytes = &environment["database_bytes"];
    assert!(number(&bytes[1]) > number(&bytes[0]) && number(&bytes[0]) > 100 << 20, "{bytes}");
    assert!(result["server"]["cpu_seconds"].as_f64().unwrap() > 0.0, "its processes are to be seen");
    let checkpoints = result["checkpoints"].as_array().unwrap();
    assert!(
        !checkpoints.is_empty() && checkpoints.iter().all(|one| one["requested"] == true),
        "{checkpoints:?}"
    );

    let html = fs::read_to_string(tpcc.file("first.html")).unwrap();
    assert!(html.contains("derived from TPC-C, not a TPC result"), "{}", &html[..500.min(html.len())]);

    // A second run uses the data and the procedures; a third may not overwrite files.
    let again =
        tpcc.run("second", &["--mode", "closed", "--clients", "2", "--ramp", "0s", "--interval", "1s"]);
    let text = stderr(&succeeded(again));
    assert!(!text.contains("loading"), "{text}");
    tpcc::failed_saying(&tpcc.run("second", &[]), &["second.json is there already", "--overwrite"]);
}

/// Deliveries of the whole run: all were completed at its end, each with a line.
fn completed_deliveries(result: &Value) -> u64 {
    let series = result["series"].as_array().unwrap();
    series.iter().map(|second| number(&second["completed"][3])).sum()
}

#[test]
fn terminals_run_by_client_sql_and_wait_as_they_should() {
    let Some(tpcc) = Tpcc::loaded(1) else { return };
    tpcc.sql("ALTER ROLE CURRENT_USER SET log_statement = 'all'");
    // A hundredth of the specification's times: 10 terminals, each 0.2 s.
    let output = tpcc.run(
        "client",
        &[
            "--style",
            "client",
            "--time-factor",
            "0.01",
            "--ramp",
            "1s",
            "--interval",
            "4s",
            "--queueing",
            "priority",
            "--split-id",
            "7CC",
        ],
    );
    let text = stderr(&succeeded(output));
    assert!(text.contains("keying and think times are multiplied with 0.01"), "{text}");
    let result = tpcc.result("client");
    conditions_hold(&result);
    assert_eq!(result["order"]["style"], "client");
    assert_eq!(result["drivers"][0]["terminals"], 10);
    assert!(result["environment"]["system"].as_str().unwrap().contains("client"));
    assert_eq!(result["errors"], Value::Array(vec![]));
    assert_eq!(tpcc.sql("SELECT count(*) FROM pg_proc WHERE starts_with(proname, 'hardmeter_tpcc_')"), "0");
    // The server's log has each statement's transaction.
    let log = std::fs::read_to_string(tpcc.server.folder().log()).unwrap();
    let executed = |of: &str, kind: u8| {
        let signed = format!("/*split_id='7cc.{kind}'*/");
        log.lines().filter(|line| line.contains(of)).all(|line| line.ends_with(&signed))
            && log.contains(&signed)
    };
    assert!(executed("UPDATE district SET d_next_o_id", 1) && executed("UPDATE warehouse SET w_ytd", 2));
    assert!(executed("DELETE FROM new_order", 4), "a delivery");
}

#[test]
fn a_stub_needs_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = hardmeter();
    command.current_dir(folder.path()).env("PATH", "/nonexistent");
    command.args(["tpcc", "run", "--stub", "2ms", "--warehouses", "100", "--time-factor", "0.05"]);
    command.args(["--ramp", "1s", "--interval", "2s", "--output", "stub"]);
    let output = succeeded(run(&mut command));
    assert!(stdout(&output).contains("not a TPC result"), "{}", stdout(&output));
    let text = fs::read_to_string(folder.path().join("stub.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert!(result["environment"]["system"].as_str().unwrap().contains("stub"));
    assert_eq!(result["drivers"][0]["terminals"], 1000);
    assert!(number(&result["kinds"][0]["completed"]) > 0);
    assert_eq!(result["conditions"], Value::Array(vec![]));
}

#[test]
fn two_drivers_begin_together_and_share_constants() {
    let Some(tpcc) = Tpcc::loaded(2) else { return };
    let drivers: Vec<_> = ["1", "2"]
        .iter()
        .map(|first| {
            let arguments = [
                "--first-warehouse",
                first,
                "--driver-warehouses",
                "1",
                "--start-at",
                "+5s",
                "--time-factor",
                "0.01",
                "--ramp",
                "1s",
                "--interval",
                "2s",
                "--no-check",
            ];
            tpcc.spawn(&format!("part{first}"), &arguments)
        })
        .collect();
    for driver in drivers {
        succeeded(ended(driver));
    }
    let (one, other) = (tpcc.result("part1"), tpcc.result("part2"));
    assert_eq!(one["order"]["constants"], other["order"]["constants"], "one C for the whole run");
    assert_eq!((&one["order"]["warehouses"], &other["order"]["first_warehouse"]), (&1.into(), &2.into()));
    // "+5s" is relative to each driver's start; both were started at nearly the same time.
    assert!(number(&one["started_at"]).abs_diff(number(&other["started_at"])) < 5_000_000);
}

/// The CPUs that the kernel lets a process use.
fn allowed(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_default().trim().to_owned()
}

#[test]
fn a_cpu_plan_binds_processes_until_ctrl_c_and_a_part_of_a_run_is_reported() {
    let Some(tpcc) = Tpcc::loaded(1) else { return };
    let before = allowed("self");
    let cpu = before.split([',', '-']).next().unwrap().to_owned();
    let plan = format!("daemons={cpu} backends={cpu} driver={cpu}");
    let arguments =
        ["--mode", "closed", "--clients", "2", "--ramp", "1s", "--interval", "10m", "--cpu-plan", &plan];
    let child = tpcc.spawn("cut", &arguments);
    let backends =
        "SELECT pid FROM pg_stat_activity WHERE datname = 'tpcc' AND backend_type = 'client backend' \
                    AND query LIKE '%hardmeter_tpcc_%' AND pid <> pg_backend_pid()";
    let daemons = "SELECT pid FROM pg_stat_activity WHERE backend_type IN ('checkpointer', 'walwriter')";
    let pids = |sql: &str| tpcc.sql(sql).lines().map(String::from).collect::<Vec<_>>();
    wait_until("the run", || tpcc.is_under_way());
    wait_until("its backends", || pids(backends).len() == 2);
    for pid in pids(backends).iter().chain(&pids(daemons)).chain([&child.id().to_string()]) {
        assert_eq!(allowed(pid), cpu, "process {pid}");
    }
    // Waits until the measurement interval, so that there are results to report.
    wait_until("the interval", || tpcc.there_is("district WHERE d_next_o_id > 3050"));
    interrupt(&child);
    let output = ended(child);
    tpcc::failed_saying(&output, &["the run was interrupted: the report covers a part of it"]);
    for pid in pids(daemons) {
        assert_eq!(allowed(&pid), before, "process {pid} is let go again");
    }
    let result = tpcc.result("cut");
    assert_eq!(result["ending"]["how"], "interrupted");
    assert_eq!(result["environment"]["cpu_plan"], plan);
    assert_eq!(result["conditions"], Value::Array(vec![]));
    assert!(fs::read_to_string(tpcc.file("cut.html")).unwrap().contains("interrupted"));
}
