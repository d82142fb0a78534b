//! One load, three views: a statement has the same id in `hardmeter queries`, in SPLiT's segment and in ccopt's table.
//!
//! Two hundred statements, each executed once on a PostgreSQL with SPLiT's module and ccopt, and once in
//! other words while the software PMU records it. Runs as root (the server then runs as `postgres`) and as an
//! ordinary user.

#[path = "common/mod.rs"]
mod common;
#[path = "common/split.rs"]
mod split;
#[path = "common/split_postgres.rs"]
mod split_postgres;

use common::{hardmeter, have, run, stdout, succeeded, tests_folder};
use hardmeter_statement::{Dialect, StatementId};
use postgres::SimpleQueryMessage;
use serde_json::Value;
use split_postgres::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Large enough that ccopt reads it in batches.
const TABLE: &str =
    "CREATE TABLE numbers AS SELECT g AS a, g % 7 AS b, g % 11 AS c, g % 13 AS d, g % 17 AS e \
                     FROM generate_series(1, 3000) g; VACUUM (FREEZE, ANALYZE) numbers";

/// An aggregate of each column, filtered by each column in eight ways.
fn statements() -> Vec<String> {
    let columns = ["a", "b", "c", "d", "e"];
    let mut all = Vec::new();
    for of in columns {
        for by in columns {
            for (aggregate, operator) in [
                ("sum", "<"),
                ("sum", ">"),
                ("min", "<"),
                ("min", ">"),
                ("max", "<="),
                ("max", ">="),
                ("count", "<>"),
                ("count", "="),
            ] {
                all.push(format!("select {aggregate}({of}) from numbers where {by} {operator} 3"));
            }
        }
    }
    all
}

/// The same statement as another program would write it.
fn reworded(statement: &str, number: usize) -> String {
    let beginning = statement.strip_suffix('3').expect("a number at the end").to_uppercase();
    format!("/* {number} */ {}{number} -- again\n;", beginning.replace(' ', "  "))
}

fn id(statement: &str) -> StatementId {
    StatementId::of(Dialect::Postgres, statement.as_bytes())
}

/// The parts of ccopt that a session needs: the library, its SQL objects as in CREATE EXTENSION.
struct Ccopt {
    /// Loads it, and makes statements of three thousand rows cost enough for ccopt to examine them.
    load: String,
    objects: String,
}

impl Ccopt {
    /// `None`, with a message, if it was not built for this server.
    fn lend(server: &Server) -> Option<Ccopt> {
        let major = server.cluster().programs().data_version();
        let built = tests_folder().join("../build/plan").join(major).join("ccopt.so");
        let built = std::env::var_os("HARDMETER_TEST_CCOPT").map_or(built, PathBuf::from);
        if !built.exists() {
            eprintln!("skipped: {} is not there; make build-plan builds it", built.display());
            return None;
        }
        let library = server.cluster().lend(&built).unwrap();
        let script = include_str!("../plan/sql/ccopt--0.1.sql");
        let objects: Vec<&str> = script
            .lines()
            .filter(|line| !line.starts_with('\\') && !line.contains("pg_extension_config_dump"))
            .collect();
        let objects = objects.join("\n").replace("MODULE_PATHNAME", &library.display().to_string());
        Some(Ccopt { load: format!("LOAD '{}'; SET cpu_tuple_cost = 2", library.display()), objects })
    }
}

/// The statements of a column of text, each with how often it is there.
fn ids_of(messages: Vec<SimpleQueryMessage>) -> BTreeMap<StatementId, u64> {
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            let id = row.get(0).expect("an id").parse().expect("16 digits");
            Some((id, row.get(1).expect("a number").parse().expect("a number")))
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

#[test]
fn two_hundred_statements_have_one_id_in_three_views() {
    if !have(&["valgrind", "psql"]) {
        return;
    }
    let settings = ["compute_query_id=on", "jit=off", "max_parallel_workers_per_gather=0"];
    let Some(server) = Server::new(&settings) else { return };
    let Some(ccopt) = Ccopt::lend(&server) else { return };
    let mut client = server.connect();
    client.batch_execute("CREATE SCHEMA ccopt; SET search_path = ccopt").unwrap();
    client.batch_execute(&ccopt.objects).unwrap();
    client.batch_execute("RESET search_path").unwrap();
    for statement in TABLE.split("; ") {
        client.simple_query(statement).unwrap();
    }
    client.batch_execute(&ccopt.load).unwrap();
    let statements = statements();
    let expected: BTreeSet<StatementId> = statements.iter().map(|statement| id(statement)).collect();
    assert_eq!((statements.len(), expected.len()), (200, 200));

    for statement in &statements {
        client.simple_query(statement).unwrap();
    }
    let shapes = client.simple_query("SELECT statement_id, runs FROM ccopt.ccopt_shapes").unwrap();
    let shapes = ids_of(shapes);
    let kinds = client
        .simple_query("SELECT statement_id, count FROM split_kinds WHERE note LIKE 'select numbers%'")
        .unwrap();
    let kinds = ids_of(kinds);
    let snapshot = server.segment().snapshot().unwrap().snapshot;
    let segment: BTreeSet<StatementId> =
        snapshot.kinds.iter().filter_map(|kind| kind.statement).filter(|id| expected.contains(id)).collect();
    drop(client);

    let script = tests_folder_of(&server).join("again.sql");
    let again: Vec<String> =
        statements.iter().enumerate().map(|(number, statement)| reworded(statement, number)).collect();
    std::fs::write(&script, format!("{};\n{}\n", ccopt.load, again.join("\n"))).unwrap();
    let recorded = record(&server, &script);

    for statement in &statements {
        let id = id(statement);
        assert_eq!(shapes.get(&id), Some(&1), "ccopt_shapes: {statement}");
        assert_eq!(kinds.get(&id), Some(&1), "split_kinds: {statement}");
        assert!(segment.contains(&id), "the segment: {statement}");
        assert!(recorded.contains(&id), "queries: {statement}");
    }
    assert_eq!((shapes.len(), kinds.len()), (200, 200));
}

/// The folder of the test's files.
fn tests_folder_of(server: &Server) -> PathBuf {
    server.segments.parent().expect("below the server's").to_owned()
}

/// Records a session of this script; returns the ids that `hardmeter queries` prints.
fn record(server: &Server, script: &std::path::Path) -> BTreeSet<StatementId> {
    let folder = tests_folder_of(server);
    let mut command = hardmeter();
    command.current_dir(&folder).envs(server.cluster().environment());
    command.args(["record", "--source", "simulated", "--machine", "xeon-2003", "-e", "l1d-miss/period=53/"]);
    command.args(["-o", "server.data", "--server"]).arg(folder.join("server"));
    let shell = format!("psql -XAqt -v ON_ERROR_STOP=1 -f {} >answer", script.display());
    succeeded(run(command.args(["--", "sh", "-c", &shell])));
    let mut command = hardmeter();
    command.args(["queries", "--all", "--format", "json", "-i"]).arg(folder.join("server.data"));
    let report: Value = serde_json::from_str(&stdout(&succeeded(run(&mut command)))).unwrap();
    let rows = report["tables"][0]["rows"].as_array().expect("rows").iter();
    rows.filter_map(|row| row["statement_id"].as_str()).map(|id| id.parse().expect("16 digits")).collect()
}
