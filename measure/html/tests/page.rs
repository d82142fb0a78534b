//! The report of synthetic captures: hostile names stay text, nothing is fetched, limits hold.

mod example {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../answers/tests/common/capture.rs"));
}

use hardmeter_answers::Answers;
use hardmeter_html::HtmlReport;
use hardmeter_samples::model::{ByteCount, Pid, StatementId, Timestamp, VirtualAddress};
use hardmeter_samples::object_notes::{ObjectFact, ObjectNotes, ObjectPath, TextId};
use hardmeter_samples::sidecar::{Sidecar, Statement};
use std::path::Path;

const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u{1b}[31m\u{2028}";

fn page_of(path: &Path) -> String {
    HtmlReport::of(&Answers::open(path).expect("opens")).expect("answers").html()
}

fn plain_page() -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hardmeter.data");
    example::capture(&file);
    page_of(&file)
}

/// The JSON that the script reads.
fn data_of(page: &str) -> serde_json::Value {
    let begin = page.find("id=\"data\">").expect("data") + "id=\"data\">".len();
    let end = begin + page[begin..].find("</script>").expect("its end");
    serde_json::from_str(&page[begin..end]).expect("JSON")
}

/// 100 misses of L1d, 10 cold and 90 by conflict; 4 page walks.
#[test]
fn the_page_holds_every_sample_of_the_capture() {
    let data = data_of(&plain_page());
    let rows = &data["rows"];
    let unrolled = |column: &str| -> Vec<i64> {
        let runs = rows[column].as_array().expect("runs");
        let number = |value: &serde_json::Value| value.as_i64().expect("a number");
        runs.chunks(2)
            .flat_map(|run| std::iter::repeat_n(number(&run[0]), number(&run[1]) as usize))
            .collect()
    };
    let (samples, causes, events) = (unrolled("samples"), unrolled("cause"), unrolled("event"));
    assert_eq!(samples.iter().sum::<i64>(), 104);
    let of_cause = |name: &str| {
        let cause = data["causes"].as_array().unwrap().iter().position(|cause| cause == name).unwrap() as i64;
        (0..samples.len()).filter(|row| causes[*row] == cause).map(|row| samples[row]).sum::<i64>()
    };
    assert_eq!((of_cause("cold"), of_cause("conflict")), (10, 90));
    let misses: i64 = (0..samples.len()).filter(|row| events[*row] == 0).map(|row| samples[row]).sum();
    assert_eq!(misses, 100);
    assert_eq!(data["measures"][0]["label"], "L1d misses");
    assert_eq!(data["measures"][0]["total"], 100);
}

#[test]
fn chapters_have_the_figures_of_their_answers() {
    let page = plain_page();
    for text in [
        "id=\"findings\"",
        "id=\"sets\"",
        "<summary>Set 3: 91 samples, 5 lines on one core in 4 ways",
        "id=\"reuse\"",
        "Huge pages for shared memory alone would save <b>72 %</b>, for all memory <b>99 %</b>",
        "The page holds 104 samples",
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
    for absent in ["id=\"statements\"", "id=\"sharing\"", "id=\"pages\""] {
        assert!(!page.contains(absent), "{absent}: the capture has nothing for it");
    }
}

/// Lets the lines of the shared area belong to an object of this class, name and part, of this server.
fn store_object(file: &Path, server: &str, [class, name, part]: [&str; 3]) {
    let mut objects = ObjectNotes::new(server);
    objects.texts = ["", class, name, part].map(String::from).into();
    objects.facts.push(ObjectFact {
        pid: Some(Pid(7)),
        start: VirtualAddress(0x7f00_0000_0000),
        length: ByteCount(1 << 20),
        seen: (Timestamp(0), Timestamp(u64::MAX)),
        state: None,
        path: ObjectPath { class: TextId(1), name: TextId(2), instance: TextId(0), part: TextId(3) },
        origin: VirtualAddress(0x7f00_0000_0000),
    });
    objects.store(file).expect("stored");
}

#[test]
fn findings_say_what_to_try_on_the_server_whose_rules_are_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hardmeter.data");
    example::capture(&file);
    let page = |server: &str, class: &str, name: &str| {
        store_object(&file, server, [class, name, "tuple"]);
        page_of(&file)
    };
    let table = page("PostgreSQL 15.20 (process 7)", "table", "public.t");
    assert!(table.contains("<b>Try: </b><code>hardmeter pages</code> shows which part; then an index"));
    assert!(table.contains("<code>hardmeter tune</code> predicts"), "and how a remedy is proven");
    let log = page("PostgreSQL 15.20 (process 7)", "WAL buffers", "");
    assert!(log.contains("<b>Try: </b>write less log"));
    for (server, class) in [("MariaDB 10.11 (process 7)", "table"), ("PostgreSQL 15.20", "global variable")] {
        let page = page(server, class, "public.t");
        assert!(page.contains("class=\"finding\"") && !page.contains("Try: "), "{server} {class}");
        assert!(!page.contains("<code>hardmeter tune</code>"), "{server} {class}");
    }
}

#[test]
fn hostile_names_stay_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("<b>.data");
    example::capture(&file);
    let mut notes = Sidecar::load(&file).expect("readable").expect("there");
    notes.statements = vec![Statement { id: StatementId(7), text: HOSTILE.into() }];
    notes.notes = vec![HOSTILE.into()];
    notes.store(&file).expect("stored");
    store_object(&file, HOSTILE, [HOSTILE; 3]);
    let page = page_of(&file);
    assert_eq!(page.matches("<script").count(), 2, "the data and the script");
    for markup in ["<img", "<b>.data", "\u{1b}"] {
        assert!(!page.contains(markup), "{markup:?}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"), "shown as text");
    let data = data_of(&page);
    let name = HOSTILE.replace('\u{1b}', "\u{fffd}");
    assert!(
        data["names"].as_array().expect("names").iter().any(|known| *known == name),
        "{:?}",
        data["names"]
    );
}

#[test]
fn the_page_asks_for_nothing() {
    let page = plain_page();
    for fetch in ["<link", "src=", "url(", "@import", "<iframe", "<object", "<embed", "<form", "<base"] {
        assert!(!page.contains(fetch), "{fetch}");
    }
    // The only address is a name space, which is never loaded.
    assert_eq!(page.matches("http").count(), page.matches("http-equiv").count() + 1);
    assert!(page.contains("http://www.w3.org/2000/svg"));
    assert!(page.contains("default-src 'none'") && page.contains("script-src 'sha256-"));
}

/// 100,000 samples in five places fit after their times are merged; the size does not grow with the samples.
#[test]
fn a_hundred_thousand_samples_stay_small() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("long.data");
    example::long_capture(&file, 100_000);
    let page = page_of(&file);
    assert!(page.len() < 1_500_000, "{}", page.len());
    let data = data_of(&page);
    assert_eq!(data["measures"][0]["total"], 100_000);
}
