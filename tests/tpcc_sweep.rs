//! `hardmeter tpcc sweep` from end to end on a real PostgreSQL.
//!
//! Runs as root (the server then runs as `postgres`) and as an ordinary user.

mod common;
#[path = "common/server.rs"]
mod server;
#[path = "common/tpcc.rs"]
mod tpcc;

use common::{hardmeter, run, stderr, stdout, succeeded, wait_until};
use serde_json::Value;
use std::process::{Command, Stdio};
use tpcc::{ended, failed_saying, interrupt, Tpcc};

fn sweep(tpcc: &Tpcc, arguments: &[&str]) -> Command {
    let mut command = hardmeter();
    command.args(["tpcc", "sweep", "--server"]).arg(tpcc.server.folder().path()).args(arguments);
    command
}

#[test]
fn a_sweep_measures_what_was_asked_for_says_where_auto_lands_and_draws_it() {
    let Some(tpcc) = Tpcc::loaded(1) else { return };
    let picture = tpcc.file("knee.svg");
    let output = succeeded(run(sweep(&tpcc, &["--connections", "1,3", "--rounds", "1", "--leg", "1"])
        .args(["--format", "json", "--output"])
        .arg(&picture)));
    let swept: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let points = swept["points"].as_array().unwrap();
    let counts: Vec<u64> = points.iter().map(|point| point["connections"].as_u64().unwrap()).collect();
    assert!(counts.contains(&1) && counts.contains(&3) && counts.is_sorted(), "{counts:?}");
    let chosen = points.iter().find(|point| point["connections"] == swept["chosen"]).unwrap();
    assert_eq!(chosen["candidate"], true);
    // Several may be the best: short legs may have equal numbers of orders.
    let best = points.iter().map(|point| point["throughput"].as_f64().unwrap()).fold(0.0, f64::max);
    for point in points {
        assert_eq!(
            point["of_best"].as_f64().unwrap(),
            point["throughput"].as_f64().unwrap() / best,
            "{point}"
        );
    }

    // The server runs here: its processes were visible, and the rule was applied.
    let m = swept["rule"]["multiplicity"].as_f64().unwrap();
    let cpus = swept["rule"]["cpus"].as_u64().unwrap();
    assert!(m > 0.0 && m <= 1.0, "{m}");
    assert_eq!(swept["rule"]["needed"].as_u64().unwrap(), (2.0 * cpus as f64 / m).round() as u64);
    for point in points {
        assert_eq!(point["throughputs"].as_array().unwrap().len(), 1);
        assert!(point["server_cpu"].as_f64().unwrap() > 0.0, "{point}");
        assert!(point["driver_cpu"].as_f64().unwrap() > 0.0, "{point}");
    }

    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.contains(&format!("auto: {}", swept["chosen"])), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 3 * counts.len(), "throughput, server, driver");
    assert!(tpcc.orders_of_runs() > 0);
}

#[test]
fn what_cannot_be_is_said_and_an_interruption_ends_it() {
    let Some(tpcc) = Tpcc::loaded(1) else { return };
    let output = run(&mut sweep(&tpcc, &["--output", "/nowhere/knee.svg"]));
    failed_saying(&output, &["cannot write /nowhere/knee.svg"]);
    assert_eq!(tpcc.orders_of_runs(), 0, "it is said before anything is measured");
    assert_eq!(run(&mut sweep(&tpcc, &["--connections", "0"])).status.code(), Some(2));
    assert_eq!(run(&mut sweep(&tpcc, &["--leg", "0"])).status.code(), Some(2));

    let child = sweep(&tpcc, &["--rounds", "100"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    wait_until("the first transactions", || tpcc.is_under_way());
    interrupt(&child);
    let output = ended(child);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted: too few measurements"), "{}", stderr(&output));
}
