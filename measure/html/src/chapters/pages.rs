//! All samples on the pages of tables and indexes, folded onto one page for each relation.

use super::sharing::heat;
use crate::ask::HtmlReport;
use hardmeter_answers::{FoldedPage, PagesAnswer};
use hardmeter_evidence::number::{counted, grouped};
use hardmeter_evidence::page::{table, Section};
use hardmeter_views::{percent, printable};
use maud::{html, Markup};

/// Lines in a row of the drawing.
const COLUMNS: usize = 8;
/// An event with fewer samples on a relation is not drawn: its drawing would be noise.
const FEW: u64 = 30;
/// Number of parts that are listed.
const PARTS: usize = 10;

impl HtmlReport {
    pub(super) fn pages_section(&self) -> Option<Section> {
        let any = |answer: &&PagesAnswer| answer.pages.iter().any(|page| page.share.count >= FEW);
        let drawn: Vec<&PagesAnswer> = self.pages.iter().filter(any).collect();
        let body = html! {
            p.note { "All samples on the pages of a table or index, folded onto one page of cache lines. A letter names the part that "
                "most of a line's samples touch; the list says which. Fewer than " (FEW) " samples are not drawn. Not filtered." }
            @for (rank, answer) in drawn.iter().enumerate() { (self.relation(rank, answer)) }
        };
        (!drawn.is_empty()).then(|| Section::new("pages", "Where on the page", body))
    }

    fn relation(&self, rank: usize, answer: &PagesAnswer) -> Markup {
        let name = answer.relation.as_ref().map_or(String::new(), |relation| printable(&relation.name));
        html! {
            @for page in answer.pages.iter().filter(|page| page.share.count >= FEW) { details open[rank == 0] {
                summary { b { (name) } ": " (printable(&answer.heading.events[page.event.0].name)) }
                p { (counted(page.share.count, "sample")) " on " (counted(page.blocks, "block")) ", " (percent(page.share))
                    " of those with a data address." }
                div.xray { (drawing(page)) (parts(page)) }
            } }
        }
    }
}

fn drawing(page: &FoldedPage) -> Markup {
    let most = page.lines.iter().map(|line| line.count).max().unwrap_or(0);
    let row_bytes = COLUMNS * page.line_size as usize;
    html! {
        div.scroll tabindex="0" role="group" aria-label="The page" { table.page {
            thead { tr { th scope="col" { "offset" }
                @for column in 0..COLUMNS { th.number scope="col" { "+" (column * page.line_size as usize) } } } }
            tbody { @for (row, lines) in page.lines.chunks(COLUMNS).enumerate() { tr {
                th.code scope="row" { (row * row_bytes) }
                @for line in lines {
                    td class={ "number heat-cell heat-" (heat(line.count, most)) } {
                        @if let Some(part) = line.parts.first() { (letter(*part)) " " (grouped(line.count)) }
                    }
                }
            } } }
        } }
    }
}

fn parts(page: &FoldedPage) -> Markup {
    let titles = ["letter", "samples", "share", "blocks", "bytes", "part"].map(str::to_string);
    let row = |(number, part): (usize, &hardmeter_answers::PagePart)| {
        vec![
            letter(number).to_string(),
            grouped(part.share.count),
            percent(part.share),
            grouped(part.blocks),
            format!("{}..{}", part.offsets.0, part.offsets.1),
            if part.name.is_empty() { "(not recorded)".into() } else { printable(&part.name) },
        ]
    };
    table(&titles, &page.parts.iter().enumerate().take(PARTS).map(row).collect::<Vec<_>>(), 5)
}

/// The letter of a part, by its rank; parts beyond the alphabet share one.
fn letter(part: usize) -> char {
    ('A'..='Z').nth(part).unwrap_or('*')
}
