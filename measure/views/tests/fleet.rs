//! Captures as Parquet, read back with the crate that wrote them, against figures made by hand and other views.

mod hand;

use hand::{write, write_turns, BASE, SAMPLES};
use hardmeter_answers::{Answers, ObjectLevel, ObjectsQuestion};
use hardmeter_views::{
    write_fleet, ColumnKind, FleetColumn, CAPTURE_COLUMNS, FINDING_COLUMNS, SAMPLE_COLUMNS, SCHEMA_VERSION,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

type Row = BTreeMap<String, Field>;

fn reader(folder: &Path, table: &str, id: &str) -> SerializedFileReader<File> {
    let path = folder.join(table).join(format!("{id}.parquet"));
    SerializedFileReader::new(File::open(path).expect("there")).expect("Parquet")
}

fn rows(folder: &Path, table: &str, id: &str) -> Vec<Row> {
    let reader = reader(folder, table, id);
    let rows = reader.get_row_iter(None).expect("rows").map(|row| {
        let row = row.expect("a row");
        row.get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect()
    });
    rows.collect()
}

fn text(row: &Row, column: &str) -> Option<String> {
    match &row[column] {
        Field::Null => None,
        Field::Str(text) => Some(text.clone()),
        other => panic!("{column}: {other:?}"),
    }
}

fn number(row: &Row, column: &str) -> Option<i128> {
    Some(match &row[column] {
        Field::Null => return None,
        Field::Int(number) => i128::from(*number),
        Field::Long(number) => i128::from(*number),
        Field::ULong(number) => i128::from(*number),
        other => panic!("{column}: {other:?}"),
    })
}

fn sum(rows: &[Row], column: &str) -> i128 {
    rows.iter().filter_map(|row| number(row, column)).sum()
}

#[test]
fn a_sample_has_all_its_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let answers = Answers::open(write(folder.path())).expect("opened");
    let written = write_fleet(&answers, Some("3.2"), folder.path()).expect("written");
    assert_eq!(written.samples, 8);
    let rows = rows(folder.path(), "samples", &written.id);
    assert_eq!(rows.len(), SAMPLES.len());
    // (10, 0x0048, 15, 7, 3): block 1, statement 7, conflict.
    let row = &rows[1];
    for (column, expected) in [
        ("capture", written.id.as_str()),
        ("release", "3.2"),
        ("source", "simulated"),
        ("event", "l2-miss"),
        ("mode", "user"),
        ("process", "server"),
        ("role", "client backend"),
        ("operation", "load"),
        ("cause", "conflict"),
        ("object_class", "index"),
        ("object_name", "public.i"),
        ("object_instance", "main block 1"),
        ("object_part", "keys"),
        ("statement_id", "0000000000000007"),
        ("statement", "SELECT a FROM t WHERE k = $1"),
    ] {
        assert_eq!(text(row, column).as_deref(), Some(expected), "{column}");
    }
    for (column, expected) in [
        ("time_ns", 1001),
        ("events", 10),
        ("pid", 10),
        ("ip", 0x40_0000),
        ("data_address", i128::from(BASE) + 0x48),
        ("object_origin", i128::from(BASE)),
        ("cache_set", 12),
        ("latency_cycles", 100),
    ] {
        assert_eq!(number(row, column), Some(expected), "{column}");
    }
    for column in ["host", "recorded_at", "physical_address", "exposed_cycles", "operator", "source_file"] {
        assert_eq!(row[column], Field::Null, "{column}");
    }
    assert_eq!((&row["object_sure"], &row["exact_ip"]), (&Field::Bool(true), &Field::Bool(true)));
    // Process 11, after the last look; process 99, of no server.
    assert_eq!(rows[6]["object_sure"], Field::Bool(false));
    assert_eq!(
        (&rows[6]["statement"], text(&rows[6], "role").as_deref()),
        (&Field::Null, Some("checkpointer"))
    );
    assert_eq!(rows[7]["role"], Field::Null);
}

/// Rows and sums are those of `objects`.
#[test]
fn the_tables_agree_with_the_views() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let answers = Answers::open(write(folder.path())).expect("opened");
    let id = write_fleet(&answers, None, folder.path()).expect("written").id;
    let samples = rows(folder.path(), "samples", &id);
    let levels = ObjectLevel::complete(&[ObjectLevel::Instance, ObjectLevel::Part]);
    let question = ObjectsQuestion { levels, formulas: Vec::new(), limit: None };
    let table = answers.objects(&question).expect("answered").tables.remove(0);
    let mut expected: BTreeMap<[String; 4], (u64, u64)> = BTreeMap::new();
    for row in &table.rows {
        let names: Vec<String> = row.names.iter().map(|name| name.to_string()).collect();
        expected.insert(names.try_into().expect("four"), (row.share.count, row.latency.sum.0));
    }
    let mut found: BTreeMap<[String; 4], (u64, u64)> = BTreeMap::new();
    for row in &samples {
        let names = ["class", "name", "instance", "part"]
            .map(|level| text(row, &format!("object_{level}")).unwrap_or_default());
        let sums = found.entry(names).or_default();
        *sums = (sums.0 + 1, sums.1 + number(row, "latency_cycles").expect("a latency") as u64);
    }
    assert_eq!(found, expected);
    let captures = rows(folder.path(), "captures", &id);
    let [capture] = captures.as_slice() else { panic!("one event: {captures:?}") };
    for (column, of_samples) in [("events", "events"), ("latency_cycles", "latency_cycles")] {
        assert_eq!(number(capture, column), Some(sum(&samples, of_samples)), "{column}");
    }
    assert_eq!((number(capture, "samples"), number(capture, "period")), (Some(8), Some(10)));
    assert_eq!(capture["transactions"], Field::Double(4.0));
    assert_eq!(text(capture, "server").as_deref(), Some("a server made by hand"));
    assert_eq!(text(capture, "release"), text(capture, "server"), "by default");
    // Six of the eight are on public.i.
    let findings = rows(folder.path(), "findings", &id);
    let first = findings.iter().find(|row| text(row, "kind").as_deref() == Some("object")).expect("one");
    assert_eq!(text(first, "name").as_deref(), Some("public.i"));
    let on_index =
        samples.iter().filter(|row| text(row, "object_name").as_deref() == Some("public.i")).count();
    assert_eq!(number(first, "samples"), Some(on_index as i128));
    assert_eq!(first["samples_per_transaction"], Field::Double(on_index as f64 / 4.0));
    assert_eq!(text(first, "statement_id").as_deref(), Some("0000000000000007"));
}

#[test]
fn exporting_again_replaces_the_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = write(folder.path());
    let export = || {
        let answers = Answers::open(&path).expect("opened");
        write_fleet(&answers, None, &folder.path().join("fleet")).expect("written").id
    };
    let id = export();
    assert_eq!((id.len(), export()), (16, id.clone()));
    for table in ["samples", "findings", "captures"] {
        let folder = folder.path().join("fleet").join(table);
        assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 1, "{table}");
    }
}

/// 8 x 16,400 samples are more than the 131,072 rows of a row group.
#[test]
fn many_samples_make_several_row_groups() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let answers = Answers::open(write_turns(folder.path(), 16_400)).expect("opened");
    let written = write_fleet(&answers, None, folder.path()).expect("written");
    let reader = reader(folder.path(), "samples", &written.id);
    let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(groups, [131_072, 131_200 - 131_072]);
    let notes = reader.metadata().file_metadata().key_value_metadata().expect("metadata");
    let version = notes.iter().find(|note| note.key == "hardmeter.schema_version").expect("a version");
    assert_eq!(version.value, Some(SCHEMA_VERSION.to_string()));
    let captures = rows(folder.path(), "captures", &written.id);
    assert_eq!(number(&captures[0], "events"), Some(1_312_000));
    // The texts of the first row group are those of the second: the last row is the last sample.
    let second = reader.get_row_group(1).expect("there");
    let last = second.get_row_iter(None).expect("rows").last().expect("one").expect("read");
    let last: Row = last.get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect();
    assert_eq!(text(&last, "cause").as_deref(), Some("cold"));
    assert_eq!(number(&last, "pid"), Some(99));
}

/// docs/fleet.md has each column, in this order.
#[test]
fn the_documentation_lists_the_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fleet.md");
    let page = std::fs::read_to_string(path).expect("docs/fleet.md");
    for (table, columns) in [
        ("samples", SAMPLE_COLUMNS.as_slice()),
        ("findings", FINDING_COLUMNS.as_slice()),
        ("captures", CAPTURE_COLUMNS.as_slice()),
    ] {
        let expected: String = columns.iter().map(documented).collect();
        assert!(page.contains(&expected), "docs/fleet.md does not list {table} as it is:\n{expected}");
    }
}

fn documented(column: &FleetColumn) -> String {
    let kind = match column.kind {
        ColumnKind::Text => "text",
        ColumnKind::Short => "int32",
        ColumnKind::Whole => "int64",
        ColumnKind::Address => "uint64",
        ColumnKind::Real => "double",
        ColumnKind::Flag => "boolean",
        ColumnKind::Moment => "timestamp (µs, UTC)",
    };
    let kind = if column.required { format!("{kind}, always") } else { kind.to_string() };
    format!("| `{}` | {kind} | {} |\n", column.name, column.meaning)
}
