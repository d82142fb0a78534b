//! The database modules in real servers, under tools that check every access: no errors in the modules.

#[path = "common/mod.rs"]
mod common;
#[path = "common/split.rs"]
mod split;
#[path = "common/split_mariadb.rs"]
mod split_mariadb;
#[path = "common/split_postgres.rs"]
mod split_postgres;

use common::{files_in, have, tests_folder};
use mysql::prelude::Queryable;
use std::ffi::OsString;
use std::fs;
use std::process::Command;

/// The plugin built by `make test` with AddressSanitizer, in an ordinary server: all accesses of the plugin are
/// checked.
#[test]
fn mariadb_with_a_sanitized_plugin_has_no_error() {
    for interface in ["instrumentation", "audit"] {
        work_with_a_sanitized_plugin(interface);
    }
}

fn work_with_a_sanitized_plugin(interface: &str) {
    let Some(plugin) = split::built("../place-address/mariadb/split.so") else { return };
    let runtime = |name: &str| {
        let output = Command::new("cc").arg(format!("-print-file-name={name}")).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let preload = format!("{}:{}", runtime("libasan.so"), runtime("libubsan.so"));
    let wrapper = move |words: Vec<OsString>| {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("LD_PRELOAD", &preload);
        // Ignore the server's own leaks.
        command.env("ASAN_OPTIONS", "detect_leaks=0:halt_on_error=1:abort_on_error=0");
        command
    };
    let interface = format!("split_interface={interface}");
    let settings = [
        "thread_handling=pool-of-threads",
        "thread_pool_size=2",
        "innodb_flush_log_at_trx_commit=1",
        &interface,
    ];
    let Some(server) = split_mariadb::Server::inside(plugin, &settings, Some(Box::new(wrapper))) else {
        return;
    };
    let clients: Vec<_> = (0..4)
        .map(|number| {
            let mut client = server.connect();
            std::thread::spawn(move || {
                let byid = client.prep("SELECT name FROM items WHERE id = ? /*split_id='a1.5'*/").unwrap();
                for id in 0..50 {
                    client.exec_drop(&byid, (id,)).unwrap();
                    client
                        .query_drop(format!("INSERT INTO users VALUES ({}, 'x')", 100 + 100 * number + id))
                        .unwrap();
                    client.query_drop("SELECT nothing FROM users").unwrap_err();
                    let _ = client.query_drop("SELECT 1; SELECT MAX(id) FROM users");
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    server.connect().query_drop("SET GLOBAL split_engine=OFF").unwrap();
    let label = "select name from items where id=?";
    assert_eq!(split::count(&mut server.segment(), label), 200);
    let log = server.cluster().folder().log();
    server.cluster().stop(&|_| {}).unwrap();
    let said = fs::read_to_string(log).unwrap();
    assert!(!said.contains("ERROR: AddressSanitizer") && !said.contains("runtime error"), "{said}");
}

/// PostgreSQL itself writes uninitialized bytes; an error counts if one of its frames is the module's.
#[test]
fn postgres_under_memcheck_has_no_error_of_the_extension() {
    if !have(&["valgrind"]) {
        return;
    }
    let Some((version, library)) = split::built_for_postgres() else { return };
    let logs = tempfile::tempdir().unwrap();
    fs::set_permissions(logs.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let file = format!("--log-file={}/%p", logs.path().display());
    let wrapper = move |words: Vec<OsString>| {
        let mut command = Command::new("valgrind");
        command.args(["--quiet", "--vgdb=no", "--num-callers=40", &file, "--"]).args(words);
        command
    };
    let Some(server) = split_postgres::Server::inside(&version, library, &[], Some(Box::new(wrapper))) else {
        return;
    };
    let mut client = server.connect();
    let byid = client.prepare("SELECT name FROM items WHERE id = $1").unwrap();
    for id in 0..8 {
        client.query(&byid, &[&id]).unwrap();
        client
            .simple_query(
                "SELECT count(*) FROM users /*split_id='a1.5'*/; UPDATE users SET name='x' WHERE id=7",
            )
            .unwrap();
        client.simple_query("INSERT INTO users VALUES (1, 'again')").unwrap_err();
        client.simple_query("SELEKT").unwrap_err();
    }
    client.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT id FROM items; FETCH 5 FROM c; COMMIT").unwrap();
    client.simple_query("EXPLAIN ANALYZE SELECT max(id) FROM items").unwrap();
    let counted: i64 = client
        .query_one("SELECT sum(count)::bigint FROM split_kinds WHERE note LIKE '%users%'", &[])
        .unwrap()
        .get(0);
    // Filled once, counted, changed and refused eight times each.
    assert_eq!(counted, 1 + 8 + 8 + 8);
    drop(client);
    server.cluster().stop(&|_| {}).unwrap();
    let sources = ["libsplit/src", "sql", "../ground/statement/c", "modules/postgres/src"]
        .map(|folder| tests_folder().join("../place").join(folder));
    let sources: Vec<String> =
        sources.iter().flat_map(|folder| files_in(folder)).map(|name| format!("({name}:")).collect();
    assert!(sources.contains(&"(sections.c:".to_owned()));
    let mut read = 0;
    for entry in fs::read_dir(logs.path()).unwrap().flatten() {
        let said = fs::read_to_string(entry.path()).unwrap();
        let lines: Vec<&str> =
            said.lines().map(|line| line.splitn(3, "==").nth(2).unwrap_or(line).trim()).collect();
        for error in lines.join("\n").split("\n\n") {
            // The module's hooks are below everything that the server executes: the top frames decide.
            let top: Vec<&str> = error.lines().filter(|line| line.contains(" 0x")).take(3).collect();
            let ours = top.iter().any(|frame| sources.iter().any(|source| frame.contains(source)));
            assert!(!ours, "{error}");
        }
        read += 1;
    }
    assert!(read >= 2, "the postmaster and a backend were watched");
}
