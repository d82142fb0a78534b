//! `hardmeter oo1` from end to end: with scripts as programs, whose numbers are known, and with the real ones if
//! they are built.

mod common;

use common::{hardmeter, run, stderr, stdout, succeeded};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder with programs that are scripts, and with the stores that are made of them.
struct Scripts {
    folder: tempfile::TempDir,
}

const GENERATE: &str = r#"for last; do :; done; echo graph > "$last"; echo '{}'"#;

/// A mode: its times in ns, and its checksum, which includes the seed.
fn mode(name: &str, checksum: &str, cold: u64, warm: u64, hot: u64) -> String {
    format!(
        r#"case $1 in
describe) echo '{{"mode": "{name}", "layouts": ["oo1"], "measures": ["traversal"], "can_prefetch": false}}' ;;
load) mkdir "$3"; echo '{{}}' ;;
run)
  seed=$(echo "$*" | sed 's/.*--seed \([0-9]*\).*/\1/')
  cat <<END
{{"mode": "{name}", "compiler": "gcc 12.2.0", "seed": $seed, "graph": "0f3a", "cache": {{"state": "hot"}},
 "load_seconds": 0.5, "open_ns": 1000, "store_bytes": 5000000,
 "phases": [{{"name": "cold", "repeats": 1, "wall_ns": [{cold}], "cpu_ns": [{cold}]}},
            {{"name": "warm", "repeats": 1, "wall_ns": [{warm}, {warm}], "cpu_ns": [{warm}, {warm}]}},
            {{"name": "hot", "repeats": 1, "wall_ns": [{hot}], "cpu_ns": [{hot}]}}],
 "visited": [3280, 3280, 3280], "checksum": "{checksum}$seed",
 "faults": {{"minor": 3, "major": 1, "handled": 2}}, "reads": {{"calls": 5, "bytes": 20480}},
 "rss_bytes": 9000000, "rss_peak_bytes": 9000000}}
END
  ;;
esac"#
    )
}

impl Scripts {
    fn new(modes: &[(&str, String)]) -> Scripts {
        let scripts = Scripts { folder: tempfile::tempdir().unwrap() };
        scripts.add("generate", GENERATE);
        for (name, script) in modes {
            scripts.add(name, script);
        }
        scripts
    }

    fn add(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(&format!("oo1-{name}"));
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        oo1(self.folder.path(), &self.path("stores"), arguments)
    }

    fn oo1(&self, arguments: &[&str]) -> Output {
        run(&mut self.command(arguments))
    }

    fn json(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let output = self.oo1(&[arguments, &["--format", "json"]].concat());
        let value = serde_json::from_str(&stdout(&output));
        (output.status.code(), value.unwrap_or_else(|error| panic!("{error}: {}", stderr(&output))))
    }
}

/// `hardmeter oo1 ACTION --dir STORES ...` with the programs of a folder.
fn oo1(programs: &Path, stores: &Path, arguments: &[&str]) -> Command {
    let mut command = hardmeter();
    command.env("HARDMETER_OO1", programs).arg("oo1").arg(arguments[0]);
    if ["run", "clear"].contains(&arguments[0]) {
        command.arg("--dir").arg(stores);
    }
    command.args(&arguments[1..]);
    command
}

fn honest() -> Vec<(&'static str, String)> {
    vec![
        ("plain", mode("plain", "aa", 1_000_000, 500_000, 6_560)),
        ("p3l-macros", mode("p3l-macros", "aa", 2_000_000, 1_000_000, 8_200)),
        ("texas", mode("texas", "aa", 8_000_000, 2_000_000, 6_560)),
        ("texas-uffd", mode("texas-uffd", "aa", 4_000_000, 2_500_000, 6_560)),
        ("offset", mode("offset", "aa", 1_500_000, 3_000_000, 9_840)),
    ]
}

#[test]
fn a_run_compares_what_the_programs_say() {
    let scripts = Scripts::new(&honest());
    let file = scripts.path("result.json");
    let output = scripts.oo1(&["run", "--page-cache", "hot", "-o", file.to_str().unwrap()]);
    let text = stdout(&succeeded(output));
    assert!(
        text.contains("traversal, protocol texas: 20,000 parts with locality, layout oo1, page cache hot"),
        "{text}"
    );
    let line = |begin: &str, nth: usize| -> Vec<String> {
        let found = text.lines().filter(|line| line.split("  ").next() == Some(begin)).nth(nth);
        let words = found.unwrap_or_else(|| panic!("no {begin}: {text}")).split_whitespace();
        words.map(str::to_owned).collect()
    };
    // First 2 ms, warm 1 ms, total 4; 8200 ns are 2.5 per visit; four faults, two of them handled; five reads.
    let p3l = "p3l-macros 2.00 1.00 4.00 2.50 4 2 5 0.0205 9.00 5.00 0.500";
    assert_eq!(line("p3l-macros", 0).join(" "), p3l);
    // First compared with userfaultfd's 4 ms, warm with mprotect's 2, total with userfaultfd's 9 (mprotect has 12);
    // 2.5 to 2 hot.
    let ratios =
        "p3l-macros 0.500 (0.500..0.500) 0.500 (0.500..0.500) 0.444 (0.444..0.444) 1.25 (1.25..1.25)";
    assert_eq!(line("p3l-macros", 1)[..9].join(" "), ratios);
    assert!(text.contains("first/texas-uffd") && text.contains("warm/texas"), "{text}");
    let beaten = "offsets in a shared mapping are faster than P3L here: first 1.50 ms (offset) against 2.00 (p3l-macros)\n";
    assert!(text.contains(beaten), "{text}");
    assert!(text.ends_with("all modes visited the same parts: 60 runs, checksums equal\n"), "{text}");

    let value: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((value["format"].as_str(), value["version"].as_u64()), (Some("hardmeter-oo1"), Some(1)));
    let entry = &value["cells"][0]["entries"][1];
    assert_eq!((entry["name"].as_str(), entry["outcome"].as_str()), (Some("p3l-macros"), Some("sound")));
    assert_eq!(entry["runs"].as_array().unwrap().len(), 12, "six rounds, two runs in each");
    let metric = entry["metrics"].as_array().unwrap().iter().find(|one| one["name"] == "hot").unwrap();
    assert_eq!((metric["median"]["value"].as_f64(), metric["unit"].as_str()), (Some(2.5), Some("ns/visit")));
    assert_eq!(metric["to_plain"]["median"]["value"], 1.25);
    assert_eq!(metric["to_plain"]["rounds"], serde_json::json!([1.25, 1.25, 1.25, 1.25, 1.25, 1.25]));

    // The file has the same results.
    let shown = stdout(&succeeded(scripts.oo1(&["show", file.to_str().unwrap()])));
    assert_eq!(shown, text);
    // Stores are kept, and removed on request.
    assert!(scripts.path("stores/20000-local-1/oo1/texas/store").is_dir());
    succeeded(scripts.oo1(&["clear"]));
    assert!(!scripts.path("stores/20000-local-1").exists());
}

#[test]
fn a_mode_that_visits_other_parts_is_found_out() {
    let mut modes = honest();
    modes[2].1 = mode("texas", "bb", 1, 1, 1);
    let scripts = Scripts::new(&modes);
    let (status, value) = scripts.json(&["run", "--rounds", "1", "--page-cache", "hot"]);
    assert_eq!(status, Some(1));
    let outcome = |at: usize| value["cells"][0]["entries"][at]["outcome"].as_str().unwrap().to_owned();
    assert_eq!([0, 1, 2, 3].map(outcome), ["sound", "sound", "wrong", "sound"]);
    let wrong = &value["cells"][0]["entries"][2];
    assert_eq!((wrong["checksum"].as_str(), wrong["expected"].as_str()), (Some("bb1"), Some("aa1")));
    assert_eq!(wrong["metrics"], serde_json::json!([]), "its times are worth nothing");

    let output = scripts.oo1(&["run", "--rounds", "1", "--page-cache", "hot"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("texas visited OTHER PARTS than the others: checksum bb1 instead of aa1"),
        "{text}"
    );
    assert!(text.ends_with("1 times a mode visited different parts\n"), "{text}");
}

#[test]
fn whoever_fails_is_named_and_the_others_are_measured() {
    let mut modes = honest();
    modes[1].1 = mode("p3l-macros", "aa", 1, 1, 1).replace("cat <<END", "kill -SEGV $$; cat <<END");
    modes[2].1 = mode("texas", "aa", 1, 1, 1)
        .replace("mkdir", "printf 'no room\\n  remedy: make some\\n' >&2; exit 1; mkdir");
    modes[3].1 = mode("texas-uffd", "aa", 1, 1, 1)
        .replace("cat <<END", "echo 'userfaultfd: not allowed' >&2; exit 77; cat <<END");
    let scripts = Scripts::new(&modes);
    let output = scripts.oo1(&["run", "--rounds", "2", "--page-cache", "hot"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for said in [
        "p3l-macros FAILED and is left out of the tables: traversal of p3l-macros was killed by signal 11",
        "texas FAILED and is left out of the tables: loading the store of texas failed: no room\n  remedy: make some\n",
        "texas-uffd cannot run on this machine: userfaultfd: not allowed",
        "2 times a mode failed",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(text.contains("8 runs, checksums equal"), "plain and offset, two rounds: {text}");
    // A mode that this machine cannot run is not a failure.
    let output = scripts.oo1(&["run", "--rounds", "1", "--page-cache", "hot", "--modes", "plain,texas-uffd"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    // Nor is a mode without the measure.
    let output =
        scripts.oo1(&["run", "--rounds", "1", "--page-cache", "hot", "--modes", "plain+prefetch,offset"]);
    assert!(stdout(&succeeded(output)).contains("plain+prefetch has no prefetch"));
}

#[test]
fn figures_are_drawn() {
    let figure = mode("plain", "aa", 1, 1, 1)
        .replace("\"name\": \"cold\"", "\"name\": \"first\"")
        .replace("\"name\": \"warm\"", "\"name\": \"repeat\"")
        .replace("\"name\": \"hot\"", "\"name\": \"repeat-first\"");
    let scripts = Scripts::new(&[("plain", figure)]);
    let plots = scripts.path("plots");
    let folder = plots.to_str().unwrap();
    let arguments = [
        "run",
        "--locality",
        "both",
        "--rounds",
        "1",
        "--protocol",
        "figure1,figure2",
        "--page-cache",
        "dropped",
    ];
    succeeded(scripts.oo1(&[&arguments[..], &["--plots", folder]].concat()));
    for name in ["figure1-20000.svg", "figure2-20000.svg", "figure3-20000.svg"] {
        let svg = std::fs::read_to_string(plots.join(name)).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("plain"), "{name}");
    }
}

#[test]
fn what_is_missing_is_said_with_its_remedy() {
    let empty = tempfile::tempdir().unwrap();
    let ask = |arguments: &[&str]| run(&mut oo1(empty.path(), &empty.path().join("stores"), arguments));
    let output = ask(&["run"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("the programs of OO1 are not built: there is no oo1-generate in "), "{said}");
    assert!(said.contains("remedy: build them (make build)"), "{said}");

    let scripts = Scripts::new(&honest());
    std::fs::write(scripts.path("not-built.txt"), "lmdb: no liblmdb\n").unwrap();
    let said = stderr(&scripts.oo1(&["run", "--modes", "lmdb"]));
    assert!(said.contains("the mode lmdb is not built here: no liblmdb\n  remedy: "), "{said}");
    let said = stderr(&scripts.oo1(&["run", "--modes", "odbms"]));
    assert!(said.contains("unknown mode 'odbms' of OO1: there are plain, "), "{said}");
    let text = stdout(&succeeded(scripts.oo1(&["modes"])));
    assert!(text.contains("built      texas-uffd  ") && text.contains("libpmemobj was not found"), "{text}");
    let said = stderr(&scripts.oo1(&["run", "--layout", "paper", "--measure", "reverse"]));
    assert!(said.contains("has no way back"), "{said}");
    for (arguments, what) in [
        (["run", "--parts", "99"], "100..=8000000"),
        (["run", "--measure", "scan"], "there are traversal, reverse, lookup, insert"),
        (["run", "--modes", "../x"], "write MODE or MODE+prefetch"),
    ] {
        let output = scripts.oo1(&arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(what), "{}", stderr(&output));
    }
    let said = stderr(&scripts.oo1(&["show", scripts.path("not-built.txt").to_str().unwrap()]));
    assert!(said.contains("is not a result of hardmeter oo1"), "{said}");
}

#[test]
fn ctrl_c_ends_the_program_that_runs() {
    let scripts = Scripts::new(&honest());
    let sign = scripts.path("began");
    let slow = mode("plain", "aa", 1, 1, 1)
        .replace("cat <<END", &format!("touch {}; sleep 600; cat <<END", sign.display()));
    scripts.add("plain", &slow);
    let mut command = scripts.command(&["run", "--modes", "plain"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !sign.exists() {
        assert!(Instant::now() < deadline, "the program was not started");
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: no preconditions.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("traversal of plain was interrupted"), "{}", stderr(&output));
    // The folder is free again.
    succeeded(scripts.oo1(&["clear"]));
}

#[test]
fn the_real_programs_agree() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/oo1");
    if !programs.join("oo1-generate").is_file() {
        eprintln!("skipped: the programs of OO1 are not built (make build)");
        return;
    }
    let stores = tempfile::tempdir().unwrap();
    // Without pmemobj: a commit of it takes a second outside of persistent memory.
    let modes = stdout(&succeeded(run(&mut oo1(&programs, stores.path(), &["modes", "--format", "json"]))));
    let modes: Value = serde_json::from_str(&modes).unwrap();
    let built = modes["modes"].as_array().unwrap().iter().filter(|mode| mode["built"] == true);
    let names: Vec<&str> =
        built.filter_map(|mode| mode["mode"].as_str()).filter(|name| *name != "pmemobj").collect();
    let small = ["run", "--parts", "500", "--rounds", "1", "--page-cache", "dropped", "--format", "json"];
    let all = ["--measure", "traversal,reverse,lookup,insert", "--locality", "both", "--modes"];
    let output =
        run(&mut oo1(&programs, stores.path(), &[&small[..], &all[..], &[&names.join(",")]].concat()));
    let value: Value = serde_json::from_str(&stdout(&succeeded(output))).unwrap();
    let cells = value["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8, "four measures, with locality and without");
    for cell in cells {
        let entries = cell["entries"].as_array().unwrap();
        assert!(entries.iter().filter(|entry| entry["outcome"] == "sound").count() >= 2, "{cell}");
        if cell["measure"] == "traversal" {
            let visited = &entries[0]["runs"][0]["visited"];
            // 1 + 3 + 9 + ... + 3^7, in each of 35 traversals.
            assert!(visited.as_array().unwrap().iter().all(|count| *count == 3280), "{visited}");
        }
    }
}
