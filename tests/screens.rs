//! The first screen of every view: the recording, the main findings, limits, and the next commands, on at most
//! forty lines and never wider than the terminal. `--full` has the complete text, through a pager on a terminal.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{hardmeter, have, run, stdout, succeeded};
use server::ThrowawayServer;
use std::path::Path;
use std::process::Command;

const LINES: usize = 40;
const WIDTHS: [usize; 4] = [80, 100, 132, 200];

/// Every view, in the forms with a different layout of columns.
const VIEWS: [&[&str]; 14] = [
    &["report"],
    &["report", "--by", "routine"],
    &["report", "--by", "process,routine,statement,object,cause"],
    &["report", "--quality"],
    &["why"],
    &["why", "--score"],
    &["objects"],
    &["objects", "--by", "instance,part"],
    &["queries"],
    &["queries", "--by", "statement,object"],
    &["queries", "--by", "statement,phase,role", "--side-by-side"],
    &["sharing"],
    &["pages", "pgbench_accounts_pkey"],
    &["annotate", "hash_search_with_hash_value"],
];

fn view(capture: &Path, words: &[&str], width: usize) -> String {
    let mut command = hardmeter();
    command.args(words).arg("-i").arg(capture).env("COLUMNS", width.to_string());
    stdout(&succeeded(run(&mut command)))
}

/// The screen of a terminal of this size after a shell command.
fn on_a_terminal(line: &str, capture: &Path, columns: usize) -> String {
    let binary = env!("CARGO_BIN_EXE_hardmeter");
    let line = line.replace("hardmeter", binary).replace("CAPTURE", &capture.display().to_string());
    let mut command = Command::new("script");
    command.args(["-qec", &format!("stty cols {columns} rows 24; {line}"), "/dev/null"]);
    let output = succeeded(run(command.env_remove("LESS").env("NO_COLOR", "1")));
    stdout(&output).replace('\r', "")
}

fn assert_fits(text: &str, what: &str, width: usize) {
    assert!(text.lines().count() <= LINES, "{what}: {} lines at {width}:\n{text}", text.lines().count());
    for line in text.lines() {
        assert!(line.chars().count() <= width, "{what} at {width}: {line}");
    }
}

#[test]
fn every_view_of_a_server_is_one_screen() {
    let Some(server) = ThrowawayServer::new(&["valgrind", "pgbench"], &["autovacuum=off"], 1) else { return };
    let capture = server.path("server.data");
    let mut command = hardmeter();
    command.current_dir(server.room()).envs(server.cluster().environment());
    command.args([
        "record",
        "--source",
        "simulated",
        "--cores",
        "2",
        "-e",
        "l1d-miss,l2-miss,coherence-miss",
    ]);
    command.arg("-o").arg(&capture).arg("--server").arg(server.folder().path());
    succeeded(run(command.args(["--", "sh", "-c", "pgbench -n -c 4 -t 20 >/dev/null 2>&1"])));

    for words in VIEWS {
        let what = words.join(" ");
        for width in WIDTHS {
            let text = view(&capture, words, width);
            assert_fits(&text, &what, width);
            let head = text.lines().next().expect("a line");
            assert!(head.contains("server.data: simulated; "), "{what}: {head}");
            let last: Vec<&str> = text.lines().rev().take(2).collect();
            assert!(last.iter().any(|line| line.starts_with("next: --full")), "{what}: {last:?}");
        }
        let quiet = view(&capture, &[words, &["-q"]].concat(), 100);
        assert_fits(&quiet, &what, 100);
        assert!(!quiet.contains("next:") && !quiet.contains("limits ("), "{what}: {quiet}");
        let full = view(&capture, &[words, &["--full"]].concat(), 100);
        assert!(full.contains("kernel mode and speculation"), "{what} --full has the limits: {full}");
    }

    // Its limits are on the screen that the line of limits points to.
    let quality = view(&capture, &["report", "--quality"], 100);
    assert!(quality.contains("kernel mode and speculation"), "{quality}");

    // The three updates of pgbench differ only after their first word.
    for width in WIDTHS {
        let text = view(&capture, &["queries", "--event", "l1d-miss"], width);
        let rows = text.lines().filter(|line| line.contains(" %  ") && line.contains("update"));
        let rows: Vec<&str> = rows.collect();
        for table in ["accounts", "branches", "tellers"] {
            let of = rows.iter().filter(|row| row.contains(&format!("pgbench_{table}"))).count();
            assert_eq!(of, 1, "{table} at {width}: {text}");
        }
    }

    // A requested number of rows is shown completely.
    let all = view(&capture, &["report", "--by", "routine", "--all"], 100);
    assert!(all.lines().count() > 100, "{all}");

    // The parser has thousands of instructions; those with samples are shown, and the omitted ones counted.
    let hot = view(&capture, &["annotate", "base_yyparse"], 100);
    assert_fits(&hot, "annotate", 100);
    let full = view(&capture, &["annotate", "base_yyparse", "--full"], 100);
    assert!(full.lines().count() > 1000, "{} lines", full.lines().count());
    let code = |text: &str| text.lines().filter(|line| line.contains(":  ")).count();
    let number =
        |line: &str| line.rsplit("... ").next()?.split(' ').next()?.replace(',', "").parse::<usize>().ok();
    let left_out: usize = hot.lines().filter(|line| line.contains("... ")).filter_map(number).sum();
    assert!(code(&hot) > 5 && left_out > 1000, "{hot}");
}

#[test]
fn a_terminal_gets_its_width_and_a_pager() {
    if !have(&["valgrind", "script", "stty", "sed"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("true.data");
    common::record(&capture, &["-e", "l1d-miss,l2-miss", "-c", "11"], &["true"]);

    for columns in [72, 120] {
        let text = on_a_terminal("hardmeter report --by routine,line,image -i CAPTURE", &capture, columns);
        assert!(text.contains("l1d-miss: n = "), "{text}");
        assert_fits(&text, "report", columns);
    }
    let paged = on_a_terminal("PAGER='sed s/^/paged:/' hardmeter report --full -i CAPTURE", &capture, 100);
    assert!(paged.lines().all(|line| line.starts_with("paged:")), "{paged}");
    let screen = on_a_terminal("PAGER='sed s/^/paged:/' hardmeter report -i CAPTURE", &capture, 100);
    assert!(!screen.contains("paged:"), "one screen needs no pager: {screen}");
    let missing = on_a_terminal("PAGER=/nonexistent hardmeter report --full -i CAPTURE 2>&1", &capture, 100);
    assert!(missing.contains("l1d-miss: n = "), "{missing}");
    let piped =
        on_a_terminal("PAGER='sed s/^/paged:/' hardmeter report --full -i CAPTURE | cat", &capture, 100);
    assert!(!piped.contains("paged:") && piped.contains("l1d-miss: n = "), "{piped}");
}
