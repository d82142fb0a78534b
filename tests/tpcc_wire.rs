//! The driver's own PostgreSQL protocol on a real server: requests and answers on many connections.

#[path = "common/wire.rs"]
mod common;

use common::{poll, Driven, Plan, Server};
use hardmeter_tpcc::backend::Backends;
use hardmeter_tpcc::time::{Clock, Micros};
use hardmeter_tpcc::wire::{types, PostgresBackends, StatementText, Step, Unexpected};
use hardmeter_tpcc::work::{ConnectionId, FailureKind, Outcome};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Returns its warehouse plus one, after as many rows.
fn counting() -> Plan {
    Plan::new(
        &["SELECT generate_series(1, $1::int4)", "SELECT $1::int4 + 1"],
        |input, requests| {
            let number = input.warehouse() as i32;
            requests.execute(0, |parameters| parameters.i32(number));
            requests.execute(1, |parameters| parameters.i32(number));
        },
        |_, input, replies, _| {
            let rows = replies.reply(0)?;
            assert_eq!(rows.row_count(), input.warehouse());
            assert_eq!(rows.affected(), u64::from(input.warehouse()));
            for (place, row) in rows.rows().enumerate() {
                assert_eq!(row.get(0)?.i32()?, place as i32 + 1);
            }
            let order = replies.row(1)?.get(0)?.i32()? as u32;
            Ok(Step::Done(Outcome::Ordered { order }))
        },
    )
}

/// Keeps all connections busy until `count` pieces of work are done; each must have the expected result.
fn keep_busy(driven: &mut Driven, count: u32) {
    let connections = driven.backend.connections();
    let (mut given, mut done) = (connections, 0);
    for connection in 0..connections {
        driven.submit(connection, connection + 1);
    }
    while done < count {
        for completion in driven.wait_for(1) {
            let number = completion.work.input.warehouse();
            assert_eq!(completion.outcome, Outcome::Ordered { order: number + 1 });
            done += 1;
            if given < count {
                given += 1;
                driven.submit(completion.connection.0, given);
            }
        }
    }
}

#[test]
fn many_connections_are_answered_each_its_own() {
    let Some(server) = Server::new() else { return };
    let mut driven = counting().open(server.target(), 16);
    keep_busy(&mut driven, 800);

    let mut processes = driven.backend.server_processes();
    processes.sort_unstable();
    let named = "SELECT string_agg(pid::text, ',' ORDER BY pid) FROM pg_stat_activity \
                 WHERE application_name = 'hardmeter tpcc' AND state = 'idle'";
    let told: Vec<String> = processes.iter().map(u32::to_string).collect();
    poll("idle backends", || server.sql(named) == told.join(","));
    drop(driven);
    poll("their end", || server.sql(named).is_empty());
    // A clean disconnect must not write to the server's log.
    assert!(!server.cluster.log_tail().contains("unexpected EOF"), "{}", server.cluster.log_tail());
}

#[test]
fn a_network_may_cut_the_bytes_anywhere() {
    let Some(server) = Server::new() else { return };
    let port = proxy(&server.socket_folder().join(".s.PGSQL.5432"));
    let target = hardmeter_session::Target::parse(&format!(
        "host=localhost hostaddr=127.0.0.1 port={port} user=postgres dbname=postgres"
    ))
    .unwrap();
    let mut driven = counting().open(target, 2);
    keep_busy(&mut driven, 60);
    assert!(driven.backend.server_processes().is_empty(), "a server behind a network has no processes here");
}

/// Forwards a port to a unix socket; the server's answers pass in pieces of 1 to 7 bytes.
fn proxy(socket: &Path) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = socket.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            client.set_nodelay(true).unwrap();
            let mut server = UnixStream::connect(&socket).unwrap();
            let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from_client, &mut to_server);
                let _ = to_server.shutdown(std::net::Shutdown::Both);
            });
            std::thread::spawn(move || {
                let mut buffer = [0; 7];
                for size in (1..=7).cycle() {
                    match server.read(&mut buffer[..size]) {
                        Ok(count @ 1..) if client.write_all(&buffer[..count]).is_ok() => {}
                        _ => break,
                    }
                }
                let _ = client.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    port
}

#[test]
fn values_of_every_type_go_there_and_come_back() {
    let Some(server) = Server::new() else { return };
    let mut plan = Plan::new(
        &[],
        |_, requests| {
            requests.execute(0, |parameters| {
                parameters.bool(true);
                parameters.i16(-2);
                parameters.i32(i32::MIN);
                parameters.i64(i64::MAX);
                parameters.text("ÄÖ BAR");
                parameters.numeric(-1_234_567, 2);
                parameters.timestamp(946_684_800_000_001);
                parameters.null();
            });
            requests.execute(1, |parameters| {
                parameters.i16s([1, 2]);
                parameters.i32s([7, -7, 0]);
                parameters.i64s([1 << 40]);
                parameters.texts(["BAR", "", "OUGHT"]);
                parameters.numerics([5, 100], 2);
                parameters.i32s([]);
            });
        },
        |_, _, replies, _| {
            let mut columns = replies.row(0)?.columns();
            assert!(columns.value()?.bool()?);
            assert_eq!(columns.value()?.i16()?, -2);
            assert_eq!(columns.i32()?, i32::MIN);
            assert_eq!(columns.i64()?, i64::MAX);
            assert_eq!(columns.text()?, "ÄÖ BAR");
            assert_eq!(columns.numeric(2)?, -1_234_567);
            assert_eq!(columns.timestamp()?, 946_684_800_000_001);
            assert!(columns.value()?.is_null());
            // The same, as the server parsed it.
            assert_eq!(columns.text()?, "true -2 -2147483648 ÄÖ BAR -12345.67 2000-01-01 00:00:00.000001");
            assert_eq!(columns.value(), Err(Unexpected::NoColumn(9)));

            let mut columns = replies.row(1)?.columns();
            assert_eq!(
                columns.text()?,
                "{1,2} {7,-7,0} {1099511627776} {BAR,\"\",OUGHT} {0.05,1.00} {} 0.05"
            );
            let numbers: Result<Vec<i32>, _> =
                columns.value()?.array()?.map(|element| element?.i32()).collect();
            assert_eq!(numbers?, [7, -7, 0]);
            assert_eq!(columns.value()?.array()?.len(), 0);
            let cents: Result<Vec<_>, Unexpected> = columns
                .value()?
                .array()?
                .map(|element| element?.optional().map(|cents| cents.numeric(2)).transpose())
                .collect();
            assert_eq!(cents?, [Some(5), None]);
            Ok(Step::Done(Outcome::Committed))
        },
    );
    plan.settings = "SET TimeZone = 'UTC'";
    plan.statements = vec![
        StatementText::typed(
            "SELECT $1, $2, $3, $4, $5, $6, $7, $8, \
             $1::text || ' ' || $2 || ' ' || $3 || ' ' || $5 || ' ' || $6 || ' ' || $7",
            &[
                types::BOOL,
                types::INT2,
                types::INT4,
                types::INT8,
                types::TEXT,
                types::NUMERIC,
                types::TIMESTAMP,
                types::INT4,
            ],
        ),
        StatementText::typed(
            "SELECT $1::text || ' ' || $2::text || ' ' || $3::text || ' ' || $4::text || ' ' || $5::text || ' ' \
             || $6::text || ' ' || $5[1], $2, $6, ARRAY[0.05, NULL]",
            &[
                types::INT2_ARRAY,
                types::INT4_ARRAY,
                types::INT8_ARRAY,
                types::TEXT_ARRAY,
                types::NUMERIC_ARRAY,
                types::INT4_ARRAY,
            ],
        ),
    ];
    let mut driven = plan.open(server.target(), 1);
    for _ in 0..2 {
        assert_eq!(driven.run(0, 1), Outcome::Committed);
    }
}

#[test]
fn numbers_that_the_server_makes_are_read_as_it_prints_them() {
    let Some(server) = Server::new() else { return };
    let plan = Plan::new(
        &["SELECT value, (value * 10000)::int8 FROM (SELECT (n::int8 * n * 7919 - 1000000000)::numeric / 10000 AS value \
           FROM generate_series(0, 5000) AS n) AS numbers"],
        |_, requests| {
            requests.execute(0, |_| ());
        },
        |_, _, replies, _| {
            for row in replies.reply(0)?.rows() {
                let mut columns = row.columns();
                assert_eq!(columns.numeric(4)?, columns.i64()?);
            }
            Ok(Step::Done(Outcome::Ordered { order: replies.reply(0)?.row_count() }))
        },
    );
    assert_eq!(plan.open(server.target(), 1).run(0, 1), Outcome::Ordered { order: 5001 });
}

#[test]
fn long_requests_and_answers_take_several_writes_and_reads() {
    let Some(server) = Server::new() else { return };
    const LENGTH: usize = 9_000_000;
    let plan = Plan::new(
        &["SELECT $1::text || 'x', length($1::text), repeat('y', 3000000)"],
        |input, requests| {
            // Longer than any socket's buffer; then a short one.
            let length = if input.warehouse() == 1 { LENGTH } else { 3 };
            requests.execute(0, |parameters| parameters.text(&"z".repeat(length)));
        },
        |_, _, replies, _| {
            let mut columns = replies.row(0)?.columns();
            let (text, length) = (columns.text()?, columns.i32()?);
            assert_eq!((text.len(), columns.text()?.len()), (length as usize + 1, 3_000_000));
            assert!(text.starts_with("zzz") && text.ends_with("zx"));
            Ok(Step::Done(Outcome::Ordered { order: length as u32 }))
        },
    );
    let mut driven = plan.open(server.target(), 2);
    for number in [1, 2, 1] {
        driven.submit(0, number);
        driven.submit(1, number);
        let order = if number == 1 { LENGTH as u32 } else { 3 };
        for completion in driven.wait_for(2) {
            assert_eq!(completion.outcome, Outcome::Ordered { order });
        }
    }
}

#[test]
fn what_a_server_says_unasked_disturbs_nobody() {
    let Some(server) = Server::new() else { return };
    server.sql(
        "CREATE FUNCTION chatter(n integer) RETURNS SETOF integer LANGUAGE plpgsql AS $$ BEGIN \
         FOR i IN 1..n LOOP RAISE NOTICE 'row %', i; RETURN NEXT i; END LOOP; END $$",
    );
    let mut plan = Plan::new(
        &["SELECT chatter(3)", "SET TimeZone = 'Asia/Tokyo'", "NOTIFY gossip, 'hello'", ""],
        |_, requests| {
            for statement in 0..4 {
                requests.execute(statement, |_| ());
            }
        },
        |_, _, replies, _| {
            assert_eq!((replies.len(), replies.reply(3)?.row_count()), (4, 0));
            let rows: Result<Vec<i32>, _> = replies.reply(0)?.rows().map(|row| row.get(0)?.i32()).collect();
            assert_eq!(rows?, [1, 2, 3]);
            Ok(Step::Done(Outcome::Committed))
        },
    );
    plan.settings = "LISTEN gossip; SET client_min_messages = notice; SELECT 'a row that nobody asked for'";
    let mut driven = plan.open(server.target(), 3);
    for round in 0..30 {
        assert_eq!(driven.run(round % 3, round), Outcome::Committed);
        // The server reports changes of global settings to idle connections, too.
        if round == 10 {
            server.sql("ALTER SYSTEM SET DateStyle = 'German'");
            server.sql("SELECT pg_reload_conf()");
        }
    }
}

#[test]
fn waiting_ends_when_it_should() {
    let Some(server) = Server::new() else { return };
    let mut driven = counting().open(server.target(), 1);
    let mut done = Vec::new();
    let until = driven.clock.now() + Micros(3_000);
    while driven.clock.now() < until {
        driven.backend.wait(Some(until), &mut done).unwrap();
    }
    driven.backend.wait(Some(Micros::ZERO), &mut done).unwrap();
    assert!(done.is_empty());
    // Without a time limit: until work completes.
    driven.submit(0, 4);
    while done.is_empty() {
        driven.backend.wait(None, &mut done).unwrap();
    }
    assert_eq!(done[0].outcome, Outcome::Ordered { order: 5 });
}

#[test]
fn a_backend_says_what_it_is() {
    let Some(server) = Server::new() else { return };
    let backends = PostgresBackends::new(server.target(), counting());
    let host = server.socket_folder();
    assert_eq!(backends.description(), format!("PostgreSQL at {}, a test", host.display()));
    backends.open(1, Clock::start()).unwrap();
    let version = &server.cluster.programs().version;
    assert_eq!(backends.description(), format!("PostgreSQL {version} at {}, a test", host.display()));
}

#[test]
fn what_is_dropped_in_the_middle_is_cancelled() {
    let Some(server) = Server::new() else { return };
    let plan = Plan::new(
        &["SELECT pg_sleep(1000)"],
        |_, requests| {
            requests.begin();
            requests.execute(0, |_| ());
        },
        |_, _, _, _| Ok(Step::Done(Outcome::Committed)),
    );
    let mut driven = plan.open(server.target(), 2);
    driven.submit(0, 1);
    let sleeping =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(%' AND state = 'active'";
    poll("the statement", || server.sql(sleeping) == "1");
    drop(driven);
    poll("its end", || server.sql(sleeping) == "0");
}

#[test]
fn an_open_transaction_is_rolled_back_before_its_connection_is_free() {
    let Some(server) = Server::new() else { return };
    server.sql("CREATE TABLE kept (number integer)");
    let plan = Plan::new(
        &["INSERT INTO kept VALUES ($1)"],
        |input, requests| {
            requests.begin();
            requests.execute(0, |parameters| parameters.i32(input.warehouse() as i32));
            match input.warehouse() {
                1 => {
                    requests.commit();
                }
                2 => {
                    requests.rollback();
                }
                _ => {}
            }
        },
        |round, input, _, requests| {
            Ok(match (input.warehouse(), round) {
                (2, _) => Step::Done(Outcome::RolledBack),
                // Committed by a second round trip.
                (4, 1) => {
                    requests.commit();
                    Step::More
                }
                // Number 5 sends no further request, and gets its answer nevertheless.
                (5, 1) => Step::More,
                _ => Step::Done(Outcome::Committed),
            })
        },
    );
    let mut driven = plan.open(server.target(), 1);
    assert_eq!(driven.run(0, 1), Outcome::Committed);
    assert_eq!(driven.run(0, 2), Outcome::RolledBack);
    let failure = driven.fail(0, 3);
    assert_eq!(failure.kind, FailureKind::Lasting);
    assert!(failure.message.contains("left open"), "{failure:?}");
    assert_eq!(driven.run(0, 4), Outcome::Committed);
    assert_eq!(driven.fail(0, 5).kind, FailureKind::Lasting);
    assert_eq!(server.sql("SELECT string_agg(number::text, ',' ORDER BY number) FROM kept"), "1,4");
    assert_eq!(driven.backend.connections(), 1);
    driven.backend.reconnect(ConnectionId(0)).unwrap();
    assert_eq!(driven.run(0, 1), Outcome::Committed);
}
