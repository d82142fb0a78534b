//! `hardmeter compare` on programs that differ by what is known: code that was moved, one miss more in one function.

mod common;

use common::{can_simulate, compile, hardmeter, record, run, stderr, stdout, succeeded, tests_folder};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// 20,000 rounds of one search and one insertion, each of one line of a megabyte of its own: a miss of L2, which has 512
/// lines, in nearly every call. `MOVED` shifts all code and lines; `PLANTED` makes search touch a third region.
const PROGRAM: &str = "\
#include <stdint.h>
static char regions[3][1 << 20] __attribute__((aligned(1 << 20)));
static uint64_t state = 88172645463325252ull;
#ifdef MOVED



__attribute__((noinline)) uint64_t unused(uint64_t a) { return a * 3 + state; }
#endif
static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}
__attribute__((noinline)) int search(uint64_t key) {
  int sum = *(volatile char *)&regions[0][key % 16384 * 64];
#ifdef PLANTED
  sum += *(volatile char *)&regions[2][key / 16384 % 16384 * 64];
#endif
  return sum;
}
__attribute__((noinline)) int insert(uint64_t key) {
  return *(volatile char *)&regions[1][key / 3 % 16384 * 64];
}
int main(void) {
  int sum = 0;
#ifdef MOVED
  sum += (int)unused(1) & 0;
#endif
  for (int i = 0; i < 20000; i++) sum += search(next()) + insert(next());
  return sum;
}
";

fn capture(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let program = compile(folder, name, &[options, &["-O2", "-static"]].concat(), PROGRAM, None);
    let file = folder.join(name).with_extension("data");
    let machine = tests_folder().join("machines/small.toml");
    let machine = machine.to_str().expect("a UTF-8 path");
    record(&file, &["-e", "l2-miss", "-c", "11", "--machine", machine], &[program]);
    file
}

fn compare(a: &Path, b: &Path, arguments: &[&str]) -> Output {
    run(hardmeter().arg("compare").args([a, b]).args(arguments).env("COLUMNS", "100"))
}

fn json(output: Output) -> Value {
    serde_json::from_str(&stdout(&succeeded(output))).expect("JSON")
}

/// The rows of the first table, by function.
fn function<'j>(comparison: &'j Value, name: &str) -> &'j Value {
    let rows = comparison["events"][0]["tables"][0]["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["function"] == name).unwrap_or_else(|| panic!("no {name}: {comparison:#}"))
}

#[test]
fn a_miss_more_is_found_and_moved_code_is_no_difference() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let before = capture(folder.path(), "before", &[]);
    let moved = capture(folder.path(), "moved", &["-DMOVED"]);
    let planted = capture(folder.path(), "planted", &["-DPLANTED", "-DMOVED"]);

    let same = json(compare(&before, &moved, &["--format", "json", "--per", "run"]));
    assert_eq!((&same["format"], &same["version"]), (&Value::from("hardmeter-compare"), &Value::from(1)));
    assert_eq!(same["between_runs"], false);
    for table in same["events"][0]["tables"].as_array().expect("tables") {
        assert_eq!(table["different"], 0, "{table:#}");
    }
    // Function, instruction and line of both sides are one row: no row of `search` is on one side only.
    let places = same["events"][0]["tables"][1]["rows"].as_array().expect("rows");
    for name in ["search", "insert"] {
        let of_data = |row: &&Value| row["function"] == name && row["object"] == "global variable regions";
        let rows: Vec<&Value> = places.iter().filter(of_data).collect();
        assert_eq!(rows.len(), 1, "{rows:#?}");
        assert!(
            rows[0]["a"]["samples"].as_u64() > Some(1000) && rows[0]["b"]["samples"].as_u64() > Some(1000)
        );
        assert!(rows[0]["line"].as_str().is_some_and(|line| line.starts_with("moved.c:")), "{}", rows[0]);
    }

    let comparison = json(compare(&before, &planted, &["--format", "json", "--per", "run"]));
    let search = function(&comparison, "search");
    assert_eq!(search["different"], true);
    // 20,000 misses more in a run: 16,384 lines in a cache of 512 leave 1 in 32 of the accesses to hit.
    let more = search["difference"].as_f64().expect("a number");
    assert!((18_000.0..20_500.0).contains(&more), "{more}");
    assert_eq!(function(&comparison, "insert")["different"], false);

    let text = stdout(&succeeded(compare(&before, &planted, &["--per", "run"])));
    let first = text.split("\n\n").next().expect("a sentence").replace("\n  ", " ");
    assert!(first.contains("more L2 misses a run (") && first.ends_with("nearly all in search"), "{text}");
    assert!(text.contains("sampling alone"), "one run on each side: {text}");
    assert!(text.lines().count() <= 40 && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let full = stdout(&succeeded(compare(&before, &planted, &["--per", "run", "--full", "--by", "line"])));
    assert!(full.contains("by line: ") && full.contains("planted.c:"), "{full}");
    the_page_has_the_rates_of_both_sides(&before, &planted, folder.path());
}

/// The flame graph's boxes have the rates of the tables: all, and below it each function.
fn the_page_has_the_rates_of_both_sides(before: &Path, planted: &Path, folder: &Path) {
    let page = folder.join("difference.html");
    let arguments = ["--per", "run", "--format", "json", "--html", page.to_str().expect("a UTF-8 path")];
    let comparison = json(compare(before, planted, &arguments));
    let page = std::fs::read_to_string(&page).expect("written");
    assert!(page.contains("script-src 'sha256-") && page.matches("<script").count() == 2, "{page}");
    let begin = page.find("id=\"data\">").expect("data") + "id=\"data\">".len();
    let end = begin + page[begin..].find("</script>").expect("its end");
    let data: Value = serde_json::from_str(&page[begin..end]).expect("JSON");
    let tree = &data["events"][0]["tree"];
    let names = data["names"].as_array().expect("names");
    let rates = |name: &str| {
        let number = names.iter().position(|known| known == name).expect("a name");
        let nodes = tree["name"].as_array().expect("nodes");
        let node = nodes.iter().position(|node| node.as_u64() == Some(number as u64)).expect("a node");
        ["a", "b"].map(|side| tree[side][node].as_f64().expect("a rate"))
    };
    let of = |row: &Value| ["a", "b"].map(|side| row[side]["rate"].as_f64().expect("a rate"));
    assert_eq!(rates("all"), of(&comparison["events"][0]["total"]));
    assert_eq!(rates("search"), of(function(&comparison, "search")));
    assert!(rates("search")[1] > 1.9 * rates("search")[0]);
}

#[test]
fn several_runs_are_compared_between_runs() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runs = ["a", "b"].map(|side| {
        let folder = folder.path().join(side);
        std::fs::create_dir(&folder).unwrap();
        ["1", "2"].map(|number| capture(&folder, number, &[]))
    });
    let sides = [folder.path().join("a"), folder.path().join("b")];
    let comparison = json(compare(&sides[0], &sides[1], &["--format", "json"]));
    assert_eq!(comparison["between_runs"], true);
    assert_eq!(comparison["per"], "instruction", "no server counted transactions");
    let named =
        |side: &[PathBuf; 2]| Value::from(side.iter().map(|file| file.to_str().unwrap()).collect::<Vec<_>>());
    assert_eq!(comparison["a"]["files"], named(&runs[0]));
    // The simulation of one program with one thread is the same each time.
    assert_eq!(function(&comparison, "search")["different"], false);
    let text = stdout(&succeeded(compare(&sides[0], &sides[1], &[])));
    assert!(text.starts_with("* no significant difference in L2 misses per 1,000 instructions"), "{text}");
    assert!(text.contains("A: 2 runs, ") && text.contains("between runs"), "{text}");
}

#[test]
fn what_cannot_be_compared_is_refused_with_a_remedy() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = capture(folder.path(), "before", &[]);
    let machine = tests_folder().join("machines/small.toml");
    let machine = machine.to_str().expect("a UTF-8 path");
    let program = folder.path().join("before");
    let other = folder.path().join("other.data");
    record(&other, &["-e", "l1d-miss", "--machine", machine], &[&program]);
    let output = compare(&file, &other, &[]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(
        told.contains("A has l2-miss; B has l1d-miss") && told.contains("remedy: record both sides"),
        "{told}"
    );

    // The machines differ, which is reported and allowed: machines may be what the user compares.
    let xeon = folder.path().join("xeon.data");
    record(&xeon, &["-e", "l2-miss", "-c", "11"], &[&program]);
    let text = stdout(&succeeded(compare(&file, &xeon, &[])));
    assert!(text.contains("note: the machines differ"), "{text}");

    let output = compare(&file, &file, &["--per", "transaction"]);
    assert!(stderr(&output).contains("has no count of its transactions"), "{}", stderr(&output));
    let text = folder.path().join("text.data");
    std::fs::write(&text, "no capture").unwrap();
    assert_eq!(compare(&file, &text, &[]).status.code(), Some(1));
    // The comparison of the truncated capture uses its readable part, and the exit status reports it.
    let whole = std::fs::read(&file).unwrap();
    let cut = folder.path().join("cut.data");
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    std::fs::copy(folder.path().join("before.data.json"), folder.path().join("cut.data.json")).unwrap();
    assert_eq!(compare(&file, &cut, &[]).status.code(), Some(1));
}

#[test]
fn two_counts_need_no_capture() {
    let counts = |arguments: &[&str]| {
        run(Command::new(env!("CARGO_BIN_EXE_hardmeter")).arg("compare").args(arguments))
    };
    let text = stdout(&succeeded(counts(&["--counts", "58173/280759", "50540/265927"])));
    assert_eq!(text.lines().next(), Some("-13.1 % (-14.2..-12.1)"), "{text}");
    let json = json(counts(&["--counts", "10", "10", "--format", "json"]));
    assert_eq!(json["format"], "hardmeter-compare-counts");
    assert_eq!(json["changes"][0]["p"], 1.0);
    for wrong in [
        &["--counts", "5/1", "1/1"][..],
        &["--counts", "x", "1"],
        &["--counts", "1"],
        &["only-one.data"],
        &[],
    ] {
        assert_eq!(counts(wrong).status.code(), Some(2), "{wrong:?}");
    }
    let uneven = counts(&["--counts", "1/2", "1"]);
    assert_eq!(uneven.status.code(), Some(1));
    assert!(stderr(&uneven).contains("remedy: give both as COUNT/TOTAL"), "{}", stderr(&uneven));
}
