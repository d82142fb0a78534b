//! `hardmeter tune` on a throwaway MariaDB: planted faults are named, variables and indexes are tried and
//! reset, and after any kill both have their original state.
//!
//! Needs mariadbd and the client `mariadb`.

mod common;
#[path = "common/mariadb.rs"]
mod mariadb;
#[path = "common/tuning.rs"]
mod tuning;

use common::{have, run, stderr, stdout, succeeded};
use mariadb::ThrowawayMariadb;
use std::fs;
use std::process::{Command, Stdio};
use tuning::{beside, closed, json, kill_watchdogs, log, on_server, signal, within};

const SHORT: [&str; 6] = ["--block", "0.5", "--rounds", "7", "--database", "test"];

/// A load that sends one statement repeatedly. The client is the command itself: it ends with the trial.
fn load(server: &ThrowawayMariadb, statement: &str) -> [String; 4] {
    let file = beside(server, &format!("{}.sql", statement.split(' ').next().unwrap_or_default()));
    fs::write(&file, format!("{statement};\n").repeat(50_000)).unwrap();
    let script =
        format!("exec mariadb --socket=\"$MYSQL_UNIX_PORT\" -u root test < {} > /dev/null", file.display());
    ["--".into(), "sh".into(), "-c".into(), script]
}

fn sql(server: &ThrowawayMariadb, text: &str) -> String {
    server.sql("test", text)
}

/// The indexes of all tables, and whether statements see them.
fn indexes(server: &ThrowawayMariadb) -> String {
    sql(
        server,
        "SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME, IGNORED FROM information_schema.STATISTICS \
         WHERE TABLE_SCHEMA = 'test' ORDER BY 1, 2, SEQ_IN_INDEX",
    )
}

fn what_is_refused(server: &ThrowawayMariadb) {
    let refused = |words: &[&str]| {
        let output = run(&mut on_server(server, words));
        assert!(!output.status.success(), "{words:?}: {}", stdout(&output));
        stderr(&output)
    };
    let error = refused(&["try", "--set", "innodb_flush_log_at_trx_commit=2"]);
    assert!(error.contains("could lose transactions"), "{error}");
    let error = refused(&["try", "--set", "sort_buffer_size=16M"]);
    assert!(error.contains("-- LOAD"), "{error}");
    let error = refused(&["try", "--set", "table_open_cache=3000", "--copy"]);
    assert!(error.contains("not copied"), "{error}");
    let error = refused(&["--auto", "--copy"]);
    assert!(error.contains("not copied"), "{error}");
    let text = stdout(&succeeded(run(&mut on_server(server, &["try", "--set", "table_open_cache=3000"]))));
    assert!(
        text.contains("SET GLOBAL table_open_cache = 3000;") && text.contains("Nothing was changed"),
        "{text}"
    );
    assert_eq!(log(server).len(), 0);
}

/// Observes the server, then tries, keeps and undoes the remedy that it found.
fn a_missing_index_is_found_kept_and_undone(server: &ThrowawayMariadb) {
    sql(server, "CREATE TABLE ox (id int PRIMARY KEY, customer int, note char(50))");
    sql(server, "INSERT INTO ox SELECT seq, seq % 4000, 'x' FROM seq_1_to_40000");
    sql(server, "ANALYZE TABLE ox");
    let look_up = load(server, "SELECT id FROM ox WHERE customer = 77");
    let before = indexes(server);
    let mut command = on_server(server, &["--seconds", "2", "--format", "json", "--database", "test"]);
    let page = json(&succeeded(run(command.args(&look_up))));
    let finding = &page["findings"][0];
    assert_eq!(finding["remedy"], "missing-index", "{page:#}");
    let create = "CREATE INDEX `ox_customer_idx` ON `ox` (`customer`) ALGORITHM=INPLACE LOCK=NONE;";
    let drop = "ALTER TABLE `ox` DROP INDEX `ox_customer_idx`, ALGORITHM=INPLACE, LOCK=NONE;";
    assert_eq!((&finding["apply"][0], &finding["undo"][0]), (&create.into(), &drop.into()));
    let time = &page["look"]["time"];
    let shares = time["shares"].as_array().expect("shares");
    let sum: f64 = shares.iter().filter_map(|share| share["seconds"].as_f64()).sum();
    let total = time["total"].as_f64().expect("a total");
    assert!(total > 0.0 && (sum / total - 1.0).abs() < 1e-6, "{sum} of {total}");

    let auto = ["--auto", "--yes", "--ddl", "--seconds", "2", "--most-steps", "1", "--format", "json"];
    let mut command = on_server(server, &auto);
    let report = json(&run(command.args(SHORT).args(&look_up)));
    let step = &report["steps"][0];
    assert_eq!((&step["remedy"], &step["closed"]), (&"missing-index".into(), &"kept".into()), "{report:#}");
    assert!(step["result"]["gauges"][0]["interval"]["low"].as_f64().expect("an end") > 0.0, "{step:#}");
    assert_eq!(indexes(server), format!("ox\tox_customer_idx\tcustomer\tNO\n{before}"));
    let entry = log(server).pop().expect("an entry");
    assert_eq!((&entry["run"], &entry["note"]), (&report["run"], &"it gained".into()));
    // The entry has the database: another session's does not matter.
    let undo = ["undo", &entry["entry"].to_string(), "--database", "mysql"];
    let undone = stdout(&succeeded(run(&mut on_server(server, &undo))));
    assert!(undone.contains("undone: ALTER TABLE `test`.`ox` DROP INDEX `ox_customer_idx`"), "{undone}");
    assert_eq!(indexes(server), before);

    let text = stdout(&succeeded(run(&mut on_server(server, &["--seconds", "1"]))));
    assert!(text.starts_with("MariaDB ") && text.contains("No session was active"), "{text}");
}

/// The processes that are killed.
enum Killed {
    Tuner,
    TunerAndWatchdog,
    /// The tuner only gets a request to end.
    None,
}

/// The process that made a change is killed: the watchdog, `tune undo` or the tuner undoes the change.
fn what_is_changed_is_undone(server: &ThrowawayMariadb) {
    for index in ["a1", "a2", "a3", "a4"] {
        sql(server, &format!("CREATE INDEX {index} ON ox (id, customer)"));
    }
    let look_up = load(server, "SELECT note FROM ox WHERE customer = 77");
    let update = load(server, "UPDATE ox SET customer = customer + 1 WHERE id = 1");
    let state = || (sql(server, "SELECT @@GLOBAL.table_open_cache"), indexes(server));
    let before = state();
    let hidden = "ALTER TABLE `test`.`ox` ALTER INDEX `a2` IGNORED;";
    let dropped = "ALTER TABLE `test`.`ox` DROP INDEX `a2`, ALGORITHM=INPLACE, LOCK=NONE;";
    let cases = [
        (
            &["--set", "table_open_cache=3000"][..],
            &look_up,
            "SET GLOBAL table_open_cache = 3000;",
            Killed::Tuner,
        ),
        (&["missing-index"], &look_up, "CREATE INDEX `ox_customer_idx`", Killed::TunerAndWatchdog),
        (&["duplicate-indexes"], &update, hidden, Killed::None),
        (&["duplicate-indexes", "--ddl"], &update, dropped, Killed::Tuner),
    ];
    for (words, load, change, killed) in cases {
        let mut command: Command = on_server(server, &["try", "--yes", "--block", "0.5", "--rounds", "500"]);
        command.args(["--minimum", "0.1", "--seconds", "1", "--database", "test"]).args(words).args(load);
        let mut trial = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        within("something is changed", || {
            assert!(trial.try_wait().unwrap().is_none(), "{words:?} ended early");
            state() != before
        });
        match killed {
            Killed::Tuner => signal(&trial, libc::SIGKILL),
            Killed::TunerAndWatchdog => {
                kill_watchdogs(server);
                signal(&trial, libc::SIGKILL);
            }
            Killed::None => signal(&trial, libc::SIGTERM),
        }
        let output = trial.wait_with_output().unwrap();
        assert!(stdout(&output).contains(change), "{change}: {}", stdout(&output));
        if matches!(killed, Killed::TunerAndWatchdog) {
            succeeded(run(&mut on_server(server, &["undo"])));
        }
        closed(server);
        assert_eq!(state(), before, "{words:?}");
        let entry = log(server).pop().expect("an entry");
        assert_eq!(entry["closed"], "undone", "{entry:#}");
        if matches!(killed, Killed::None) {
            assert_eq!((output.status.code(), &entry["note"]), (Some(1), &"ended early: interrupted".into()));
        }
    }
}

#[test]
fn mariadb_is_looked_at_tuned_and_left_as_it_was() {
    if !have(&["mariadb"]) {
        return;
    }
    let Some(server) = ThrowawayMariadb::new(&[]) else { return };
    what_is_refused(&server);
    a_missing_index_is_found_kept_and_undone(&server);
    what_is_changed_is_undone(&server);
}
