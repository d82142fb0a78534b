//! Simulated recordings for end-to-end tests: made with the command, read with perf and with Hardmeter's reader.

// Each test file uses its part.
#![allow(dead_code)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

pub fn hardmeter() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hardmeter"));
    command.stdin(Stdio::null());
    command
}

pub fn run(command: &mut Command) -> Output {
    loop {
        match command.output() {
            // Another test forked while a copy of a program was being written, and holds it open until its exec.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(20));
            }
            output => return output.unwrap_or_else(|error| panic!("{command:?}: {error}")),
        }
    }
}

pub fn succeeded(output: Output) -> Output {
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    output
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether these programs are installed; prints which is missing.
pub fn have(programs: &[&str]) -> bool {
    let missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    match programs.iter().find(missing) {
        Some(program) => {
            eprintln!("skipped: {program} is not installed");
            false
        }
        None => true,
    }
}

/// Whether a simulated recording can be made, and read by perf.
pub fn can_simulate() -> bool {
    have(&["valgrind", "perf", "cc"])
}

/// Whether `record --ghosts` said that processes may not be followed here.
pub fn refuses_to_follow(said: &str) -> bool {
    let refusals =
        ["hardmeter-ghost was not found", "cannot be followed", "its own memory cannot be arranged"];
    refusals.iter().any(|refusal| said.contains(refusal))
}

pub fn is_root() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// The repository's `tests` folder.
pub fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests")
}

/// A recorded fixture of HARDMETER_SHARED, a folder that a clone does not have; `None`, with a message, if it is missing.
pub fn fixture(name: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("HARDMETER_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| tests_folder().join("../../shared"));
    let path = shared.join("research/fixtures").join(name);
    if !path.is_file() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

/// Compiles one file of C, and of assembly if there is some, to `folder/name`.
pub fn compile(folder: &Path, name: &str, options: &[&str], c: &str, assembly: Option<&str>) -> PathBuf {
    let program = folder.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"]).args(options).arg("-o").arg(&program);
    for (suffix, text) in [("c", Some(c)), ("S", assembly)] {
        if let Some(text) = text {
            let source = folder.join(format!("{name}.{suffix}"));
            std::fs::write(&source, text).expect("written");
            compiler.arg(source);
        }
    }
    succeeded(run(&mut compiler));
    program
}

/// Runs a compiler that must succeed.
pub fn compile_with(compiler: &mut Command) {
    succeeded(run(compiler));
}

/// `hardmeter record --source simulated` into `capture`, with further arguments; on the paper's machine, unless
/// another one is given.
pub fn recorder(capture: &Path, arguments: &[&str]) -> Command {
    let mut command = hardmeter();
    command.args(["record", "--source", "simulated", "-o"]).arg(capture).args(arguments);
    if !arguments.contains(&"--machine") {
        command.args(["--machine", "xeon-2003"]);
    }
    command
}

/// Records a command that ends well.
pub fn record<Word: AsRef<OsStr>>(capture: &Path, arguments: &[&str], command: &[Word]) -> Output {
    succeeded(run(recorder(capture, arguments).arg("--").args(command)))
}

/// The number of samples of `event` in the recorder's output.
pub fn recorded(output: &Output, event: &str) -> u64 {
    let text = stderr(output);
    let line = text.lines().find(|line| line.contains(" processes in ")).unwrap_or_else(|| panic!("{text}"));
    let words: Vec<&str> = line.split([' ', ',']).collect();
    let at = words.iter().position(|word| *word == event).unwrap_or_else(|| panic!("{line}"));
    words[at - 1].parse().expect("a number")
}

/// `hardmeter report --format json`, all rows.
pub fn report(capture: &Path, arguments: &[&str]) -> Value {
    let output = succeeded(run(hardmeter()
        .args(["report", "--all", "--format", "json", "-i"])
        .arg(capture)
        .args(arguments)));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Samples by (event, the values of `columns`), from a report by these columns.
pub fn counts(report: &Value, columns: &[&str]) -> BTreeMap<(String, Vec<String>), u64> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let mut counts = BTreeMap::new();
    for table in report["tables"].as_array().expect("tables") {
        for row in table["rows"].as_array().expect("rows") {
            let values = columns.iter().map(|column| text(&row[column])).collect();
            *counts.entry((text(&table["event"]), values)).or_default() +=
                row["count"].as_u64().expect("count");
        }
    }
    counts
}

/// Samples of all events in a report.
pub fn samples(report: &Value) -> u64 {
    let tables = report["tables"].as_array().expect("tables");
    tables.iter().map(|table| table["samples"].as_u64().expect("a number")).sum()
}

/// perf's output for a capture. perf must not complain.
pub fn perf(arguments: &[&str], capture: &Path) -> String {
    let output = run(Command::new("perf").args(arguments).arg("-i").arg(capture).stdin(Stdio::null()));
    assert!(output.status.success(), "perf {arguments:?}: {}", stderr(&output));
    assert_eq!(stderr(&output), "", "perf {arguments:?}");
    stdout(&output)
}

/// The samples of a capture as `perf script` prints them, one line each, without callers.
pub fn perf_script(capture: &Path, fields: &str) -> Vec<String> {
    let text = perf(&["script", "--ns", "-G", "-F", fields], capture);
    text.lines().map(|line| line.trim().to_string()).filter(|line| !line.is_empty()).collect()
}

/// A hexadecimal number, with or without 0x.
pub fn hexadecimal(text: &str) -> u64 {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The number in a program's output `NAME=NUMBER`.
pub fn printed(output: &Output, name: &str) -> Vec<u64> {
    let text = stdout(output);
    let values = text.split_whitespace().filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    values.map(|value| value.parse().unwrap_or_else(|_| hexadecimal(value))).collect()
}

/// Waits for an event that must occur; it fails only if the machine hangs.
pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{what} never came");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A throwaway server, by its folder.
pub trait InFolder {
    /// The folder that `--server` names.
    fn folder_path(&self) -> PathBuf;
}

/// Names in a folder, sorted.
pub fn files_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("readable").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
