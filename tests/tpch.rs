//! `hardmeter tpch` from end to end on a real PostgreSQL: loaded, counted, run by variants, refreshed, interrupted.
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

/// A server, and the database in it that the tests share.
struct Tpch {
    server: ThrowawayServer,
}

impl Tpch {
    fn new() -> Option<Tpch> {
        ThrowawayServer::new(&[], &["fsync=off", "autovacuum=off"], 1).map(|server| Tpch { server })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = hardmeter();
        command.arg("tpch").args(arguments).arg("--server").arg(self.server.folder().path());
        command
    }

    fn tpch(&self, arguments: &[&str]) -> Output {
        run(&mut self.command(arguments))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.tpch(&[arguments, &["--format", "json"]].concat());
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)))
    }

    fn load(&self, scale: &str) {
        succeeded(self.tpch(&["load", "--scale", scale]));
    }

    /// The one value that a statement gives in the database of TPC-H.
    fn value(&self, sql: &str) -> String {
        let cluster = self.server.cluster();
        let mut psql = Command::new(cluster.programs().folder.join("psql"));
        psql.args(["-X", "-A", "-t", "-d", "tpch", "-c", sql]).envs(cluster.environment());
        psql.env("PGDATABASE", "tpch");
        stdout(&succeeded(run(&mut psql))).trim().to_owned()
    }

    fn count(&self, table: &str) -> u64 {
        self.value(&format!("SELECT count(*) FROM {table}")).parse().unwrap()
    }
}

#[test]
fn data_are_those_of_the_specification_and_variants_are_compared() {
    let Some(tpch) = Tpch::new() else { return };
    tpch.load("0.01");
    // Clause 4.2.5: SF x 10,000 suppliers, 150,000 customers, 200,000 parts, four suppliers a part, ten orders a customer.
    for (table, rows) in [
        ("supplier", 100),
        ("customer", 1_500),
        ("part", 2_000),
        ("partsupp", 8_000),
        ("orders", 15_000),
        ("nation", 25),
        ("region", 5),
        ("lineitem", 60_175), // as dbgen generates for scale 0.01: one to seven per order, by its random numbers
    ] {
        assert_eq!(tpch.count(table), rows, "{table}");
    }
    // Clause 4.2.3: a third of customers has no orders; an order's total is the sum of its items; sparse
    // keys.
    assert_eq!(tpch.value("SELECT count(*) FROM orders WHERE o_custkey % 3 = 0"), "0");
    assert_eq!(tpch.value("SELECT count(*) FROM orders WHERE (o_orderkey & 31) > 7"), "0");
    let apart = "SELECT count(*) FROM orders WHERE abs(o_totalprice - (SELECT \
                 sum(l_extendedprice * (1 + l_tax) * (1 - l_discount)) FROM lineitem WHERE l_orderkey = o_orderkey)) \
                 > 0.15";
    assert_eq!(tpch.value(apart), "0", "an item is cut twice, by a cent at most and its tax");
    let types = "SELECT string_agg(DISTINCT format_type(atttypid, atttypmod), ',') FROM pg_attribute \
                 WHERE attrelid = 'lineitem'::regclass AND attname IN ('l_quantity', 'l_tax', 'l_shipmode')";
    assert_eq!(tpch.value(types), "character(10),numeric(15,2)");
    let indexes =
        "SELECT count(*) FROM pg_index WHERE indrelid IN ('lineitem'::regclass, 'orders'::regclass)";
    assert_eq!(tpch.value(indexes), "7");

    // Two variants with different plans: all 22 answers must be equal.
    let file = tpch.server.path("result.json");
    let options = [
        "--blocks",
        "1",
        "--variant",
        "stock=",
        "--variant",
        "hash=enable_nestloop=off; enable_indexscan=off",
    ];
    let output = tpch.tpch(&[&["run"], &options[..], &["-o", file.to_str().unwrap()]].concat());
    let text = stdout(&succeeded(output));
    assert!(text.contains("all 22 answers are those of stock, byte for byte"), "{text}");
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["scale"], 0.01);
    assert_eq!(report["settings"]["random_page_cost"], "1.1");
    let queries = report["queries"].as_array().unwrap();
    assert_eq!(queries.len(), 22);
    for query in queries {
        let variants = query["variants"].as_array().unwrap();
        assert_eq!(variants[1]["answer"], "identical", "{}", query["query"]);
        for variant in variants {
            assert_eq!(variant["wall_ms_runs"].as_array().unwrap().len(), 2, "each twice in a block");
        }
    }
    // Q1 from the server.
    let rows = queries[0]["rows"].as_u64().unwrap();
    assert_eq!(
        rows.to_string(),
        tpch.value("SELECT count(DISTINCT (l_returnflag, l_linestatus)) FROM lineitem")
    );
}

#[test]
fn a_variant_that_answers_otherwise_is_found_out() {
    let Some(tpch) = Tpch::new() else { return };
    tpch.load("0.01");
    // One variant sees an empty table in place of orders, another one the rows of lineitem with another tax.
    tpch.value("CREATE SCHEMA wrong");
    tpch.value("CREATE VIEW wrong.lineitem AS SELECT * FROM public.lineitem WHERE l_linenumber <> 7");
    let variants = ["--variant", "stock=", "--variant", "wrong=search_path=wrong, public, pg_catalog"];
    let arguments = [&["run", "--queries", "1,4,11", "--blocks", "1"], &variants[..]].concat();
    let output = tpch.tpch(&arguments);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let report = tpch.json(&arguments);
    let answers: Vec<&str> = report["queries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|query| query["variants"][1]["answer"].as_str().unwrap())
        .collect();
    assert_eq!(answers[0], "different", "Q1 sums lineitem");
    assert_eq!(answers[2], "identical", "Q11 does not read it");
    assert_eq!(report["totals"][1]["other_answers"][0], 1);

    // A variant that cannot run a query: the others are still measured, and it is reported.
    tpch.value("CREATE SCHEMA broken");
    tpch.value("CREATE VIEW broken.region AS SELECT 1 / (r_regionkey - r_regionkey) AS r_regionkey, r_name FROM public.region");
    let variants = ["--variant", "stock=", "--variant", "broken=search_path=broken, public, pg_catalog"];
    let output = tpch.tpch(&[&["run", "--queries", "6,5", "--blocks", "1"], &variants[..]].concat());
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("Q5 failed in variant broken and is in no total: "), "{text}");
    assert!(text.contains("division by zero"), "{text}");
    assert!(text.contains("Q6 "), "{text}");
}

#[test]
fn refresh_functions_insert_and_delete_a_thousandth() {
    let Some(tpch) = Tpch::new() else { return };
    tpch.load("0.01");
    let first = "SELECT min(o_orderkey) FROM orders";
    assert_eq!(tpch.value(first), "1");
    let report = tpch.json(&["run", "--queries", "6", "--blocks", "1", "--refresh"]);
    // One variant, twice in the block: two update sets of 15 orders each, inserted and deleted.
    assert_eq!(tpch.count("orders"), 15_000);
    assert_eq!(tpch.value("SELECT count(*) FROM orders WHERE (o_orderkey & 8) <> 0"), "30");
    let orphans =
        "SELECT count(*) FROM lineitem WHERE NOT EXISTS (SELECT FROM orders WHERE o_orderkey = l_orderkey)";
    assert_eq!(tpch.value(orphans), "0");
    let childless =
        "SELECT count(*) FROM orders WHERE NOT EXISTS (SELECT FROM lineitem WHERE l_orderkey = o_orderkey)";
    assert_eq!(tpch.value(childless), "0");
    // The 30 lowest keys of the load were deleted: the first remaining one is that of order 31, 3 x 32 + 7.
    assert_eq!(tpch.value("SELECT min(o_orderkey) FROM orders WHERE (o_orderkey & 8) = 0"), "103");
    let functions: Vec<&str> = report["refresh_functions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|function| function["function"].as_str().unwrap())
        .collect();
    assert_eq!(functions, ["RF1", "RF2"]);
    assert_eq!(tpch.json(&["run", "--queries", "6", "--blocks", "1"])["refreshes_before"], 2);
}

#[test]
fn faults_are_named_with_their_remedies() {
    let Some(tpch) = Tpch::new() else { return };
    let fails = |arguments: &[&str], cause: &str, remedy: &str| {
        let output = tpch.tpch(arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(cause), "{arguments:?}: {said}");
        assert!(said.contains("remedy: ") && said.contains(remedy), "{arguments:?}: {said}");
    };
    fails(&["run", "--database", "postgres"], "no table lineitem", "hardmeter tpch load");
    fails(&["run"], "database \"tpch\" does not exist", "--database");
    tpch.load("0.01");
    fails(&["load", "--scale", "0.01"], "already holds the table", "--replace");
    succeeded(tpch.tpch(&["load", "--scale", "0.01", "--replace"]));
    fails(&["check"], "scale 0.01", "--scale 1");
    fails(&["run", "--variant", "x=load:no_such_library"], "no_such_library", "dynamic_library_path");
    fails(&["run", "--variant", "x=nonsense.level=2; no_such_setting=1"], "no_such_setting", "spelling");
    fails(
        &["run", "-o", "/nonexistent/result.json"],
        "cannot write /nonexistent",
        "folder that you may write",
    );
    // A table is dropped, as if by another user's mistake.
    tpch.value("DROP TABLE region");
    fails(&["run"], "there is no table region", "hardmeter tpch load");
    // No rights.
    tpch.value("CREATE ROLE stranger LOGIN");
    let state = tpch.server.cluster().state().clone();
    let connection =
        format!("host='{}' port={} user=stranger dbname=tpch", state.socket_folder.display(), state.port);
    let mut command = hardmeter();
    command.args(["tpch", "load", "--scale", "0.01", "--replace", "--connection", &connection]);
    let said = stderr(&run(&mut command));
    assert!(said.contains("must be owner of table") && said.contains("GRANT"), "{said}");
    // The server was killed.
    let pid = tpch.server.cluster().processes()[0];
    let mut measuring = tpch.command(&["load", "--scale", "1", "--database", "another"]);
    let child = measuring.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(|| {
        tpch.server.cluster().query("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'COPY%'").unwrap() != ""
    });
    // SAFETY: no preconditions. SIGQUIT: the server ends immediately and disconnects its clients.
    unsafe { libc::kill(pid.0, libc::SIGQUIT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("the server closed the connection while loading"), "{said}");
    assert!(said.contains("server's log"), "{said}");
}

#[test]
fn an_interrupted_load_and_an_interrupted_query_leave_nothing_behind() {
    let Some(tpch) = Tpch::new() else { return };
    let mut command = tpch.command(&["load", "--scale", "1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let copying = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'COPY lineitem%'";
    wait_for(|| tpch.server.cluster().query(copying).unwrap() != "");
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("was interrupted"), "{}", stderr(&output));
    assert_eq!(tpch.value("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"), "0");

    // An endless query: every row waits.
    tpch.load("0.01");
    tpch.value("CREATE SCHEMA slow");
    tpch.value("CREATE VIEW slow.lineitem AS SELECT * FROM public.lineitem WHERE pg_sleep(1)::text = ''");
    let slow = ["run", "--queries", "6", "--variant", "slow=search_path=slow, public, pg_catalog"];
    let mut command = tpch.command(&slow);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let active = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hardmeter tpch' AND state = 'active'";
    // Other statements precede the query: only this one sleeps.
    let sleeping = format!("{active} AND wait_event = 'PgSleep'");
    wait_for(|| tpch.server.cluster().query(&sleeping).unwrap() == "1");
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("Q6 in variant slow was interrupted"), "{}", stderr(&output));
    wait_for(|| tpch.server.cluster().query(active).unwrap() == "0");

    // The same cut short by its time limit.
    let output = tpch.tpch(&[&slow[..], &["--timeout", "1"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("took longer than 1 s"), "{}", stdout(&output));
}

#[test]
fn queries_are_shown_with_their_parameters() {
    let show = |arguments: &[&str]| {
        let mut command = hardmeter();
        stdout(&succeeded(run(command.args(["tpch", "show"]).args(arguments))))
    };
    assert!(show(&["--queries", "6"]).contains("l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01"));
    assert!(show(&["--queries", "11", "--scale", "10"]).contains("* 0.0000100000"));
    assert_eq!(show(&["--seed", "3"]), show(&["--seed", "3"]));
    assert_ne!(show(&["--seed", "3"]), show(&["--seed", "4"]));
    let value: Value = serde_json::from_str(&show(&["--format", "json"])).unwrap();
    assert_eq!(
        (&value["format"], value["data"].as_array().unwrap().len()),
        (&"hardmeter-tpch-show".into(), 22)
    );
}

fn interrupt(child: &std::process::Child) {
    // SAFETY: no preconditions; the child has not been reaped, so its number is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(120), "waited for two minutes");
        std::thread::sleep(Duration::from_millis(50));
    }
}
