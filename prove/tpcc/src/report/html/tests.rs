use super::*;
use crate::measure::Errors;
use crate::order::Mode;
use crate::report::testing;

/// Parses a page as XML with HTML's empty elements: every tag closed in order, no text with a bare `<` or `&`.
/// Returns the elements' names in order.
fn elements(page: &str) -> Vec<String> {
    const EMPTY: [&str; 3] = ["meta", "br", "!doctype"];
    let (mut open, mut all): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut rest = page;
    while let Some(begin) = rest.find('<') {
        let text = &rest[..begin];
        if open.last().is_none_or(|name| name != "style") {
            for after in text.split('&').skip(1) {
                let entity = after.split(';').next().unwrap();
                assert!(["lt", "gt", "amp", "quot"].contains(&entity), "a bare & before {entity:?}");
            }
            assert!(!text.contains('>'), "a bare > in {text:?}");
        }
        // An attribute's value may contain >, but no quote.
        let mut quoted = false;
        let end = rest[begin..].find(|letter| {
            quoted ^= letter == '"';
            letter == '>' && !quoted
        });
        let end = begin + end.expect("a tag that ends");
        let tag = &rest[begin + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let name = tag.split_whitespace().next().unwrap().to_lowercase();
        if !EMPTY.contains(&name.as_str()) {
            open.push(name.clone());
        }
        all.push(name);
    }
    assert!(open.is_empty() && rest.is_empty(), "{open:?} {rest:?}");
    all
}

fn count_of(elements: &[String], name: &str) -> usize {
    elements.iter().filter(|element| *element == name).count()
}

#[test]
fn the_page_is_well_formed_and_has_everything() {
    let result = testing::run(20, 60.0, 120.0, 3);
    let prices = "currency = 'EUR'\nmonths = 36\n[[item]]\nname = 'a <server> & more'\nprice = 1000\n";
    let extras = Extras { others: vec![], prices: Some(Prices::parse(prices, "").unwrap()), context: true };
    let page = page(&result, &extras);
    let elements = elements(&page);
    // Five response times, five think times, four series, throughput, load.
    assert_eq!(count_of(&elements, "svg"), 16);
    assert_eq!(count_of(&elements, "section"), 10);
    assert_eq!(count_of(&elements, "h1"), 1);
    // 40 bars in each of ten distributions.
    assert_eq!(page.matches("class=\"bar-of-chart\"").count(), 400);
    assert_eq!(page.matches(">checkpoint</text>").count(), 1);
    let orders = result.of(Kind::NewOrder).completed;
    assert!(page.contains(&format!("<b>{}</b><span>New-Orders a minute \u{b1} ", orders / 2)), "{orders}");
    assert!(page.contains("not a TPC result"));
    assert!(page.contains("a &lt;server&gt; &amp; more"));
    assert!(page.contains("shared_buffers"));
    let verdicts = verdicts::verdicts(&result);
    assert_eq!(page.matches("<td class=\"outcome ").count(), verdicts.len() + result.conditions.len());
    assert!(page.contains("2,055,000,000"));
    // The answer first, and what is not applicable behind a fold.
    assert!(page.contains(&format!("<h1>{} New-Orders a minute: no rule is SHORT</h1>", orders / 2)));
    let not_applicable = verdicts.iter().filter(|one| one.outcome == Outcome::NotApplicable).count();
    let (before, fold) =
        page.split_once(&format!("<details><summary>Not applicable ({not_applicable})</summary>")).unwrap();
    let fold = fold.split_once("</details>").unwrap().0;
    let cells = |text: &str| text.matches("\"outcome not-applicable\"").count();
    assert_eq!((cells(before), cells(fold)), (0, not_applicable));
}

#[test]
fn the_page_fetches_nothing() {
    let page = page(&testing::run(2, 30.0, 60.0, 1), &Extras::default());
    for fetch in ["url(", "@import", "<script", "<link", "src=\"", " href=\"http", "<img", "<iframe"] {
        assert!(!page.contains(fetch), "{fetch}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("Published records") && !page.contains("id=\"prices\""));
}

#[test]
fn foreign_text_cannot_break_out() {
    let mut result = testing::run(2, 30.0, 60.0, 1);
    let hostile = "\"><script>alert(1)</script>\u{1b}[31m\0";
    result.environment.system = hostile.into();
    result.environment.settings.insert(hostile.into(), hostile.into());
    result.environment.remarks.push(hostile.into());
    result.environment.processor = hostile.into();
    result.drivers[0].host = hostile.into();
    result.conditions[0].held = Some(false);
    result.conditions[0].rule = hostile.into();
    result.conditions[0].examples = vec![hostile.into()];
    result.ending = Ending::Failed { reason: hostile.into() };
    result.errors = vec![Errors {
        kind: Kind::Payment,
        code: hostile.into(),
        count: 1,
        retried: 0,
        example: hostile.into(),
    }];
    let other = (hostile.to_string(), result.clone());
    let page = page(&result, &Extras { others: vec![other], prices: None, context: false });
    assert_eq!(count_of(&elements(&page), "script"), 0);
    assert!(!page.contains('\u{1b}') && !page.contains('\0'));
}

#[test]
fn runs_without_terminals_and_runs_without_anything_have_a_page() {
    let mut closed = testing::run(2, 30.0, 60.0, 1);
    closed.order.mode = Mode::Closed { clients: 16 };
    let page_of_closed = page(&closed, &Extras::default());
    elements(&page_of_closed);
    assert!(page_of_closed.contains("None: closed loop: 16 clients"));
    let mut nothing = closed.clone();
    for kind in &mut nothing.kinds {
        *kind = crate::measure::KindResult::new(kind.kind);
    }
    (nothing.measured_seconds, nothing.delivery) = (0.0, Default::default());
    nothing.series.clear();
    nothing.ending = Ending::Interrupted;
    let page_of_nothing = page(&nothing, &Extras::default());
    elements(&page_of_nothing);
    assert!(
        page_of_nothing.contains("was interrupted") && page_of_nothing.contains("none ended in the interval")
    );
}

#[test]
fn several_results_make_the_graph_of_load() {
    let result = testing::run(4, 30.0, 60.0, 1);
    let others = vec![
        ("half.json".to_string(), testing::run(2, 30.0, 60.0, 1)),
        ("most.json".to_string(), testing::run(3, 30.0, 60.0, 1)),
    ];
    let page = page(&result, &Extras { others, prices: None, context: false });
    elements(&page);
    assert!(page.contains("90 % of the response times of 3 runs"));
    assert!(page.contains("<title>half.json</title>") && page.contains("<title>this run</title>"));
}
