//! Statements of PHP pages carry the id of their page, with each of PHP's interfaces, and are otherwise
//! unchanged.

mod common;
#[path = "common/mariadb.rs"]
mod mariadb;
#[path = "common/server.rs"]
mod server;
#[path = "common/web.rs"]
mod web;

use common::{have, run, stderr, stdout};
use hardmeter_servers::web::{Mpm, Php};
use mariadb::ThrowawayMariadb;
use server::ThrowawayServer;
use std::process::Command;
use web::{Web, WEB};

/// Prints the result of each statement on a line; the executed texts come from the server's log.
const MARIADB_PAGE: &str = r#"<?php
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
$socket = $_GET['socket'];
$db = new mysqli(null, 'root', '', 'test', 0, $socket);
echo $db->query("SELECT 'query'")->fetch_row()[0], "\n";
echo $db->query("SELECT 'semicolon' ; ")->fetch_row()[0], "\n";
$statement = $db->prepare("SELECT CONCAT('prepared ', ?)");
$number = 1;
$statement->bind_param('i', $number);
$statement->execute();
echo $statement->get_result()->fetch_row()[0], "\n";
$results = 0;
$db->multi_query("SELECT 'multi 1'; SELECT 'multi 2';");
do { $db->store_result()->free(); $results++; } while ($db->next_result());
echo "$results results\n";
$db->query("SELECT 'asynchronous'", MYSQLI_ASYNC);
$read = [$db]; $error = []; $reject = [];
mysqli_poll($read, $error, $reject, 60);
echo $db->reap_async_query()->fetch_row()[0], "\n";
try { $db->query("SELECT 1 /* open"); } catch (mysqli_sql_exception $e) { echo $e->getCode(), "\n"; }
$pdo = new PDO("mysql:unix_socket=$socket;dbname=test", 'root', '');
$emulated = $pdo->prepare("SELECT CONCAT('emulated ', ?)");
$emulated->execute([2]);
echo $emulated->fetchColumn(), "\n";
$emulated->closeCursor();
$pdo->setAttribute(PDO::ATTR_EMULATE_PREPARES, false);
$native = $pdo->prepare("SELECT CONCAT('native ', :n)");
$native->execute(['n' => 3]);
echo $native->fetchColumn(), "\n";
$native->closeCursor();
$pdo->exec("DO 'executed'");
"#;

#[test]
fn mariadb_is_told_by_every_interface() {
    let Some(mut web) = Web::new(&[("sql.php", MARIADB_PAGE)]) else { return };
    let Some(database) = ThrowawayMariadb::new(&["general_log=1", "log_output=TABLE"]) else { return };
    let account = database.cluster().account().clone();
    if !web.start(Mpm::Prefork, Php::Module, Some(account), &[]) {
        return;
    }
    let page = format!("/sql.php?socket={}", database.cluster().socket().display());
    let (status, text) = web.get(&page);
    assert_eq!(status, 200, "{text}{}", web.server().log_tail());
    let said: Vec<&str> = text.lines().collect();
    let expected =
        ["query", "semicolon", "prepared 1", "2 results", "asynchronous", "1064", "emulated 2", "native 3"];
    assert_eq!(said, expected);

    web.expect_counts(WEB, &[("sql.php", 1)]);
    let code = web.snapshot(WEB).kinds.iter().find(|kind| kind.label.ends_with("/sql.php")).unwrap().code;
    let sql = "SELECT command_type, argument FROM mysql.general_log \
               WHERE command_type IN ('Query', 'Prepare', 'Execute') AND argument NOT LIKE '%general_log%'";
    let log = database.sql("mysql", sql);
    let id = format!(" /*split_id='{WEB}.{code}'*/");
    let expected = [
        "Query\tSELECT 'query'ID",
        "Query\tSELECT 'semicolon'ID",
        "Prepare\tSELECT CONCAT('prepared ', ?)ID",
        "Execute\tSELECT CONCAT('prepared ', 1)ID",
        "Query\tSELECT 'multi 1'; SELECT 'multi 2'ID",
        "Query\tSELECT 'asynchronous'ID",
        // An SQL error remains an error.
        "Query\tSELECT 1 /* open",
        "Query\tSELECT CONCAT('emulated ', '2')ID",
        "Prepare\tSELECT CONCAT('native ', ?)ID",
        "Execute\tSELECT CONCAT('native ', '3')ID",
        "Query\tDO 'executed'ID",
    ];
    assert_eq!(log.lines().collect::<Vec<_>>(), expected.map(|line| line.replace("ID", &id)), "{log}");
}

const POSTGRES_PAGE: &str = r#"<?php
$host = getenv('PGHOST');
$db = pg_connect("host=$host user=postgres dbname=postgres");
$rows = function ($result) { echo pg_fetch_result($result, 0, 0), "\n"; };
$rows(pg_query($db, "SELECT 'query'"));
$rows(@pg_query("SELECT 'alone';"));
$rows(@pg_exec($db, "SELECT 'exec'"));
$rows(pg_query($db, query: "SELECT 'named'"));
$rows(pg_query_params($db, 'SELECT $1::text', ['params']));
$rows(@pg_query_params('SELECT $1::text', ['params alone']));
pg_prepare($db, 'one', 'SELECT $1::text AS one');
@pg_prepare('two', 'SELECT $1::text AS two');
$rows(pg_execute($db, 'one', ['prepared']));
$rows(pg_execute($db, 'two', ['prepared alone']));
pg_send_query($db, "SELECT 'sent'");
$rows(pg_get_result($db)); pg_get_result($db);
pg_send_query_params($db, 'SELECT $1::text AS sent', ['sent params']);
$rows(pg_get_result($db)); pg_get_result($db);
pg_send_prepare($db, 'three', 'SELECT $1::text AS three');
pg_get_result($db); pg_get_result($db);
$rows(pg_execute($db, 'three', ['sent prepared']));
$text = "SELECT 'kept'"; $reference = &$text;
pg_query($db, $reference);
echo $text, "\n";
try { pg_query($db, []); } catch (TypeError $e) { echo get_class($e), "\n"; }
$pdo = new PDO("pgsql:host=$host;dbname=postgres", 'postgres', '');
$s = $pdo->prepare("SELECT 'native ' || :n::text"); $s->execute(['n' => 3]); echo $s->fetchColumn(), ': ', $s->queryString, "\n";
$s = $pdo->prepare("SELECT 'emulated ' || ?::text", [PDO::ATTR_EMULATE_PREPARES => true]); $s->execute([4]); echo $s->fetchColumn(), ': ', $s->queryString, "\n";
$s = $pdo->query("SELECT 'pdo'"); echo $s->fetchColumn(), ': ', $s->queryString, "\n";
$pdo->exec("SET work_mem = '4MB'");
class Mine extends PDO {}
$mine = new Mine("pgsql:host=$host;dbname=postgres", 'postgres', ''); echo $mine->query("SELECT 'subclass'")->fetchColumn(), "\n";
try { (new ReflectionClass('PDO'))->newInstanceWithoutConstructor()->query("SELECT 1"); } catch (Throwable $e) { echo get_class($e), "\n"; }
echo split_code_id(), "\n";
"#;

#[test]
fn postgres_is_told_by_functions_and_by_pdo() {
    if !have(&["php", "pgbench"]) {
        return;
    }
    let Some(web) = Web::new(&[("sql.php", POSTGRES_PAGE)]) else { return };
    let Some(server) =
        ThrowawayServer::new(&["psql"], &["log_statement=all", "log_line_prefix=", "log_timezone=UTC"], 1)
    else {
        return;
    };
    let php = |id: &str| {
        let mut php = Command::new("php");
        let loaded = ["pgsql", "pdo", "pdo_pgsql"].map(String::from).into_iter();
        let ours =
            ["split", "split_pgsql"].map(|name| web.object(&format!("php/{name}.so")).display().to_string());
        // Without the machine's settings: extensions would be loaded twice.
        php.arg("-n");
        for extension in loaded.chain(ours) {
            php.arg("-d").arg(format!("extension={extension}"));
        }
        php.env("SPLIT_CODE_ID", id).env("PGHOST", server.cluster().socket().parent().unwrap());
        run(php.arg(web.documents().join("sql.php")))
    };
    let before = std::fs::read_to_string(server.folder().log()).unwrap().len();
    let output = php("a1.2b");
    if stderr(&output).contains("Unable to load dynamic library 'pgsql'") {
        return eprintln!("skipped: PHP has no pgsql (php8.2-pgsql)");
    }
    let expected = "query\nalone\nexec\nnamed\nparams\nparams alone\nprepared\nprepared alone\nsent\nsent params\nsent prepared\n\
                    SELECT 'kept'\nTypeError\nnative 3: SELECT 'native ' || :n::text\nemulated 4: SELECT 'emulated ' || ?::text\n\
                    pdo: SELECT 'pdo'\nsubclass\nError\na1.2b\n";
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));

    let log = std::fs::read_to_string(server.folder().log()).unwrap()[before..].to_owned();
    let statements: Vec<&str> = log
        .lines()
        .filter(|line| !line.contains("DETAIL") && !line.contains("DEALLOCATE"))
        .filter_map(|line| {
            line.split_once("statement: ").or_else(|| line.split_once("execute ")?.1.split_once(": "))
        })
        .map(|(_, statement)| statement)
        .collect();
    let id = " /*split_id='a1.2b'*/";
    let expected = [
        "SELECT 'query'ID",
        "SELECT 'alone'ID;",
        "SELECT 'exec'ID",
        "SELECT 'named'ID",
        "SELECT $1::textID",
        "SELECT $1::textID",
        "SELECT $1::text AS oneID",
        "SELECT $1::text AS twoID",
        "SELECT 'sent'ID",
        "SELECT $1::text AS sentID",
        "SELECT $1::text AS threeID",
        "SELECT 'kept'ID",
        "SELECT 'native ' || $1::textID",
        "SELECT 'emulated ' || '4'::textID",
        "SELECT 'pdo'ID",
        "SET work_mem = '4MB'ID",
        "SELECT 'subclass'ID",
    ];
    assert_eq!(statements, expected.map(|line| line.replace("ID", id)), "{log}");

    // A malformed id is not added to statements.
    let before = std::fs::read_to_string(server.folder().log()).unwrap().len();
    let output = php("1.2'*/; DROP TABLE pgbench_accounts; --");
    assert!(stdout(&output).ends_with("Error\n\n"), "{}", stdout(&output));
    let log = std::fs::read_to_string(server.folder().log()).unwrap()[before..].to_owned();
    assert!(log.contains("SELECT 'query'\n") && !log.contains("split_id") && !log.contains("DROP"), "{log}");
}
