//! TPC-C on Citus: warehouses distributed over the nodes of an existing cluster.
//!
//! `CITUS_URL` is a connection string of a database of its own in which `CREATE EXTENSION citus` was said; its
//! tables of TPC-C are replaced. Without it the test is skipped: Debian has no package of Citus. `scripts/test-citus`
//! builds one, makes a cluster of three nodes, and runs this test there.

mod common;

use common::{hardmeter, run, stderr, stdout, succeeded};
use serde_json::Value;

#[test]
fn warehouses_are_spread_over_nodes_and_stay_consistent() {
    let Ok(connection) = std::env::var("CITUS_URL") else {
        eprintln!("skipped: CITUS_URL names no database with Citus");
        return;
    };
    let tpcc = |action: &str, arguments: &[&str]| {
        succeeded(run(hardmeter().args(["tpcc", action, "--connection", &connection]).args(arguments)))
    };
    tpcc("load", &["--warehouses", "2", "--distribute", "--replace"]);

    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("run");
    tpcc(
        "run",
        &[
            "--mode",
            "closed",
            "--clients",
            "4",
            "--ramp",
            "1s",
            "--interval",
            "10s",
            "--output",
            name.to_str().unwrap(),
        ],
    );
    let result: Value = serde_json::from_slice(&std::fs::read(name.with_extension("json")).unwrap()).unwrap();
    assert_eq!(result["ending"]["how"], "complete");
    assert_eq!(result["errors"], serde_json::json!([]), "no transaction is given up");

    let audit: Value = serde_json::from_str(&stdout(&tpcc("audit", &["--format", "json"]))).unwrap();
    let conditions = audit["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 12);
    assert!(conditions.iter().all(|condition| condition["violations"] == 0), "{conditions:?}");

    let mut client = postgres::Client::connect(&connection, postgres::NoTls).expect("a connection");
    let query = "SELECT logicalrelid::text, partmethod::text FROM pg_dist_partition ORDER BY 1";
    let tables: Vec<(String, String)> =
        client.query(query, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
    // A reference table is on every node ("n"), the others are cut by a hash of the warehouse ("h").
    assert!(tables.contains(&("item".into(), "n".into())), "{tables:?}");
    assert_eq!(tables.iter().filter(|(_, method)| method == "h").count(), 8, "{tables:?}");
    // Both warehouses have shards, on two nodes.
    let query =
        "SELECT count(DISTINCT nodename)::integer FROM citus_shards WHERE table_name = 'stock'::regclass";
    assert_eq!(client.query_one(query, &[]).unwrap().get::<_, i32>(0), 2);

    let tried: Value =
        serde_json::from_str(&stdout(&tpcc("acid", &["--seconds", "5", "--format", "json"]))).unwrap();
    let parts = tried["tried"].as_array().unwrap();
    let trials: Vec<&Value> = parts.iter().flat_map(|part| part["trials"].as_array().unwrap()).collect();
    assert_eq!(trials.len(), 2 + 9 + 2, "atomicity, isolation, consistency: {trials:?}");
    assert!(trials.iter().all(|trial| trial["verdict"] == "held"), "{trials:?}");
    // Test 8 needs the lock graph of the nodes: the coordinator's own processes do not wait for each other.
    let phantom = trials.iter().find(|trial| trial["clause"] == "3.4.2.8").unwrap();
    assert_eq!(phantom["case"], "T2 waits for T1");

    let refused = run(hardmeter().args(["tpcc", "run", "--style", "client", "--connection", &connection]));
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--style procedures"), "{}", stderr(&refused));
}
