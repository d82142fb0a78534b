//! Faults of `hardmeter tpcc run`: each has a message with a remedy, a status, and a report of the partial results.

mod common;
#[path = "common/server.rs"]
mod server;
#[path = "common/tpcc.rs"]
mod tpcc;

use common::{hardmeter, run, stderr, stdout, succeeded, wait_until};
use hardmeter_servers::StartOptions;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use tpcc::{ended, failed_saying, interrupt, Tpcc};

/// A closed-loop run of a fraction of a second.
const SHORT: [&str; 8] = ["--mode", "closed", "--clients", "2", "--ramp", "0s", "--interval", "1s"];

/// Kills the server, as in a crash of the machine.
fn crash(tpcc: &Tpcc) {
    let cluster = tpcc.server.cluster();
    for pid in cluster.processes() {
        // SAFETY: kill takes plain numbers.
        unsafe { libc::kill(pid.0, libc::SIGKILL) };
    }
    wait_until("the server's end", || !tpcc.server.cluster().is_running());
}

fn restart(tpcc: &Tpcc) {
    tpcc.server.cluster().start(&StartOptions::default(), &|_| {}).unwrap();
}

#[test]
fn files_that_cannot_be_written_are_told_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let tpcc_run = |arguments: &[&str]| {
        let mut command = hardmeter();
        command.current_dir(folder.path()).args(["tpcc", "run", "--connection", "host=/nonexistent"]);
        run(command.args(arguments))
    };
    failed_saying(
        &tpcc_run(&["--output", "no/such/folder"]),
        &["cannot write no/such/folder.json", "remedy:"],
    );
    fs::write(folder.path().join("there.html"), "somebody's").unwrap();
    failed_saying(&tpcc_run(&["--output", "there"]), &["there.html is there already", "--overwrite"]);
    failed_saying(
        &tpcc_run(&["--output", "new", "--successes", "there.html"]),
        &["there.html is there already"],
    );
    assert_eq!(fs::read_to_string(folder.path().join("there.html")).unwrap(), "somebody's");
    // The server is checked afterwards.
    failed_saying(&tpcc_run(&["--output", "new"]), &["cannot connect to", "/nonexistent"]);
    assert_eq!(common::files_in(folder.path()), ["there.html"]);
}

#[test]
fn a_full_disk_does_not_hide_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("full.json")).unwrap();
    let mut command = hardmeter();
    command.current_dir(folder.path()).args([
        "tpcc",
        "run",
        "--stub",
        "1ms",
        "--warehouses",
        "1",
        "--overwrite",
    ]);
    let output = run(command.args(SHORT).args(["--output", "full"]));
    failed_saying(&output, &["full.json", "No space left on device", "remedy:"]);
    assert!(stdout(&output).contains("not a TPC result"), "{}", stdout(&output));
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for (arguments, said) in [
        (&["--mode", "open"][..], "--rate"),
        (&["--interval", "0s"], "it must be longer than 0"),
        (&["--ramp", "soon"], "'soon' is not a time"),
        (&["--connections", "0"], "or auto"),
        (&["--cpu-plan", "daemons"], "is not a part of a plan"),
        (&["--first-warehouse", "2"], "--driver-warehouses"),
        (&["--stub", "1ms", "--server", "/tmp"], "cannot be used with"),
    ] {
        let output = run(hardmeter().args(["tpcc", "run"]).args(arguments));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    let folder = tempfile::tempdir().unwrap();
    let stub = |arguments: &[&str]| {
        let mut command = hardmeter();
        command.current_dir(folder.path()).args(["tpcc", "run", "--stub", "1ms", "--warehouses", "1"]);
        run(command.args(SHORT).args(arguments))
    };
    failed_saying(
        &stub(&["--first-warehouse", "2", "--driver-warehouses", "3"]),
        &["not among the 1 that there are", "Several drivers"],
    );
    failed_saying(&stub(&["--cpu-plan", "driver=1000"]), &["there is no CPU 1000", "remedy:"]);
    failed_saying(&stub(&["--cpu-plan", "backends=0"]), &["processes are not to be seen", "remedy:"]);
}

#[test]
fn a_load_that_is_cut_off_is_gone_on_with_and_other_data_are_left_alone() {
    let Some(tpcc) = Tpcc::new() else { return };
    let arguments = [&["--warehouses", "3"][..], &SHORT].concat();
    let some_loaded = || tpcc.there_is("hardmeter_tpcc");

    // By Ctrl-C.
    let child = tpcc.spawn("cut", &arguments);
    wait_until("the load", some_loaded);
    interrupt(&child);
    failed_saying(&ended(child), &["was interrupted", "remedy:"]);
    assert!(!tpcc.file("cut.json").exists(), "nothing was run");

    // After a crash of the server.
    let child = tpcc.spawn("crashed", &arguments);
    wait_until("the load to go on", || tpcc.there_is("pg_stat_activity WHERE query LIKE 'COPY%'"));
    crash(&tpcc);
    failed_saying(&ended(child), &["the server closed the connection while", "remedy:"]);
    restart(&tpcc);

    // The number of warehouses differs from the interrupted load.
    let other = [&["--warehouses", "4"][..], &SHORT].concat();
    failed_saying(&tpcc.run("other", &other), &["this database holds 3 warehouses", "not 4", "--replace"]);
    // One driver of several cannot load.
    let part = [&["--first-warehouse", "1", "--driver-warehouses", "1"][..], &SHORT].concat();
    failed_saying(&tpcc.run("part", &part), &["one of several", "hardmeter tpcc load"]);

    let output = succeeded(tpcc.run("whole", &arguments));
    assert!(stderr(&output).contains("continuing an interrupted load: 3 warehouses"), "{}", stderr(&output));
    assert_eq!(tpcc.sql("SELECT count(*) FROM stock"), "300000");
    assert_eq!(tpcc.result("whole")["order"]["all_warehouses"], 3);

    // Another tool's tables, without our mark.
    tpcc.sql("DROP TABLE hardmeter_tpcc");
    failed_saying(
        &tpcc.run("foreign", &SHORT),
        &["already holds the table", "which Hardmeter did not load", "--database"],
    );
}

#[test]
fn rights_limits_and_passwords() {
    let Some(tpcc) = Tpcc::loaded(1) else { return };
    tpcc.sql(
        "CREATE ROLE poor LOGIN CONNECTION LIMIT 3; REVOKE CREATE ON SCHEMA public FROM PUBLIC; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO poor; \
         CREATE ROLE locked LOGIN IN ROLE poor PASSWORD 'good-secret'; ALTER ROLE locked INHERIT",
    );
    let as_poor = |name: &str, arguments: &[&str]| run(tpcc.command_as("poor", name, &SHORT).args(arguments));

    // Without the right to create procedures: the message names the alternative.
    failed_saying(
        &as_poor("procedures", &[]),
        &["stored procedures cannot be installed", "permission denied", "--style client"],
    );
    let output = as_poor("client", &["--style", "client", "--connections", "1"]);
    let result = tpcc.result("client");
    succeeded(output);
    assert_eq!(result["ending"]["how"], "complete");

    // The observer's connection and three more are one too many.
    let output = as_poor("many", &["--style", "client", "--connections", "3"]);
    failed_saying(&output, &["too many connections", "remedy:", "--connections"]);
    assert!(!tpcc.file("many.json").exists());

    // Passwords: required, wrong, right, by the environment and by a file; never printed, and not accepted on a
    // command line.
    let cluster = tpcc.server.cluster();
    let hba = cluster.folder().path().join("data/pg_hba.conf");
    let rules = fs::read_to_string(&hba).unwrap();
    fs::write(&hba, format!("local all locked scram-sha-256\n{rules}")).unwrap();
    tpcc.sql("SELECT pg_reload_conf()");
    let as_locked = |name: &str| {
        let mut command = tpcc.command_as("locked", name, &SHORT);
        command.args(["--style", "client"]);
        command
    };
    wait_until("the new rule", || !run(&mut as_locked("none")).status.success());
    failed_saying(&run(&mut as_locked("none")), &["password", "PGPASSWORD", ".pgpass"]);
    let wrong = run(as_locked("wrong").env("PGPASSWORD", "bad-secret"));
    failed_saying(&wrong, &["password authentication failed", "PGPASSWORD"]);
    assert!(!stderr(&wrong).contains("bad-secret"), "{}", stderr(&wrong));
    succeeded(run(as_locked("right").env("PGPASSWORD", "good-secret")));
    let file = tpcc.file("pgpass");
    fs::write(&file, "*:*:tpcc:locked:good-secret\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    succeeded(run(as_locked("by-file").env("PGPASSFILE", &file)));
    for name in ["right", "by-file"] {
        for end in ["json", "html"] {
            let text = fs::read_to_string(tpcc.file(&format!("{name}.{end}"))).unwrap();
            assert!(!text.contains("good-secret"), "{name}.{end}");
        }
    }
    let mut told = hardmeter();
    told.args([
        "tpcc",
        "run",
        "--connection",
        &format!("{} password=good-secret", tpcc.connection("locked")),
    ]);
    let output = run(told.args(SHORT).arg("--output").arg(tpcc.file("told")));
    failed_saying(&output, &["all users of this machine", "PGPASSWORD", ".pgpass"]);
    assert!(!stderr(&output).contains("good-secret"));
}

/// A run that lasts until it is interrupted.
const LONG: [&str; 6] = ["--mode", "closed", "--clients", "2", "--interval", "10m"];

#[test]
fn a_server_that_goes_in_the_ramp_leaves_a_report_that_says_so() {
    let Some(tpcc) = Tpcc::loaded(1) else { return };
    let child = tpcc.spawn("ramp", &[&LONG[..], &["--ramp", "10m"]].concat());
    wait_until("the run", || tpcc.is_under_way());
    crash(&tpcc);
    let output = ended(child);
    failed_saying(&output, &["the run failed:", "the report covers the time until then"]);
    let result = tpcc.result("ramp");
    assert_eq!(result["ending"]["how"], "failed");
    assert_eq!(result["measured_seconds"], 0.0);
    assert_eq!(result["conditions"], Value::Array(vec![]));
    let remarks = result["environment"]["remarks"].to_string();
    assert!(remarks.contains("the server went away"), "{remarks}");
    assert!(remarks.contains("conditions were not checked"), "{remarks}");
    assert!(tpcc.file("ramp.html").exists());
}

#[test]
fn a_server_that_restarts_in_the_interval_is_told_of_and_nothing_acknowledged_is_lost() {
    let Some(tpcc) = Tpcc::loaded(1) else { return };
    let successes = tpcc.file("successes");
    let child = tpcc
        .command("restarted", &LONG)
        .args(["--ramp", "0s", "--successes"])
        .arg(&successes)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the run", || tpcc.is_under_way());
    crash(&tpcc);
    restart(&tpcc);
    let before = tpcc.orders_of_runs();
    wait_until("the run to go on", || tpcc.orders_of_runs() > before + 10);
    // The observer checks once a second.
    let seen = "pg_stat_activity WHERE application_name = 'hardmeter tpcc observer'";
    wait_until("the observer", || tpcc.there_is(seen));
    interrupt(&child);
    let output = ended(child);
    failed_saying(&output, &["the run was interrupted"]);
    let result = tpcc.result("restarted");
    let remarks = result["environment"]["remarks"].to_string();
    assert!(remarks.contains("the server ended connections"), "{remarks}");
    assert_eq!(result["server"], Value::Null, "what the processes before used is not known");
    assert!(!result["errors"].as_array().unwrap().is_empty());
    // fsync is off, but the machine did not crash: acknowledged orders are there.
    let acknowledged = fs::read_to_string(&successes).unwrap();
    let acknowledged = acknowledged.lines().filter(|line| !line.starts_with('#')).count() as u64;
    assert!(acknowledged <= tpcc.orders_of_runs());
    let audit = run(hardmeter().args(["tpcc", "audit", "--server"]).arg(tpcc.server.folder().path()));
    let text = stdout(&audit);
    assert!(!text.lines().take(14).any(|line| line.ends_with("SHORT")), "{text}");
}

#[test]
fn who_may_not_touch_the_servers_processes_has_no_cpu_plan() {
    let Some(tpcc) = Tpcc::loaded(1) else { return };
    if !common::is_root() {
        eprintln!("skipped: only root can run as somebody else");
        return;
    }
    // The server trusts all users on its socket, once they can reach it; its processes belong to another account.
    let all_may =
        |path: &std::path::Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    all_may(folder.path());
    let cluster = tpcc.server.cluster();
    all_may(cluster.folder().path());
    all_may(&cluster.state().socket_folder);
    all_may(&cluster.state().socket_folder.join(format!(".s.PGSQL.{}", cluster.state().port)));
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(env!("CARGO_BIN_EXE_hardmeter"));
    command.args(["tpcc", "run", "--connection", &tpcc.connection("postgres"), "--cpu-plan", "daemons=0"]);
    let output = run(command.args(SHORT).arg("--output").arg(folder.path().join("plan")));
    failed_saying(&output, &["cannot be bound to CPUs 0", "run as root or as the server's own account"]);
}
