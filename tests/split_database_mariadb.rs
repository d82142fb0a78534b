//! The plugin in a real MariaDB: the counts equal the executed statements, whatever clients do; affinities are
//! restored.

#[path = "common/mod.rs"]
mod common;
#[path = "common/split.rs"]
mod split;
#[path = "common/split_mariadb.rs"]
mod split_mariadb;

use common::wait_until;
use hardmeter_servers::StartOptions;
use hardmeter_split::model::{Actuation, AppId, CodeId, KindRef};
use hardmeter_split::segment::Application;
use mysql::prelude::Queryable;
use mysql::Conn;
use split::{count, kinds, narrowed, processors, Analyzer};
use split_mariadb::{Server, APP};
use std::cell::Cell;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Waits until the statement is counted: the client has its answer before the section ends.
fn wait_for(segment: &mut Application, label: &str, wanted: u64) {
    wait_until(&format!("{wanted} of {label}"), || count(segment, label) >= wanted);
}

const BY_ID: &str = "select name from items where id=?";
const JOIN: &str = "select i.name from items i join users u on i.seller=u.id where u.id in(?)";

#[test]
fn what_is_counted_is_what_was_executed() {
    count_what_is_executed(&[], "instrumentation");
}

#[test]
fn by_the_audit_interface_too() {
    count_what_is_executed(&["split_interface=audit"], "audit");
}

/// Another user of the instrumentation interface keeps it, with unchanged results.
#[test]
fn beside_the_performance_schema_too() {
    let settings = ["performance_schema=ON", "split_interface=instrumentation"];
    let Some(server) = count_what_is_executed(&settings, "audit") else { return };
    let mut connection = server.connect();
    connection.query_drop("SELECT name FROM items WHERE id = 3").unwrap();
    let asked = "SELECT COUNT(*) FROM performance_schema.events_statements_summary_by_digest WHERE digest_text LIKE 'SELECT%'";
    assert!(connection.query_first::<u64, _>(asked).unwrap() > Some(0));
    let log = std::fs::read_to_string(server.cluster().folder().log()).unwrap();
    assert!(log.contains("by the audit interface (the performance schema has it)"), "{log}");
}

fn count_what_is_executed(settings: &[&str], interface: &str) -> Option<Server> {
    let server = Server::new(settings)?;
    assert_eq!(server.status("split_interface"), interface);
    let mut segment = server.segment();
    let mut connection = server.connect();
    let before = kinds(&mut segment);
    assert_eq!(before["create table items(id int primary key,name varchar(?),seller int)"].count, 1);

    // Text in any form, with the page that sent the statement.
    for id in 1..=7 {
        connection
            .query_drop(format!("SELECT name FROM items WHERE id = {id} /*split_id='a1.1f'*/"))
            .unwrap();
    }
    connection.query_drop("select  name from items\nwhere id=99 -- nobody\n").unwrap();
    for list in ["1", "1,2", "1, 2, 3, 4"] {
        let sql = format!("SELECT i.name FROM items i JOIN users u ON i.seller=u.id WHERE u.id IN ({list})");
        connection.query_drop(sql).unwrap();
    }
    // By number, with parameters: the same kind as by text.
    let statement = connection.prep("SELECT name FROM items WHERE id = ?").unwrap();
    for id in 1..=5 {
        connection.exec_drop(&statement, (id,)).unwrap();
    }
    // By name.
    connection.query_drop("PREPARE byname FROM 'SELECT name FROM users WHERE id = ?'").unwrap();
    connection.query_drop("SET @a = 1").unwrap();
    for _ in 0..4 {
        connection.query_drop("EXECUTE byname USING @a").unwrap();
    }
    connection.query_drop("EXECUTE IMMEDIATE 'SELECT seller FROM items WHERE id = 2'").unwrap();
    // Failed statements count, too; statements without a section do not.
    for _ in 0..2 {
        connection.query_drop("SELECT nothing FROM items").unwrap_err();
        connection.query_drop("SELEKT 1").unwrap_err();
        connection.query_drop("INSERT INTO users VALUES (1, 'again')").unwrap_err();
    }
    for sql in ["BEGIN", "COMMIT", "SET NAMES utf8mb4", "SHOW TABLES", "EXPLAIN SELECT name FROM items"] {
        connection.query_drop(sql).unwrap();
    }
    // A procedure is one statement; so is one that calls a function.
    connection
        .query_drop("CREATE PROCEDURE work(n INT) BEGIN UPDATE items SET name='x' WHERE id=n; SELECT COUNT(*) FROM users; END")
        .unwrap();
    connection
        .query_drop("CREATE FUNCTION f(n INT) RETURNS INT READS SQL DATA BEGIN DECLARE c INT; SELECT COUNT(*) INTO c FROM users; RETURN c+n; END")
        .unwrap();
    for _ in 0..3 {
        connection.query_drop("CALL work(1)").unwrap();
        connection.query_drop("SELECT f(id) FROM items").unwrap();
    }
    // So is one that fires a trigger, and one that prepares another.
    for sql in [
        "CREATE TABLE marks (id INT)",
        "CREATE TRIGGER marked AFTER DELETE ON users FOR EACH ROW INSERT INTO marks VALUES (OLD.id)",
        "DELETE FROM users WHERE id = 3",
        "CREATE PROCEDURE prepares() BEGIN PREPARE inside FROM 'SELECT id FROM marks'; END",
        "CALL prepares()",
    ] {
        connection.query_drop(sql).unwrap();
    }
    let _ = connection.query_drop("EXECUTE inside");
    // Several in a packet.
    connection
        .query_drop(
            "SELECT MAX(id) FROM items; UPDATE items SET seller=1 WHERE id=1; SELECT MIN(id) FROM items",
        )
        .unwrap();
    // The second fails, the third is not begun. The client may ignore the results after the first.
    let _ = connection
        .query_drop("SELECT MAX(id) FROM items; SELECT nothing FROM users; SELECT MIN(id) FROM items");
    wait_for(&mut segment, "select nothing from users", 1);

    let kinds = kinds(&mut segment);
    let by_locks = interface == "audit";
    let expected = [
        (BY_ID, 8 + 5, "select items"),
        (JOIN, 3, "select items,users"),
        ("select name from users where id=?", 4, ""),
        ("select seller from items where id=?", 1, ""),
        ("delete from users where id=?", 1, if by_locks { "delete users,marks" } else { "delete users" }),
        ("call prepares()", 1, if by_locks { "" } else { "call" }),
        ("select nothing from items", 2, "select items"),
        ("insert into users values(?)", 1 + 2, "insert users"),
        // The tables of a routine are known only through locks.
        ("call work(?)", 3, if by_locks { "call items,users" } else { "call" }),
        ("select f(id) from items", 3, if by_locks { "select items,users" } else { "select items" }),
        ("select max(id) from items", 2, "select items"),
        ("update items set seller=? where id=?", 1, if by_locks { "" } else { "update items" }),
        ("select min(id) from items", 1, if by_locks { "" } else { "select items" }),
        ("select nothing from users", 1, if by_locks { "" } else { "select users" }),
    ];
    for (label, count, note) in expected {
        let kind = kinds.get(label).unwrap_or_else(|| panic!("{label} is missing among {kinds:#?}"));
        assert_eq!((kind.count, kind.note.as_str()), (count, note), "{label}");
    }
    assert_eq!(kinds[BY_ID].related, Some(KindRef { app: AppId(0xa1), code: CodeId(0x1f) }));
    let strangers = ["begin", "commit", "set", "show", "explain", "prepare", "execute"];
    let strange = |label: &&String| strangers.iter().any(|word| label.starts_with(word));
    assert_eq!(kinds.keys().find(strange), None);
    // A statement prepared within a procedure is known to one of the interfaces.
    assert_eq!(kinds.contains_key("select id from marks"), by_locks);
    for within in ["update items set name", "insert into marks"] {
        assert_eq!(kinds.keys().find(|label| label.starts_with(within)), None, "{within}");
    }
    assert_eq!(server.status("split_abandoned"), "0");
    assert_eq!(server.status("split_app_id"), APP.0.to_string());
    assert_eq!(server.status("split_analyzer"), "absent");
    Some(server)
}

/// The server calls the plugin's functions until it is uninstalled, then its own again; earlier functions stay
/// valid.
#[test]
fn it_is_taken_out_and_put_in_under_load() {
    let Some(server) = Server::new(&[]) else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (mut connection, stop) = (server.connect(), Arc::clone(&stop));
            std::thread::spawn(move || {
                let statement = connection.prep("SELECT seller FROM items WHERE id = ?").unwrap();
                while !stop.load(Ordering::Relaxed) {
                    connection.query_drop("SELECT name FROM items WHERE id = 1").unwrap();
                    connection.exec_drop(&statement, (1,)).unwrap();
                    let passing = connection.prep("SELECT id FROM items WHERE id = ?").unwrap();
                    connection.exec_drop(&passing, (1,)).unwrap();
                    connection.close(passing).unwrap();
                }
            })
        })
        .collect();
    let mut operator = server.connect();
    for _ in 0..20 {
        // A session that has just started or ended may hold the plugin; then the server removes it later.
        for (sql, present) in [("UNINSTALL SONAME 'split'", 0), ("INSTALL SONAME 'split'", 1)] {
            wait_until(sql, || {
                let _ = operator.query_drop(sql);
                let asked = "SELECT COUNT(*) FROM information_schema.all_plugins WHERE plugin_name='split' AND plugin_status<>'NOT INSTALLED'";
                operator.query_first(asked).unwrap() == Some(present)
            });
        }
    }
    // By text, and by statements prepared before.
    let mut segment = server.segment();
    for label in [BY_ID, "select seller from items where id=?"] {
        let counted = count(&mut segment, label);
        wait_for(&mut segment, label, counted + 100);
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
}

#[test]
fn who_is_killed_or_goes_away_disturbs_no_count() {
    let Some(server) = Server::new(&["split_kinds=128"]) else { return };
    let mut segment = server.segment();
    let mut killer = server.connect();
    let sleeping = "select sleep(?) from items";
    for round in 1..=2 {
        let mut victim = server.connect();
        let id = victim.connection_id();
        let work = std::thread::spawn(move || victim.query_drop("SELECT SLEEP(600) FROM items").is_err());
        wait_until("the statement to be killed", || {
            let asked = format!(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE id={id} AND info LIKE 'SELECT SLEEP%'"
            );
            killer.query_first::<u64, _>(asked).unwrap() == Some(1)
        });
        let what = if round == 1 { "QUERY" } else { "CONNECTION" };
        killer.query_drop(format!("KILL {what} {id}")).unwrap();
        let _ = work.join().unwrap();
        wait_for(&mut segment, sleeping, round);
    }
    // A client that vanishes while it is served.
    vanish_amid_answer(&server, &mut killer);
    wait_until("the end of the client that left", || {
        killer.query_first::<u64, _>("SELECT COUNT(*) FROM information_schema.processlist").unwrap()
            == Some(1)
    });
    let counted = count(&mut segment, BY_ID);
    for id in 0..10 {
        killer.query_drop(format!("SELECT name FROM items WHERE id={id}")).unwrap();
    }
    wait_for(&mut segment, BY_ID, counted + 10);
    assert_eq!(count(&mut segment, BY_ID), counted + 10);
    assert_eq!(count(&mut segment, sleeping), 2);

    // More kinds than the table holds: one record has the rest, and no section is lost.
    let sections = segment.sections();
    for number in 0..10_000 {
        killer.query_drop(format!("SELECT {} AS a{number}", "1")).unwrap();
    }
    wait_until("10,000 sections", || segment.sections() >= sections + 10_000);
    let without_room: u64 = server.status("split_without_room").parse().unwrap();
    let kept = kinds(&mut segment).len() as u64;
    assert!(kept <= 128, "{kept}");
    assert!(without_room >= 10_000 - 128, "{without_room}");
    assert_eq!(kinds(&mut segment).values().map(|kind| kind.count).sum::<u64>(), segment.sections());

    // Killed within a section, and started again: it continues to measure.
    let mut victim = server.connect();
    let work = std::thread::spawn(move || victim.query_drop("SELECT SLEEP(600) FROM items").is_err());
    wait_until("the last statement", || {
        let asked = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'";
        killer.query_first::<u64, _>(asked).unwrap() == Some(1)
    });
    // SAFETY: the server that this test made.
    assert_eq!(unsafe { libc::kill(server.pid(), libc::SIGKILL) }, 0);
    assert!(work.join().unwrap());
    wait_until("the end of the server", || !server.cluster().is_running());
    server.cluster().start(&StartOptions::default(), &|_| {}).unwrap();
    server.connect().query_drop("SELECT name FROM items WHERE id=1").unwrap();
    let mut segment = server.segment();
    wait_for(&mut segment, BY_ID, 1);
}

/// Requests a large result and disconnects before reading it.
fn vanish_amid_answer(server: &Server, watcher: &mut Conn) {
    let cluster = server.cluster();
    let sql = "SELECT REPEAT('x', 1000) FROM items a, items b, items c, items d, items e, items f, items g, items h, items i, items j";
    let mut client = Command::new("mariadb")
        .args(["--no-defaults", "--user=root", "--quick", "--execute", sql, "test"])
        .arg(format!("--socket={}", cluster.socket().display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("an answer that nobody reads", || {
        let asked = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT REPEAT%' AND state='Writing to net'";
        watcher.query_first::<u64, _>(asked).unwrap() == Some(1)
    });
    client.kill().unwrap();
    client.wait().unwrap();
}

/// In the thread pool another thread may send the answer after a commit: such a statement is dropped, and
/// never counted as another one.
#[test]
fn what_another_thread_ends_is_dropped() {
    for interface in ["instrumentation", "audit"] {
        let interface = format!("split_interface={interface}");
        let settings = [
            "thread_handling=pool-of-threads",
            "thread_pool_size=1",
            "innodb_flush_log_at_trx_commit=1",
            &interface,
        ];
        let Some(server) = Server::new(&settings) else { return };
        let (clients, each) = (4, 100);
        std::thread::scope(|scope| {
            for client in 0..clients {
                let mut connection = server.connect();
                scope.spawn(move || {
                    for number in 0..each {
                        let id = 1000 + client * each + number;
                        connection.query_drop(format!("INSERT INTO users VALUES ({id}, 'x')")).unwrap();
                    }
                });
            }
        });
        // Each thread detects the abandoned statement at its next one.
        for _ in 0..20 {
            server.connect().query_drop("SELECT name FROM items WHERE id = 1").unwrap();
        }
        let counted = count(&mut server.segment(), "insert into users values(?)") - 1; // the tables' own
        let abandoned: u64 = server.status("split_abandoned").parse().unwrap();
        let executed = u64::try_from(clients * each).unwrap();
        assert!(counted + abandoned <= executed, "{interface}: {counted} counted, {abandoned} dropped");
        assert!(counted + abandoned + 8 >= executed, "{interface}: {counted} counted, {abandoned} dropped");
    }
}

#[test]
fn threads_go_where_the_analyzer_says_and_come_back() {
    let Some(server) = Server::new(&[]) else { return };
    let cpus = processors();
    if cpus.len() < 2 {
        return eprintln!("skipped: there is one processor only");
    }
    let mut segment = server.segment();
    let mut connection = server.connect();
    let mut other = server.connect();
    let asked = Cell::new(0);
    let ask = |connection: &mut Conn| {
        connection.query_drop("SELECT name FROM items WHERE id=1").unwrap();
        asked.set(asked.get() + 1);
    };
    ask(&mut connection);
    wait_for(&mut segment, BY_ID, 1);
    let code = kinds(&mut segment)[BY_ID].code;
    let narrowed_now = || narrowed(server.pid());
    assert_eq!(narrowed_now(), []);

    let decide = || Analyzer::new(&server.segments, APP, Actuation::Lazy, &[(code, cpus[1])]);
    let place = |connection: &mut Conn| {
        wait_until("a thread that is placed", || {
            ask(connection);
            narrowed_now().iter().any(|(_, allowed)| *allowed == [cpus[1]])
        });
    };
    // Off by variable: immediately.
    let analyzer = decide();
    place(&mut connection);
    wait_for(&mut segment, BY_ID, asked.get());
    other.query_drop("SET GLOBAL split_engine=OFF").unwrap();
    assert_eq!(narrowed_now(), [], "switched off by the variable");
    let counted = count(&mut segment, BY_ID);
    ask(&mut connection);
    assert_eq!((narrowed_now(), count(&mut segment, BY_ID)), (vec![], counted));
    other.query_drop("SET GLOBAL split_engine=ON").unwrap();
    place(&mut connection);
    // Observe only.
    other.query_drop("SET GLOBAL split_policy=observe").unwrap();
    wait_until("affinity under observe", || narrowed_now().is_empty());
    ask(&mut connection);
    assert_eq!(narrowed_now(), [], "measured, not moved");
    other.query_drop("SET GLOBAL split_policy=follow").unwrap();
    place(&mut connection);
    // The analyzer is killed: threads get their affinity back.
    analyzer.die();
    wait_until("affinity after the analyzer's death", || narrowed_now().is_empty());
    assert!(server.status("split_moves").parse::<u64>().unwrap() >= 3);
}

#[test]
fn groups_of_the_pool_get_the_cores_of_what_dominates_them() {
    let Some(server) = Server::new(&["thread_handling=pool-of-threads", "thread_pool_size=2"]) else {
        return;
    };
    let cpus = processors();
    if cpus.len() < 2 {
        return eprintln!("skipped: there is one processor only");
    }
    let mut segment = server.segment();
    // A connection belongs to the group of its id.
    let in_group = |group: u32| loop {
        let connection = server.connect();
        if connection.connection_id() % 2 == group {
            return connection;
        }
    };
    let mut clients = [in_group(0), in_group(1)];
    let sql = ["SELECT COUNT(*) FROM items", "SELECT MAX(name) FROM users"];
    let labels = ["select count(*) from items", "select max(name) from users"];
    for _ in 0..200 {
        for (client, sql) in clients.iter_mut().zip(sql) {
            client.query_drop(sql).unwrap();
        }
    }
    for label in labels {
        wait_for(&mut segment, label, 200);
        assert_eq!(count(&mut segment, label), 200, "{label}");
    }
    assert_eq!(server.status("split_abandoned"), "0");
    assert_eq!(server.status("split_bound_groups"), "0", "no analyzer, nothing is bound");

    let codes = labels.map(|label| kinds(&mut segment)[label].code);
    let decided = [(codes[0], cpus[0]), (codes[1], cpus[1])];
    let _analyzer = Analyzer::new(&server.segments, APP, Actuation::Soft, &decided);
    let stop = Arc::new(AtomicBool::new(false));
    let workers = clients.into_iter().zip(sql).map(|(mut client, sql)| {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                client.query_drop(sql).unwrap();
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    wait_until("threads of both groups on the cores of their class", || {
        let narrowed = narrowed(server.pid());
        cpus[..2].iter().all(|&cpu| narrowed.iter().any(|(_, allowed)| *allowed == [cpu]))
    });
    server.connect().query_drop("SET GLOBAL split_engine=OFF").unwrap();
    assert_eq!(narrowed(server.pid()), []);
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(narrowed(server.pid()), []);
}
