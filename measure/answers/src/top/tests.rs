use super::*;
use crate::filter::Filter;
use crate::testing::{comm, sample, FakeMap, BASE};
use hardmeter_samples::model::{Record, Weight};

/// Ten samples of event 0 and one of event 1, in two processes:
///
/// ```text
///  LWLockAcquire  0x10 x3 (latencies 10, 20, 90)   0x20 x1 (5)
///  LWLockRelease  0x100 x3 (100 each)
///  static         0x210 x2 (1 each)
///  unmapped       0x500 x1 (7)                      event 1: 0x10 x1 (10)
/// ```
fn count(options: TopOptions) -> (Pass<FakeMap>, Vec<Table>, Option<NamedShare>) {
    let samples = [
        (0, 1, 0x10, 10),
        (0, 2, 0x10, 20),
        (0, 1, 0x10, 90),
        (0, 1, 0x20, 5),
        (0, 2, 0x100, 100),
        (0, 2, 0x100, 100),
        (0, 2, 0x100, 100),
        (0, 1, 0x210, 1),
        (0, 1, 0x210, 1),
        (0, 1, 0x500 - BASE as i64, 7),
        (1, 1, 0x10, 10),
    ];
    let mut pass = Pass::new(FakeMap::default(), Filter::default());
    pass.see(&comm(1, "postgres"));
    pass.see(&comm(2, "walwriter"));
    let mut top = Top::new(options);
    for (event, pid, address, latency) in samples {
        let mut sample = sample(event, pid, BASE.wrapping_add_signed(address));
        sample.weight = Some(Weight { latency: Cycles(latency), ..Weight::default() });
        sample.period = Period(1000);
        let record = Record::Sample(sample.clone());
        let located = pass.see(&record).expect("open filter");
        top.add(&sample, located);
    }
    let tables = top.tables(&mut pass, &["l1d-miss".into(), "l2-miss".into()]);
    let named = top.named_share(&mut pass);
    (pass, tables, named)
}

fn by(columns: &[Dimension]) -> TopOptions {
    TopOptions { by: columns.to_vec(), limit: None, ..TopOptions::default() }
}

fn rows(table: &Table) -> Vec<(u64, String)> {
    let text = |row: &Row| row.values.iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
    table.rows.iter().map(|row| (row.share.count, text(row))).collect()
}

#[test]
fn the_papers_table_counts_addresses_and_names_them() {
    let (_, tables, _) = count(TopOptions { limit: Some(3), ..TopOptions::default() });
    assert_eq!(tables.len(), 2, "a table per event");
    assert_eq!(
        rows(&tables[0]),
        [
            (3, "0x10 LWLockAcquire lwlock.c:2".to_string()),
            (3, "0x100 LWLockRelease lwlock.c:17".to_string()),
            (2, "0x210 [static function in server] lwlock.c:34".to_string()),
        ],
        "ties in order of address"
    );
    assert_eq!((tables[0].total, tables[0].events), (10, Period(10_000)));
    assert_eq!((tables[0].more_rows, tables[0].more_samples), (2, 2));
    assert_eq!(rows(&tables[1]), [(1, "0x10 LWLockAcquire lwlock.c:2".to_string())]);
    let first = &tables[0].rows[0];
    assert_eq!(first.share, Share { count: 3, total: 10 });
    assert_eq!(first.events, Period(3000));
    assert_eq!(first.latency, LatencySummary { samples: 3, sum: Cycles(120), squares: 8600.0, median: None });
}

#[test]
fn routines_merge_their_addresses() {
    let (_, tables, named) = count(TopOptions { medians: true, ..by(&[Dimension::Routine]) });
    assert_eq!(
        rows(&tables[0]),
        [
            (4, "LWLockAcquire".to_string()),
            (3, "LWLockRelease".to_string()),
            (2, "[static function in server]".to_string()),
            (1, "[no mapping]".to_string()),
        ]
    );
    // 5, 10, 20, 90: the lower of the middle values.
    assert_eq!(tables[0].rows[0].latency.median, Some(Cycles(10)));
    // Of the 11 user samples, 8 are named, 2 are in a static function, 1 has no mapping.
    assert_eq!(named, Some(NamedShare { named: 8, nameless: 2, user_samples: 11 }));
    assert_eq!(named.unwrap().identified(), Share { count: 10, total: 11 });
}

#[test]
fn any_columns_combine() {
    let (_, tables, _) = count(by(&[Dimension::Process, Dimension::Routine]));
    assert_eq!(rows(&tables[0])[0], (3, "postgres LWLockAcquire".to_string()));
    assert_eq!(rows(&tables[0])[1], (3, "walwriter LWLockRelease".to_string()));
    assert_eq!(tables[0].rows.iter().map(|row| row.share.count).sum::<u64>(), 10);
    let (_, tables, named) = count(by(&[Dimension::Event, Dimension::Pid]));
    assert_eq!(tables.len(), 1, "the event is a column");
    assert_eq!(
        rows(&tables[0]),
        [(6, "l1d-miss 1".to_string()), (4, "l1d-miss 2".to_string()), (1, "l2-miss 1".to_string())]
    );
    assert_eq!(named, None, "no place was counted");
}

#[test]
fn rows_sort_by_what_was_asked() {
    let (_, tables, _) = count(TopOptions { sort: SortBy::TotalLatency, ..by(&[Dimension::Routine]) });
    assert_eq!(rows(&tables[0])[0].1, "LWLockRelease", "300 cycles against 125");
    let (_, tables, _) = count(TopOptions { sort: SortBy::Key, ..by(&[Dimension::Latency]) });
    assert_eq!(
        rows(&tables[0]),
        [
            (2, "0-1".to_string()),
            (2, "4-7".to_string()),
            (1, "8-15".to_string()),
            (1, "16-31".to_string()),
            (4, "64-127".to_string()),
        ]
    );
}

#[test]
fn names_are_looked_up_only_for_the_rows_shown() {
    let (mut pass, _, _) = count(TopOptions { limit: Some(1), ..by(&[Dimension::Address]) });
    // named_share looks up the five distinct places; the address column alone looks up none.
    assert_eq!(pass.map().routine_calls, 5);
}

#[test]
fn objects_and_roles_are_columns_like_others() {
    let mut notes = hardmeter_samples::object_notes::ObjectNotes::new("a server");
    notes.texts.extend(["checkpointer".to_string()]);
    let (pid, role) = (hardmeter_samples::model::Pid(1), TextId(1));
    notes.roles.push(hardmeter_samples::object_notes::ProcessRole { pid, role });
    let mut pass = Pass::new(FakeMap::default(), Filter::default())
        .with_objects(crate::objects::ObjectIndex::new(Some(&notes)));
    let mut top = Top::new(by(&[Dimension::Role, Dimension::Object, Dimension::Part, Dimension::Statement]));
    for (pid, address) in [(1, 0x5000), (1, 0x5000), (2, 0x6000), (2, 0)] {
        let mut sample = sample(0, pid, BASE);
        sample.address = Some(hardmeter_samples::model::VirtualAddress(address)).filter(|a| a.0 != 0);
        let mut located = pass.see(&Record::Sample(sample.clone())).unwrap();
        located.object = pass.object(&sample);
        top.add_with(&sample, located, &mut pass);
    }
    let tables = top.tables(&mut pass, &["l1d-miss".into()]);
    assert_eq!(
        rows(&tables[0]),
        [
            (2, "checkpointer heap - -".to_string()),
            (1, "- stack - -".to_string()),
            (1, "- - - -".to_string()),
        ]
    );
}
