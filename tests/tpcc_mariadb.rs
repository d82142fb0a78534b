//! `hardmeter tpcc` on MariaDB: loaded, run in both styles, killed, audited, with planted faults.

mod common;
#[path = "common/mariadb.rs"]
mod mariadb_server;
#[path = "common/tpcc_backend.rs"]
mod tpcc_backend;
#[path = "common/tpcc_inputs.rs"]
mod tpcc_inputs;

use common::{hardmeter, run, stderr, stdout, succeeded};
use hardmeter_session::{Progress, Stop};
use hardmeter_tpcc::audit::{Audit, Tool, Verdict};
use hardmeter_tpcc::backend::{Backend, Backends, Style};
use hardmeter_tpcc::mariadb::{self, Layout, LoadOrder, Target};
use hardmeter_tpcc::time::Micros;
use hardmeter_tpcc::work::{ConnectionId, Failure, FailureKind, Input, Kind, Outcome};
use mariadb_server::ThrowawayMariadb;
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tpcc_backend::{done, opened, work};
use tpcc_inputs::inputs;

struct Silent;

impl Progress for Silent {
    fn phase(&self, _what: &str, _units: u64) {}
    fn advance(&self, _units: u64) {}
}

fn tpcc(server: &ThrowawayMariadb, arguments: &[&str]) -> Command {
    let mut command = hardmeter();
    command.arg("tpcc").args(arguments).arg("--server").arg(server.folder().path());
    command
}

fn loaded(target: &Target, layout: Layout) {
    let stop = Stop::new();
    mariadb::ensure_database(target, &stop).unwrap();
    let order = LoadOrder { warehouses: 2, seed: 42, layout, replace: false, jobs: 2 };
    let loaded = order.load(target, &stop, &Silent).unwrap();
    assert!(loaded.mark.complete && loaded.bytes > 100 << 20, "{loaded:?}");
}

fn audited(target: &Target) -> Audit {
    mariadb::audit(target, Tool::Hardmeter, &Stop::new(), &Silent).unwrap()
}

fn broken(audit: &Audit) -> Vec<String> {
    let short = audit.conditions.iter().filter(|condition| condition.verdict == Verdict::Short);
    short.map(|condition| format!("{}: {:?}", condition.number, condition.examples)).collect()
}

/// Table, row, change, its reversal, the conditions that must fail, and the names in their messages.
type Fault = (&'static str, &'static str, &'static str, &'static str, &'static [u8], &'static str);

#[test]
fn a_population_is_that_of_the_specification_and_faults_in_it_are_named() {
    let Some(server) = ThrowawayMariadb::new(&[]) else { return };
    let text = stdout(&succeeded(run(&mut tpcc(
        &server,
        &["load", "--warehouses", "2", "--seed", "42", "--partitions", "2"],
    ))));
    assert!(text.contains("2 warehouses, seed 42, 2 parts by hash"), "{text}");

    // Clause 4.3.3.1, by the server's own counting.
    for (sql, value) in [
        ("SELECT count(*) FROM item", "100000"),
        ("SELECT count(*) FROM stock", "200000"),
        ("SELECT count(*) FROM customer", "60000"),
        ("SELECT count(*), count(DISTINCT h_w_id, h_d_id, h_c_id) FROM history", "60000\t60000"),
        ("SELECT count(*) FROM orders", "60000"),
        ("SELECT count(*) FROM new_order", "18000"),
        ("SELECT min(no_o_id), max(no_o_id) FROM new_order", "2101\t3000"),
        ("SELECT DISTINCT w_ytd FROM warehouse", "300000.00"),
        ("SELECT DISTINCT d_ytd, d_next_o_id FROM district", "30000.00\t3001"),
        ("SELECT DISTINCT c_balance, c_ytd_payment, c_middle FROM customer", "-10.00\t10.00\tOE"),
        ("SELECT DISTINCT c_credit_lim, c_payment_cnt, c_delivery_cnt FROM customer", "50000.00\t1\t0"),
        ("SELECT count(*) FROM customer WHERE c_discount NOT BETWEEN 0 AND 0.5", "0"),
        ("SELECT min(i_price) >= 1, max(i_price) <= 100, max(i_price) > 99 FROM item", "1\t1\t1"),
        ("SELECT count(*) FROM order_line WHERE (ol_o_id < 2101) <> (ol_amount = 0)", "0"),
        ("SELECT count(*) FROM order_line WHERE (ol_o_id < 2101) <> (ol_delivery_d IS NOT NULL)", "0"),
        ("SELECT count(DISTINCT o_c_id) FROM orders WHERE o_w_id = 1 AND o_d_id = 7", "3000"),
        ("SELECT count(DISTINCT c_last) FROM customer WHERE c_d_id = 1 AND c_id <= 1000", "1000"),
        ("SELECT min(length(s_dist_05)), max(length(s_dist_05)), min(length(s_data)) >= 26 FROM stock", "24\t24\t1"),
        ("SELECT count(DISTINCT c_since), timestampdiff(HOUR, max(c_since), utc_timestamp()) FROM customer", "1\t0"),
        (
            "SELECT count(DISTINCT partition_name) FROM information_schema.partitions \
             WHERE table_schema = 'tpcc' AND table_name = 'history'",
            "2",
        ),
    ] {
        assert_eq!(server.sql("tpcc", sql), value, "{sql}");
    }
    let target = server.target("tpcc");
    assert_eq!(broken(&audited(&target)), [""; 0]);

    // One fault for each condition, reverted afterwards; only the conditions concerned may fail.
    let faults: [Fault; 9] = [
        ("warehouse", "w_id = 2", "w_ytd = w_ytd + 1", "w_ytd = w_ytd - 1", &[1, 8], "warehouse 2"),
        (
            "district",
            "d_w_id = 1 AND d_id = 4",
            "d_next_o_id = 3002",
            "d_next_o_id = 3001",
            &[2],
            "district 1/4",
        ),
        (
            "new_order",
            "no_w_id = 1 AND no_d_id = 3 AND no_o_id IN (2500, 2099)",
            "no_o_id = 2099",
            "no_o_id = 2500",
            &[3, 5],
            "district 1/3",
        ),
        (
            "orders",
            "o_w_id = 2 AND o_d_id = 10 AND o_id = 77",
            "o_ol_cnt = o_ol_cnt + 1",
            "o_ol_cnt = o_ol_cnt - 1",
            &[4, 6],
            "district 2/10",
        ),
        (
            "orders",
            "o_w_id = 1 AND o_d_id = 1 AND o_id = 3000",
            "o_carrier_id = 3",
            "o_carrier_id = NULL",
            &[5, 7],
            "order 1/1/3000",
        ),
        (
            "order_line",
            "ol_w_id = 1 AND ol_d_id = 2 AND ol_o_id = 2999 AND ol_number = 1",
            "ol_delivery_d = now()",
            "ol_delivery_d = NULL",
            &[7, 10, 12],
            "order line 1/2/2999/1",
        ),
        (
            "history",
            "h_w_id = 1 AND h_d_id = 5 AND h_c_id = 9",
            "h_amount = 11",
            "h_amount = 10",
            &[8, 9, 10],
            "warehouse 1",
        ),
        (
            "customer",
            "c_w_id = 2 AND c_d_id = 2 AND c_id = 2",
            "c_balance = 0",
            "c_balance = -10",
            &[10, 12],
            "customer 2/2/2",
        ),
        (
            "customer",
            "c_w_id = 2 AND c_d_id = 3 AND c_id = 4",
            "c_ytd_payment = 0",
            "c_ytd_payment = 10",
            &[12],
            "customer 2/3/4",
        ),
    ];
    for (table, row, fault, back, conditions, named) in faults {
        server.sql("tpcc", &format!("UPDATE {table} SET {fault} WHERE {row}"));
        let audit = audited(&target);
        let short: Vec<_> =
            audit.conditions.iter().filter(|condition| condition.verdict == Verdict::Short).collect();
        let numbers: Vec<u8> = short.iter().map(|condition| condition.number).collect();
        assert_eq!(numbers, conditions, "{fault}");
        assert_eq!(short[0].violations, 1, "{fault}");
        assert!(short[0].examples[0].starts_with(named), "{:?}", short[0].examples);
        server.sql("tpcc", &format!("UPDATE {table} SET {back} WHERE {row}"));
    }
    server.sql("tpcc", "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1");
    let output = run(&mut tpcc(&server, &["audit", "--format", "json"]));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let audit: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(audit["conditions"][0]["examples"][0], "warehouse 1: W_YTD 300001.00, sum of D_YTD 300000.00");
}

#[test]
fn a_load_that_was_killed_goes_on_and_gives_the_same_rows() {
    let Some(server) = ThrowawayMariadb::new(&[]) else { return };
    let arguments =
        ["load", "--warehouses", "3", "--jobs", "1", "--partitions", "2", "--partition-by", "range"];
    let mut killed = tpcc(&server, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    let parts = "SELECT count(*) FROM tpcc.hardmeter_tpcc";
    while server.try_sql("", parts).is_none_or(|count| count.parse::<u32>().unwrap() < 2) {
        assert!(begin.elapsed() < Duration::from_secs(240), "no warehouse is loaded");
        assert!(killed.try_wait().unwrap().is_none(), "the load has ended before it could be killed");
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();

    let output = run(&mut tpcc(&server, &["load", "--warehouses", "4"]));
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("an interrupted load of 3 warehouses, seed 1, 2 parts by range"), "{said}");

    let text = stdout(&succeeded(run(&mut tpcc(&server, &arguments))));
    assert!(text.contains("were there already, of an interrupted load"), "{text}");
    let sums = |table: &str| server.sql("tpcc", &format!("CHECKSUM TABLE {table}"));
    let resumed: Vec<String> = ["stock", "customer", "order_line"].map(sums).to_vec();
    assert_eq!(broken(&audited(&server.target("tpcc"))), [""; 0]);

    let refused = run(&mut tpcc(&server, &arguments));
    assert!(stderr(&refused).contains("--replace"), "{}", stderr(&refused));
    succeeded(run(&mut tpcc(&server, &["load", "--warehouses", "3", "--jobs", "2", "--replace"])));
    let whole: Vec<String> = ["stock", "order_line"].map(sums).to_vec();
    // CUSTOMER and delivered lines have the load's date; stock does not.
    assert_eq!(
        whole[0], resumed[0],
        "the seed decides over the rows, whoever loads them, and however they lie"
    );

    server.sql("", "CREATE DATABASE other");
    server.sql("other", "CREATE TABLE orders (n INT)");
    let output = run(&mut tpcc(&server, &["load", "--warehouses", "1", "--database", "other"]));
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("already holds the table orders, which Hardmeter did not load"), "{said}");
}

#[test]
fn both_styles_leave_the_same_database_and_every_condition_holds() {
    let Some(server) = ThrowawayMariadb::new(&[]) else { return };
    let inputs = inputs(7, 2, 600);
    let mut outcomes: Vec<Vec<Outcome>> = vec![];
    for (database, style) in [("client", Style::Client), ("procedures", Style::Procedures)] {
        let target = server.target(database);
        loaded(&target, Layout::Whole);
        let (opened, mut backend) = opened(&target, style, 1);
        assert!(opened.description().contains("MariaDB 10.") || opened.description().contains("MariaDB 1"));
        outcomes.push(inputs.iter().map(|input| done(backend.as_mut(), input)).collect());
        drop(backend);
        assert_eq!(broken(&audited(&target)), [""; 0], "{database}");
    }
    for ((input, client), procedure) in inputs.iter().zip(&outcomes[0]).zip(&outcomes[1]) {
        assert_eq!(client, procedure, "{input:?}");
        match input {
            Input::NewOrder(order) if order.is_rolled_back() => assert_eq!(*client, Outcome::RolledBack),
            Input::NewOrder(_) => assert!(matches!(client, Outcome::Ordered { order } if *order > 3_000)),
            // There are 900 to deliver in each district, from 2101.
            Input::Delivery(_) => assert!(
                matches!(client, Outcome::Delivered { orders } if orders.iter().all(|&order| order >= 2_101))
            ),
            _ => assert_eq!(*client, Outcome::Committed),
        }
    }
    // All columns except dates, compared by the server.
    for (table, columns) in [
        ("warehouse", "w_id, w_ytd"),
        ("district", "d_w_id, d_id, d_ytd, d_next_o_id"),
        ("customer", "c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data"),
        ("history", "h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_amount, h_data"),
        ("orders", "o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt, o_all_local"),
        ("new_order", "no_w_id, no_d_id, no_o_id"),
        (
            "order_line",
            "ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info, \
             ol_delivery_d IS NULL",
        ),
        ("stock", "s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt"),
    ] {
        let rows = |database: &str| format!("SELECT {columns} FROM {database}.{table}");
        let (client, procedures) = (rows("client"), rows("procedures"));
        let differing =
            format!("SELECT count(*) FROM (({client} EXCEPT {procedures}) UNION ALL ({procedures} EXCEPT {client})) d");
        assert_eq!(server.sql("", &differing), "0", "{table}");
    }
    // The inputs are in the tables: computed by hand.
    let orders = outcomes[0].iter().filter(|outcome| matches!(outcome, Outcome::Ordered { .. })).count();
    assert_eq!(server.sql("client", "SELECT sum(d_next_o_id - 3001) FROM district"), orders.to_string());
    let paid: u64 = inputs
        .iter()
        .map(|input| match input {
            Input::Payment(payment) => u64::from(payment.amount_cents),
            _ => 0,
        })
        .sum();
    let sum = server.sql("client", "SELECT CAST(sum(w_ytd - 300000) * 100 AS SIGNED) FROM warehouse");
    assert_eq!(sum, paid.to_string());
    let remote: usize = inputs
        .iter()
        .map(|input| match input {
            Input::NewOrder(order) if !order.is_rolled_back() => {
                order.lines().iter().filter(|line| line.supply != order.warehouse).count()
            }
            _ => 0,
        })
        .sum();
    assert!(remote > 0);
    assert_eq!(server.sql("client", "SELECT sum(s_remote_cnt) FROM stock"), remote.to_string());
    let oldest = server
        .sql("client", "SELECT DISTINCT min(no_o_id) FROM new_order WHERE no_w_id = 1 GROUP BY no_d_id");
    let deliveries = inputs
        .iter()
        .filter(|input| matches!(input, Input::Delivery(delivery) if delivery.warehouse == 1))
        .count();
    assert_eq!(oldest, (2_101 + deliveries).to_string());
}

/// Keeps connections busy until a stop. Acknowledged orders by warehouse and district, and failures.
struct Driven {
    ordered: Vec<(u32, u8, u32)>,
    failures: Vec<Failure>,
}

fn drive(backend: &mut dyn Backend, inputs: &[Input], mut goes_on: impl FnMut(&Driven) -> bool) -> Driven {
    let mut driven = Driven { ordered: vec![], failures: vec![] };
    let mut inputs = inputs.iter().cycle();
    let mut lost = vec![];
    for connection in 0..backend.connections() {
        backend.submit(ConnectionId(connection), work(inputs.next().unwrap()), Micros(0));
    }
    let mut under_way = backend.connections();
    while under_way > 0 {
        let mut done = vec![];
        backend.wait(None, &mut done).unwrap();
        for completion in done {
            under_way -= 1;
            match completion.outcome {
                Outcome::Ordered { order } => {
                    let Input::NewOrder(input) = &completion.work.input else {
                        panic!("{:?}", completion.work)
                    };
                    driven.ordered.push((input.warehouse, input.district, order));
                }
                Outcome::Failed(failure) => {
                    if failure.kind == FailureKind::ConnectionLost {
                        lost.push(completion.connection);
                    }
                    driven.failures.push(failure);
                }
                _ => {}
            }
            if goes_on(&driven) && !lost.contains(&completion.connection) {
                backend.submit(completion.connection, work(inputs.next().unwrap()), Micros(0));
                under_way += 1;
            }
        }
    }
    driven
}

#[test]
fn a_server_that_is_killed_loses_nothing_that_it_acknowledged() {
    let Some(server) = ThrowawayMariadb::new(&["innodb_flush_log_at_trx_commit=1"]) else { return };
    let target = server.target("tpcc");
    loaded(&target, Layout::Hash { parts: 2 });
    for (seed, style) in [(11, Style::Client), (12, Style::Procedures)] {
        let (_, mut backend) = opened(&target, style, 4);
        let inputs = inputs(seed, 2, 1000);
        let mut killed = false;
        let driven = drive(backend.as_mut(), &inputs, |driven| {
            if !killed && driven.ordered.len() > 100 {
                server.kill();
                killed = true;
            }
            true
        });
        assert_eq!(
            driven.failures.iter().filter(|failure| failure.kind == FailureKind::ConnectionLost).count(),
            4
        );
        let lasting: Vec<_> =
            driven.failures.iter().filter(|failure| failure.kind == FailureKind::Lasting).collect();
        assert!(lasting.is_empty(), "{lasting:?}");
        let refused = backend.reconnect(ConnectionId(0)).unwrap_err();
        assert!(refused.to_string().contains("cannot connect to tpcc at "), "{refused}");

        server.start();
        backend.reconnect(ConnectionId(0)).unwrap();
        assert!(!matches!(done(backend.as_mut(), &inputs[0]), Outcome::Failed(_)));
        drop(backend);
        for (w, d, o) in driven.ordered {
            let row =
                format!("SELECT count(*) FROM orders WHERE o_w_id = {w} AND o_d_id = {d} AND o_id = {o}");
            assert_eq!(server.sql("tpcc", &row), "1", "order {w}/{d}/{o} was acknowledged");
        }
        assert_eq!(broken(&audited(&target)), [""; 0]);
    }
}

#[test]
fn a_run_loads_measures_and_checks() {
    let Some(server) = ThrowawayMariadb::new(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = hardmeter();
    command.args(["tpcc", "run", "--warehouses", "1", "--mode", "closed", "--clients", "2", "--ramp", "1s"]);
    command.args(["--interval", "2s", "--split-id", "7cc", "--set", "sort_buffer_size=4194304"]);
    command.arg("--output").arg(folder.path().join("run"));
    server.sql("", "SET GLOBAL log_output = 'TABLE'; SET GLOBAL general_log = 1");
    let output = run(command.arg("--server").arg(server.cluster().folder().path()));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("run.json")).unwrap()).unwrap();
    assert!(
        result["environment"]["system"].as_str().unwrap().starts_with("MariaDB "),
        "{}",
        result["environment"]
    );
    assert!(result["kinds"][0]["completed"].as_u64().unwrap() > 0, "{}", result["kinds"][0]);
    assert_eq!(result["errors"].as_array().unwrap().iter().filter(|error| error["retried"] == 0).count(), 0);
    let conditions = result["conditions"].as_array().unwrap();
    assert_eq!(conditions.iter().filter(|condition| condition["held"] == true).count(), 11, "{conditions:?}");
    // The server's counters agree: acknowledged transactions, ramp included, are there.
    let series = result["series"].as_array().unwrap();
    let done: u64 = series.iter().map(|second| second["completed"][0].as_u64().unwrap()).sum();
    let ordered: u64 = server.sql("tpcc", "SELECT sum(d_next_o_id - 3001) FROM district").parse().unwrap();
    assert!(ordered > 0 && ordered <= done + 2, "{ordered} in the database, {done} told");
    // The setting was tried once, and given to each of the two connections.
    assert_eq!(result["order"]["settings"]["sort_buffer_size"], "4194304");
    let given = "SELECT count(*) FROM mysql.general_log WHERE command_type = 'Query' \
                 AND argument = 'SET SESSION sort_buffer_size = 4194304'";
    assert_eq!(server.sql("", given), "3");
    // Each call has its transaction in a comment.
    let calls = server.sql(
        "",
        "SELECT GROUP_CONCAT(DISTINCT REGEXP_SUBSTR(argument, 'tpcc_[a-z_]+'), REGEXP_SUBSTR(argument, '/[*].*') ORDER BY 1) \
         FROM mysql.general_log WHERE command_type = 'Execute'",
    );
    for call in ["tpcc_new_order/*split_id='7cc.1'*/", "tpcc_payment/*split_id='7cc.2'*/"] {
        assert!(calls.contains(call), "{calls}");
    }
    assert_eq!(calls.matches("tpcc_").count(), calls.matches("7cc.").count(), "{calls}");

    let mut refused = hardmeter();
    refused.args([
        "tpcc",
        "run",
        "--mode",
        "closed",
        "--set",
        "innodb_buffer_pool_size=64000000",
        "--output",
    ]);
    refused.arg(folder.path().join("refused")).arg("--server").arg(server.cluster().folder().path());
    let said = stderr(&run(&mut refused));
    assert!(said.contains("'innodb_buffer_pool_size' is a GLOBAL variable"), "{said}");
    assert!(said.contains("SET GLOBAL NAME = VALUE") && !said.contains("MySqlError"), "{said}");
    assert!(!folder.path().join("refused.json").exists());
}

#[test]
fn what_is_wrong_is_said_with_a_remedy_and_without_the_password() {
    let Some(server) = ThrowawayMariadb::new(&[]) else { return };
    server.sql("", "CREATE USER bench@localhost IDENTIFIED BY 'right'");
    server.sql("", "GRANT ALL ON tpcc.* TO bench@localhost");
    let socket = server.cluster().socket().display().to_string();
    let ask = |password: &str, variable: Option<&str>| -> Output {
        let url = format!("mysql://bench{password}@localhost/tpcc?socket={socket}");
        let mut command = hardmeter();
        command.args(["tpcc", "audit", "--connection", &url]).env_remove("MYSQL_PWD");
        if let Some(variable) = variable {
            command.env("MYSQL_PWD", variable);
        }
        run(&mut command)
    };
    let wrong = ask("", Some("wrong-secret"));
    let said = stderr(&wrong);
    assert!(
        said.contains("Access denied") && said.contains("MYSQL_PWD") && !said.contains("secret"),
        "{said}"
    );
    // A password in a URL is visible in the list of processes: refused, and not printed.
    let shown = ask(":wrong-secret", None);
    let said = stderr(&shown);
    assert!(said.contains("--connection contains a password") && said.contains("MYSQL_PWD"), "{said}");
    assert!(!said.contains("secret"), "{said}");
    for output in [wrong, shown] {
        assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    }
    // The right one: it connects, and finds no data.
    let said = stderr(&ask("", Some("right")));
    assert!(said.contains("Unknown database 'tpcc'"), "{said}");
    let output =
        run(hardmeter().args(["tpcc", "audit", "--engine", "postgres", "--connection", "mysql://h/d"]));
    assert!(stderr(&output).contains("--engine is PostgreSQL"), "{}", stderr(&output));
}

#[test]
fn five_kinds_are_among_the_inputs() {
    let inputs = inputs(7, 2, 600);
    for kind in Kind::ALL {
        assert!(inputs.iter().filter(|input| input.kind() == kind).count() >= 10, "{kind:?}");
    }
    assert!(inputs.iter().any(|input| matches!(input, Input::NewOrder(order) if order.is_rolled_back())));
}
