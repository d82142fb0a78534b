//! The views by object, statement and page, of a capture and notes made by hand.
//!
//! The golden texts below are what a user sees; the part that differs by machine (warnings about names of code) is cut off.

mod hand;

use hand::write;
use hardmeter_answers::{Answers, ObjectLevel, ObjectsQuestion, PagesQuestion, QueriesQuestion, QueryColumn};
use hardmeter_samples::object_notes::ObjectNotes;
use hardmeter_views::{ObjectsReport, PageReport, QueriesReport, Style, Wanted, LINES};

/// The text between the heading, which ends with the line that begins with `after`, and the warnings.
fn body(text: &str, after: &str) -> String {
    let start = text.find(after).expect(after);
    let rest = &text[start..];
    let end = rest.find("\n\n* ").map_or(rest.len(), |end| end + 1);
    rest[..end].to_string()
}

/// Finding, table and what to type next, on one screen as wide as the terminal; or the table alone.
#[test]
fn the_first_screen_fits_the_terminal() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let answers = Answers::open(write(folder.path())).expect("opened");
    let levels = ObjectLevel::complete(&[ObjectLevel::Part]);
    let question = ObjectsQuestion { levels, formulas: Vec::new(), limit: None };
    let report = ObjectsReport(answers.objects(&question).expect("answered"));
    for width in [70, 80, 120] {
        let style = Style { color: false, width: Some(width) };
        let text = report.screen(style, Wanted::default());
        assert!(text.lines().count() <= LINES, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        assert!(text.contains("\n* 75.00 % of l2-miss (n = 6 of 8): index public.i"), "{text}");
        assert!(text.contains("\n      5  62.50 %  "), "{text}");
        assert!(text.contains("\nnext: --full") && text.contains("| hardmeter why -i "), "{text}");
        let quiet = report.screen(style, Wanted { quiet: true, ..Wanted::default() });
        assert!(quiet.starts_with("l2-miss: n = 8 samples"), "{quiet}");
        assert!(!quiet.contains("next:") && !quiet.contains("\n* "), "{quiet}");
    }
}

#[test]
fn objects_are_told_in_sentences_and_a_table() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let answers = Answers::open(write(folder.path())).expect("opened");
    let question = ObjectsQuestion {
        levels: ObjectLevel::complete(&[ObjectLevel::Part]),
        formulas: vec!["slot=addr / 64 % 4".parse().expect("a formula")],
        limit: Some(4),
    };
    let report = ObjectsReport(answers.objects(&question).expect("answered"));
    let text = report.render(Style::default(), false);
    let named =
        "  named      75.00 % of 8 data samples in user mode more specifically than \"shared memory\"";
    assert!(text.contains(named), "{text}");
    assert_eq!(report.coverage.stable_share().count, 6, "of the seven that the notes named");
    assert_eq!(
        report.sentences()[0],
        "75.00 % of l2-miss (n = 6 of 8): index public.i, most in keys (83.33 %). Why: too many lines for one set of \
         the cache, a conflict miss (50.00 %, exact (simulated)). For: SELECT a FROM t WHERE k = $1 (66.67 %)"
    );
    let table = "\
l2-miss: n = 8 samples, one of every 10 events: about 80 events (95 %: 34..158)
  count     of 8        interval  mean-latency      sure  class             name      part    slot
      4  50.00 %  21.52..78.48 %         100.0   75.00 %  index             public.i  keys       1
      1  12.50 %   2.24..47.09 %         100.0  100.00 %  anonymous memory  -         -          1
      1  12.50 %   2.24..47.09 %         100.0  100.00 %  index             public.i  header     0
      1  12.50 %   2.24..47.09 %         100.0  100.00 %  index             public.i  keys       2
  and 1 row with 1 sample (12.50 %); --all shows them
";
    assert_eq!(body(&text, "l2-miss: n = "), table);
    let json = report.json();
    assert_eq!(json["tables"][0]["rows"][0]["defined"]["slot"], 1);
    assert_eq!(json["coverage"]["specific_share"]["count"], 6);
    let csv = report.csv().expect("written");
    assert!(csv.lines().nth(1).is_some_and(|line| line.ends_with(",index,public.i,keys,1")), "{csv}");
}

#[test]
fn partitions_of_an_object_are_drawn() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let answers = Answers::open(write(folder.path())).expect("opened");
    let levels = ObjectLevel::complete(&[ObjectLevel::Partition]);
    let question = ObjectsQuestion { levels, formulas: Vec::new(), limit: None };
    let report = ObjectsReport(answers.objects(&question).expect("answered"));
    let rows: Vec<_> = report.tables[0]
        .rows
        .iter()
        .filter(|row| &*row.names[1] == "public.i")
        .map(|row| row.of_object)
        .collect();
    let counts: Vec<u64> = rows.iter().flatten().map(|share| share.count).collect();
    assert_eq!((counts.iter().sum::<u64>(), rows.len()), (6, counts.len()));
    assert!(rows.iter().flatten().all(|share| share.total == 6));
    let text = report.render(Style::default(), true);
    assert!(text.contains("of object  histogram"), "{text}");
    // Two blocks with three samples each: both are the highest, and have the whole bar.
    assert_eq!(counts, [3, 3]);
    let whole = format!(" 50.00 %  {}", "#".repeat(12));
    assert_eq!(text.lines().filter(|line| line.trim_end().ends_with(&whole)).count(), 2, "{text}");
    assert_eq!(report.json()["tables"][0]["rows"][0]["of_object"]["count"], 3);
}

#[test]
fn statements_add_up_and_have_figures_per_transaction() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let answers = Answers::open(write(folder.path())).expect("opened");
    let columns = vec![QueryColumn::Statement, QueryColumn::Role];
    let question = QueriesQuestion { columns, limit: None, side_by_side: false };
    let report = QueriesReport(answers.queries(&question).expect("answered"));
    let text = report.render(Style::default(), false);
    assert!(text.contains("  statements 100.00 % of 6 samples in backends carry a statement\n"), "{text}");
    assert!(text.contains("  workload   4 transactions\n"), "what was counted, not how fast: {text}");
    assert_eq!(
        report.sentences()[0],
        "50.00 % (n = 4 of 8) of l2-miss: SELECT a FROM t WHERE k = $1, client backend; most on index public.i \
         (100.00 %); 10.0 a transaction"
    );
    let table = "\
l2-miss: n = 8 samples, one of every 10 events: about 80 events (95 %: 34..158)
  count     of 8        interval  mean-latency  per transaction  statement                     role
      4  50.00 %  21.52..78.48 %         100.0             10.0  SELECT a FROM t WHERE k = $1  client backend
      2  25.00 %   7.15..59.07 %         100.0             5.00  UPDATE t SET a = a + $1       client backend
      1  12.50 %   2.24..47.09 %         100.0             2.50  -                             -
      1  12.50 %   2.24..47.09 %         100.0             2.50  (checkpointer)                checkpointer
";
    assert_eq!(body(&text, "l2-miss: n = "), table);
    let json = report.json();
    let rows = json["tables"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| row["count"].as_u64().expect("a count")).sum::<u64>(), 8);
    assert_eq!(rows[0]["statement_id"], "0000000000000007");
    // Operators need a call chain: said, not failed.
    let columns = vec![QueryColumn::Operator];
    let question = QueriesQuestion { columns, limit: None, side_by_side: false };
    let text = QueriesReport(answers.queries(&question).expect("answered")).render(Style::default(), false);
    assert!(text.contains("record with --call-graph"), "{text}");
}

#[test]
fn events_side_by_side_add_up_and_have_figures_per_transaction() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let answers = Answers::open(write(folder.path())).expect("opened");
    let make = |limit| {
        let columns = vec![QueryColumn::Statement, QueryColumn::Role];
        let question = QueriesQuestion { columns, limit, side_by_side: true };
        QueriesReport(answers.queries(&question).expect("answered"))
    };
    let report = make(None);
    let table = "\
l2-miss: n = 8 samples, one of every 10 events: about 80 events (95 %: 34..158)
  l2-miss  n  statement                     role
       40  4  SELECT a FROM t WHERE k = $1  client backend
       20  2  UPDATE t SET a = a + $1       client backend
       10  1  -                             -
       10  1  (checkpointer)                checkpointer
       80  8  (all)

per transaction (of 4):
  l2-miss  statement                     role
     10.0  SELECT a FROM t WHERE k = $1  client backend
     5.00  UPDATE t SET a = a + $1       client backend
     2.50  -                             -
     2.50  (checkpointer)                checkpointer
     20.0  (all)
";
    assert_eq!(body(&report.render(Style::default(), false), "l2-miss: n = "), table);
    let json = &report.json()["side_by_side"];
    assert_eq!(json["rows"][0]["of"]["l2-miss"]["share"]["count"], 4);
    assert_eq!(json["rows"][0]["statement_id"], "0000000000000007");
    assert_eq!(json["totals"]["l2-miss"]["events_per"]["transaction"], 20.0);
    let csv = report.csv().expect("written");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "statement,role,l2-miss count,l2-miss events,l2-miss events_per_transaction");
    assert_eq!(lines[1], "SELECT a FROM t WHERE k = $1,client backend,4,40,10.000000");
    let text = make(Some(3)).render(Style::default(), true);
    assert!(text.contains("       10  1  (the rest)\n       80  8  (all)\n"), "{text}");
}

#[test]
fn all_blocks_of_an_index_are_drawn_as_one_page() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = write(folder.path());
    let question = |relation: &str| PagesQuestion { relation: relation.into() };
    let answers = Answers::open(&path).expect("opened");
    let report = PageReport(answers.pages(&question("i")).expect("answered"));
    let page = "\
l2-miss on public.i (btree index): 6 samples on 2 blocks, 75.00 % of n = 8 with a data address; 83.33 % surely there; \
hottest: main block 1 (3), main block 2 (3)
  offset    +0  +64 +128 +192 +256 +320 +384 +448
  0x0000   B 1  A 4  A 1    .

     count     of 6  blocks  offsets  part    hottest
  A      5  83.33 %       2  72..136  keys    main block 2 (3), main block 1 (2)
  B      1  16.67 %       1     0..0  header  main block 1 (1)
";
    assert_eq!(body(&report.render(Style::default(), false), "l2-miss on"), page);
    assert_eq!(report.json()["pages"][0]["bytes"][1]["offset"], 0x48);
    let html = report.html();
    assert!(html.contains("bytes 64 on: 4 samples (keys)"), "{html}");
    let error = answers.pages(&question("j")).expect_err("there is none").to_string();
    assert!(error.contains("there are public.i"), "{error}");
    std::fs::remove_file(ObjectNotes::path_for(&path)).expect("removed");
    let answers = Answers::open(&path).expect("opened");
    let report = PageReport(answers.pages(&question("i")).expect("says what is missing"));
    let text = report.render(Style::default(), false);
    assert!(text.contains("this capture has no side file of a server's objects"), "{text}");
}

#[test]
fn damaged_notes_are_told_and_the_rest_is_shown() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = write(folder.path());
    std::fs::write(ObjectNotes::path_for(&path), b"{\"version\": 1, \"facts\"").expect("written");
    let answers = Answers::open(&path).expect("opened");
    let levels = ObjectLevel::complete(&[ObjectLevel::Class]);
    let question = ObjectsQuestion { levels, formulas: Vec::new(), limit: None };
    let report = ObjectsReport(answers.objects(&question).expect("answered"));
    let text = report.render(Style::default(), false);
    assert!(text.contains("hand.data.objects is damaged"), "{text}");
    assert!(text.contains("  100.00 %"), "{text}");
}
