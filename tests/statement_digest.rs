//! MariaDB's own digest of a statement as oracle for the StatementId, for texts of MariaDB.
//!
//! * Statements that differ in literals, comments, white space and the case of keywords have one digest and one id.
//! * Statements of different digests have different ids.
//!
//! The digest counts a sign and a list of one as different, which the id does not; neither is among the statements.

#[path = "common/mod.rs"]
mod common;
#[path = "common/split.rs"]
mod split;
#[path = "common/split_mariadb.rs"]
mod split_mariadb;

use hardmeter_statement::{normalise, Dialect, StatementId};
use mysql::prelude::Queryable;
use mysql::Conn;
use split_mariadb::Server;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

/// Each statement in several equivalent forms.
const STATEMENTS: &[&[&str]] = &[
    &[
        "select name from items where id=1",
        "SELECT name /* x */ FROM items -- y\n WHERE id = 22 # z",
        "select\tname from items where id = 'three'",
        "select name from items where id=\"it\\\"s\"",
        "select name from items where id = 0x1f",
        "select name from items where id = 1.5e-3",
    ],
    &["select name from items where seller=1"],
    &["select seller from items where id=1"],
    &["select id from users where id=1"],
    &["select * from items where id=1"],
    &["select name from items where id>1", "select name from items where id > 'x'"],
    &["select name from items where id>=1"],
    &["select name from items where id<>1"],
    &["select name from items where id<=>1", "select name from items where id <=> null"],
    &["select name from items where not id=1"],
    &["select name from items where id=1 and seller=2"],
    &["select name from items where id=1 or seller=2"],
    &["select name from items where id=1 && seller=2"],
    &[
        "select name from items where id between 1 and 2",
        "select name from items where id BETWEEN 'a' AND 'x'",
    ],
    &["select name from items where id in (1,2)", "select name from items where id in (1, 2, 3, 'x')"],
    &["select name from items where id in (select id from users)"],
    &["select name from items where name like 'x%'", "select name from items where name LIKE '%it''s%'"],
    &["select name from items where name is null"],
    &["select name from items where name is not null"],
    &["select name from items where name = null", "select name from items where name = 'null'"],
    &["select name from items order by id"],
    &["select name from items order by id desc"],
    &["select name from items order by id limit 1", "select name from items order by id LIMIT 20"],
    &["select count(*) from items", "SELECT COUNT( * ) FROM items"],
    &["select count(name) from items"],
    &["select count(distinct name) from items"],
    &["select seller, sum(id) from items group by seller"],
    &["select seller, sum(id) from items group by seller having sum(id)>1"],
    &["select i.name from items i join users u on i.seller=u.id"],
    &["select i.name from items i left join users u on i.seller=u.id"],
    &["select name from items union select name from users"],
    &["select name from items union all select name from users"],
    &["select name from items for update"],
    &["select id+1 from items", "select id + 22 from items"],
    &["select id-1 from items", "select id -1 from items", "select id - 7 from items"],
    &["select id*2 from items"],
    &["select id div 2 from items"],
    &["select -id from items"],
    &["select `name` from `items` where `id`=1"],
    &["select @a := 1"],
    &["select @b := 1"],
    &["select /*!40101 sql_no_cache */ name from items"],
    &["insert into users values (10,'a')", "INSERT INTO users VALUES (11, \"b\") # one more"],
    &["insert into users (id,name) values (12,'a')"],
    &["insert into users (id,name) values (13,'a') on duplicate key update name='b'"],
    &["replace into users values (12,'c')"],
    &["update users set name='x' where id=1", "update users set name = 'y' where id = 2"],
    &["update users set name='x'"],
    &["delete from users where id=99", "DELETE FROM users WHERE id = 98"],
    &["begin"],
    &["commit"],
];

/// The server's digest of a statement; no other statement is executed meanwhile.
fn digest(asked: &mut Conn, reader: &mut Conn, statement: &str) -> String {
    reader.query_drop("TRUNCATE TABLE performance_schema.events_statements_summary_by_digest").expect("may");
    // Whether it succeeds makes no difference.
    drop(asked.query_iter(statement).map(|rows| rows.for_each(drop)));
    let sql = "SELECT digest FROM performance_schema.events_statements_summary_by_digest \
               WHERE digest_text NOT LIKE '%events_statements_summary_by_digest%'";
    // The server counts a statement when it ends, which is after its answer was sent.
    for _ in 0..12_000 {
        let mut found: Vec<String> = reader.query(sql).expect("answers");
        assert!(found.len() <= 1, "{statement}: {found:?}");
        if let Some(digest) = found.pop() {
            return digest;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("no digest of {statement}");
}

#[test]
fn what_mariadb_tells_apart_has_another_id() {
    let Some(server) = Server::new(&["performance_schema=ON"]) else { return };
    let (mut asked, mut reader) = (server.connect(), server.connect());
    let plain =
        |text: &str| String::from_utf8_lossy(&normalise(Dialect::MariaDb, text.as_bytes())).into_owned();
    let mut digests: BTreeMap<StatementId, (String, &str)> = BTreeMap::new();
    for ways in STATEMENTS {
        let first = digest(&mut asked, &mut reader, ways[0]);
        let id = StatementId::of(Dialect::MariaDb, ways[0].as_bytes());
        for way in &ways[1..] {
            assert_eq!(digest(&mut asked, &mut reader, way), first, "{way} is another digest");
            assert_eq!(StatementId::of(Dialect::MariaDb, way.as_bytes()), id, "{way} is {}", plain(way));
        }
        if let Some((other, text)) = digests.insert(id, (first.clone(), ways[0])) {
            assert_eq!(other, first, "{text} and {} are both {}", ways[0], plain(text));
        }
    }
    assert_eq!(digests.len(), STATEMENTS.len());
}
