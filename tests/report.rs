//! `hardmeter report`, `annotate` and `export` from end to end: on a hardware capture with known figures, on a
//! synthetic capture, and on a live one compared with perf's report.

#[path = "report/arm_spe.rs"]
mod arm_spe;
#[path = "report/bench.rs"]
mod bench;

use bench::{fixture, hardmeter, made_capture, recorded_capture, Bench, MADE};
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    let output = hardmeter(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn text(arguments: &[&str]) -> String {
    let output = hardmeter(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// (column, count) of every row of the first table.
fn counts(report: &Value, column: &str) -> Vec<(String, u64)> {
    let rows = report["tables"][0]["rows"].as_array().expect("rows");
    let value = |row: &Value| row[column].as_str().unwrap_or("-").to_string();
    rows.iter().map(|row| (value(row), row["count"].as_u64().expect("count"))).collect()
}

fn pairs(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|(name, count)| (name.to_string(), *count)).collect()
}

const SKYLAKE: &str = "google-perf_data_converter/perf.data.weight_struct";

/// Figures from the fixture's README: 14 samples; LFB 5, L3 4 (one after a page walk), L1 4 (two locked), L2 1;
/// latencies 70 to 249, 1725 in all. `perf script` lists them: 70 70 71 77 80 81 89 92 96 117 168 225 240 249.
#[test]
fn a_recorded_skylake_capture_has_its_golden_figures() {
    let Some(path) = fixture(SKYLAKE) else { return };
    let report =
        |arguments: &[&str]| json(&[&["report", "-i", &path, "--format", "json"], arguments].concat());
    let by_level = report(&["--by", "level"]);
    assert_eq!(counts(&by_level, "level"), pairs(&[("LFB", 5), ("L1", 4), ("L3", 4), ("L2", 1)]));
    assert_eq!(by_level["tables"].as_array().unwrap().len(), 1, "perf's dummy event has no table");
    let rows = by_level["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["latencies"]["sum"].as_u64().unwrap()).sum::<u64>(), 1725);
    assert_eq!(rows[0]["share"]["of"], 14);

    let by_tlb = report(&["--by", "tlb"]);
    assert_eq!(counts(&by_tlb, "tlb"), pairs(&[("L1 hit", 13), ("walk", 1)]));
    let by_latency = report(&["--by", "latency", "--sort", "key"]);
    assert_eq!(counts(&by_latency, "latency"), pairs(&[("64-127", 10), ("128-255", 4)]));
    let by_operation = report(&["--by", "operation", "--columns", "count,median-latency"]);
    let latency = &by_operation["tables"][0]["rows"][0]["latencies"];
    assert_eq!((latency["median"].as_u64(), latency["sum"].as_u64()), (Some(89), Some(1725)));

    let slow = report(&["--by", "event", "--min-latency", "100"]);
    assert_eq!(slow["tables"][0]["samples"], 5, "117 168 225 240 249");
    let user = report(&["--by", "mode", "--user-only"]);
    assert_eq!(counts(&user, "mode"), pairs(&[("user", 5)]));
    let processes = report(&["--by", "process", "--comm", "kstaled,swapper"]);
    assert_eq!(counts(&processes, "process"), pairs(&[("swapper", 2), ("kstaled", 2)]));
    let addresses = report(&["--by", "data-address", "--all"]);
    assert_eq!(addresses["tables"][0]["rows"].as_array().unwrap().len(), 14, "14 distinct addresses");
    let lines = report(&["--by", "cache-line", "--all"]);
    assert_eq!(lines["tables"][0]["rows"].as_array().unwrap().len(), 14, "on 14 distinct lines");
}

#[test]
fn text_json_and_csv_tell_the_same() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let report = json(&["report", "-i", &capture, "--by", "routine", "--format", "json"]);
    let text = text(&["report", "-i", &capture, "--by", "routine"]);
    assert!(!text.contains('\x1b'), "plain when piped");
    let output = hardmeter(&["report", "-i", &capture, "--by", "routine", "--format", "csv"]);
    let csv = String::from_utf8(output.stdout).unwrap();
    assert_eq!(csv.lines().count(), 1 + 4, "a head, two routines of two events");
    for table in report["tables"].as_array().unwrap() {
        let rows = table["rows"].as_array().unwrap();
        let sum: u64 = rows.iter().map(|row| row["count"].as_u64().unwrap()).sum();
        assert_eq!(sum + table["more_samples"].as_u64().unwrap(), table["samples"].as_u64().unwrap());
        for row in rows {
            let (count, routine) = (row["count"].as_u64().unwrap(), row["routine"].as_str().unwrap());
            let event = table["event"].as_str().unwrap();
            let line = format!("{event},{count},{},", table["samples"]);
            assert!(
                csv.lines().any(|csv| csv.starts_with(&line) && csv.contains(routine)),
                "{line} in {csv}"
            );
            let in_text =
                |text: &str| text.trim_start().starts_with(&format!("{count} ")) && text.contains(routine);
            assert!(text.lines().any(in_text), "{count} {routine} in\n{text}");
        }
    }
}

/// The paper's tables 5 and 6: one table per event, the hottest address first, with routine and source line.
#[test]
fn the_default_report_is_the_papers_table() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let report = json(&["report", "-i", &capture, "--format", "json"]);
    let tables = report["tables"].as_array().unwrap();
    assert_eq!(tables.iter().map(|table| table["event"].as_str().unwrap()).collect::<Vec<_>>(), MADE.events);
    let [l1, l2] = [&tables[0], &tables[1]];
    assert_eq!((l1["samples"].as_u64(), l2["samples"].as_u64()), (Some(40), Some(10)));
    let hottest = &l1["rows"][0];
    assert_eq!((hottest["count"].as_u64(), hottest["routine"].as_str()), (Some(30), Some("hot_routine")));
    assert!(hottest["line"].as_str().unwrap().ends_with("program.c:2"), "{hottest}");
    assert_eq!(hottest["events"], 30 * MADE.period);
    assert_eq!(hottest["latencies"]["mean"], 50.0);
    let identified = &report["names"]["identified"];
    assert_eq!((identified["count"].as_u64(), identified["of"].as_u64()), (Some(50), Some(50)));
    let full = text(&["report", "--full", "-i", &capture]);
    let text = text(&["report", "-i", &capture]);
    assert!(
        text.contains("l1d-miss: n = 40 samples, one of every 1,000 events: about 40.0 k events"),
        "{text}"
    );
    assert!(full.contains("kernel mode is not seen"), "the limits are printed: {full}");
    let quiet = self::text(&["report", "-q", "-i", &capture]);
    assert!(quiet.starts_with("l1d-miss: n = 40 samples"), "tables only: {quiet}");
    assert!(!quiet.contains("kernel mode is not seen") && !quiet.contains("\n* "), "tables only: {quiet}");
    assert!(full.contains("xeon-2003: L1d 8 KB 4-way"), "the geometry is printed: {full}");
}

#[test]
fn annotate_lays_counts_source_and_registers_beside_the_code() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let listing = json(&["annotate", "hot_routine", "-i", &capture, "--registers", "2", "--format", "json"]);
    let instructions = listing["instructions"].as_array().unwrap();
    let column =
        |index: usize| instructions.iter().map(|line| line["counts"][index].as_u64().unwrap()).sum::<u64>();
    assert_eq!((column(0), column(1)), (30, 6), "as constructed");
    assert_eq!(listing["misplaced_samples"], 0);
    assert!(instructions.iter().any(|line| line["access"] == "r"), "the loop reads memory");
    assert!(instructions.iter().any(|line| line["source"].as_str().is_some_and(|text| text.contains("sum"))));
    let registers = &listing["registers"];
    assert_eq!(registers["total"], 36);
    let record = &registers["records"][0];
    assert_eq!(record["registers"]["rax"], "0xa0");
    assert_eq!(record["registers"]["r15"], "0xaf");
    assert_eq!(record["data_address"], "0x7f0000001000");
    assert_eq!(record["latency"], 50);

    let intel = text(&["annotate", "hot_routine", "-i", &capture, "--syntax", "intel", "--registers"]);
    assert!(intel.contains("l1d-miss: 30 samples here, 75.00 % of n = 40"), "{intel}");
    assert!(
        intel.contains("each record is: {rflags, rip, rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp,"),
        "{intel}"
    );
    assert!(!intel.contains('%') || !intel.contains("%r"), "Intel writes registers without %: {intel}");
    // By an address of the report, too.
    let report = json(&["report", "-i", &capture, "--format", "json"]);
    let address = report["tables"][0]["rows"][0]["address"].as_str().unwrap();
    let by_address = json(&["annotate", address, "-i", &capture, "--format", "json"]);
    assert_eq!(by_address["routine"], "hot_routine");

    let unknown = hardmeter(&["annotate", "hot_rutine", "-i", &capture]);
    assert_eq!(unknown.status.code(), Some(1));
    let part = hardmeter(&["annotate", "hot", "-i", &capture]);
    let message = String::from_utf8_lossy(&part.stderr).into_owned();
    assert!(message.contains("did you mean: hot_routine?"), "{message}");
}

#[test]
fn exports_hold_every_sample() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let folded = text(&["export", "--to", "folded", "--event", "l1d-miss", "-i", &capture]);
    assert_eq!(bench::folded_total(&folded), 40);
    assert!(folded.lines().any(|line| line == "postgres;main;hot_routine 30"), "{folded}");
    let several = hardmeter(&["export", "--to", "folded", "-i", &capture]);
    assert_eq!(several.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&several.stderr).contains("l1d-miss, l2-miss"), "names the choice");

    let csv = text(&["export", "--to", "csv", "-i", &capture]);
    assert_eq!(csv.lines().count(), 1 + 50);
    assert_eq!(
        csv.lines().filter(|line| line.contains("l2-miss") && line.contains("hot_routine")).count(),
        6
    );

    let profile: Value = serde_json::from_str(&text(&["export", "--to", "firefox", "-i", &capture])).unwrap();
    let threads = profile["threads"].as_array().unwrap();
    let names: Vec<&str> = threads.iter().map(|thread| thread["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["postgres (l1d-miss)", "postgres (l2-miss)"]);
    let samples = |thread: &Value| thread["samples"]["length"].as_u64().unwrap();
    assert_eq!(threads.iter().map(samples).collect::<Vec<_>>(), [40, 10]);
}

/// pprof's own program reads Hardmeter's profile.
#[test]
fn go_tool_pprof_reads_the_profile() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let profile = bench.path("profile.pb.gz");
    text(&["export", "--to", "pprof", "-o", &profile, "-i", &capture]);
    for (sample_index, unit, flat) in [
        ("l1d-miss_samples", "count", "30"),
        ("l2-miss_samples", "count", "6"),
        ("l1d-miss", "count", "30000"),
    ] {
        let Some(top) = bench::pprof_top(&profile, sample_index) else { return };
        assert!(top.contains(&format!("Type: {sample_index}")), "{unit} {top}");
        let row = top.lines().find(|line| line.ends_with("hot_routine")).expect(&top);
        assert_eq!(row.split_whitespace().next(), Some(flat), "{top}");
    }
}

/// Live, compared with perf's report of the same file.
#[test]
fn a_live_capture_agrees_with_perf_report() {
    let bench = Bench::new();
    let Some((capture, perf_top, perf_samples)) = recorded_capture(&bench) else { return };
    let report = json(&["report", "-i", &capture, "--by", "routine", "--all", "--format", "json"]);
    assert_eq!(report["capture"]["source"], "timer");
    assert_eq!(report["tables"][0]["samples"], perf_samples);
    let first = &report["tables"][0]["rows"][0];
    let percent = format!("{:.2}%", first["share"]["fraction"].as_f64().unwrap() * 100.0);
    assert_eq!((first["routine"].as_str().unwrap(), percent), (&*perf_top.0, perf_top.1));
    let folded = text(&["export", "--to", "folded", "-i", &capture]);
    assert_eq!(bench::folded_total(&folded), perf_samples);
    assert!(folded.lines().any(|line| line.contains("main;hot_routine ")), "callers are named: {folded}");
}
