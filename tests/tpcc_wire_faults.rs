//! Faults of the driver's own PostgreSQL protocol: each on a real server, or on an impostor.

#[path = "common/wire.rs"]
mod common;

use common::{poll, work, Driven, Plan, Server};
use hardmeter_session::Target;
use hardmeter_tpcc::backend::{Backend, Backends};
use hardmeter_tpcc::time::Clock;
use hardmeter_tpcc::wire::{PostgresBackends, Step};
use hardmeter_tpcc::work::{ConnectionId, FailureKind, Outcome};
use hardmeter_tpcc::TpccError;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Returns its warehouse.
fn echo() -> Plan {
    Plan::new(
        &["SELECT $1::int4"],
        |input, requests| {
            let number = input.warehouse() as i32;
            requests.execute(0, |parameters| parameters.i32(number));
        },
        |_, _, replies, _| Ok(Step::Done(Outcome::Ordered { order: replies.row(0)?.get(0)?.i32()? as u32 })),
    )
}

/// Sleeps in a transaction block that has written; warehouse 0 does not sleep.
fn sleeper() -> Plan {
    Plan::new(
        &["INSERT INTO slept VALUES ($1)", "SELECT pg_sleep($1::int4)"],
        |input, requests| {
            let number = input.warehouse() as i32;
            requests.begin();
            requests.execute(0, |parameters| parameters.i32(number));
            requests.execute(1, |parameters| parameters.i32(if number == 0 { 0 } else { 1000 }));
            requests.commit();
        },
        |_, _, _, _| Ok(Step::Done(Outcome::Committed)),
    )
}

fn refusal(target: Target, plan: Plan, connections: u32) -> TpccError {
    match PostgresBackends::new(target, plan).open(connections, Clock::start()) {
        Ok(_) => panic!("it was let in"),
        Err(error) => error,
    }
}

fn reconnect(backend: &mut dyn Backend, connection: u32) {
    poll("a new connection", || backend.reconnect(ConnectionId(connection)).is_ok());
}

#[test]
fn an_error_in_the_middle_undoes_its_round_trip_and_leaves_the_connection_free() {
    let Some(server) = Server::new() else { return };
    server.sql("CREATE TABLE kept (number integer)");
    let mut plan = Plan::new(
        &["INSERT INTO kept VALUES ($1)", "SELECT 1 / $1::int4", "SELECT count(*)::int4 FROM kept"],
        |input, requests| {
            let number = input.warehouse() as i32;
            if number % 2 == 1 {
                requests.begin();
            }
            requests.execute(0, |parameters| parameters.i32(number));
            requests.execute(1, |parameters| parameters.i32(number / 10));
            requests.execute(0, |parameters| parameters.i32(number));
            if number % 2 == 1 {
                requests.commit();
            }
        },
        |_, _, replies, _| Ok(Step::Done(Outcome::Ordered { order: replies.len() as u32 })),
    );
    let mut driven = plan.clone().open(server.target(), 1);
    // In a block, and outside of one: the rows before and after the error are rolled back.
    for number in [1, 2] {
        let failure = driven.fail(0, number);
        assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Lasting, "22012"));
        assert_eq!(failure.message, "division by zero");
    }
    assert_eq!(server.sql("SELECT count(*) FROM kept"), "0");
    assert_eq!(driven.run(0, 11), Outcome::Ordered { order: 5 });
    assert_eq!(driven.run(0, 10), Outcome::Ordered { order: 3 });
    assert_eq!(server.sql("SELECT count(*) FROM kept"), "4");

    // A script may interpret its error: New-Order's rollback.
    plan.refused = |refusal| {
        assert_eq!(refusal.answered, 2, "BEGIN and INSERT; the division was not even bound");
        (refusal.code == "22012").then_some(Outcome::RolledBack)
    };
    let mut driven = plan.open(server.target(), 1);
    assert_eq!(driven.run(0, 3), Outcome::RolledBack);
    assert_eq!(driven.run(0, 13), Outcome::Ordered { order: 5 });
    assert_eq!(server.sql("SELECT count(*) FROM kept"), "6");
}

#[test]
fn an_answer_that_a_script_does_not_expect_is_a_failure() {
    let Some(server) = Server::new() else { return };
    let mut plan = echo();
    plan.statements[0].sql = "SELECT $1::int8".into();
    // It was sent as int4: the server reports a protocol violation, and continues.
    let failure = plan.clone().open(server.target(), 1).fail(0, 1);
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Lasting, "08P01"));
    plan.statements[0].sql = "SELECT $1::int4::int8".into();
    let mut driven = plan.open(server.target(), 1);
    let failure = driven.fail(0, 1);
    assert_eq!(failure.kind, FailureKind::Lasting);
    assert_eq!(failure.message, "expected an int4, got another value of 8 bytes");
}

#[test]
fn the_victim_of_a_deadlock_may_try_again() {
    let Some(server) = Server::new() else { return };
    server.sql("CREATE TABLE two AS SELECT generate_series(1, 2) AS number, 0 AS value");
    let mut plan = Plan::new(
        &["UPDATE two SET value = value + 1 WHERE number = $1"],
        |input, requests| {
            requests.begin();
            let first = input.warehouse() as i32;
            requests.execute(0, |parameters| parameters.i32(first));
        },
        |round, input, replies, requests| match round {
            1 => {
                assert_eq!(replies.reply(1)?.affected(), 1);
                requests.execute(0, |parameters| parameters.i32(3 - input.warehouse() as i32));
                requests.commit();
                Ok(Step::More)
            }
            _ => Ok(Step::Done(Outcome::Committed)),
        },
    );
    plan.settings = "SET deadlock_timeout = '10ms'";
    let mut driven = plan.open(server.target(), 2);
    let (mut committed, mut victims) = (0, 0);
    // The transactions deadlock at some point: in each round either both commit, or one is the deadlock
    // victim.
    poll("a deadlock", || {
        driven.submit(0, 1);
        driven.submit(1, 2);
        for completion in driven.wait_for(2) {
            match completion.outcome {
                Outcome::Committed => committed += 1,
                Outcome::Failed(failure) => {
                    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Retriable, "40P01"));
                    victims += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        victims > 0
    });
    assert_eq!(server.sql("SELECT min(value) = max(value), max(value) FROM two"), format!("t|{committed}"));
}

#[test]
fn a_session_that_is_ended_is_lost_alone() {
    let Some(server) = Server::new() else { return };
    server.sql("CREATE TABLE slept (number integer)");
    let mut driven = sleeper().open(server.target(), 3);
    let processes = driven.backend.server_processes();
    driven.submit(0, 1);
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    poll("the sleeper", || server.sql(sleeping) == "1");
    // One connection with a statement in progress, and an idle one.
    server.sql(&format!("SELECT pg_terminate_backend({}, 10000)", processes[0]));
    server.sql(&format!("SELECT pg_terminate_backend({}, 10000)", processes[1]));
    let done = driven.wait_for(1);
    let Outcome::Failed(failure) = &done[0].outcome else { panic!("{done:?}") };
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::ConnectionLost, "57P01"));
    assert_eq!(failure.message, "terminating connection due to administrator command");
    // The idle one reports it at its next use, with the reason; repeatedly.
    for _ in 0..2 {
        let failure = driven.fail(1, 0);
        assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::ConnectionLost, "57P01"));
    }
    assert_eq!(driven.run(2, 0), Outcome::Committed);
    for connection in [0, 1] {
        reconnect(&mut *driven.backend, connection);
        assert_eq!(driven.run(connection, 0), Outcome::Committed);
    }
    assert_eq!(server.sql("SELECT count(*), max(number) FROM slept"), "3|0");
    let again = driven.backend.server_processes();
    assert_eq!((again.len(), again[2]), (3, processes[2]));
    assert!(again[0] != processes[0] && again[1] != processes[1]);
}

#[test]
fn a_backend_that_is_killed_takes_all_with_it_and_all_come_back() {
    let Some(server) = Server::new() else { return };
    server.sql("CREATE TABLE slept (number integer)");
    let mut driven = sleeper().open(server.target(), 3);
    let processes = driven.backend.server_processes();
    driven.submit(0, 1);
    driven.submit(1, 2);
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    poll("the sleepers", || server.sql(sleeping) == "2");
    // SAFETY: a signal to a process of the server that this test made.
    unsafe { libc::kill(processes[0] as i32, libc::SIGKILL) };
    // A PostgreSQL that lost a process in this way ends all others, too: its shared memory may be damaged.
    let done = driven.wait_for(2);
    for completion in &done {
        let Outcome::Failed(failure) = &completion.outcome else { panic!("{completion:?}") };
        assert_eq!(failure.kind, FailureKind::ConnectionLost, "{failure:?}");
    }
    let message = |connection: u32| {
        let completion = done.iter().find(|one| one.connection == ConnectionId(connection)).unwrap();
        match &completion.outcome {
            Outcome::Failed(failure) => (failure.code.clone(), failure.message.clone()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(message(0), (String::new(), "the server closed the connection".to_owned()));
    assert_eq!(message(1).0, "57P02", "{}", message(1).1);
    assert_eq!(driven.fail(2, 0).kind, FailureKind::ConnectionLost);
    for connection in 0..3 {
        reconnect(&mut *driven.backend, connection);
        assert_eq!(driven.run(connection, 0), Outcome::Committed);
    }
    assert_eq!(server.sql("SELECT count(*), max(number) FROM slept"), "3|0");
}

#[test]
fn a_server_that_is_stopped_and_started_again_is_found_again() {
    let Some(mut server) = Server::new() else { return };
    let mut driven = echo().open(server.target(), 2);
    assert_eq!(driven.run(0, 7), Outcome::Ordered { order: 7 });
    server.stop();
    for connection in [0, 1] {
        let failure = driven.fail(connection, 1);
        assert_eq!(failure.kind, FailureKind::ConnectionLost, "{failure:?}");
        let error = driven.backend.reconnect(ConnectionId(connection)).expect_err("the server is away");
        assert!(error.to_string().starts_with("cannot connect to postgres at "), "{error}");
        assert!(error.remedy().contains("runs and listens"), "{}", error.remedy());
    }
    server.start();
    for connection in [0, 1] {
        driven.backend.reconnect(ConnectionId(connection)).unwrap();
        assert_eq!(driven.run(connection, 9), Outcome::Ordered { order: 9 });
    }
}

#[test]
fn passwords_open_doors_and_are_never_told() {
    let Some(server) = Server::new() else { return };
    server.sql("SET password_encryption = 'scram-sha-256'; CREATE ROLE scram LOGIN PASSWORD 'Geheim''s'");
    server.sql("SET password_encryption = 'md5'; CREATE ROLE hashed LOGIN PASSWORD 'open-sesame'");
    server.sql("CREATE ROLE plain LOGIN PASSWORD 'open-sesame'");
    server.sql("CREATE ROLE nobody_s LOGIN");
    server.let_in(
        "local all scram scram-sha-256\nlocal all hashed md5\nlocal all plain password\nlocal all nobody_s reject",
    );
    for (user, password) in [("scram", "'Geheim\\'s'"), ("hashed", "open-sesame"), ("plain", "open-sesame")] {
        let target = |more: &str| server.target_of(&format!("user={user} {more}"));
        let mut driven = echo().open(target(&format!("password={password}")), 2);
        assert_eq!(driven.run(1, 3), Outcome::Ordered { order: 3 }, "{user}");

        let error = refusal(target("password=tellnobody"), echo(), 1);
        let told = format!("{error} {error:?} {}", error.remedy());
        assert!(told.contains(&format!("password authentication failed for user \"{user}\"")), "{told}");
        assert!(told.contains("PGPASSWORD") && !told.contains("tellnobody"), "{told}");

        if std::env::var_os("PGPASSWORD").is_none() {
            let error = refusal(target(""), echo(), 1);
            assert!(
                error.to_string().ends_with("the server asks for a password, and none was given"),
                "{error}"
            );
            assert!(error.remedy().contains("PGPASSWORD"), "{}", error.remedy());
        }
    }
    let error = refusal(server.target_of("user=nobody_s"), echo(), 1);
    assert!(error.to_string().contains("pg_hba.conf rejects connection"), "{error}");
    assert!(error.remedy().contains("pg_hba.conf"), "{}", error.remedy());
}

#[test]
fn doors_that_stay_closed_say_why() {
    let Some(server) = Server::new() else { return };
    server.sql("CREATE ROLE narrow LOGIN CONNECTION LIMIT 2");
    let error = refusal(server.target_of("user=narrow"), echo(), 3);
    assert!(error.to_string().contains("too many connections for role \"narrow\""), "{error}");
    assert!(error.remedy().contains("--connections"), "{}", error.remedy());
    // The open ones were closed.
    let open = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'narrow'";
    poll("the end of the others", || server.sql(open) == "0");

    let error = refusal(server.target().with_database("tpcc"), echo(), 1);
    assert!(error.to_string().ends_with("database \"tpcc\" does not exist"), "{error}");
    assert!(error.remedy().contains("hardmeter tpcc load"), "{}", error.remedy());

    let target = server.target_of("user=postgres sslmode=require");
    assert!(refusal(target, echo(), 1).to_string().contains("TLS"));

    let mut plan = echo();
    plan.statements.insert(0, plan.statements[0].clone());
    plan.statements[1].sql = "SELECT d_next_o_id\n FROM district".into();
    let error = refusal(server.target(), plan.clone(), 1);
    let message = "preparing the statement \"SELECT d_next_o_id FROM district ...\" failed: relation \"district\" does not exist";
    assert_eq!(error.to_string(), message);
    assert!(error.remedy().contains("hardmeter tpcc load"), "{}", error.remedy());
    plan.statements.truncate(1);
    plan.settings = "SET no_such_setting = 1";
    let error = refusal(server.target(), plan, 1);
    assert!(error.to_string().starts_with("making the settings of a connection failed: unrecog"), "{error}");
}

/// An impostor: it reads once, sends these bytes, and closes the connection; the next answer for the next
/// connection.
fn impostor(folder: &Path, answers: Vec<Vec<u8>>) {
    let listener = UnixListener::bind(folder.join(".s.PGSQL.5432")).unwrap();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _): (UnixStream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&answer);
        }
    });
}

#[test]
fn what_is_no_postgresql_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let message =
        |kind: u8, body: &[u8]| [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat();
    let starting = message(b'E', b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0");
    let iterations = [0, 0, 0, 11].into_iter().chain(*b"r=x,s=eA==,i=4000000000").collect::<Vec<u8>>();
    let scram = message(b'R', &[&[0, 0, 0, 10][..], b"SCRAM-SHA-256\0\0"].concat());
    let answers = [
        (Vec::new(), "the server closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "longer than 64 MiB"),
        (message(b'R', &[0, 0, 0, 7]), "Kerberos"),
        (message(b'R', &[0, 0]), "failed to fill"),
        (message(b'R', &[0, 0, 0, 99]), "unknown authentication"),
        (message(b'Q', b"SELECT 1\0"), "unknown message tag"),
        (message(b'D', &[0, 0]), "out of turn"),
        (message(b'R', &[0, 0, 0, 12]), "out of turn"),
        ([scram, message(b'R', &iterations)].concat(), "iterations"),
        (starting, "the database system is starting up"),
    ];
    let bytes = answers.iter().map(|(bytes, _)| bytes.clone()).collect();
    impostor(folder.path(), bytes);
    let secret = format!("host={} user=postgres password=tellnobody", folder.path().display());
    let target = Target::parse(&secret).unwrap();
    for (_, told) in answers {
        let error = refusal(target.clone(), echo(), 1);
        assert!(error.to_string().contains(told), "{error}, and not: {told}");
        assert!(!error.remedy().is_empty());
    }
}

#[test]
fn a_server_that_goes_mad_in_the_middle_is_a_lost_connection() {
    let folder = tempfile::tempdir().unwrap();
    // Authenticated; settings, the four statements, ready; then an answer that no server sends.
    let ready: &[u8] = &[b'Z', 0, 0, 0, 5, b'I'];
    let entered = [&[b'R', 0, 0, 0, 8, 0, 0, 0, 0][..], ready].concat();
    let parsed =
        [&[b'C', 0, 0, 0, 8, b'S', b'E', b'T', 0][..], ready, &[b'1', 0, 0, 0, 4].repeat(4), ready].concat();
    // The bytes it answers, to how many round trips, before it closes the connection; and the expected error.
    let answers: Vec<(&'static [u8], usize, &str)> = vec![
        (&[b'G', 0, 0, 0, 7, 0, 0, 0], 1, "type 0x47"),
        (&[b'D', 0xff, 0xff, 0xff, 0xff], 1, "length of 4294967295"),
        (&[b'2', 0, 0, 0, 4, b'D', 0, 0, 0], 1, "the server closed the connection"),
        (&[], 0, "the server closed the connection"),
        (&[b'Z', 0, 0, 0, 5, b'I'], 1, "no statement 0 was answered"),
        (
            &[b'2', 0, 0, 0, 4, b'D', 0, 0, 0, 6, 0, 9, b'C', 0, 0, 0, 5, 0, b'Z', 0, 0, 0, 5, b'I'],
            1,
            "expected a column 0",
        ),
        (&[b'2', 0, 0, 0, 4, b'Z', 0, 0, 0, 5, b'E'], 2, "could not be rolled back"),
    ];
    let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
    let mad: Vec<(&'static [u8], usize)> = answers.iter().map(|(bytes, times, _)| (*bytes, *times)).collect();
    std::thread::spawn(move || {
        for (answer, times) in mad {
            let (mut stream, _) = listener.accept().unwrap();
            let before: [&[u8]; 2] = [&entered, &parsed];
            for bytes in before.into_iter().chain(std::iter::repeat_n(answer, times)) {
                if !matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
                    break;
                }
                let _ = stream.write_all(bytes);
            }
        }
    });
    let target = Target::socket(folder.path(), 5432, "postgres", "postgres");
    for (_, _, told) in answers {
        let mut driven: Driven = echo().open(target.clone(), 1);
        driven.backend.submit(ConnectionId(0), work(1), driven.clock.now());
        let done = driven.wait_for(1);
        let Outcome::Failed(failure) = &done[0].outcome else { panic!("{done:?}") };
        assert!(failure.message.contains(told), "{failure:?}, and not: {told}");
        assert!(driven.backend.server_processes().is_empty(), "0 is not a process");
    }
}
