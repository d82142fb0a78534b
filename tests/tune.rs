//! `hardmeter tune` from end to end: each fault is planted alone on a throwaway PostgreSQL under a short
//! load, and must be the first finding; a healthy server must get none of these remedies.
//!
//! Needs PostgreSQL with pg_stat_statements, and pgbench. The faults share one server and run one after the other: loads
//! side by side would disturb each other.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{hardmeter, run, stderr, stdout, succeeded, wait_until};
use serde_json::Value;
use server::ThrowawayServer;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The remedies of the faults that are planted here.
const PLANTED: [&str; 8] = [
    "jit",
    "missing-index",
    "cast-hides-index",
    "sleeping-holder",
    "unused-indexes",
    "idle-in-transaction",
    "connections",
    "stale-statistics",
];

/// A pgbench that ends with the value.
struct Load(Child);

impl Load {
    fn start(server: &ThrowawayServer, arguments: &[&str], script: Option<&str>) -> Load {
        let mut command = Command::new("pgbench");
        command.envs(server.cluster().environment()).args(["-n", "-M", "prepared", "-T", "600"]);
        command.args(arguments);
        if let Some(script) = script {
            let file = server.path("script.sql");
            fs::write(&file, script).unwrap();
            command.arg("-f").arg(file);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Load(command.spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sql(server: &ThrowawayServer, text: &str) -> String {
    server.cluster().query(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn tune(server: &ThrowawayServer, arguments: &[&str]) -> Command {
    let mut command = hardmeter();
    command.arg("tune").arg("--server").arg(server.folder().path()).args(arguments);
    command
}

/// The findings of an observation of three seconds.
fn looked(server: &ThrowawayServer) -> Value {
    let output = succeeded(run(&mut tune(server, &["--seconds", "3", "--format", "json"])));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The findings under a load that has run for a second with all its clients. Their number follows `-c`, the first
/// argument.
fn under(server: &ThrowawayServer, arguments: &[&str], script: Option<&str>) -> Value {
    let _load = Load::start(server, arguments, script);
    let begun = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench' AND query <> ''";
    let clients: u32 = arguments[1].parse().expect("a number");
    wait_until("the first statement of each client", || {
        sql(server, begun).parse::<u32>().expect("a number") >= clients
    });
    sleep(Duration::from_secs(1));
    looked(server)
}

/// The findings on the server. Other load of the test's machine is a true finding, and not the planted one.
fn findings(page: &Value) -> impl Iterator<Item = &Value> {
    let findings = page["findings"].as_array().expect("findings");
    findings.iter().filter(|finding| finding["remedy"] != "other-programs")
}

fn remedies(page: &Value) -> Vec<&str> {
    findings(page).map(|finding| finding["remedy"].as_str().expect("a name")).collect()
}

/// The first finding, which must be this remedy.
fn first<'a>(page: &'a Value, remedy: &str) -> &'a Value {
    assert_eq!(remedies(page).first(), Some(&remedy), "{page:#}");
    findings(page).next().expect("a finding")
}

fn healthy_server(server: &ThrowawayServer) {
    let page = under(server, &["-c", "2"], None);
    let named = remedies(&page);
    assert!(PLANTED.iter().all(|planted| !named.contains(planted)), "{page:#}");

    let time = &page["look"]["time"];
    let shares = time["shares"].as_array().expect("shares");
    let sum: f64 = shares.iter().map(|share| share["seconds"].as_f64().expect("seconds")).sum();
    let total = time["total"].as_f64().expect("total");
    assert!(total > 0.0 && (sum / total - 1.0).abs() < 1e-9, "{time:#}");
    assert_eq!((&time["busy"], &time["exact"]), (&Value::from(2), &Value::from(true)), "{time:#}");
    let texts = page["look"]["statements"].to_string();
    assert!(texts.contains("UPDATE pgbench_accounts SET abalance"), "{texts}");
    assert!(!texts.contains("hardmeter_look"), "the look's own statements are left out: {texts}");
}

fn jit(server: &ThrowawayServer) {
    if sql(server, "SELECT pg_jit_available()") != "t" {
        eprintln!("skipped: this PostgreSQL has no just-in-time compilation");
        return;
    }
    for name in ["jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost"] {
        sql(server, &format!("ALTER DATABASE postgres SET {name} = 0"));
    }
    sql(server, "ALTER DATABASE postgres SET jit = on");
    let script = "SELECT sum(abalance * 2), avg(bid + 1) FROM pgbench_accounts WHERE aid < 3000;";
    let page = under(server, &["-c", "2"], Some(script));
    let finding = first(&page, "jit");
    assert_eq!(finding["apply"][0], "ALTER DATABASE postgres SET jit = off;");
    let expected = serde_json::json!({"kind": "setting", "scope": {"database": "postgres"}, "name": "jit",
        "value": "off", "before": "on", "takes": "new_sessions"});
    assert_eq!(finding["changes"][0], expected);
    // Applied and undone as printed, what was set before is set again.
    let state = "SELECT setconfig FROM pg_db_role_setting ORDER BY setdatabase";
    let before = sql(server, state);
    sql(server, finding["apply"][0].as_str().expect("a command"));
    assert_ne!(sql(server, state), before);
    let page = under(server, &["-c", "2"], Some(script));
    assert!(!remedies(&page).contains(&"jit"), "{page:#}");
    sql(server, finding["undo"][0].as_str().expect("a command"));
    let sorted = |text: String| -> Vec<String> {
        let mut settings: Vec<String> = text.trim_matches(['{', '}']).split(',').map(str::to_owned).collect();
        settings.sort();
        settings
    };
    assert_eq!(sorted(sql(server, state)), sorted(before));
    for name in ["jit", "jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost"] {
        sql(server, &format!("ALTER DATABASE postgres RESET {name}"));
    }
}

fn missing_index(server: &ThrowawayServer) {
    sql(
        server,
        "CREATE TABLE ox AS SELECT i AS id, i % 20000 AS cust, repeat('x', 50) AS pad FROM generate_series(1, 200000) i",
    );
    sql(server, "ANALYZE ox");
    let script = "\\set cust random(0, 19999)\nSELECT id FROM ox WHERE cust = :cust;";
    let page = under(server, &["-c", "2"], Some(script));
    let finding = first(&page, "missing-index");
    let command = finding["apply"][0].as_str().expect("a command");
    assert_eq!(command, "CREATE INDEX CONCURRENTLY ox_cust_idx ON public.ox (cust);");
    // After applying it as printed, the finding disappears.
    sql(server, command);
    let page = under(server, &["-c", "2"], Some(script));
    assert!(!remedies(&page).contains(&"missing-index"), "{page:#}");
    sql(server, finding["undo"][0].as_str().expect("a command"));
    assert_eq!(sql(server, "SELECT count(*) FROM pg_indexes WHERE tablename = 'ox'"), "0");
    sql(server, "DROP TABLE ox");
}

fn cast_hides_index(server: &ThrowawayServer) {
    // The parameter is a number with a fraction, as a driver sends it: the column is cast, not the value.
    let script = "\\set aid random(1, 200000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid + 0.0;";
    let page = under(server, &["-c", "2"], Some(script));
    let finding = first(&page, "cast-hides-index");
    let command = finding["apply"][0].as_str().expect("a command");
    assert_eq!(
        command,
        "CREATE INDEX CONCURRENTLY pgbench_accounts_aid_numeric_idx ON public.pgbench_accounts (((aid)::numeric));"
    );
    sql(server, command);
    sql(server, finding["undo"][0].as_str().expect("a command"));
    let left = "SELECT count(*) FROM pg_indexes WHERE tablename = 'pgbench_accounts'";
    assert_eq!(sql(server, left), "1", "the primary key's");
}

fn sleeping_holder(server: &ThrowawayServer) {
    let script =
        "BEGIN;\nUPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;\n\\sleep 200 ms\nCOMMIT;";
    let page = under(server, &["-c", "4"], Some(script));
    let finding = first(&page, "sleeping-holder");
    assert!(
        finding["finding"].as_str().expect("a sentence").contains("UPDATE pgbench_branches"),
        "{finding:#}"
    );
}

fn useless_indexes(server: &ThrowawayServer) {
    let columns: Vec<String> = (0..10).map(|number| format!("i AS c{number}")).collect();
    let columns = columns.join(", ");
    sql(server, &format!("CREATE TABLE wide AS SELECT i AS id, {columns} FROM generate_series(1, 30000) i"));
    sql(server, "ALTER TABLE wide ADD PRIMARY KEY (id)");
    for number in 0..10 {
        sql(server, &format!("CREATE INDEX useless{number} ON wide (c{number})"));
    }
    sql(server, "VACUUM ANALYZE wide");
    // With a slow disk the updates wait for syncs, and the cost of the indexes is a small part of the time.
    sql(server, "ALTER DATABASE postgres SET synchronous_commit = off");
    let script = "\\set id random(1, 30000)\nUPDATE wide SET c0 = c0 + 1 WHERE id = :id;";
    let page = under(server, &["-c", "2"], Some(script));
    sql(server, "ALTER DATABASE postgres RESET synchronous_commit");
    let finding = first(&page, "unused-indexes");
    let commands = finding["apply"].as_array().expect("commands");
    assert_eq!(commands.len(), 10, "the primary key is none of them: {finding:#}");
    assert_eq!(finding["evidence"][2]["value"], 0.0, "no update is HOT: {finding:#}");
    sql(server, "DROP TABLE wide");
}

fn idle_in_transaction(server: &ThrowawayServer) {
    let state = server.cluster();
    let state = state.state();
    let mut client = postgres::Config::new()
        .host_path(&state.socket_folder)
        .port(state.port)
        .user(&state.user)
        .dbname("postgres")
        .application_name("forgetful")
        .connect(postgres::NoTls)
        .unwrap();
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").unwrap();
    let _load = Load::start(server, &["-c", "2"], None);
    // Long enough to count as forgotten, and 500 transactions.
    let forgotten = "SELECT max(age(backend_xmin)) > 600 AND bool_and(now() - xact_start > '5 s') \
                     FROM pg_stat_activity WHERE application_name = 'forgetful'";
    wait_until("a forgotten transaction", || sql(server, forgotten) == "t");
    let page = looked(server);
    let finding = first(&page, "idle-in-transaction");
    assert!(
        finding["finding"].as_str().expect("a sentence").starts_with("forgetful (process "),
        "{finding:#}"
    );
    client.batch_execute("ROLLBACK").unwrap();
}

fn too_many_connections(server: &ThrowawayServer) {
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    let clients = (32 + 16 * cpus).to_string();
    let page = under(server, &["-c", &clients, "-j", "2"], None);
    let finding = first(&page, "connections");
    assert!(finding["evidence"][0]["value"].as_f64().expect("backends") > 4.0 * cpus as f64, "{finding:#}");
}

fn stale_statistics(server: &ThrowawayServer) {
    for text in [
        "CREATE TABLE jobs (id int PRIMARY KEY, state text, pad text) WITH (autovacuum_enabled = false)",
        "INSERT INTO jobs SELECT i, 'new', repeat('x', 60) FROM generate_series(1, 50000) i",
        "CREATE INDEX jobs_state ON jobs (state)",
        "ANALYZE jobs",
        "UPDATE jobs SET state = 'done' WHERE id > 10",
    ] {
        sql(server, text);
    }
    let script = "SELECT id FROM jobs WHERE state = 'new';";
    let page = under(server, &["-c", "2"], Some(script));
    let finding = first(&page, "stale-statistics");
    let command = finding["apply"][0].as_str().expect("a command");
    assert_eq!(command, "ANALYZE public.jobs;");
    sql(server, command);
    let page = under(server, &["-c", "2"], Some(script));
    assert!(!remedies(&page).contains(&"stale-statistics"), "{page:#}");
    sql(server, "DROP TABLE jobs");
}

#[test]
fn planted_faults_are_named_first_and_a_healthy_server_has_none() {
    let settings = ["shared_preload_libraries=pg_stat_statements", "max_connections=400"];
    let Some(server) = ThrowawayServer::new(&["pgbench", "psql"], &settings, 2) else { return };
    sql(&server, "CREATE EXTENSION pg_stat_statements");
    healthy_server(&server);
    jit(&server);
    missing_index(&server);
    cast_hides_index(&server);
    sleeping_holder(&server);
    useless_indexes(&server);
    idle_in_transaction(&server);
    too_many_connections(&server);
    stale_statistics(&server);
}

#[test]
fn a_look_needs_rights_and_changes_nothing() {
    let Some(server) = ThrowawayServer::new(&["pgbench", "psql"], &[], 1) else { return };
    sql(&server, "CREATE ROLE plain LOGIN");
    let socket = server.cluster().state().socket_folder.display().to_string();
    let as_plain = || {
        let mut command = hardmeter();
        command.args(["tune", "--seconds", "1", "--url"]);
        command.arg(format!("host={socket} user=plain dbname=postgres"));
        command
    };
    let refused = run(&mut as_plain());
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("remedy: let a superuser run: GRANT pg_monitor TO \"plain\""),
        "{}",
        stderr(&refused)
    );

    let state = "SELECT md5(string_agg(name || '=' || setting, ',' ORDER BY name)) FROM pg_settings";
    let relations = "SELECT md5(string_agg(oid::text || relfilenode, ',' ORDER BY oid)) FROM pg_class";
    let before = (sql(&server, state), sql(&server, relations));
    sql(&server, "GRANT pg_monitor TO plain");
    let output = succeeded(run(&mut as_plain()));
    let text = stdout(&output);
    assert!(text.contains("No session was active during the look"), "{text}");
    assert!(text.contains("CREATE EXTENSION pg_stat_statements"), "what is missing is said: {text}");
    assert!(text.lines().count() <= 40, "{text}");
    assert_eq!(before, (sql(&server, state), sql(&server, relations)));

    server.cluster().stop(&|_| {}).unwrap();
    let stopped = run(&mut tune(&server, &[]));
    assert_eq!(stopped.status.code(), Some(1));
    assert!(
        stderr(&stopped).contains("does not run\n  remedy: hardmeter server start --dir"),
        "{}",
        stderr(&stopped)
    );
}

#[test]
fn arguments_and_folders_are_checked() {
    let none = run(hardmeter().arg("tune"));
    assert_eq!(none.status.code(), Some(2), "{}", stderr(&none));
    let long = run(hardmeter().args(["tune", "--server", "/", "--seconds", "0"]));
    assert_eq!(long.status.code(), Some(2), "{}", stderr(&long));
    let empty = tempfile::tempdir().unwrap();
    let output = run(hardmeter().arg("tune").arg("--server").arg(empty.path()));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("no running server in") && stderr(&output).contains("remedy: "),
        "{}",
        stderr(&output)
    );
    // A data folder has its server's address; this server is gone.
    fs::write(empty.path().join("postmaster.pid"), "1\n/data\n0\n5432\n/nowhere\n").unwrap();
    let output = run(hardmeter().arg("tune").arg("--server").arg(empty.path()));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot connect to postgres at /nowhere"), "{}", stderr(&output));
}
