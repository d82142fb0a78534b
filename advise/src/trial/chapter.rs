//! The chapter *Tuning* of a page: what was tried on a server, before and after, what was undone and why.

use super::ledger::Entry;
use super::log::{state, utc};
use super::outcome::Closing;
use super::result::{figure, interval, signed, TrialResult};
use super::Switch;
use hardmeter_evidence::page::{table, Page, Section};
use hardmeter_evidence::table::printable;
use maud::{html, Markup};

/// A page of this chapter alone.
pub fn page(entries: &[Entry]) -> String {
    Page::new("What tuning brought", servers(entries)).html()
}

/// One section for each server, in the order of their first entries.
fn servers(entries: &[Entry]) -> Vec<Section> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for entry in entries {
        let name = (entry.begin.server.as_str(), entry.begin.target.as_str());
        if !names.iter().any(|(server, _)| *server == name.0) {
            names.push(name);
        }
    }
    let several = names.len() > 1;
    let section = |(number, (server, target)): (usize, &(&str, &str))| {
        let own: Vec<Entry> = entries.iter().filter(|one| one.begin.server == *server).cloned().collect();
        let mut section = chapter(&own)?;
        if several {
            section.id = format!("tuning-{}", number + 1);
            section.title = format!("Tuning of {}", printable(target));
        }
        Some(section)
    };
    let sections: Vec<Section> = names.iter().enumerate().filter_map(section).collect();
    match sections.is_empty() {
        true => vec![Section::new("tuning", "Tuning", html! { p.note { "No remedy was tried yet." } })],
        false => sections,
    }
}

/// The chapter of the entries of one server; `None` without one.
pub fn chapter(entries: &[Entry]) -> Option<Section> {
    if entries.is_empty() {
        return None;
    }
    let titles = [
        "entry",
        "as found",
        "changed",
        "change",
        "95 % interval",
        "remedy",
        "by",
        "verdict",
        "state",
        "begun (UTC)",
    ];
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    let body = html! {
        p.note {
            "Each remedy was tried in blocks as found and blocks with the change, in random order, under the load of the "
            "server. The interval is an always-valid 95 % interval of the change. What did not gain was undone."
        }
        (table(&titles.map(String::from), &rows, 5))
        @for entry in entries { (details(entry)) }
    };
    Some(Section::new("tuning", "Tuning", body))
}

fn row(entry: &Entry) -> Vec<String> {
    let result = entry.result.as_ref();
    let gauge = result.and_then(TrialResult::primary);
    let value = |value: Option<f64>| match (gauge, value) {
        (Some(gauge), Some(value)) => figure(value, gauge.measure.unit()),
        _ => "-".into(),
    };
    vec![
        entry.begin.entry.to_string(),
        value(gauge.and_then(|gauge| gauge.found)),
        value(gauge.and_then(|gauge| gauge.changed)),
        gauge.and_then(|gauge| gauge.change).map_or("-".into(), signed),
        gauge.and_then(|gauge| gauge.interval).map_or("-".into(), interval),
        printable(&entry.begin.remedy),
        gauge.map_or("-".into(), |gauge| gauge.measure.name().into()),
        result.map_or("ended early".into(), |result| result.verdict.to_string()),
        state(entry.closed).into(),
        utc(entry.begin.at),
    ]
}

/// One entry with all details, folded.
fn details(entry: &Entry) -> Markup {
    let begin = &entry.begin;
    let line = |name: &str, what: String| html! { tr { th { (name) } td { (what) } } };
    let statements = |switches: Vec<String>| printable(&switches.join(" "));
    html! {
        details {
            summary { "Entry " (begin.entry) ": " (printable(&begin.remedy)) ", " (why(entry)) }
            div.scroll { table { tbody {
                @if let Some(finding) = &begin.finding { (line("finding", printable(finding))) }
                (line("predicted", begin.predicted.map_or("no figure".into(), |gain| {
                    format!("{} of what decides", signed(-gain))
                })))
                (line("changes", statements(begin.switches.iter().flat_map(Switch::apply).collect())))
                (line("undone by", statements(begin.switches.iter().rev().flat_map(Switch::undo).collect())))
                @if let Some(result) = &entry.result {
                    (line("rounds", format!("{} of at most {}, {:.0} s", result.rounds, result.most_rounds, result.seconds)))
                    @for sentence in result.sentences() { (line("", sentence)) }
                }
                @if !entry.note.is_empty() { (line("note", printable(&entry.note))) }
            } } }
            @if let Some(result) = &entry.result { (gauges(result)) }
        }
    }
}

/// All metrics of a trial.
fn gauges(result: &TrialResult) -> Markup {
    let titles = ["as found", "changed", "change", "95 % interval", "A/A spread", "measure", "role"];
    let share = |value: Option<f64>| value.map_or("-".into(), |value| format!("{:.1} %", value * 100.0));
    let rows = result.gauges.iter().map(|gauge| {
        let value =
            |value: Option<f64>| value.map_or("-".into(), |value| figure(value, gauge.measure.unit()));
        vec![
            value(gauge.found),
            value(gauge.changed),
            gauge.change.map_or("-".into(), signed),
            gauge.interval.map_or("open".into(), interval),
            share(gauge.spread),
            gauge.measure.name().into(),
            if gauge.decides { "decides" } else { "guards" }.into(),
        ]
    });
    table(&titles.map(String::from), &rows.collect::<Vec<_>>(), 5)
}

/// How it ended, and why.
fn why(entry: &Entry) -> String {
    let verdict = entry.result.as_ref().map(|result| result.verdict.word());
    match (entry.closed, verdict) {
        (Some(Closing::Kept), _) => "kept: the gain is proven".into(),
        (Some(Closing::Undone), Some("better")) => "gain proven, undone as requested".into(),
        (Some(Closing::Undone), Some("worse")) => "undone: it loses".into(),
        (Some(Closing::Undone), Some("same")) => "undone: no relevant change".into(),
        (Some(Closing::Undone), Some(_)) => "undone: no gain was proven".into(),
        (Some(Closing::Undone), None) => "undone: the trial ended early".into(),
        (Some(Closing::Foreign), _) => "left alone: another session made the same change".into(),
        (None, _) => "open".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::log::tests::entry;

    #[test]
    fn the_chapter_has_each_step_and_why_it_was_undone() {
        let mut undone = entry(2, 0.10, -0.50, Some(Closing::Undone));
        undone.begin.finding = Some("<b>compiling</b> takes long".into());
        let mut early = entry(3, 0.3, 0.0, Some(Closing::Undone));
        (early.result, early.note) = (None, "ended early: interrupted".into());
        let entries = [entry(1, 0.86, -0.88, Some(Closing::Kept)), undone, early];
        let page = page(&entries);
        for part in [
            "id=\"tuning\"",
            "<td class=\"number\">11.80 ms</td><td class=\"number\">1.42 ms</td><td class=\"number\">-88.0 %</td>",
            "Entry 1: jit, kept: the gain is proven",
            "Entry 2: jit, gain proven, undone as requested",
            "Entry 3: jit, undone: the trial ended early",
            "ended early: interrupted",
            "&lt;b&gt;compiling&lt;/b&gt; takes long",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("Tuning of"), "one server needs no name");
        let mut other = entry(4, 0.1, -0.1, None);
        other.begin.server = "8".into();
        let both = super::page(&[entries[0].clone(), other]);
        assert!(both.contains("id=\"tuning-2\"") && both.contains("Tuning of shop at /run"), "{both}");
    }

    #[test]
    fn nothing_tried_is_said() {
        assert!(chapter(&[]).is_none());
        assert!(page(&[]).contains("No remedy was tried yet."));
    }
}
