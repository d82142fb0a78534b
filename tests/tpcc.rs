//! `hardmeter tpcc` from end to end on a real PostgreSQL: loaded, killed and continued, audited, with planted
//! faults.
//!
//! Runs as root (the server then runs as `postgres`) and as an ordinary user.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{hardmeter, run, stderr, stdout, succeeded};
use serde_json::Value;
use server::ThrowawayServer;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A server, and the database in it.
struct Tpcc {
    server: ThrowawayServer,
}

impl Tpcc {
    fn new() -> Option<Tpcc> {
        ThrowawayServer::new(&[], &["fsync=off", "autovacuum=off"], 1).map(|server| Tpcc { server })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = hardmeter();
        command.arg("tpcc").args(arguments).arg("--server").arg(self.server.folder().path());
        command
    }

    fn tpcc(&self, arguments: &[&str]) -> Output {
        run(&mut self.command(arguments))
    }

    fn audit(&self, arguments: &[&str]) -> Value {
        let output = self.tpcc(&[&["audit", "--format", "json"], arguments].concat());
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)))
    }

    /// The result of a statement in the database of TPC-C.
    fn sql(&self, sql: &str) -> String {
        let cluster = self.server.cluster();
        let mut psql = Command::new(cluster.programs().folder.join("psql"));
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", "tpcc", "-c", sql]);
        psql.envs(cluster.environment()).env("PGDATABASE", "tpcc");
        stdout(&succeeded(run(&mut psql))).trim().to_owned()
    }
}

fn verdicts(audit: &Value, list: &str) -> Vec<String> {
    let lines = audit[list].as_array().unwrap();
    lines.iter().map(|line| line["verdict"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_population_is_that_of_the_specification_and_faults_in_it_are_named() {
    let Some(tpcc) = Tpcc::new() else { return };
    let text = stdout(&succeeded(tpcc.tpcc(&["load", "--warehouses", "2", "--seed", "42"])));
    assert!(text.contains("all tables have their rows, and what should be a tenth of them is one"), "{text}");

    // Clause 4.3.3.1, by the server's own counting.
    for (sql, value) in [
        ("SELECT count(*) FROM item", "100000"),
        ("SELECT count(*) FROM stock", "200000"),
        ("SELECT count(*) FROM customer", "60000"),
        ("SELECT count(*) FROM orders", "60000"),
        ("SELECT count(*) FROM new_order", "18000"),
        ("SELECT min(no_o_id), max(no_o_id) FROM new_order", "2101|3000"),
        ("SELECT DISTINCT w_ytd FROM warehouse", "300000.00"),
        ("SELECT DISTINCT d_ytd, d_next_o_id FROM district", "30000.00|3001"),
        ("SELECT DISTINCT c_balance, c_ytd_payment, c_middle FROM customer", "-10.00|10.00|OE"),
        ("SELECT DISTINCT c_credit_lim, c_payment_cnt, c_delivery_cnt FROM customer", "50000.00|1|0"),
        ("SELECT count(*) FROM customer WHERE c_discount NOT BETWEEN 0 AND 0.5", "0"),
        ("SELECT min(i_price) >= 1, max(i_price) <= 100, max(i_price) > 99 FROM item", "t|t|t"),
        ("SELECT count(*) FROM order_line WHERE (ol_o_id < 2101) <> (ol_amount = 0)", "0"),
        ("SELECT count(DISTINCT o_c_id) FROM orders WHERE (o_w_id, o_d_id) = (1, 7)", "3000"),
        ("SELECT count(DISTINCT c_last) FROM customer WHERE c_d_id = 1 AND c_id <= 1000", "1000"),
        ("SELECT bool_and(length(s_dist_05) = 24), bool_and(length(s_data) >= 26) FROM stock", "t|t"),
        // Eight tables, for HISTORY has no key, and our own mark.
        ("SELECT count(*) FROM pg_indexes WHERE schemaname = 'public' AND indexname ~ '_pkey$'", "9"),
    ] {
        assert_eq!(tpcc.sql(sql), value, "{sql}");
    }

    let audit = tpcc.audit(&[]);
    assert_eq!(verdicts(&audit, "conditions"), ["held"; 12]);
    assert_eq!(audit["warehouses"], 2);
    assert!(verdicts(&audit, "findings")
        .iter()
        .all(|verdict| verdict == "held" || verdict == "not-applicable"));

    // One fault for each condition, reverted afterwards; only the conditions concerned may fail.
    let faults: [(&str, &str, &str, &[u64], &str); 9] = [
        ("warehouse", "w_id = 2", "w_ytd = w_ytd + 1", &[1, 8], "warehouse 2"),
        ("district", "(d_w_id, d_id) = (1, 4)", "d_next_o_id = 3002", &[2], "district 1/4"),
        (
            "new_order",
            "(no_w_id, no_d_id, no_o_id) = (1, 3, 2500)",
            "no_o_id = 2099",
            &[3, 5],
            "district 1/3",
        ),
        ("orders", "(o_w_id, o_d_id, o_id) = (2, 10, 77)", "o_ol_cnt = 16", &[4, 6], "district 2/10"),
        ("orders", "(o_w_id, o_d_id, o_id) = (1, 1, 3000)", "o_carrier_id = 3", &[5, 7], "order 1/1/3000"),
        (
            "order_line",
            "(ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 2, 2999, 1)",
            "ol_delivery_d = now()",
            &[7, 10, 12],
            "order line 1/2/2999/1",
        ),
        ("history", "(h_w_id, h_d_id, h_c_id) = (1, 5, 9)", "h_amount = 11", &[8, 9, 10], "warehouse 1"),
        ("customer", "(c_w_id, c_d_id, c_id) = (2, 2, 2)", "c_balance = 0", &[10, 12], "customer 2/2/2"),
        ("customer", "(c_w_id, c_d_id, c_id) = (2, 3, 4)", "c_ytd_payment = 0", &[12], "customer 2/3/4"),
    ];
    for (table, row, change, conditions, named) in faults {
        // The original row is kept, and restored.
        tpcc.sql(&format!(
            "CREATE TABLE kept AS SELECT * FROM {table} WHERE {row}; UPDATE {table} SET {change} WHERE {row}"
        ));
        let audit = tpcc.audit(&[]);
        let lines = audit["conditions"].as_array().unwrap();
        let short: Vec<&Value> = lines.iter().filter(|line| line["verdict"] == "short").collect();
        let numbers: Vec<u64> = short.iter().map(|line| line["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, conditions, "{change}");
        assert_eq!(short[0]["violations"], 1, "{change}");
        assert!(short[0]["examples"][0].as_str().unwrap().starts_with(named), "{}", short[0]);
        let changed = if table == "new_order" { row.replace("2500", "2099") } else { row.to_owned() };
        tpcc.sql(&format!(
            "DELETE FROM {table} WHERE {changed}; INSERT INTO {table} SELECT * FROM kept; DROP TABLE kept"
        ));
    }
    // As in HammerDB: random credit.
    tpcc.sql("UPDATE customer SET c_credit = CASE WHEN c_id % 2 = 0 THEN 'BC' ELSE 'GC' END");
    let output = tpcc.tpcc(&["audit"]);
    assert_eq!(output.status.code(), Some(1), "a tenth of the customers should have bad credit, not half");
    let text = stdout(&output);
    let credit = text.lines().find(|line| line.contains("customers with bad credit")).unwrap();
    assert!(credit.contains("50.00 %") && credit.ends_with("SHORT"), "{credit}");
    assert!(text.starts_with("2 warehouses of hardmeter in the database"), "{text}");
    assert!(!text.contains("p = 0.000"), "{text}");

    // As in BenchBase: money in floating point, whose sums differ in their last digits.
    tpcc.sql(
        "ALTER TABLE customer ALTER c_balance TYPE double precision, ALTER c_ytd_payment TYPE double precision; \
         UPDATE customer SET c_balance = c_balance + 0.0000001 WHERE c_id = 7; \
         UPDATE customer SET c_ytd_payment = c_ytd_payment + 0.01 WHERE (c_w_id, c_d_id, c_id) = (1, 2, 3)",
    );
    let audit = tpcc.audit(&[]);
    let short: Vec<&Value> =
        audit["conditions"].as_array().unwrap().iter().filter(|line| line["verdict"] == "short").collect();
    assert_eq!(
        short.len(),
        1,
        "a cent is missing once, and seven digits behind the point are no fault: {short:?}"
    );
    assert_eq!((&short[0]["number"], &short[0]["violations"]), (&12.into(), &1.into()));
    assert!(short[0]["examples"][0].as_str().unwrap().starts_with("customer 1/2/3"), "{}", short[0]);
    let money = &audit["findings"][0];
    assert_eq!(
        (&money["name"], &money["verdict"]),
        (&"columns of money in floating point".into(), &"short".into())
    );
    assert_eq!((&money["value"], &money["n"]), (&2.0.into(), &8.into()));
    let expected = money["expected"].as_str().unwrap();
    assert!(expected.contains("c_balance double precision, c_ytd_payment double precision"), "{expected}");

    // Tables with the same names without Hardmeter's mark, as go-tpc's.
    tpcc.sql("COMMENT ON TABLE hardmeter_tpcc IS NULL");
    let text = stdout(&tpcc.tpcc(&["audit"]));
    assert!(
        text.starts_with("2 warehouses of an unknown tool (no load of hardmeter left its mark"),
        "{text}"
    );
    let text = stdout(&tpcc.tpcc(&["audit", "--foreign", "go-tpc"]));
    assert!(text.starts_with("2 warehouses of go-tpc in the database"), "{text}");
}

#[test]
fn a_load_that_was_killed_goes_on_and_gives_the_same_rows() {
    let Some(tpcc) = Tpcc::new() else { return };
    let arguments = ["load", "--warehouses", "3", "--jobs", "1", "--partitions", "2"];
    let mut killed = tpcc.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let loaded = |sql: &str| {
        let there = tpcc.sql("SELECT count(*) FROM pg_class WHERE relname = 'hardmeter_tpcc'");
        if there == "1" {
            tpcc.sql(sql).parse().unwrap()
        } else {
            0
        }
    };
    let begin = Instant::now();
    // The database is created first; until then psql cannot connect to it.
    let database = || {
        let cluster = tpcc.server.cluster();
        let mut psql = Command::new(cluster.programs().folder.join("psql"));
        psql.args([
            "-X",
            "-A",
            "-t",
            "-d",
            "postgres",
            "-c",
            "SELECT 1 FROM pg_database WHERE datname = 'tpcc'",
        ]);
        psql.envs(cluster.environment());
        stdout(&succeeded(run(&mut psql))).trim() == "1"
    };
    while !database() || loaded("SELECT count(*) FROM hardmeter_tpcc") < 2 {
        assert!(begin.elapsed() < Duration::from_secs(120), "no warehouse is loaded");
        assert!(killed.try_wait().unwrap().is_none(), "the load has ended before it could be killed");
    }
    killed.kill().unwrap();
    killed.wait().unwrap();

    let output = tpcc.tpcc(&["load", "--warehouses", "4", "--partitions", "2"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("an interrupted load of 3 warehouses"), "{}", stderr(&output));

    let text = stdout(&succeeded(tpcc.tpcc(&arguments)));
    assert!(text.contains("were there already, of an interrupted load"), "{text}");
    let sum = "SELECT count(*) || ' ' || sum(hashtext(s::text)::bigint) FROM stock s";
    let resumed = tpcc.sql(sum);
    assert_eq!(verdicts(&tpcc.audit(&[]), "conditions"), ["held"; 12]);

    let refused = tpcc.tpcc(&arguments);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--replace"), "{}", stderr(&refused));
    let distributed = tpcc.tpcc(&["load", "--warehouses", "3", "--distribute", "--replace"]);
    assert_eq!(distributed.status.code(), Some(1));
    assert!(
        stderr(&distributed).contains("this database has no extension citus"),
        "{}",
        stderr(&distributed)
    );
    let by_range = [
        "load",
        "--warehouses",
        "3",
        "--jobs",
        "2",
        "--partitions",
        "2",
        "--partition-by",
        "range",
        "--replace",
    ];
    succeeded(tpcc.tpcc(&by_range));
    // Half of three is one and a half: the first partition has one of them.
    let parts = "SELECT string_agg(DISTINCT tableoid::regclass || ' ' || w_id, ', ') FROM warehouse";
    assert_eq!(tpcc.sql(parts), "warehouse_0 1, warehouse_1 2, warehouse_1 3");
    assert_eq!(tpcc.sql("SELECT min(s_w_id), max(s_w_id) FROM stock_1"), "2|3");
    assert_eq!(tpcc.sql(sum), resumed, "the seed decides over the rows, whoever loads them");
}

#[test]
fn foreign_tables_are_found_by_their_tools_names() {
    let Some(tpcc) = Tpcc::new() else { return };
    succeeded(tpcc.tpcc(&["load", "--warehouses", "1"]));
    let output = tpcc.tpcc(&["audit", "--foreign", "sysbench"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is no table item1"), "{}", stderr(&output));
    tpcc.sql("ALTER TABLE orders RENAME TO oorder");
    let audit = tpcc.audit(&["--foreign", "benchbase"]);
    assert_eq!(audit["tool"], "benchbase");
    assert_eq!(verdicts(&audit, "conditions"), ["held"; 12]);
    let ours = tpcc.tpcc(&["load", "--warehouses", "1", "--replace"]);
    succeeded(ours);
    tpcc.sql("DROP TABLE hardmeter_tpcc");
    let output = tpcc.tpcc(&["load", "--warehouses", "1", "--replace"]);
    assert!(
        stderr(&output).contains("already holds the table item, which Hardmeter did not load"),
        "{}",
        stderr(&output)
    );
}

/// A tablespace of a few megabytes: a tmpfs, which only root can mount.
struct SmallDisk {
    folder: std::path::PathBuf,
}

impl SmallDisk {
    /// `None`, with a message, if it cannot be mounted.
    fn new(folder: std::path::PathBuf, owner: &str) -> Option<SmallDisk> {
        std::fs::create_dir(&folder).unwrap();
        let mounted = mount(&["-t", "tmpfs", "-o", "size=100M", "tmpfs"], &folder);
        if !mounted {
            eprintln!("skipped: a tmpfs cannot be mounted here");
            return None;
        }
        let disk = SmallDisk { folder };
        succeeded(run(Command::new("chown").arg(owner).arg(&disk.folder)));
        Some(disk)
    }

    fn grow(&self) {
        assert!(mount(&["-o", "remount,size=1G"], &self.folder), "the tmpfs cannot be made larger");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The server may still use it: a lazy unmount.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

fn mount(arguments: &[&str], folder: &std::path::Path) -> bool {
    let output = Command::new("mount").args(arguments).arg(folder).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn a_full_disk_is_told_and_the_load_goes_on_when_there_is_room() {
    let Some(tpcc) = Tpcc::new() else { return };
    let owner = tpcc.server.cluster().account().name().to_owned();
    let Some(disk) = SmallDisk::new(tpcc.server.path("small"), &owner) else { return };
    let cluster = tpcc.server.cluster();
    let admin = |sql: &str| {
        let mut psql = Command::new(cluster.programs().folder.join("psql"));
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c", sql]);
        succeeded(run(psql.envs(cluster.environment())));
    };
    admin(&format!("CREATE TABLESPACE small LOCATION '{}'", disk.folder.display()));
    admin("CREATE DATABASE tpcc TABLESPACE small");

    // Two warehouses take about 200 MB.
    let arguments = ["load", "--warehouses", "2", "--jobs", "1"];
    let full = tpcc.tpcc(&arguments);
    assert_eq!(full.status.code(), Some(1), "{}", stdout(&full));
    let said = stderr(&full);
    assert!(
        said.contains("the server's disk is full") && said.contains("give the same command again"),
        "{said}"
    );

    disk.grow();
    let text = stdout(&succeeded(tpcc.tpcc(&arguments)));
    assert!(text.contains("all tables have their rows"), "{text}");
    assert_eq!(verdicts(&tpcc.audit(&[]), "conditions"), ["held"; 12]);
}
