//! The extension in a real PostgreSQL: the counts equal the executed statements, whatever clients do; affinities
//! are restored.

#[path = "common/mod.rs"]
mod common;
#[path = "common/split.rs"]
mod split;
#[path = "common/split_postgres.rs"]
mod split_postgres;

use common::wait_until;
use hardmeter_split::model::{Actuation, AppId, CodeId, KindRef};
use hardmeter_split::segment::Application;
use postgres::Client;
use split::{narrowed, processors, time_slice, Analyzer, Kind};
use split_postgres::{Server, APP};

/// Executions of the kind whose note begins with this. A section ends before its client has the answer.
fn count(segment: &mut Application, note: &str) -> u64 {
    of(segment, note).map_or(0, |kind| kind.count)
}

fn of(segment: &mut Application, note: &str) -> Option<Kind> {
    split::kinds(segment).into_values().find(|kind| kind.note.starts_with(note))
}

const BY_ID: &str = "select items: select name from items where id=?";

#[test]
fn what_is_counted_is_what_was_executed() {
    let Some(server) = Server::new(&[]) else { return };
    let mut segment = server.segment();
    let mut client = server.connect();

    // The simple protocol: each statement of a packet separately.
    for id in 1..=5 {
        client.simple_query(&format!("SELECT name FROM items WHERE id = {id} /*split_id='a1.1f'*/")).unwrap();
    }
    client
        .simple_query("select name from items where id=6; SELECT name FROM items WHERE id=7; BEGIN; COMMIT")
        .unwrap();
    assert_eq!(count(&mut segment, BY_ID), 7);
    let related = of(&mut segment, BY_ID).unwrap().related;
    assert_eq!(related, Some(KindRef { app: AppId(0xa1), code: CodeId(0x1f) }));

    // The extended one, prepared once and executed often, also after the plan has become a generic one.
    let statement = client.prepare("SELECT name FROM items WHERE id = $1").unwrap();
    for id in 1..=8 {
        client.query(&statement, &[&id]).unwrap();
    }
    let parametrized = "select items: select name from items where id=?";
    assert_eq!(parametrized, BY_ID);
    let prepared: u64 = split::kinds(&mut segment)
        .into_values()
        .filter(|kind| kind.note.starts_with(BY_ID))
        .map(|kind| kind.count)
        .sum();
    assert_eq!(prepared, 7 + 8, "constants and parameters may be two kinds, together they are all");

    // By name; within EXPLAIN ANALYZE; planned and not executed.
    client.batch_execute("PREPARE byname AS SELECT count(*) FROM users").unwrap();
    for _ in 0..7 {
        client.simple_query("EXECUTE byname").unwrap();
    }
    client.simple_query("EXPLAIN ANALYZE SELECT count(*) FROM users").unwrap();
    client.simple_query("EXPLAIN SELECT count(*) FROM users").unwrap();
    assert_eq!(count(&mut segment, "select users"), 8);

    // Statements that fail during execution count; texts that are not statements do not.
    for _ in 0..3 {
        client.simple_query("INSERT INTO users VALUES (1, 'again')").unwrap_err();
        client.simple_query("SELECT nothing FROM users").unwrap_err();
        client.simple_query("SELEKT").unwrap_err();
    }
    assert_eq!(count(&mut segment, "insert users: insert into users values(?)"), 3);
    // With savepoints only a subtransaction ends.
    let mut transaction = client.transaction().unwrap();
    for _ in 0..2 {
        let mut inner = transaction.transaction().unwrap();
        inner.simple_query("UPDATE users SET id=2 WHERE id=1").unwrap_err();
        inner.rollback().unwrap();
        transaction.simple_query("SELECT max(name) FROM users").unwrap();
    }
    transaction.commit().unwrap();
    assert_eq!(count(&mut segment, "update users: update users set id=? where id=?"), 2);
    assert_eq!(count(&mut segment, "select users: select max(name) from users"), 2);

    // Functions belong to their caller, also if they catch errors; procedures' statements count separately.
    client
        .batch_execute(
            "CREATE FUNCTION f(n int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
               BEGIN INSERT INTO users VALUES (1, 'x'); EXCEPTION WHEN unique_violation THEN NULL; END;
               RETURN (SELECT count(*) FROM items WHERE id < n); END $$;
             CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN
               UPDATE items SET name='y' WHERE id=1; COMMIT; UPDATE items SET name='z' WHERE id=2; END $$",
        )
        .unwrap();
    for _ in 0..3 {
        client.simple_query("SELECT f(id) FROM items WHERE id < 4").unwrap();
        client.simple_query("CALL p()").unwrap();
    }
    assert_eq!(count(&mut segment, "select items: select f(id) from items"), 3);
    assert_eq!(
        count(&mut segment, "insert users: insert into users values(?)"),
        3,
        "those of the function are not among them"
    );
    assert_eq!(count(&mut segment, "update items"), 6);

    // Cursors: a section for each portion, none while the client is idle.
    client.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT seller FROM items ORDER BY 1").unwrap();
    assert_eq!(count(&mut segment, "select items: select seller"), 0);
    for _ in 0..4 {
        client.simple_query("FETCH 10 FROM c").unwrap();
    }
    client.batch_execute("COMMIT").unwrap();
    assert_eq!(split_of_cursor(&mut segment), 4);
    let mut transaction = client.transaction().unwrap();
    let portal = transaction.bind("SELECT seller + $1 FROM items", &[&1]).unwrap();
    for _ in 0..3 {
        assert_eq!(transaction.query_portal(&portal, 100).unwrap().len(), 100);
    }
    transaction.commit().unwrap();
    assert_eq!(count(&mut segment, "select items: select seller+? from items"), 3);

    // Parallel workers measure nothing, their leader does.
    client
        .batch_execute(
            "SET parallel_setup_cost=0; SET parallel_tuple_cost=0; SET min_parallel_table_scan_size=0",
        )
        .unwrap();
    // PostgreSQL 16 renamed the setting.
    let forced = client
        .query(
            "SELECT set_config(name, 'on', false) FROM pg_settings
             WHERE name IN ('force_parallel_mode', 'debug_parallel_query')",
            &[],
        )
        .unwrap();
    assert_eq!(forced.len(), 1);
    for _ in 0..2 {
        client.simple_query("SELECT sum(seller) FROM items").unwrap();
    }
    assert_eq!(count(&mut segment, "select items: select sum(seller) from items"), 2);

    // SQL shows the segment's data; other users may not read them.
    let row = client
        .query_one(
            "SELECT sum(count)::bigint FROM split_kinds WHERE note LIKE 'select items: select name%'",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 15);
    assert_eq!(server.status("app_id"), format!("{APP}"));
    assert_eq!(server.status("bad_origins"), "0");
    // 7 columns of split_kinds, 2 of split_status, both views: each has a comment.
    let row = client
        .query_one(
            "SELECT count(*) FROM pg_description WHERE classoid = 'pg_class'::regclass
             AND objoid IN ('split_kinds'::regclass, 'split_status'::regclass)",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 11);
    client.batch_execute("CREATE ROLE nobody; SET ROLE nobody").unwrap();
    client.simple_query("SELECT * FROM split_kinds").unwrap_err();
}

fn split_of_cursor(segment: &mut Application) -> u64 {
    // The statement's text comes from DECLARE: the note has only the table.
    of(segment, "select items").map_or(0, |_| {
        split::kinds(segment)
            .into_values()
            .filter(|kind| kind.note == "select items")
            .map(|kind| kind.count)
            .sum()
    })
}

#[test]
fn who_is_killed_or_goes_away_disturbs_no_count() {
    let Some(server) = Server::new(&["split.kinds=128"]) else { return };
    let mut segment = server.segment();
    let mut killer = server.connect();
    let asleep =
        "SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND wait_event = 'PgSleep'";
    for (round, how) in ["pg_cancel_backend", "pg_terminate_backend", "kill -9"].iter().enumerate() {
        let mut victim = server.connect();
        let work =
            std::thread::spawn(move || victim.simple_query("SELECT pg_sleep(600) FROM items").is_err());
        let mut found: Option<i32> = None;
        wait_until("the statement to be killed", || {
            found = killer.query_opt(asleep, &[]).unwrap().map(|row| row.get(0));
            found.is_some()
        });
        let pid = found.unwrap();
        if *how == "kill -9" {
            // SAFETY: a backend of the server that this test made.
            assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
            assert!(work.join().unwrap());
            // The server restarts all its processes, and continues to measure. Until it detects the crash it
            // accepts connections and then ends them.
            wait_until("the crash", || killer.simple_query("SELECT 1").is_err());
            let mut reached = None;
            wait_until("the server after the crash", || {
                reached = server.try_connect().ok();
                reached.is_some()
            });
            killer = reached.unwrap();
            continue;
        }
        killer.execute(&format!("SELECT {how}({pid})"), &[]).unwrap();
        assert!(work.join().unwrap());
        wait_until("the end of the statement", || {
            count(&mut segment, "select items: select pg_sleep(?)") == round as u64 + 1
        });
    }
    let counted = count(&mut segment, BY_ID);
    for id in 0..10 {
        killer.simple_query(&format!("SELECT name FROM items WHERE id={id}")).unwrap();
    }
    assert_eq!(count(&mut segment, BY_ID), counted + 10);

    // More kinds than the table holds: one record has the rest, and no section is lost.
    let sections = segment.sections();
    for batch in 0..100 {
        let sql: String =
            (0..100).map(|n| format!("SELECT 1 AS a, 2 AS b LIMIT {} OFFSET 0;", batch * 100 + n)).collect();
        killer.batch_execute(&sql).unwrap();
    }
    assert_eq!(segment.sections(), sections + 10_000);
    let mut distinct = String::new();
    for number in 0..1000 {
        distinct += &format!("SELECT {};", vec!["1"; number % 400 + 1].join(","));
        if number % 50 == 49 {
            killer.batch_execute(&distinct).unwrap();
            distinct.clear();
        }
    }
    let kept = split::kinds(&mut segment).len();
    assert!(kept <= 128, "{kept}");
    let without_room: u64 = server.status("without_room").parse().unwrap();
    assert!(without_room >= 400 - 128, "{without_room}");
    let sum: u64 = split::kinds(&mut segment).values().map(|kind| kind.count).sum();
    assert_eq!(sum, segment.sections());
}

#[test]
fn backends_go_where_the_analyzer_says_and_come_back() {
    let Some(server) = Server::new(&[]) else { return };
    let cpus = processors();
    if cpus.len() < 2 {
        return eprintln!("skipped: there is one processor only");
    }
    let mut segment = server.segment();
    let (mut client, mut other) = (server.connect(), server.connect());
    let ask = |client: &mut Client| client.simple_query("SELECT name FROM items WHERE id=1").unwrap();
    ask(&mut client);
    let code = of(&mut segment, BY_ID).unwrap().code;
    let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
    let narrowed_now = || narrowed(backend);
    assert_eq!(narrowed_now(), []);

    let place = |client: &mut Client| {
        wait_until("a backend that is placed", || {
            ask(client);
            narrowed_now().iter().any(|(_, allowed)| *allowed == [cpus[1]])
        });
    };
    let mut reload = |sql: &str| {
        other.batch_execute(sql).unwrap();
        other.batch_execute("SELECT pg_reload_conf()").unwrap();
    };
    let analyzer = Analyzer::new(&server.segments, APP, Actuation::Lazy, &[(code, cpus[1])]);
    place(&mut client);
    reload("ALTER SYSTEM SET split.engine = off");
    wait_until("affinity when switched off", || narrowed_now().is_empty());
    ask(&mut client);
    assert_eq!(narrowed_now(), []);
    reload("ALTER SYSTEM SET split.engine = on");
    place(&mut client);
    reload("ALTER SYSTEM SET split.place = off");
    wait_until("affinity when nothing is placed", || narrowed_now().is_empty());
    let counted = split::kinds(&mut segment).into_values().find(|kind| kind.code == code).unwrap().count;
    ask(&mut client);
    let now = split::kinds(&mut segment).into_values().find(|kind| kind.code == code).unwrap().count;
    assert_eq!((narrowed_now(), now), (vec![], counted + 1), "measured, not moved");
    reload("ALTER SYSTEM SET split.place = on");
    place(&mut client);
    // A killed analyzer: no backend runs to detect it, the worker does.
    analyzer.die();
    wait_until("affinity after the analyzer's death", || narrowed_now().is_empty());
}

/// Backends have the slice of their kind, parallel workers the slice of their leader's kind. After the
/// analyzer is killed all get their original slice back, although no statement begins any more.
#[test]
fn backends_and_parallel_workers_have_the_slice_of_their_kind() {
    let own = time_slice(std::process::id() as i32);
    if own == 0 {
        return eprintln!("skipped: this kernel has no time slices");
    }
    // Tuples have their cost, so that workers execute the join and not a scan that ends within a millisecond.
    let parallel = ["parallel_setup_cost=0", "min_parallel_table_scan_size=0"];
    let Some(server) = Server::new(&parallel) else { return };
    let mut segment = server.segment();
    let (mut client, mut heavy, mut other) = (server.connect(), server.connect(), server.connect());
    let ask = |client: &mut Client| _ = client.simple_query("SELECT name FROM items WHERE id=1").unwrap();
    const LONG: &str = "SELECT count(*) FROM items a, items b, items c WHERE a.seller + b.seller > c.seller";
    ask(&mut client);
    // Its execution begins within this time also beside other load. The client has the error before the section ends.
    heavy.batch_execute("SET statement_timeout = 2000").unwrap();
    heavy.simple_query(LONG).unwrap_err();
    heavy.batch_execute("SET statement_timeout = 0").unwrap();
    let kinds = [BY_ID, "select items,items,items: select count(*)"];
    wait_until("both kinds", || kinds.iter().all(|kind| of(&mut segment, kind).is_some()));
    let [short, long] = kinds.map(|kind| of(&mut segment, kind).unwrap().code);
    let pid =
        |client: &mut Client| -> i32 { client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0) };
    let (backend, leader) = (pid(&mut client), pid(&mut heavy));

    let analyzer = Analyzer::with_slices(&server.segments, APP, &[(short, 100), (long, 100_000)]);
    wait_until("a backend with its slice", || {
        ask(&mut client);
        time_slice(backend) == 100_000
    });
    let cancel = heavy.cancel_token();
    let working = std::thread::spawn(move || heavy.simple_query(LONG).unwrap_err());
    wait_until("the leader's slice", || time_slice(leader) == 100_000_000);
    let workers = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'parallel worker'";
    wait_until("parallel workers with their leader's slice", || {
        let rows = other.query(workers, &[]).unwrap();
        !rows.is_empty() && rows.iter().all(|row| time_slice(row.get(0)) == 100_000_000)
    });
    client.simple_query("SELECT count(*) FROM users").unwrap();
    assert_eq!(time_slice(backend), own, "a kind without a slice");
    // The slices are stale while the analyzer's next heartbeat is late.
    wait_until("the slice of its kind", || {
        ask(&mut client);
        time_slice(backend) == 100_000
    });

    analyzer.die();
    wait_until("slices after the analyzer's death", || {
        time_slice(backend) == own && time_slice(leader) == own
    });
    cancel.cancel_query(postgres::NoTls).unwrap();
    working.join().unwrap();
}
