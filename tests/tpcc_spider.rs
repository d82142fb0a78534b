//! TPC-C over several MariaDB servers by Spider, whose plugin is not part of `make setup`: without it the test
//! prints that.

mod common;
#[path = "common/mariadb.rs"]
mod mariadb_server;
#[path = "common/tpcc_backend.rs"]
mod tpcc_backend;
#[path = "common/tpcc_inputs.rs"]
mod tpcc_inputs;

use common::{hardmeter, run, stderr, stdout};
use hardmeter_servers::{shard_folder, Engine, Programs, ProgramsWanted, ServerFolder};
use hardmeter_tpcc::backend::{Backends, Style};
use hardmeter_tpcc::work::Outcome;
use mariadb_server::ThrowawayMariadb;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use tpcc_backend::{done, opened};
use tpcc_inputs::inputs;

/// A head and three servers behind it, made by the command in a folder of the test's.
struct Spread {
    head: ThrowawayMariadb,
    servers: Vec<ThrowawayMariadb>,
    /// Dropped last: the servers must be stopped before their folders are removed.
    state: tempfile::TempDir,
}

impl Spread {
    /// `None`, with a message, if Spider is not installed.
    fn new() -> Option<Spread> {
        let state = tempfile::tempdir().unwrap();
        std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let folder = ServerFolder::new(state.path().join("hardmeter/servers/tpcc-mariadb"));
        let arguments = ["load", "--engine", "mariadb", "--shards", "3", "--warehouses", "3"];
        let output = run(&mut Spread::command(&state, &arguments));
        let said = stderr(&output);
        let server = |folder: &ServerFolder| ThrowawayMariadb::found(folder);
        let spread = Spread {
            head: server(&folder),
            servers: (1..=3).map(|number| server(&shard_folder(&folder, number))).collect(),
            state,
        };
        if said.contains("Spider cannot be loaded") || said.contains("mariadb-server") {
            eprintln!("skipped: {said}");
            return None;
        }
        assert!(output.status.success(), "{said}");
        assert!(stdout(&output).contains("3 warehouses, seed 1, 3 servers"), "{}", stdout(&output));
        Some(spread)
    }

    fn command(state: &tempfile::TempDir, arguments: &[&str]) -> Command {
        let mut command = hardmeter();
        command.arg("tpcc").args(arguments).env("XDG_STATE_HOME", state.path());
        command
    }

    fn audit(&self) -> (Option<i32>, Value) {
        let output =
            run(&mut Spread::command(&self.state, &["audit", "--engine", "mariadb", "--format", "json"]));
        let audit = serde_json::from_str(&stdout(&output));
        (output.status.code(), audit.unwrap_or_else(|error| panic!("{error}: {}", stderr(&output))))
    }
}

/// Without the plugin a load fails at once: no server is created, none is left running.
#[test]
fn a_missing_plugin_is_reported_before_any_server_is_made() {
    let Ok(programs) = Programs::find(Engine::Mariadb, &ProgramsWanted::default()) else {
        eprintln!("skipped: MariaDB is not installed");
        return;
    };
    let plugins = programs.plugin_folder().expect("the server says where its plugins are");
    if plugins.join("ha_spider.so").exists() {
        eprintln!("skipped: Spider is installed in {}", plugins.display());
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let arguments = ["load", "--engine", "mariadb", "--shards", "3", "--warehouses", "1"];
    let output = run(&mut Spread::command(&state, &arguments));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("Spider cannot be loaded: there is no ha_spider.so in "), "{said}");
    assert!(said.contains("apt-get install mariadb-plugin-spider"), "{said}");
    assert!(!said.contains("making a throwaway server"), "{said}");
    let left: Vec<_> = std::fs::read_dir(state.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

fn short_conditions(audit: &Value) -> Vec<String> {
    let lines = audit["conditions"].as_array().unwrap().iter();
    lines.filter(|line| line["verdict"] == "short").map(Value::to_string).collect()
}

#[test]
fn warehouses_spread_over_three_servers_are_one_database() {
    let Some(spread) = Spread::new() else { return };
    // HASH(w): warehouse 3 is on the first server, 1 on the second, 2 on the third.
    for (server, warehouse) in spread.servers.iter().zip(["3", "1", "2"]) {
        for (table, column) in [("warehouse", "w_id"), ("stock", "s_w_id"), ("order_line", "ol_w_id")] {
            let rows = server.sql("tpcc", &format!("SELECT DISTINCT {column} FROM {table}"));
            assert_eq!(rows, warehouse, "{table}");
        }
        assert_eq!(server.sql("tpcc", "SHOW TABLES LIKE 'item'"), "");
    }
    assert_eq!(spread.head.sql("tpcc", "SELECT count(*) FROM item"), "100000");
    assert_eq!(spread.head.sql("tpcc", "SELECT count(*), sum(w_ytd) FROM warehouse"), "3\t900000.00");

    let target = spread.head.target("tpcc");
    let mut orders = 0;
    for (seed, style) in [(21, Style::Client), (22, Style::Procedures)] {
        let (database, mut backend) = opened(&target, style, 2);
        assert!(database.description().contains("over 3 servers by Spider"), "{}", database.description());
        for input in inputs(seed, 3, 120) {
            match done(backend.as_mut(), &input) {
                Outcome::Failed(failure) => panic!("{input:?}: {failure:?}"),
                Outcome::Ordered { .. } => orders += 1,
                _ => {}
            }
        }
    }
    // The audit of the driver does not apply to these few inputs.
    let (_, audit) = spread.audit();
    assert_eq!(short_conditions(&audit), [""; 0], "{audit}");
    let prepared = audit["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|line| line["name"] == "transactions left prepared on servers");
    assert_eq!(prepared.expect("a line on prepared transactions")["verdict"], "held");
    let ordered = |server: &ThrowawayMariadb| -> u64 {
        server.sql("tpcc", "SELECT sum(d_next_o_id - 3001) FROM district").parse().unwrap()
    };
    assert_eq!(spread.servers.iter().map(ordered).sum::<u64>(), orders, "on the servers, past the head");
    // An order with another server's stock was committed on both.
    let remote = "SELECT count(*) FROM order_line WHERE ol_supply_w_id <> ol_w_id";
    let lines: u64 = spread.head.sql("tpcc", remote).parse().unwrap();
    let stock: u64 = spread.head.sql("tpcc", "SELECT sum(s_remote_cnt) FROM stock").parse().unwrap();
    assert!(lines > 0);
    assert_eq!(lines, stock);

    // A fault on one server, which the head's audit must detect.
    spread.servers[1].sql("tpcc", "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_id = 5");
    let (status, audit) = spread.audit();
    assert_eq!(status, Some(1));
    assert!(short_conditions(&audit)[0].contains("warehouse 1: W_YTD"), "{audit}");
}
