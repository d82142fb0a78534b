//! The answer as one HTML file.

use super::{explain, heat, remedy, sentences, wording, WhyReport};
use crate::html::page;
use crate::layout::printable;
use crate::number::{counted, grouped, percent, percent_interval};
use hardmeter_answers::why::{EventAnswer, EventKind, MissRatioCurve, Score, SetMap, SetsUnknown};
use hardmeter_answers::Share;
use hardmeter_evidence::page::{heat_map, table, HeatCell, Section};
use maud::{html, Markup};

impl WhyReport {
    /// The report as a page that stands alone.
    pub fn html(&self) -> String {
        let mut sections = vec![self.summary()];
        for (number, answer) in self.events.iter().enumerate() {
            let title = printable(self.event_name(answer));
            sections.push(Section { id: format!("event-{number}"), title, body: self.event_html(answer) });
        }
        if let Some(curve) = &self.reuse {
            sections.push(Section {
                id: "reuse".into(),
                title: "Reuse and cache size".into(),
                body: reuse_html(curve),
            });
        }
        page("Why it misses", &self.heading, sections)
    }

    fn summary(&self) -> Section {
        let body = html! {
            @if let Some(filter) = &self.filter { p { "Only " (filter) "." } }
            ul { @for sentence in sentences::of(self) { li { (sentence) } } }
            p.faint { "Geometry: " (explain::origin(self.hierarchy.as_ref())) "." }
            ul.faint { @for remark in &self.remarks { li { (printable(&remark.to_string())) } } }
        };
        Section { id: "summary".into(), title: "In sentences".into(), body }
    }

    fn event_html(&self, answer: &EventAnswer) -> Markup {
        html! {
            p { (counted(answer.samples, "sample")) ", " (grouped(answer.misses)) " of them misses." }
            @for missing in &answer.missing { p.faint { "Missing: " (explain::missing(*missing)) "." } }
            @if !answer.causes.is_empty() { (self.causes_html(answer)) }
            @if !answer.places.is_empty() {
                (counts("Where", answer.places.iter().map(|p| (wording::place_text(p), p.count)), answer.misses))
            }
            @if answer.kind == EventKind::TlbMiss { p.remedy { (remedy::of_tlb()) "." } }
            @match &answer.sets {
                Ok(map) => { (sets_html(map)) }
                Err(SetsUnknown::NoLevel) => {}
                Err(reason) => { p.faint { (explain::sets_unknown(*reason, answer.kind.level())) "." } }
            }
            @if let Some(score) = &answer.score { (score_html(score)) }
        }
    }

    fn causes_html(&self, answer: &EventAnswer) -> Markup {
        let titles = ["count", &format!("of {}", grouped(answer.misses)), "95 %", "cause", "how"];
        let rows: Vec<Vec<String>> = answer
            .causes
            .iter()
            .map(|cause| {
                vec![
                    grouped(cause.share.count),
                    percent(cause.share),
                    percent_interval(cause.share),
                    cause.cause.name().into(),
                    explain::how(answer.how, cause),
                ]
            })
            .collect();
        html! {
            (table(&titles.map(str::to_string), &rows, 3))
            @for cause in &answer.causes {
                h3 { (cause.cause.name()) ", " (percent(cause.share)) " (n = " (grouped(cause.share.count)) ")" }
                (counts("Where", cause.places.iter().map(|p| (wording::place_text(p), p.count)), cause.share.count))
                (counts("On", cause.objects.iter().map(|o| (printable(&o.name), o.count)), cause.share.count))
                (counts(
                    "Statement",
                    cause.statements.iter().map(|(hash, count)| (self.statement(*hash), *count)),
                    cause.share.count,
                ))
                p.remedy { (remedy::of_cause(answer, cause, self.geometry_of(answer))) "." }
            }
        }
    }
}

fn counts(title: &str, parts: impl Iterator<Item = (String, u64)>, of: u64) -> Markup {
    let row = |(name, count)| vec![grouped(count), percent(Share { count, total: of }), name];
    let rows: Vec<Vec<String>> = parts.map(row).collect();
    let titles = ["count".to_string(), format!("of {}", grouped(of)), title.to_string()];
    html! { @if !rows.is_empty() { (table(&titles, &rows, 2)) } }
}

fn sets_html(map: &SetMap) -> Markup {
    let rows = heat::rows(map);
    let hottest = heat::hottest(&rows).max(1);
    let cells = |row: &Vec<heat::Cell>| {
        let cell = |cell: &heat::Cell| HeatCell {
            heat: cell.samples as f64 / hottest as f64,
            marked: cell.standing,
            text: match cell.first == cell.last {
                true => format!("set {}: {}", cell.first, counted(cell.samples, "sample")),
                false => format!("sets {}-{}: {}", cell.first, cell.last, counted(cell.samples, "sample")),
            },
        };
        (heat::label(row), row.iter().map(cell).collect())
    };
    let rows: Vec<(String, Vec<HeatCell>)> = rows.iter().map(cells).collect();
    html! {
        h3 { "Sets" }
        p { (explain::geometry(map.level, map.geometry)) "." }
        (heat_map(&rows))
        @if map.standing_out.is_empty() {
            p { "No set stands out (n = " (grouped(map.tested)) ", cold misses left out of the test)." }
        }
        @for set in &map.standing_out {
            details {
                summary { (explain::standing(set, map.geometry.ways)) }
                (table(
                    &["count", "address", "object"].map(str::to_string),
                    &set.lines.iter().map(|line| vec![
                        grouped(line.samples),
                        line.address.to_string(),
                        line.object.as_deref().map(printable).unwrap_or_default(),
                    ]).collect::<Vec<_>>(),
                    1,
                ))
            }
        }
    }
}

fn score_html(score: &Score) -> Markup {
    let mut titles = vec!["inferred \\ exact".to_string()];
    titles.extend(Score::exact().map(|cause| cause.name().to_string()));
    let row = |inferred: hardmeter_answers::why::Cause| {
        let mut row = vec![inferred.name().to_string()];
        row.extend(Score::exact().map(|exact| grouped(score.count(inferred, exact))));
        row
    };
    html! {
        h3 { "Inferred against exact" }
        p { (explain::score(score)) "." }
        (table(&titles, &Score::inferred().map(row), 0))
    }
}

fn reuse_html(curve: &MissRatioCurve) -> Markup {
    let rows: Vec<Vec<String>> = curve
        .sizes
        .iter()
        .map(|effect| {
            let change = effect.change.map_or_else(|| "-".into(), sentences::change);
            vec![
                wording::bytes(effect.size),
                format!("{:.2} %", effect.miss_ratio * 100.0),
                format!("{:.2} %", effect.standard_error * 196.0),
                if effect.size == curve.now { "as now".into() } else { change },
            ]
        })
        .collect();
    let used = |distance: &hardmeter_answers::why::ReuseDistance| {
        (format!("after {} lines", grouped(distance.up_to)), distance.uses)
    };
    html! {
        p {
            (counted(curve.uses, "use")) " of the second level by " (counted(curve.lines_followed, "line"))
            ", one line in " (curve.one_line_in) " followed. A fully associative LRU cache of each size:"
        }
        (table(&["L2 of", "miss ratio", "+-", "misses, to now"].map(str::to_string), &rows, 4))
        (counts("Used again", curve.distances.iter().map(used), curve.uses))
    }
}
