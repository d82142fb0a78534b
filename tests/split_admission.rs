//! Admission in a real PostgreSQL: a limited number of long statements runs at once, the others wait in their order;
//! cancelling and the like end a wait; and no process waits for a statement that is held back.
//!
//! The long statements sleep in the server, so that the states of these tests are stable: a statement that runs
//! waits for `PgSleep`, one that is held back for `Extension` (from PostgreSQL 17 on: `SplitAdmission`).

#[path = "common/mod.rs"]
mod common;
#[path = "common/split.rs"]
mod split;
#[path = "common/split_postgres.rs"]
mod split_postgres;

use common::{hardmeter, wait_until};
use hardmeter_servers::StartOptions;
use hardmeter_split::model::CodeId;
use hardmeter_split::segment::Application;
use hardmeter_split::state::Admission;
use postgres::{CancelToken, Client, NoTls};
use split::Analyzer;
use split_postgres::{Server, APP};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

const LONG: &str = "SELECT pg_sleep(600) FROM users WHERE id = 1";
const LONG_ON_ITEMS: &str = "SELECT pg_sleep(600) FROM items WHERE id = 1";
/// Held back for as long as a test may take.
const PATIENT: &str = "SET split.admission_timeout = '1h'";

/// A statement that a session executes beside the test.
struct Statement {
    pid: i32,
    cancel: CancelToken,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Statement {
    /// Executes `before` one by one, then the statement.
    fn new(server: &Server, before: &[&str], statement: &'static str) -> Statement {
        let mut client = server.connect();
        client.batch_execute(PATIENT).unwrap();
        let pid = pid_of(&mut client);
        for one in before {
            client.simple_query(one).unwrap();
        }
        let cancel = client.cancel_token();
        let thread = std::thread::spawn(move || {
            let why = |error: postgres::Error| {
                error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().into())
            };
            client.simple_query(statement).map(drop).map_err(why)
        });
        Statement { pid, cancel, thread: Some(thread) }
    }

    /// Waits for its end.
    fn result(mut self) -> Result<(), String> {
        self.thread.take().unwrap().join().unwrap()
    }

    fn cancelled(self) {
        self.cancel.cancel_query(NoTls).unwrap();
        self.result().unwrap_err();
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = self.cancel.cancel_query(NoTls);
            let _ = thread.join();
        }
    }
}

fn pid_of(client: &mut Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0)
}

/// A server whose `LONG` and `LONG_ON_ITEMS` have this many places, and one that watches it.
struct Limited {
    analyzer: Option<Analyzer>,
    watching: Client,
    segment: Application,
    server: Server,
}

impl Limited {
    fn new(places: u32) -> Option<Limited> {
        Some(Limited::of(Server::new(&[])?, places))
    }

    fn of(server: Server, places: u32) -> Limited {
        let (mut segment, mut watching) = (server.segment(), server.connect());
        for long in [LONG, LONG_ON_ITEMS] {
            watching.simple_query(&long.replace("600", "0")).unwrap();
        }
        let code = |segment: &mut Application, table: &str| -> CodeId {
            let begin = format!("select {table}: select pg_sleep");
            split::kinds(segment).into_values().find(|kind| kind.note.starts_with(&begin)).unwrap().code
        };
        let codes = [code(&mut segment, "users"), code(&mut segment, "items")];
        let analyzer = Some(Analyzer::with_places(&server.segments, APP, places, &codes));
        Limited { analyzer, watching, segment, server }
    }

    fn statement(&self) -> Statement {
        Statement::new(&self.server, &[], LONG)
    }

    fn event(&mut self, pid: i32) -> String {
        let sql = "SELECT coalesce(wait_event, '') FROM pg_stat_activity WHERE pid = $1 AND state = 'active'";
        self.watching.query_opt(sql, &[&pid]).unwrap().map_or(String::new(), |row| row.get(0))
    }

    fn runs(&mut self, one: &Statement) {
        wait_until("a statement that runs", || self.event(one.pid) == "PgSleep");
    }

    fn is_held(&mut self, one: &Statement) {
        wait_until("a statement that is held back", || {
            ["Extension", "SplitAdmission"].contains(&self.event(one.pid).as_str())
        });
    }

    fn running(&mut self) -> Statement {
        let one = self.statement();
        self.runs(&one);
        one
    }

    fn held(&mut self) -> Statement {
        let one = self.statement();
        self.is_held(&one);
        one
    }

    fn admission(&self) -> Admission {
        self.segment.admission()
    }
}

#[test]
fn a_limited_number_runs_and_the_others_in_their_order() {
    let Some(mut limited) = Limited::new(2) else { return };
    let [first, second] = [limited.running(), limited.running()];
    let [third, fourth] = [limited.held(), limited.held()];
    let now = limited.admission();
    assert_eq!((now.places, now.running, now.waiting, now.waits), (2, 2, 2, 0));
    assert_eq!(limited.server.status("admission_waiting"), "2");
    second.cancelled();
    limited.runs(&third);
    limited.is_held(&fourth);
    first.cancelled();
    limited.runs(&fourth);
    third.cancelled();
    fourth.cancelled();
    // A session reports an error before it leaves.
    wait_until("free places", || limited.admission().running == 0);
    let end = limited.admission();
    assert_eq!((end.waiting, end.waits, end.late, end.exempt, end.unlimited), (0, 2, 0, 0, 0));
}

/// Cancelling, statement_timeout and termination, of those that wait and of those that run.
#[test]
fn cancelling_ends_a_wait_and_frees_a_place() {
    let Some(mut limited) = Limited::new(1) else { return };
    let first = limited.running();
    let held = limited.held();
    held.cancelled();
    let timed = Statement::new(&limited.server, &["SET statement_timeout = 200"], LONG);
    let why = timed.result().unwrap_err();
    assert!(why.contains("statement timeout"), "{why}");
    let terminated = limited.held();
    limited.watching.execute("SELECT pg_terminate_backend($1)", &[&terminated.pid]).unwrap();
    terminated.result().unwrap_err();
    wait_until("an empty queue", || limited.admission().waiting == 0);
    assert_eq!(limited.admission().running, 1);
    // The statement that runs: its session ends (FATAL), or it fails (ERROR).
    let next = limited.held();
    limited.watching.execute("SELECT pg_terminate_backend($1)", &[&first.pid]).unwrap();
    first.result().unwrap_err();
    limited.runs(&next);
    let last = limited.held();
    next.cancelled();
    limited.runs(&last);
}

#[test]
fn a_killed_process_keeps_no_place() {
    let Some(mut limited) = Limited::new(1) else { return };
    let [killed, waiting] = [limited.running(), limited.held()];
    // SAFETY: a backend of the server that this test made.
    assert_eq!(unsafe { libc::kill(killed.pid, libc::SIGKILL) }, 0);
    // The server restarts all its processes.
    killed.result().unwrap_err();
    waiting.result().unwrap_err();
    wait_until("the server after the crash", || {
        let reached = limited.server.try_connect().ok().map(|client| limited.watching = client);
        reached.is_some() && limited.watching.simple_query("SELECT 1").is_ok()
    });
    let [_next, _held] = [limited.running(), limited.held()];
    assert_eq!(limited.admission().running, 1);
}

#[test]
fn all_run_when_placement_ends() {
    let Some(mut limited) = Limited::new(1) else { return };
    let [_first, second] = [limited.running(), limited.held()];
    limited.segment.place(false, 2); // the guard
    limited.runs(&second);
    limited.segment.place(true, 3);
    let third = limited.held();
    limited.analyzer.take().unwrap().die();
    let died = Instant::now();
    limited.runs(&third);
    eprintln!("released {} ms after the analyzer's last sign of life", died.elapsed().as_millis());
}

#[test]
fn after_its_limit_a_statement_runs() {
    let Some(mut limited) = Limited::new(1) else { return };
    let _first = limited.running();
    let second = Statement::new(&limited.server, &["SET split.admission_timeout = '2s'"], LONG);
    limited.runs(&second);
    assert_eq!((limited.admission().late, limited.admission().waits), (1, 1));
}

/// Only the first statement of a transaction is held back, and only without an xid, other locks or an open cursor.
#[test]
fn a_statement_with_locks_is_not_held_back() {
    let Some(mut limited) = Limited::new(1) else { return };
    let first = limited.running();
    let free: [&[&str]; 6] = [
        &["BEGIN", "UPDATE items SET name = 'locked' WHERE id = 7"],
        &["BEGIN", "SELECT 1"],
        &["BEGIN", "LOCK TABLE items IN SHARE MODE"],
        &["SELECT pg_advisory_lock(7)"],
        &["BEGIN ISOLATION LEVEL SERIALIZABLE"],
        &["SET split.admission_timeout = 0"],
    ];
    for (number, before) in free.iter().enumerate() {
        let one = Statement::new(&limited.server, before, LONG);
        limited.runs(&one);
        assert_eq!(limited.admission().exempt, number as u64 + 1, "{before:?}");
        // The one before leaves after its client has the error.
        wait_until("two that count", || limited.admission().running == 2);
    }
    let fetch = Statement::new(
        &limited.server,
        &["BEGIN", &format!("DECLARE c CURSOR FOR {LONG}")],
        "FETCH 1 FROM c",
    );
    limited.runs(&fetch);
    drop(fetch);
    // Within a procedure: its caller may have locks.
    let block: &'static str = "DO $$ BEGIN PERFORM pg_sleep(600) FROM users WHERE id = 1; END $$";
    let inside = Statement::new(&limited.server, &[], block);
    limited.runs(&inside);
    drop(inside);
    // The first one of a transaction has nothing for which others could wait.
    let begun = Statement::new(&limited.server, &["BEGIN"], LONG);
    limited.is_held(&begun);
    first.cancelled();
    limited.runs(&begun);
    assert_eq!((limited.admission().late, limited.admission().for_others), (0, 0));
}

/// Replay may wait there for the snapshot of a statement, which is in no table of locks.
#[test]
fn a_hot_standby_holds_no_statement_back() {
    let Some(server) = Server::new(&[]) else { return };
    let mut cluster = server.cluster();
    cluster.stop(&|_| {}).unwrap();
    std::fs::write(cluster.folder().data().join("standby.signal"), "").unwrap();
    cluster.start(&StartOptions::default(), &|_| {}).unwrap();
    let mut limited = Limited::of(server, 1);
    let standby: bool = limited.watching.query_one("SELECT pg_is_in_recovery()", &[]).unwrap().get(0);
    assert!(standby);
    let [_first, _second] = [limited.running(), limited.running()];
    let now = limited.admission();
    assert_eq!((now.running, now.waiting, now.exempt, now.late), (2, 0, 2, 0));
}

/// DDL waits for the weak lock that a statement has since it was parsed.
#[test]
fn a_statement_that_others_wait_for_goes_on() {
    let Some(mut limited) = Limited::new(1) else { return };
    let first = limited.running();
    let held = Statement::new(&limited.server, &[], LONG_ON_ITEMS);
    limited.is_held(&held);
    let ddl = Statement::new(&limited.server, &[], "ALTER TABLE items ADD COLUMN more int");
    limited.runs(&held);
    wait_until("DDL that waits for the lock", || limited.event(ddl.pid) == "relation");
    held.cancelled();
    assert_eq!(ddl.result(), Ok(()));
    assert_eq!((limited.admission().for_others, limited.admission().late), (1, 0));
    // One that waits for the end of all older transactions, in any order: also of the one that runs. A younger
    // statement keeps the places occupied when that one ends.
    let held = Statement::new(&limited.server, &[], LONG_ON_ITEMS);
    limited.is_held(&held);
    let index = Statement::new(&limited.server, &[], "CREATE INDEX CONCURRENTLY ON items (seller)");
    wait_until("a wait for a transaction", || limited.event(index.pid) == "virtualxid");
    let younger = Statement::new(&limited.server, &["SET split.admission_timeout = 0"], LONG);
    limited.runs(&younger);
    first.cancelled();
    limited.runs(&held);
    held.cancelled();
    assert_eq!(index.result(), Ok(()));
    assert_eq!(limited.admission().for_others, 2);
}

/// A statement that runs but waits for a row: another one may use its place.
#[test]
fn the_place_of_one_that_waits_for_a_lock_is_free() {
    let Some(mut limited) = Limited::new(1) else { return };
    let mut owner = limited.server.connect();
    owner.batch_execute("BEGIN; UPDATE users SET name = 'owned' WHERE id = 1").unwrap();
    let update = "UPDATE users SET name = pg_sleep(0)::text WHERE id = 1";
    let mut quick = limited.server.connect();
    quick.batch_execute("UPDATE users SET name = pg_sleep(0)::text WHERE id = 2").unwrap();
    let note = "update users: update users set name=pg_sleep";
    let kinds = split::kinds(&mut limited.segment);
    let codes: Vec<CodeId> = kinds
        .values()
        .filter(|kind| kind.note.starts_with(note) || kind.note.starts_with("select users: select pg_sleep"))
        .map(|kind| kind.code)
        .collect();
    assert_eq!(codes.len(), 2);
    limited.analyzer.take().unwrap().die();
    limited.analyzer = Some(Analyzer::with_places(&limited.server.segments, APP, 1, &codes));
    let blocked = Statement::new(&limited.server, &[], update);
    wait_until("a statement that waits for a row", || limited.event(blocked.pid) == "transactionid");
    assert_eq!(limited.admission().running, 1);
    let other = limited.running();
    assert_eq!(limited.admission().running, 2);
    owner.batch_execute("COMMIT").unwrap();
    assert_eq!(blocked.result(), Ok(()));
    drop(other);
}

/// Ends the clients of a test, also if that fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The analyzer itself: it finds the long kind, limits it, and says so; killed, it leaves all running.
#[test]
fn the_analyzer_limits_what_takes_long() {
    const SHORT: &str = "SELECT name FROM items WHERE id = 1";
    const HEAVY: &str = "SELECT sum(i) FROM generate_series(1, 1000000) i";
    let Some(server) = Server::new(&[]) else { return };
    let segment = server.segment();
    let mut command = hardmeter();
    command.args(["split", "analyze", "--policy", "admit", "--admit", "1", "--no-guard", "--no-probe"]);
    command.args(["--interval", "100ms", "--directory"]).arg(&server.segments).stderr(Stdio::null());
    let mut analyzer = command.spawn().unwrap();
    let stop = AtomicBool::new(false);
    let stopped = || stop.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let _until_here = Stop(&stop);
        for statement in [HEAVY, HEAVY, HEAVY, SHORT] {
            let mut client = server.connect();
            client.batch_execute(PATIENT).unwrap();
            scope.spawn(move || {
                while !stopped() {
                    client.simple_query(statement).unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
        }
        wait_until("statements that waited", || segment.admission().waits > 10);
        wait_until("a state that shows the queue", || {
            let status =
                common::run(hardmeter().args(["split", "status", "--directory"]).arg(&server.segments));
            let status = common::stdout(&status);
            ["policy admit", "admission: 1 places", "slice own, queued: postgres "]
                .iter()
                .all(|words| status.contains(words))
        });
        analyzer.kill().unwrap();
        analyzer.wait().unwrap();
        wait_until("an end of all waits", || segment.admission().waiting == 0);
    });
    assert_eq!(segment.admission().late, 0);
    let wrong = common::run(hardmeter().args(["split", "analyze", "--policy", "soft", "--admit", "2"]));
    assert!(common::stderr(&wrong).contains("policy soft has no admission"), "{}", common::stderr(&wrong));
}
