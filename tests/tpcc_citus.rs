//! TPC-C on Citus: warehouses distributed over the nodes of an existing cluster.
//!
//! `CITUS_URL` is a connection string of a database of its own in which `CREATE EXTENSION citus` was said; its
//! tables of TPC-C are replaced. Without it the test is skipped: Debian has no package of Citus.

mod common;

use common::{hardmeter, run, stdout, succeeded};
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
}
