//! Go, Java, Node and Python on the software PMU: each program accesses known objects, whose names are known
//! too. A runtime that is not installed is skipped with a line that names it.
//!
//! Addresses are resolved while the program runs: each program ends with work without misses, so that its
//! samples are resolved before it exits.

mod common;

use common::{
    can_simulate, compile_with, counts, hexadecimal, record, recorder, report, run, stdout, succeeded,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const EVENTS: [&str; 5] = ["--machine", "skylake-sp", "--no-causes", "-e", "l1d-miss/period=211/"];

/// Samples of data by class, of the routines whose names contain a text.
fn classes_of(capture: &Path, routine: &str) -> BTreeMap<String, u64> {
    let mut classes = BTreeMap::new();
    let all = counts(&report(capture, &["--by", "routine,class"]), &["routine", "class"]);
    for ((_, names), count) in all.into_iter().filter(|((_, names), _)| names[0].contains(routine)) {
        *classes.entry(names[1].clone()).or_default() += count;
    }
    classes
}

/// At least 95 of 100 samples have the class, and at most one of 100 has one of the wrong ones.
fn assert_class(classes: &BTreeMap<String, u64>, right: &str, wrong: &[&str]) {
    let all: u64 = classes.values().sum();
    let of = |class: &str| classes.get(class).copied().unwrap_or(0);
    assert!(all >= 100, "too few to tell: {classes:?}");
    assert!(of(right) * 100 >= all * 95, "{right}: {classes:?}");
    assert!(wrong.iter().map(|class| of(class)).sum::<u64>() * 100 <= all, "wrong: {classes:?}");
}

/// The first of these commands that runs.
fn found(commands: &[&str], version: &str) -> Option<PathBuf> {
    let runs =
        |command: &&&str| Command::new(command).arg(version).output().is_ok_and(|it| it.status.success());
    let found = commands.iter().find(runs);
    if found.is_none() {
        eprintln!("skipped: {} is not installed", commands[0]);
    }
    found.map(PathBuf::from)
}

/// 64 KB in the frame of a goroutine, 8 MB of the heap, a map of the heap, a variable: each by a routine of its own,
/// at random. The heap lies above the stack in one mapping.
const GO: &str = r#"
package main

var global [1 << 17]uint64

//go:noinline
func onStack(n int) uint64 {
	var a [8192]uint64
	s := uint64(1)
	for i := 0; i < n; i++ {
		s = s*6364136223846793005 + 1442695040888963407
		a[(s>>33)%uint64(len(a))] += s
	}
	return rest(500000000) + a[5] + s
}

//go:noinline
func onHeap(b []uint64, n int) uint64 {
	s, t := uint64(1), uint64(0)
	for i := 0; i < n; i++ {
		s = s*6364136223846793005 + 1442695040888963407
		t += b[(s>>33)%uint64(len(b))]
	}
	return t
}

//go:noinline
func inMap(m map[uint64]uint64, n int, k uint64) uint64 {
	s, t := uint64(1), uint64(0)
	for i := 0; i < n; i++ {
		s = s*6364136223846793005 + 1442695040888963407
		t += m[(s>>33)%k]
	}
	return t
}

func main() {
	m := map[uint64]uint64{}
	for i := uint64(0); i < 20000; i++ {
		m[i] = i
	}
	b := make([]uint64, 1<<20)
	c := make(chan uint64)
	go func() { c <- onHeap(b, 100000) + inMap(m, 100000, 20000) }()
	t := <-c + onHeap(global[:], 20000)
	go func() { c <- onStack(100000) }()
	println(t + <-c + b[0] + m[1])
}

//go:noinline
func rest(n int) uint64 {
	s := uint64(1)
	for i := 0; i < n; i++ {
		s = s*6364136223846793005 + 1442695040888963407
	}
	return s
}
"#;

#[test]
fn gos_heap_is_no_stack() {
    let Some(go) = found(&["go", "/usr/local/go/bin/go"], "version").filter(|_| can_simulate()) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("main.go"), GO).expect("written");
    let program = folder.path().join("truth");
    let mut build = Command::new(go);
    build.current_dir(folder.path()).env("GO111MODULE", "off");
    compile_with(build.args(["build", "-o"]).arg(&program).arg("main.go"));
    let capture = folder.path().join("go.data");
    record(&capture, &EVENTS, &[&program]);
    assert_class(&classes_of(&capture, "main.onStack"), "goroutine stack", &["Go heap", "stack"]);
    let stacks = ["goroutine stack", "stack"];
    // The first words of the frame are on the stack; the rest of the samples are in the slice and the
    // variable.
    let mut on_heap = classes_of(&capture, "main.onHeap");
    assert!(on_heap.remove("global variable").is_some(), "{on_heap:?}");
    assert_class(&on_heap, "Go heap", &stacks);
    assert_class(&classes_of(&capture, "runtime.mapaccess1"), "Go heap", &stacks);
    let names = counts(&report(&capture, &["--by", "object"]), &["object"]);
    let has = |text: &str| names.keys().any(|(_, names)| names[0].contains(text));
    assert!(has("goroutine stack main.main.func2"), "{names:?}");
    assert!(has("Go heap large object of 8388 kB, no pointers"), "{names:?}");
}

/// 50,000 boxed numbers, read at random, several times: the first ones are interpreted, until a thread of the virtual
/// machine has compiled the method.
const JAVA: &str = r#"
public class Truth {
    static long probe(Long[] a, int n) {
        long s = 1, t = 0;
        for (int i = 0; i < n; i++) {
            s = s * 6364136223846793005L + 1442695040888963407L;
            t += a[(int) ((s >>> 33) % a.length)];
        }
        return t;
    }
    public static void main(String[] arguments) {
        Long[] a = new Long[50000];
        for (int i = 0; i < a.length; i++) a[i] = (long) i + 1000;
        long t = 0;
        for (int i = 0; i < 10; i++) t += probe(a, 200000);
        for (int i = 0; i < 200000000; i++) t = t * 6364136223846793005L + 1442695040888963407L;
        System.out.println(t);
    }
}
"#;

#[test]
fn javas_heap_and_compiled_code_have_names() {
    let Some(java) = found(&["java"], "-version").filter(|_| can_simulate()) else { return };
    let Some(javac) = found(&["javac"], "-version") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("Truth.java"), JAVA).expect("written");
    compile_with(Command::new(javac).current_dir(folder.path()).arg("Truth.java"));
    let capture = folder.path().join("java.data");
    let classes = folder.path().to_str().expect("a name");
    let java = java.to_str().expect("a name");
    record(
        &capture,
        &EVENTS,
        &[
            java,
            "-Xmx64m",
            "-XX:+UseSerialGC",
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:+DumpPerfMapAtExit",
            "-cp",
            classes,
            "Truth",
        ],
    );
    assert_class(&classes_of(&capture, "Truth.probe"), "Java heap", &["stack", "compiled code"]);
}

/// 50,000 objects, read at random, several times: as with Java, a thread of the virtual machine compiles the function.
const NODE: &str = "
const a = [];
for (let i = 0; i < 50000; i++) a.push({v: i + 0.5});
function probe(n) {
    let s = 1, t = 0;
    for (let i = 0; i < n; i++) { s = (Math.imul(s, 1103515245) + 12345) >>> 0; t += a[(s >>> 8) % 50000].v; }
    return t;
}
let t = 0;
for (let i = 0; i < 10; i++) t += probe(200000);
for (let i = 0; i < 100000000; i++) t = (Math.imul(t, 1103515245) + 12345) >>> 0;
console.log(t);
";

#[test]
fn nodes_heap_has_its_spaces() {
    let Some(node) = found(&["node", "nodejs"], "--version").filter(|_| can_simulate()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("truth.js");
    fs::write(&script, NODE).expect("written");
    let capture = folder.path().join("node.data");
    let words = [node.to_str().expect("a name"), "--perf-basic-prof", script.to_str().expect("a name")];
    // Node leaves a log of its isolate in the current folder.
    let mut recording = recorder(&capture, &EVENTS);
    succeeded(run(recording.current_dir(folder.path()).arg("--").args(words)));
    let mut probe = classes_of(&capture, "probe ");
    // Compiled code has its constants beside it.
    probe.remove("compiled code");
    assert_class(&probe, "V8 heap", &["stack", "heap"]);
}

/// 20,000 floats, read in a scattered order; the program prints where each lies, and
/// frees none.
const PYTHON: &str = "
a = [i + 0.5 for i in range(20000)]
s = 0.0
for i in range(60000):
    s += a[i * 7919 % 20000]
print(s)
print(*[hex(id(x)) for x in a])
for i in range(2000000): pass
import os, sys
sys.stdout.flush()
os._exit(0)
";

#[test]
fn pythons_objects_have_their_type() {
    let commands = ["python3", "/usr/bin/python3"];
    let Some(python) = found(&commands, "--version").filter(|_| can_simulate()) else { return };
    // The interpreter itself: a script that selects one would be recorded instead.
    let real =
        Command::new(python).args(["-c", "import sys; print(sys.executable)"]).output().expect("it ran");
    let real = stdout(&real).trim().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("truth.py");
    fs::write(&script, PYTHON).expect("written");
    let capture = folder.path().join("python.data");
    let words = [real.as_str(), "-S", "-E", script.to_str().expect("a name")];
    let output = record(&capture, &EVENTS, &words);
    let floats: std::collections::BTreeSet<u64> =
        stdout(&output).split_whitespace().filter(|word| word.starts_with("0x")).map(hexadecimal).collect();
    assert_eq!(floats.len(), 20_000);
    let mut named = BTreeMap::new();
    let all = counts(&report(&capture, &["--by", "data-address,object"]), &["data-address", "object"]);
    for ((_, names), count) in all {
        let address = hexadecimal(&names[0]);
        // A float is a count, a type and a number.
        if floats.range(..=address).next_back().is_some_and(|float| address - float < 24) {
            *named.entry(names[1].clone()).or_default() += count;
        }
    }
    assert_class(&named, "Python object float", &["stack", "heap"]);
}
