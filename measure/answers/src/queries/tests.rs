//! Marks on the code of [`FakeMap`]: 0x100..0x200 is the operator "Index Scan", 0x300..0x400 the operator "Sort",
//! 0x400..0x500 the phase "execute", 0x500..0x600 the phase "commit". Process 10 is a client backend, 11 the
//! checkpointer.

use super::*;
use crate::filter::Filter;
use crate::objects::{DataArea, DataMap, OperandField};
use crate::testing::{sample, FakeMap, BASE};
use hardmeter_samples::model::{Callchain, Record, VirtualAddress};
use hardmeter_samples::object_notes::{CodeMark, CodeMarkKind, ObjectNotes, ProcessRole, ThreadRole};

impl DataMap for FakeMap {
    fn data(&mut self, _pid: Option<Pid>, address: VirtualAddress) -> DataArea {
        match address.0 >> 12 {
            5 => DataArea::Heap,
            _ => DataArea::Stack,
        }
    }

    fn allocation_site(&mut self, _pid: Option<Pid>, _site: VirtualAddress) -> Arc<str> {
        "nowhere".into()
    }

    fn operand(&mut self, _pid: Option<Pid>, _ip: VirtualAddress) -> Option<OperandField> {
        None
    }

    fn code(&mut self, _pid: Option<Pid>, _address: VirtualAddress) -> Arc<str> {
        "nothing".into()
    }
}

fn notes() -> ObjectNotes {
    let mut notes = ObjectNotes::new("a server");
    notes.texts.extend(
        ["/usr/bin/server", "Index Scan", "Sort", "execute", "commit", "client backend", "checkpointer"]
            .map(String::from),
    );
    let image = TextId(1);
    for (start, kind, name) in [
        (0x100, CodeMarkKind::Operator, 2),
        (0x300, CodeMarkKind::Operator, 3),
        (0x400, CodeMarkKind::Phase, 4),
        (0x500, CodeMarkKind::Phase, 5),
    ] {
        notes.marks.push(CodeMark { image, start, end: start + 0x100, kind, name: TextId(name) });
    }
    notes.roles.push(ProcessRole { pid: Pid(10), role: TextId(6) });
    notes.roles.push(ProcessRole { pid: Pid(11), role: TextId(7) });
    notes
}

/// The raw field of a simulated sample with a statement.
fn raw(statement: u64) -> Vec<u8> {
    let mut raw = b"HMs1\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    raw.extend([2, 0, 8, 0, 0, 0, 0, 0]);
    raw.extend(statement.to_le_bytes());
    raw
}

/// Process, statement (0: none), data page, call chain from the innermost frame; addresses in the server.
type Given = (i32, u64, u64, &'static [u64]);

fn count(given: &[Given]) -> (QueryCount, Pass<FakeMap>) {
    let notes = notes();
    let mut pass =
        Pass::new(FakeMap::default(), Filter::default()).with_objects(ObjectIndex::new(Some(&notes)));
    let mut count = QueryCount::new(CodeMarks::new(Some(&notes)));
    for (pid, statement, page, chain) in given {
        let mut sample = sample(0, *pid, BASE + chain[0]);
        let words: Vec<[u8; 8]> = std::iter::once(-512i64 as u64)
            .chain(chain.iter().map(|address| BASE + address))
            .map(u64::to_ne_bytes)
            .collect();
        sample.callchain = Callchain { entries: if chain.len() > 1 { &words } else { &[] } };
        sample.address = Some(VirtualAddress(page << 12));
        let raw = raw(*statement);
        sample.raw = (*statement != 0).then_some(&raw);
        let located = pass.see(&Record::Sample(sample.clone())).expect("no filter");
        count.add(&sample, located, &mut pass);
    }
    (count, pass)
}

fn rows(count: &QueryCount, pass: &mut Pass<FakeMap>, columns: &[QueryColumn]) -> Vec<(String, u64)> {
    let statements = pass.statements().clone();
    let table = count.table(EventIndex(0), columns, (None, Ranking::Count), pass.objects(), &statements);
    let text = |value: &Option<Arc<str>>| value.as_deref().unwrap_or("-").to_string();
    let rows = table.rows.iter();
    let rows: Vec<_> = rows
        .map(|row| (row.values.iter().map(text).collect::<Vec<_>>().join("/"), row.share.count))
        .collect();
    assert_eq!(rows.iter().map(|(_, count)| count).sum::<u64>(), table.total, "counts add up");
    rows
}

const GIVEN: [Given; 6] = [
    // A sort that reads from an index scan: the innermost operator is the scan.
    (10, 7, 5, &[0x10, 0x110, 0x310, 0x410]),
    (10, 7, 5, &[0x120, 0x310, 0x410]),
    (10, 7, 6, &[0x10, 0x310, 0x410]),
    // A commit within execution: the outermost phase is execution.
    (10, 8, 6, &[0x10, 0x510, 0x410]),
    // A return address at the end of a marked range belongs to the call before it.
    (10, 0, 6, &[0x10, 0x600]),
    (11, 0, 6, &[0x10]),
];

#[test]
fn operators_from_inside_and_phases_from_outside() {
    let (count, mut pass) = count(&GIVEN);
    let own = |rows: &[(&str, u64)]| -> Vec<(String, u64)> {
        rows.iter().map(|(text, count)| (text.to_string(), *count)).collect()
    };
    use QueryColumn::{Object, Operator, Phase, Role, Statement};
    assert_eq!(rows(&count, &mut pass, &[Operator]), own(&[("-", 3), ("Index Scan", 2), ("Sort", 1)]));
    assert_eq!(rows(&count, &mut pass, &[Phase]), own(&[("execute", 4), ("-", 1), ("commit", 1)]));
    assert_eq!(rows(&count, &mut pass, &[Role]), own(&[("client backend", 5), ("checkpointer", 1)]));
    assert_eq!(rows(&count, &mut pass, &[Object]), own(&[("stack", 4), ("heap", 2)]));
    let statements = [
        ("statement 0000000000000007", 3),
        ("(between statements)", 1),
        ("(checkpointer)", 1),
        ("statement 0000000000000008", 1),
    ];
    assert_eq!(rows(&count, &mut pass, &[Statement]), own(&statements));
    let both = rows(&count, &mut pass, &[Role, Statement]);
    assert_eq!(both.len(), 4, "{both:?}");
}

#[test]
fn backends_with_a_statement_by_hand() {
    let (count, mut pass) = count(&GIVEN);
    let coverage = count.coverage(pass.objects());
    assert_eq!(coverage.statement_share(), Share { count: 4, total: 5 });
    assert_eq!((coverage.samples, coverage.with_callchain), (6, 5));
    assert_eq!((coverage.with_operator, coverage.with_phase), (3, 5));
    let no_roles = count.coverage(&ObjectIndex::new(None));
    assert_eq!(no_roles.statement_share(), Share { count: 4, total: 5 }, "process 10 was seen with one");
    let statements = pass.statements().clone();
    let columns = [QueryColumn::Statement];
    let table = count.table(EventIndex(0), &columns, (Some(1), Ranking::Count), pass.objects(), &statements);
    assert_eq!((table.more_rows, table.more_samples), (3, 3));
    assert_eq!(table.rows[0].statement, Some(StatementId(7)));
    assert_eq!(table.rows[0].object, Some(("heap".into(), Share { count: 2, total: 3 })));
    assert_eq!(coverage.starting_share().count, 0);
    // Another thread of the process has executed no statement, whatever the first one did.
    let (mut count, mut pass) = super::tests::count(&GIVEN[..1]);
    let mut background = sample(0, 10, BASE + 0x10);
    background.tid = Some(Tid(77));
    let located = pass.see(&Record::Sample(background.clone())).expect("no filter");
    count.add(&background, located, &mut pass);
    let no_roles = count.coverage(&ObjectIndex::new(None));
    assert_eq!((no_roles.samples, no_roles.statement_share()), (2, Share { count: 1, total: 1 }));
    // Threads with roles: only a client's executes statements, whether one was seen or not.
    let mut threads = ObjectNotes::new("a server");
    threads.texts.extend(["page cleaner", "client connection"].map(String::from));
    for (tid, role) in [(77, TextId(1)), (10, TextId(2))] {
        threads.thread_roles.push(ThreadRole { pid: Pid(10), tid: Tid(tid), role });
    }
    let coverage = count.coverage(&ObjectIndex::new(Some(&threads)));
    assert_eq!((coverage.samples, coverage.statement_share()), (2, Share { count: 1, total: 1 }));
    let mut pass =
        Pass::new(FakeMap::default(), Filter::default()).with_objects(ObjectIndex::new(Some(&threads)));
    let mut count = QueryCount::new(CodeMarks::new(Some(&threads)));
    let located = pass.see(&Record::Sample(background.clone())).expect("no filter");
    count.add(&background, located, &mut pass);
    let raw = raw(7);
    let client = Sample { raw: Some(&raw), tid: Some(Tid(10)), ..background };
    count.add(&client, located, &mut pass);
    let own = [("(page cleaner)".to_string(), 1), ("statement 0000000000000007".to_string(), 1)];
    assert_eq!(rows(&count, &mut pass, &columns), own);
    let early = [(10, 0, 5, &[0x10][..]), (10, 7, 5, &[0x10]), (10, 0, 5, &[0x10]), (11, 0, 5, &[0x10])];
    let (count, mut pass) = super::tests::count(&early);
    assert_eq!(count.coverage(pass.objects()).starting_share(), Share { count: 1, total: 3 });
    let of_state: Vec<String> = rows(&count, &mut pass, &columns).into_iter().map(|(text, _)| text).collect();
    let states = [
        "(before the first statement)",
        "(between statements)",
        "(checkpointer)",
        "statement 0000000000000007",
    ];
    assert_eq!(of_state, states);
    assert!(is_backend("client backend") && !is_backend("background writer"));
}

#[test]
fn the_servers_own_number_of_a_statement_is_signed_and_never_zero() {
    let with = |number: i64| {
        let mut raw = b"HMs1\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        raw.extend([3, 0, 16, 0, 0, 0, 0, 0]);
        raw.extend(StateId::SERVERS_STATEMENT.0.to_le_bytes());
        raw.extend(8u32.to_le_bytes());
        raw.extend(number.to_le_bytes());
        let mut seen = sample(0, 10, 0x10);
        seen.raw = Some(&raw);
        servers_number(&seen)
    };
    assert_eq!(with(-4_711_000_000_000), Some(-4_711_000_000_000));
    assert_eq!(with(0), None, "the server makes none");
    assert_eq!(servers_number(&sample(0, 10, 0x10)), None);
}
