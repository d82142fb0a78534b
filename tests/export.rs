//! `hardmeter export` for other programs: read back by those programs, against Hardmeter's own views.

#[path = "report/bench.rs"]
mod bench;

use bench::{hardmeter, made_capture, Bench};
use serde_json::Value;
use std::process::Command;

fn succeeded(arguments: &[&str]) -> (String, String) {
    let output = hardmeter(arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeeded(arguments).0).expect("JSON")
}

/// The output of a program in Python; `None`, with a message, without Python or a module of it.
fn python(module: &str, program: &str, arguments: &[&str]) -> Option<String> {
    let name = std::env::var("HARDMETER_PYTHON").unwrap_or_else(|_| "python3".into());
    let import = format!("import {module}");
    match Command::new(&name).args(["-c", &import]).output() {
        Ok(output) if output.status.success() => {}
        _ => {
            eprintln!("skipped: {name} has no {module}; HARDMETER_PYTHON names one that has");
            return None;
        }
    }
    let output = Command::new(&name).args(["-c", program]).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Rows, events and latencies by event and routine, as `report` has them.
const BY_ROUTINE: &str = "
import duckdb, json, sys
rows = duckdb.sql(f'''
    select event, routine, count(*)::bigint, sum(events)::bigint, sum(latency_cycles)::bigint
    from '{sys.argv[1]}/samples/*.parquet' group by all order by all''').fetchall()
print(json.dumps(rows))
";

#[test]
fn duckdb_reads_the_figures_of_report() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let fleet = bench.path("fleet");
    let (_, said) = succeeded(&["export", "--to", "parquet", "-o", &fleet, "--release", "3.2", &capture]);
    assert!(said.contains("50 samples of 1 capture in "), "{said}");
    let Some(read) = python("duckdb", BY_ROUTINE, &[&fleet]) else { return };
    let read: Value = serde_json::from_str(&read).expect("JSON");
    let columns = "routine,count,events,total-latency";
    let report = json(&["report", "-i", &capture, "--all", "--columns", columns, "--format", "json"]);
    let mut expected = Vec::new();
    for table in report["tables"].as_array().expect("tables") {
        for row in table["rows"].as_array().expect("rows") {
            let latency = row["latencies"]["sum"].as_u64().expect("a sum");
            expected.push(serde_json::json!([
                table["event"],
                row["routine"],
                row["count"],
                row["events"],
                latency
            ]));
        }
    }
    expected.sort_by_key(|row| (row[0].to_string(), row[1].to_string()));
    assert_eq!(read, Value::Array(expected));
    assert_eq!(read[1], serde_json::json!(["l1d-miss", "hot_routine", 30, 30_000, 1_500]), "by hand");
}

/// The same with pyarrow: schema, types, nulls.
#[test]
fn pyarrow_reads_the_schema() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let fleet = bench.path("fleet");
    succeeded(&["export", "--to", "parquet", "-o", &fleet, "-i", &capture, "--quiet"]);
    let program = "
import glob, sys
import pyarrow.parquet as parquet
for table in ('samples', 'findings', 'captures'):
    read = parquet.read_table(glob.glob(f'{sys.argv[1]}/{table}/*.parquet')[0])
    print(table, read.num_rows, read.schema.metadata[b'hardmeter.schema_version'].decode())
    if table == 'samples':
        print(*(str(read.schema.field(name).type) for name in ('statement', 'events', 'ip', 'recorded_at', 'exact_ip')))
        print(sum(read['events'].to_pylist()), set(read['statement'].to_pylist()))
";
    let Some(read) = python("pyarrow.parquet", program, &[&fleet]) else { return };
    let lines: Vec<&str> = read.lines().collect();
    assert_eq!(lines[0], "samples 50 1");
    assert_eq!(lines[1], "string int64 uint64 timestamp[us, tz=UTC] bool");
    assert_eq!(lines[2], "50000 {None}");
    assert!(lines[3].starts_with("findings ") && lines[3].ends_with(" 1"), "{read}");
    assert_eq!(lines[4], "captures 2 1", "two events");
}

/// Captures that cannot be read are reported, and do not keep the others from being written.
#[test]
fn a_damaged_capture_does_not_stop_the_others() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let (broken, fleet) = (bench.path("broken.data"), bench.path("fleet"));
    std::fs::write(&broken, b"no capture").expect("written");
    let output = hardmeter(&["export", "--to", "parquet", "-o", &fleet, &broken, &capture]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("broken.data: ") && said.contains("50 samples of 1 capture in "), "{said}");
    let alone = hardmeter(&["export", "--to", "parquet", "-o", &fleet, &broken]);
    assert_eq!(alone.status.code(), Some(1));
    let onto_file = hardmeter(&["export", "--to", "parquet", "-o", &broken, &capture]);
    let said = String::from_utf8_lossy(&onto_file.stderr).into_owned();
    assert!(said.contains("is a file, and --to parquet writes into a folder"), "{said}");
    let csv = hardmeter(&["export", "--to", "csv", &capture]);
    let said = String::from_utf8_lossy(&csv.stderr).into_owned();
    assert!(said.contains("name one capture with -i FILE"), "{said}");
}

/// OpenTelemetry's own messages read the export; totals are those of the capture made by hand.
#[test]
fn opentelemetry_reads_the_profiles() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let profile = bench.path("profile.otlp");
    succeeded(&["export", "--to", "otlp", "-i", &capture, "-o", &profile, "--release", "3.2"]);
    let module = "opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2";
    let program = format!(
        "
import sys
from {module} import ExportProfilesServiceRequest
request = ExportProfilesServiceRequest.FromString(open(sys.argv[1], 'rb').read())
tables = request.dictionary
text = tables.string_table
for profile in request.resource_profiles[0].scope_profiles[0].profiles:
    by_routine = {{}}
    for sample in profile.samples:
        first = tables.location_table[tables.stack_table[sample.stack_index].location_indices[0]]
        name = text[tables.function_table[first.lines[0].function_index].name_strindex]
        by_routine[name] = by_routine.get(name, 0) + sample.values[0]
    print(text[profile.sample_type.type_strindex], sorted(by_routine.items()))
"
    );
    let Some(read) = python(module, &program, &[&profile]) else { return };
    let expected = "\
l1d-miss [('cold_routine', 10000), ('hot_routine', 30000)]
l1d-miss_samples [('cold_routine', 10), ('hot_routine', 30)]
l1d-miss_latency [('cold_routine', 200), ('hot_routine', 1500)]
l2-miss [('cold_routine', 4000), ('hot_routine', 6000)]
l2-miss_samples [('cold_routine', 4), ('hot_routine', 6)]
l2-miss_latency [('cold_routine', 80), ('hot_routine', 300)]
";
    assert_eq!(read, expected);
}
