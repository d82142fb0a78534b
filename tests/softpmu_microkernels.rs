//! The software PMU compared with computed results: programs whose misses can be computed by hand.
//!
//! Each program is run with N and with 2N repetitions, and the *difference* is compared: what happens before and after
//! the measured loop cancels out, exactly, and so do the compulsory misses, which happen in the first repetition only.
//! The numbers must agree to the last event.
//!
//! The machine is `tests/machines/small.toml`:
//!
//! ```text
//!   level   lines = sets x ways     repeats every      level   entries = sets x ways
//!   L1         64 =   16 x 4              1 KiB        DTLB         16 =  4 x 4
//!   L2        512 =   64 x 8              4 KiB        STLB         64 = 16 x 4
//!   L3       4096 =  256 x 16            16 KiB
//! ```
//!
//! One rule explains most numbers. Under LRU, a set of W ways that is gone over in the same order repeatedly
//! keeps up to W lines for ever; of W + 1 lines or more it keeps none, for each goes just before it is needed.

#[path = "common/counting.rs"]
mod simulated;

use simulated::{compile, count, tests_folder, valgrind_is_there, Counts};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

/// Repetitions of the first run; the second has twice as many. Both have two digits, since the length of the
/// arguments moves the stack.
const ROUNDS: u64 = 10;

/// The cost of one repetition.
#[derive(Debug, Default, PartialEq)]
struct Cost {
    l1d: u64,
    l1i: u64,
    l2: u64,
    l3: u64,
    dtlb: u64,
    itlb: u64,
    stlb: u64,
    loads: u64,
    stores: u64,
}

impl Cost {
    /// `of(event)` by name.
    fn from(of: impl Fn(&str) -> u64) -> Cost {
        Cost {
            l1d: of("l1d-miss"),
            l1i: of("l1i-miss"),
            l2: of("l2-miss"),
            l3: of("l3-miss"),
            dtlb: of("dtlb-miss"),
            itlb: of("itlb-miss"),
            stlb: of("stlb-miss"),
            loads: of("loads"),
            stores: of("stores"),
        }
    }
}

/// The compiled programs' folder. Static and at a fixed address: little code runs before main, which could vary the
/// counts.
static PROGRAMS: LazyLock<PathBuf> = LazyLock::new(|| {
    let compiled =
        ["walk.c", "chase.c", "family.c", "code.S"].map(|source| compile(source, &["-static", "-no-pie"]));
    compiled[0].parent().expect("a folder").to_path_buf()
});

fn run(machine: &str, program: &str, arguments: &[&str], last: u64) -> Counts {
    let program = PROGRAMS.join(program).to_string_lossy().into_owned();
    let last = last.to_string();
    let command: Vec<&str> =
        [program.as_str()].into_iter().chain(arguments.iter().copied()).chain([last.as_str()]).collect();
    count(machine, &command)
}

/// Counts of a run with `ROUNDS` more repetitions, per repetition.
fn per_round(program: &str, arguments: &[&str]) -> (Cost, u64) {
    let once = run("small", program, arguments, ROUNDS);
    let twice = run("small", program, arguments, 2 * ROUNDS);
    let per_round = |event: &str| {
        let more = twice[event].checked_sub(once[event]).expect("more rounds, more events");
        assert_eq!(more % ROUNDS, 0, "{program} {arguments:?}: {more} {event} in {ROUNDS} rounds");
        more / ROUNDS
    };
    (Cost::from(per_round), per_round("instructions"))
}

/// `count` accesses of eight bytes, `stride` apart.
fn walk(mode: &str, stride: u64, count: u64, offset: u64) -> Cost {
    let [stride, count, offset] = [stride, count, offset].map(|number| number.to_string());
    per_round("walk", &[mode, &stride, &count, &offset]).0
}

/// Runs the test only if Valgrind is installed.
macro_rules! simulated_tests {
    ($($(#[$meta:meta])* fn $name:ident() $body:block)*) => {
        $($(#[$meta])* #[test] fn $name() { if valgrind_is_there() $body })*
    };
}

simulated_tests! {
    /// 128 KiB are 2048 lines, four times L2, half of L3, on 32 pages, twice the DTLB, half the STLB.
    fn a_sequential_walk_misses_once_per_line() {
        let expected = || Cost { l1d: 2048, l2: 2048, dtlb: 32, ..Cost::default() };
        assert_eq!(walk("load", 64, 2048, 0), Cost { loads: 2048, ..expected() });
        assert_eq!(walk("store", 64, 2048, 0), Cost { stores: 2048, ..expected() });
        // Word by word: eight accesses per line, one of which misses.
        assert_eq!(walk("load", 8, 16384, 0), Cost { loads: 16384, ..expected() });
    }

    /// A locked increment is one access that loads and stores: it misses once.
    fn a_locked_increment_misses_once_and_counts_as_both() {
        let expected = Cost { l1d: 2048, l2: 2048, dtlb: 32, loads: 2048, stores: 2048, ..Cost::default() };
        assert_eq!(walk("modify", 64, 2048, 0), expected);
    }

    /// A stride of 256 bytes uses one set in four. 32 lines are half of L1, but eight for each of four sets of four;
    /// of L2 they use 16 sets, two lines each. 512 lines are as many as L2 has, 32 for each of 16 sets of eight.
    fn a_wide_stride_wastes_sets() {
        assert_eq!(walk("load", 256, 32, 0), Cost { l1d: 32, loads: 32, ..Cost::default() });
        let expected = Cost { l1d: 512, l2: 512, dtlb: 32, loads: 512, ..Cost::default() };
        assert_eq!(walk("load", 256, 512, 0), expected);
    }

    /// One line more than a set has ways: each access misses in that level, and hits in the next, where the lines
    /// are spread over more sets.
    fn one_line_too_many_thrashes_a_set() {
        let hits = |loads| Cost { loads, ..Cost::default() };
        assert_eq!(walk("load", 1 << 10, 4, 0), hits(4));
        assert_eq!(walk("load", 1 << 10, 5, 0), Cost { l1d: 5, ..hits(5) });
        assert_eq!(walk("load", 4 << 10, 8, 0), Cost { l1d: 8, ..hits(8) });
        assert_eq!(walk("load", 4 << 10, 9, 0), Cost { l1d: 9, l2: 9, ..hits(9) });
        // Pages four apart share the DTLB's only set for them; pages 16 apart, the 17th and the first, share the
        // STLB's: lines 16 KiB apart use sets 0, 4, 8 and 12, and 17 of them put five into set 0.
        assert_eq!(walk("load", 16 << 10, 16, 0), Cost { l1d: 16, l2: 16, dtlb: 16, ..hits(16) });
        let expected = Cost { l1d: 17, l2: 17, l3: 17, dtlb: 17, stlb: 5, ..hits(17) };
        assert_eq!(walk("load", 16 << 10, 17, 0), expected);
    }

    /// As many lines as L1 has; one more, which costs its set all five; a set's worth more, which costs all.
    fn a_working_set_around_the_size_of_l1() {
        let hits = |loads| Cost { loads, ..Cost::default() };
        assert_eq!(walk("load", 64, 64, 0), hits(64));
        assert_eq!(walk("load", 64, 65, 0), Cost { l1d: 5, ..hits(65) });
        assert_eq!(walk("load", 64, 80, 0), Cost { l1d: 80, ..hits(80) });
    }

    /// The same around L2 (eight ways: one line more costs nine) and L3 (16 ways: 17).
    fn a_working_set_around_the_size_of_l2_and_l3() {
        let l1_misses = |lines| Cost { l1d: lines, loads: lines, ..Cost::default() };
        assert_eq!(walk("load", 64, 512, 0), l1_misses(512));
        assert_eq!(walk("load", 64, 513, 0), Cost { l2: 9, ..l1_misses(513) });
        assert_eq!(walk("load", 64, 576, 0), Cost { l2: 576, ..l1_misses(576) });
        // 4096 lines are 64 pages, as many as the STLB has entries; 65 pages cost one set of it five.
        let l2_misses = |lines| Cost { l2: lines, ..l1_misses(lines) };
        assert_eq!(walk("load", 64, 4096, 0), Cost { dtlb: 64, ..l2_misses(4096) });
        assert_eq!(walk("load", 64, 4097, 0), Cost { l3: 17, dtlb: 65, stlb: 5, ..l2_misses(4097) });
        assert_eq!(walk("load", 64, 4352, 0), Cost { l3: 4352, dtlb: 68, stlb: 20, ..l2_misses(4352) });
    }

    /// One access to a page, each page on the next line, so that 64 pages fit L1 too. Page 65 costs its set of the
    /// STLB, and its line's set of L1, five misses each.
    fn a_word_per_page_walks_the_page_table() {
        let hits = |loads| Cost { loads, ..Cost::default() };
        let stride = 4096 + 64;
        assert_eq!(walk("load", stride, 16, 0), hits(16));
        assert_eq!(walk("load", stride, 17, 0), Cost { dtlb: 5, ..hits(17) });
        assert_eq!(walk("load", stride, 64, 0), Cost { dtlb: 64, ..hits(64) });
        assert_eq!(walk("load", stride, 65, 0), Cost { l1d: 5, dtlb: 65, stlb: 5, ..hits(65) });
        assert_eq!(walk("load", stride, 128, 0), Cost { l1d: 128, dtlb: 128, stlb: 128, ..hits(128) });
    }

    /// Eight bytes at offset 60 lie on two lines. The walk at stride 64 finds the first of them in L1 and misses the
    /// second; at stride 128 it misses both, which is one miss of one access. 1024 + 1 lines are 17 pages.
    fn an_access_over_two_lines_misses_once() {
        let expected = Cost { l1d: 1024, l2: 1024, dtlb: 5, loads: 1024, ..Cost::default() };
        assert_eq!(walk("load", 64, 1024, 60), expected);
        assert_eq!(walk("load", 128, 512, 60), Cost { l1d: 512, l2: 512, loads: 512, ..Cost::default() });
    }

    /// A shuffled ring, each line once per lap: any order gives the same misses if it repeats. 1024 lines are 16
    /// pages. (The TLB misses of 8192 lines on 128 pages depend on the order, and are not compared.)
    fn a_pointer_chase_misses_whatever_its_order() {
        let chase = |lines: &str| per_round("chase", &[lines]).0;
        assert_eq!(chase("64"), Cost { loads: 64, ..Cost::default() });
        assert_eq!(chase("1024"), Cost { l1d: 1024, l2: 1024, loads: 1024, ..Cost::default() });
        let Cost { l1d, l2, l3, loads, .. } = chase("8192");
        assert_eq!((l1d, l2, l3, loads), (8192, 8192, 8192, 8192));
    }

    /// 8 KiB of code are 128 lines, twice L1I, and fit L2: each line misses once per round. 8179 one-byte
    /// instructions and two of the loop.
    fn straight_code_larger_than_l1i_misses_every_line() {
        assert_eq!(per_round("code", &["s"]), (Cost { l1i: 128, ..Cost::default() }, 8181));
    }

    /// 17 pages of code, a jump on each, and three instructions on the last: one set of the ITLB has five pages.
    fn code_on_many_pages_misses_the_itlb() {
        assert_eq!(per_round("code", &["p"]), (Cost { itlb: 5, ..Cost::default() }, 18));
    }

    /// Instructions, loads and stores are counted one by one.
    fn instructions_and_references_are_counted_exactly() {
        assert_eq!(per_round("code", &["m"]), (Cost { loads: 1, stores: 1, ..Cost::default() }, 5));
    }

    /// A child accesses lines that its parent just read. On one core it hits in L2: L1 holds 64 of 256 lines and
    /// loses them before they are reached. For its own writes it first gets a copy: new memory, in no cache. 100
    /// and 200 lines are on two and four pages.
    fn processes_of_one_core_share_its_caches() {
        let cost = |lines| Cost { l1d: lines, dtlb: 2, stlb: 2, ..Cost::default() };
        assert_eq!(child_over_100_lines("small", "shared", "read"), Cost { loads: 100, ..cost(100) });
        assert_eq!(child_over_100_lines("small", "shared", "write"), Cost { stores: 100, ..cost(100) });
        assert_eq!(child_over_100_lines("small", "private", "read"), Cost { loads: 100, ..cost(100) });
        let copied = Cost { stores: 100, l2: 100, l3: 100, ..cost(100) };
        assert_eq!(child_over_100_lines("small", "private", "write"), copied);
    }

    /// On two cores the child has its own L2: it hits the parent's lines in L3, which they share.
    fn processes_of_two_cores_share_the_last_level() {
        let cost = || Cost { l1d: 100, l2: 100, dtlb: 2, stlb: 2, ..Cost::default() };
        assert_eq!(child_over_100_lines("small-2", "shared", "read"), Cost { loads: 100, ..cost() });
        assert_eq!(child_over_100_lines("small-2", "shared", "write"), Cost { stores: 100, ..cost() });
        assert_eq!(child_over_100_lines("small-2", "private", "read"), Cost { loads: 100, ..cost() });
        let copied = Cost { stores: 100, l3: 100, ..cost() };
        assert_eq!(child_over_100_lines("small-2", "private", "write"), copied);
    }

    /// With a period of seven, samples of a walk that misses each line lie seven lines apart, all of them, and those
    /// of one instruction are all. `perf` reads the capture, not we.
    fn every_seventh_miss_is_sampled() {
        let samples = sampled_loads(7);
        // 20 rounds over 2048 lines are 40960 misses, of which the first sample takes one to seven.
        assert!((40960 / 7..=40960 / 7 + 1).contains(&samples.len()), "{} samples", samples.len());
        let region = 2048 * 64;
        for pair in samples.windows(2) {
            assert_eq!((pair[1] + region - pair[0]) % region, 7 * 64, "{pair:x?}");
        }
    }

    /// The same program with the same arguments and environment has exactly the same counts: here a dynamic one,
    /// with its loader, its heap and its locale.
    fn counts_repeat() {
        let file = tests_folder().join("microkernels/family.c");
        let command = ["sort", file.to_str().expect("a UTF-8 path")];
        let first = count("small", &command);
        assert!(first["l2-miss"] > 1000, "{first:?}");
        assert_eq!(count("small", &command), first);
        assert_eq!(count("small", &command), first);
    }
}

/// The cost of a child that accesses lines 100 to 199, too.
fn child_over_100_lines(machine: &str, memory: &str, access: &str) -> Cost {
    let fewer = run(machine, "family", &[memory, access], 100);
    let more = run(machine, "family", &[memory, access], 200);
    Cost::from(|event| more[event].checked_sub(fewer[event]).expect("more lines, more events"))
}

/// Data addresses of the samples from a sequential walk's loads, in order, as perf prints them.
fn sampled_loads(period: u64) -> Vec<u64> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let capture = folder.path().join("walk.data");
    let output = Command::new(env!("CARGO_BIN_EXE_hardmeter"))
        .args([
            "record",
            "--quiet",
            "--source",
            "simulated",
            "-e",
            "l1d-miss",
            "-c",
            &period.to_string(),
            "-o",
        ])
        .arg(&capture)
        .arg("--machine")
        .arg(tests_folder().join("machines/small.toml"))
        .arg("--")
        .arg(PROGRAMS.join("walk"))
        .args(["load", "64", "2048", "0", "20"])
        .output()
        .expect("hardmeter runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new("perf")
        .args(["script", "-F", "ip,addr,sym", "-i"])
        .arg(&capture)
        .output()
        .expect("perf runs (apt-get install linux-perf)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let hexadecimal = |word: &str| u64::from_str_radix(word, 16).expect("a hexadecimal number");
    let sample = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let in_main = words.len() == 3 && words[2] == "main";
        in_main.then(|| (hexadecimal(words[1]), hexadecimal(words[0])))
    };
    let mut by_instruction: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (instruction, address) in text.lines().filter_map(sample) {
        by_instruction.entry(instruction).or_default().push(address);
    }
    // Nearly all are the loop's; the stack of main may have missed, too.
    by_instruction.into_values().max_by_key(Vec::len).expect("samples in main")
}
