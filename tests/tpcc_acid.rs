//! Clause 3 of TPC-C on a real PostgreSQL: correct transactions pass, and deliberately wrong ones are detected.
//!
//! Runs as root (the server then runs as `postgres`) and as an ordinary user.

mod common;
#[path = "common/server.rs"]
mod server;
#[path = "common/tpcc_ways.rs"]
mod tpcc_ways;

use common::{hardmeter, run, stderr, stdout, succeeded};
use hardmeter_session::{ensure_database, Progress, Session, Stop, Target};
use hardmeter_tpcc::acid::{atomicity, isolation, Trial, Ways};
use hardmeter_tpcc::audit::{audit, Tool, Verdict};
use hardmeter_tpcc::load::LoadOrder;
use hardmeter_tpcc::schema::Layout;
use serde_json::Value;
use server::ThrowawayServer;
use std::process::Output;
use std::sync::Arc;
use tpcc_ways::{Fault, Plain};

const WAREHOUSES: u32 = 2;

struct Silent;

impl Progress for Silent {
    fn phase(&self, _what: &str, _units: u64) {}
    fn advance(&self, _units: u64) {}
}

/// A server with two warehouses.
struct Tpcc {
    server: ThrowawayServer,
    target: Target,
}

impl Tpcc {
    fn new(settings: &[&str]) -> Option<Tpcc> {
        let server = ThrowawayServer::new(&[], settings, 1)?;
        let cluster = server.cluster();
        let state = cluster.state();
        let target = Target::socket(&state.socket_folder, state.port, &state.user, "tpcc");
        ensure_database(&target, &Stop::new()).unwrap();
        let order =
            LoadOrder { warehouses: WAREHOUSES, seed: 7, layout: Layout::default(), replace: false, jobs: 2 };
        order.load(&target, &Stop::new(), &Silent).unwrap();
        Some(Tpcc { server, target })
    }

    /// `hardmeter tpcc acid` on it.
    fn acid(&self, arguments: &[&str]) -> Output {
        let folder = self.server.folder();
        run(hardmeter().args(["tpcc", "acid", "--server"]).arg(folder.path()).args(arguments))
    }

    fn isolation(&self, ways: Plain, wanted: &[u8], seed: u64) -> Vec<Trial> {
        let ways: Arc<dyn Ways> = Arc::new(ways);
        isolation::run(&self.target, &ways, WAREHOUSES, seed, wanted, &Stop::new(), &Silent).unwrap()
    }

    fn atomicity(&self, ways: Plain, seed: u64) -> Vec<Trial> {
        let ways: Arc<dyn Ways> = Arc::new(ways);
        atomicity::run(&self.target, &ways, WAREHOUSES, seed, &Stop::new()).unwrap()
    }

    fn sql(&self, sql: &str) -> String {
        let mut session = Session::open(&self.target, &Stop::new()).unwrap();
        session.query("asking", sql).unwrap().single().unwrap().to_owned()
    }

    fn broken_conditions(&self) -> Vec<u8> {
        let audit = audit(&self.target, Tool::Hardmeter, &Stop::new(), &Silent).unwrap();
        let short = audit.conditions.iter().filter(|condition| condition.verdict == Verdict::Short);
        short.map(|condition| condition.number).collect()
    }
}

fn all_held(trials: &[Trial]) {
    for trial in trials {
        assert_eq!(trial.verdict, Verdict::Held, "{trial:#?}");
    }
}

/// The text of a scenario's failed requirement.
fn broken(trial: &Trial) -> String {
    assert_eq!(trial.verdict, Verdict::Short, "{trial:#?}");
    trial.seen.iter().filter(|line| line.starts_with("NOT SO")).cloned().collect::<Vec<_>>().join("; ")
}

#[test]
fn right_transactions_hold_in_all_scenarios_and_wrong_ones_are_told() {
    let Some(tpcc) = Tpcc::new(&["fsync=off", "autovacuum=off"]) else { return };
    let prices = "SELECT sum(hashtext(item::text)::bigint) FROM item";
    let before = tpcc.sql(prices);

    all_held(&tpcc.atomicity(Plain::right(), 1));
    let trials = tpcc.isolation(Plain::right(), &[1, 2, 3, 4, 5, 6, 7, 8, 9], 1);
    all_held(&trials);
    let clauses: Vec<&str> = trials.iter().map(|trial| trial.clause).collect();
    assert_eq!(clauses[0], "3.4.2.1");
    assert_eq!(clauses.len(), 9);
    // PostgreSQL's behaviour is known: readers do not wait for writers, writers of one row wait.
    let cases: Vec<&str> = trials.iter().map(|trial| trial.case.as_deref().unwrap()).collect();
    assert_eq!(cases[0], "T2 does not wait, and reads what was committed before T1");
    assert_eq!([cases[2], cases[3], cases[4], cases[5]], ["T2 waits for T1"; 4]);
    assert!(cases[6].starts_with("held before its end: case D"), "{}", cases[6]);
    assert_eq!(tpcc.sql(prices), before, "the prices are put back");
    assert_eq!(tpcc.broken_conditions(), Vec::<u8>::new(), "after all scenarios");

    // Each fault is detected by its scenario.
    let of = |fault: Fault, scenario: u8| {
        let trials = tpcc.isolation(Plain::with(fault), &[scenario], 2);
        broken(&trials[0])
    };
    let told = of(Fault::ReadsNextOrderWithoutLock, 3);
    assert!(told.contains("T2 is done; it fails") && told.contains("duplicate key"), "{told}");
    let told = of(Fault::ReckonsBalanceItself, 5);
    assert!(told.contains("C_BALANCE after both is"), "{told}");
    let told = of(Fault::ReadsPricesOneByOne, 7);
    assert!(told.contains("of one moment"), "{told}");
    let told = of(Fault::DeliversWithoutLock, 8);
    assert!(told.contains("finds 1 rows of NEW-ORDER in the district, which should be none"), "{told}");
    let told = of(Fault::LooksWithoutSnapshot, 9);
    assert!(told.contains("T1 reads again and shows order"), "{told}");
    // Uncommitted data: servers cannot be made to return it, so the transaction commits half of its changes.
    let told = of(Fault::CommitsHalfway, 2);
    assert!(told.contains("as before"), "{told}");

    let paid = &tpcc.atomicity(Plain::with(Fault::CommitsHalfway), 3)[1];
    assert_eq!(paid.clause, "3.2.2.2");
    assert!(broken(paid).contains("W_YTD"), "{paid:#?}");
    let forgotten = &tpcc.atomicity(Plain::with(Fault::ForgetsHistory), 4)[0];
    assert!(broken(forgotten).contains("rows of HISTORY"), "{forgotten:#?}");
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

#[test]
fn the_transactions_of_a_run_hold_and_a_killed_server_has_all_that_it_acknowledged() {
    let Some(tpcc) = Tpcc::new(&["shared_buffers=256MB"]) else { return };
    let output = tpcc.acid(&["--kills", "4", "--seconds", "3", "--format", "json"]);
    let told = json(&output);
    assert_eq!(output.status.code(), Some(0), "{told:#}");
    let tried = told["tried"].as_array().unwrap();
    let parts: Vec<(&str, usize)> = tried
        .iter()
        .map(|part| (part["property"].as_str().unwrap(), part["trials"].as_array().unwrap().len()))
        .collect();
    let of_a_style = [("atomicity", 2), ("isolation", 9)];
    assert_eq!(parts, [&of_a_style[..], &of_a_style[..], &[("consistency", 2)]].concat());
    for trial in tried.iter().flat_map(|part| part["trials"].as_array().unwrap()) {
        assert_eq!(trial["verdict"], "held", "{trial:#}");
    }
    // The load ran.
    let load = tried[4]["trials"][1]["seen"][0].as_str().unwrap();
    assert!(load.contains(" New-Order, ") && !load.contains(" 0 New-Order"), "{load}");

    let kills = told["durability"]["kills"].as_array().unwrap();
    assert_eq!(kills.len(), 4);
    for kill in kills {
        assert!(kill["acknowledged"].as_u64().unwrap() > 0, "{kill:#}");
        assert_eq!((&kill["missing"], &kill["incomplete"]), (&0.into(), &0.into()), "{kill:#}");
        let (growth, acknowledged) =
            (kill["growth"].as_u64().unwrap(), kill["acknowledged"].as_u64().unwrap());
        assert!((acknowledged..=acknowledged + 8).contains(&growth), "{kill:#}");
    }
    assert_ne!(kills[3]["moment"], "any", "the fourth is in a checkpoint, or just behind it");
    assert_eq!(tpcc.broken_conditions(), Vec::<u8>::new());

    // A test of the test: a server that acknowledges unwritten commits loses orders. Their number depends on other
    // writes of the log before the kill (a full buffer, a checkpoint, an evicted page), and may be 0: three tries.
    let cluster = tpcc.server.cluster();
    cluster.query("ALTER SYSTEM SET synchronous_commit = off").unwrap();
    cluster.query("SELECT pg_reload_conf()").unwrap();
    let mut tries = ["3", "4", "5"].into_iter().map(|seed| {
        // PostgreSQL 15's log writer is woken for each page of log.
        let writer =
            cluster.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'").unwrap();
        // SAFETY: kill takes plain numbers. The process belongs to this test's server, and ends with it.
        unsafe { libc::kill(writer.trim().parse().unwrap(), libc::SIGSTOP) };
        tpcc.acid(&["--only", "durability", "--kills", "1", "--seed", seed])
    });
    let lossy = tries.find(|output| output.status.code() == Some(1)).expect("one try loses orders");
    let text = stdout(&lossy);
    assert!(text.contains("acknowledged orders are missing"), "{text}");
    assert!(text.contains("synchronous_commit off"), "{text}");
}

#[test]
fn it_refuses_what_it_should() {
    let Some(tpcc) = Tpcc::new(&["fsync=off", "autovacuum=off"]) else { return };
    let cluster = tpcc.server.cluster();
    let state = cluster.state();
    let connection =
        format!("host={} port={} user={} dbname=tpcc", state.socket_folder.display(), state.port, state.user);
    let foreign = |arguments: &[&str]| {
        run(hardmeter().args(["tpcc", "acid", "--connection", &connection]).args(arguments))
    };
    let output = foreign(&["--only", "durability"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("not a server that hardmeter made"), "{}", stderr(&output));
    let output = succeeded(foreign(&["--only", "atomicity", "--style", "client"]));
    assert!(stdout(&output).contains("atomicity, client SQL"), "{}", stdout(&output));

    let mut somebody = Session::open(&tpcc.target, &Stop::new()).unwrap();
    somebody.execute("working", "BEGIN; SELECT 1").unwrap();
    let output = tpcc.acid(&["--only", "atomicity"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("other clients work in the database"), "{}", stderr(&output));
    drop(somebody);

    let output = run(hardmeter()
        .args(["tpcc", "acid", "--server"])
        .arg(tpcc.server.folder().path())
        .args(["--database", "postgres"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("hardmeter tpcc load"), "{}", stderr(&output));
    let output = run(hardmeter().args(["tpcc", "acid", "--only", "everything"]));
    assert_eq!(output.status.code(), Some(2));
}
