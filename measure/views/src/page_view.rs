//! `hardmeter pages`: all misses on a relation, folded onto one drawn page.
//!
//! ```text
//!   offset      +0      +64     +128    +192    +256    +320    +384    +448
//!   0x0000   A  12   B 340   B 120   B   7       .       .       .       .
//!   0x0200       .       .       .       .       .       .   C   3       .
//!            `- the part with most samples of that line: its letter is in the list below
//! ```

use crate::drawn::view_of;
use crate::html::page;
use crate::layout::{printable, Column, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped, percent};
use crate::rows::{begin_part, only, Frame};
use crate::screen::{Block, Screen, Wanted};
use crate::top_view::remark_json;
use hardmeter_answers::{FoldedPage, PageLine, PagesAnswer};
use hardmeter_evidence::envelope::envelope;
use hardmeter_evidence::page::Section;
use maud::{html, Markup};
use serde_json::{json, Value as Json};
use std::fmt::Write;

/// Cache lines per row of the drawing.
const LINES_IN_ROW: usize = 8;

view_of! {
    /// The pages of a relation, folded, event by event.
    PageReport(PagesAnswer)
}

impl PageReport {
    /// The relation's name and kind, for a title.
    fn title(&self) -> String {
        let relation = self.relation.as_ref();
        relation
            .map_or_else(String::new, |relation| printable(&format!("{} ({})", relation.name, relation.kind)))
    }

    /// The report as text; `tables_only` leaves out the heading and the warnings.
    pub fn render(&self, style: Style, tables_only: bool) -> String {
        let frame = Frame { heading: &self.heading, remarks: &self.remarks, style, tables_only };
        frame.around(&only(self.filter.as_ref()), |text| {
            for page in &self.pages {
                begin_part(text);
                self.render_page(page, style, text);
            }
        })
    }

    /// The first screen: the page with most samples, and its parts.
    pub fn screen(&self, style: Style, wanted: Wanted) -> String {
        let mut screen = Screen::new(&self.heading, style, wanted);
        screen.about(self.filter.iter().map(|filter| format!("only {filter}")));
        let mut pages: Vec<&FoldedPage> = self.pages.iter().collect();
        pages.sort_by_key(|page| std::cmp::Reverse(page.share.count));
        for page in pages {
            let event = &self.heading.events[page.event.0].name;
            let title = format!("{event} on {}", self.title());
            let block = Block::new(title, self.summary(page), parts(page)).drawn(drawing(page, style));
            let counts = page.parts.iter().map(|part| part.share.count).collect();
            screen.block(block.of(counts, page.share.count, (0, 0)));
        }
        screen.remarks(&self.remarks);
        screen.next("objects");
        screen.next("queries --by statement,object");
        screen.text()
    }

    fn render_page(&self, page: &FoldedPage, style: Style, text: &mut String) {
        let event = printable(&self.heading.events[page.event.0].name);
        let title = format!("{event} on {}", self.title());
        let _ = writeln!(text, "{}: {}", style.paint(Tone::Title, &title), self.summary(page));
        text.extend(drawing(page, style).iter().map(|line| format!("{line}\n")));
        text.push('\n');
        text.push_str(&parts(page).render(style, 2));
    }

    fn summary(&self, page: &FoldedPage) -> String {
        let mut text = format!(
            "{} on {}, {} of n = {} with a data address; {} surely there",
            counted(page.share.count, "sample"),
            counted(page.blocks, "block"),
            percent(page.share),
            grouped(page.share.total),
            percent(page.stable)
        );
        if !page.hottest.is_empty() {
            let _ = write!(text, "; hottest: {}", hottest_text(&page.hottest));
        }
        text
    }

    /// The report as JSON: samples by byte, for bytes that have some.
    pub fn json(&self) -> Json {
        let pages: Vec<Json> = self.pages.iter().map(|page| self.page_json(page)).collect();
        envelope(
            "pages",
            1,
            json!({
                "capture": self.heading,
                "filter": self.filter,
                "relation": self.relation,
                "pages": pages,
                "remarks": self.remarks.iter().map(remark_json).collect::<Vec<_>>(),
            }),
        )
    }

    fn page_json(&self, page: &FoldedPage) -> Json {
        let mut object = json!(page);
        object["event"] = json!(self.heading.events[page.event.0].name);
        let bytes = page.bytes.iter().enumerate().filter(|(_, count)| **count > 0);
        object["bytes"] = bytes.map(|(offset, count)| json!({ "offset": offset, "count": count })).collect();
        object
    }

    /// The report as one self-contained HTML file.
    pub fn html(&self) -> String {
        let title = format!("Page X-ray of {}", self.title());
        let section = |page: &FoldedPage| {
            let event = printable(&self.heading.events[page.event.0].name);
            Section { id: format!("page-{}", page.event.0), title: event, body: self.page_html(page) }
        };
        let mut sections: Vec<Section> = self.pages.iter().map(section).collect();
        if !self.remarks.is_empty() {
            let body =
                html! { ul { @for remark in &self.remarks { li { (printable(&remark.to_string())) } } } };
            sections.push(Section { id: "remarks".into(), title: "Warnings".into(), body });
        }
        page(&title, &self.heading, sections)
    }

    fn page_html(&self, page: &FoldedPage) -> Markup {
        let hottest = page.lines.iter().map(|line| line.count).max().unwrap_or(0).max(1);
        let row_bytes = LINES_IN_ROW * page.line_size as usize;
        let shade = |line: &PageLine| {
            format!("background: rgba(200, 40, 20, {:.2})", 0.85 * line.count as f64 / hottest as f64)
        };
        let label = |number: usize, line: &PageLine| {
            let parts: Vec<&str> = line.parts.iter().map(|part| part_name(&page.parts[*part].name)).collect();
            let offset = number * page.line_size as usize;
            printable(&format!("bytes {offset} on: {} ({})", counted(line.count, "sample"), parts.join(", ")))
        };
        html! {
            p { (printable(&self.summary(page))) }
            div.scroll { table {
                tr { th { "offset" } @for line in 0..LINES_IN_ROW { th { "+" (line * page.line_size as usize) } } }
                @for (row, lines) in page.lines.chunks(LINES_IN_ROW).enumerate() {
                    tr {
                        th { (format!("{:#06x}", row * row_bytes)) }
                        @for (column, line) in lines.iter().enumerate() {
                            td.number style=(shade(line)) title=(label(row * LINES_IN_ROW + column, line)) {
                                @if let Some(part) = line.parts.first() {
                                    (letter(*part)) " " (grouped(line.count))
                                }
                            }
                        }
                    }
                }
            } }
            div.scroll { table {
                tr { th { "" } th { "count" } th { "of " (grouped(page.share.count)) } th { "blocks" } th { "offsets" }
                     th { "part" } th { "hottest" } }
                @for (number, part) in page.parts.iter().enumerate() {
                    tr {
                        td { (letter(number)) }
                        td.number { (grouped(part.share.count)) }
                        td.number { (percent(part.share)) }
                        td.number { (grouped(part.blocks)) }
                        td.number { (part.offsets.0) ".." (part.offsets.1) }
                        td { (printable(part_name(&part.name))) }
                        td { (printable(&hottest_text(&part.hottest))) }
                    }
                }
            } }
        }
    }
}

/// The page, drawn line by line.
fn drawing(page: &FoldedPage, style: Style) -> Vec<String> {
    let most = page.lines.iter().map(|line| grouped(line.count).len()).max().unwrap_or(1);
    let row_bytes = LINES_IN_ROW * page.line_size as usize;
    let offsets = (0..LINES_IN_ROW)
        .map(|line| format!("{:>1$}", format!("+{}", line * page.line_size as usize), most + 4));
    let head = style.paint(Tone::Faint, &format!("offset {}", offsets.collect::<String>()));
    let rows = page.lines.chunks(LINES_IN_ROW).enumerate().map(|(row, lines)| {
        let offset = style.paint(Tone::Faint, &format!("{:#06x}", row * row_bytes));
        let cells = lines.iter().map(|line| cell(line, page.share.count, most, style));
        format!("  {offset} {}", cells.collect::<String>().trim_end())
    });
    std::iter::once(format!("  {head}")).chain(rows).collect()
}

/// The parts of the page, those with most samples first.
fn parts(page: &FoldedPage) -> TextTable {
    let mut grid = TextTable::new([
        Column::left(""),
        Column::right("count"),
        Column::right(format!("of {}", grouped(page.share.count))),
        Column::right("blocks"),
        Column::right("offsets"),
        Column::left("part").cut(Cut::KeepHead).at_least(30),
        Column::left("hottest").cut(Cut::KeepHead),
    ]);
    for (number, part) in page.parts.iter().enumerate() {
        let tone = Tone::of_fraction(part.share.fraction());
        grid.row(vec![
            (letter(number).to_string(), Tone::Plain),
            (grouped(part.share.count), tone),
            (percent(part.share), tone),
            (grouped(part.blocks), Tone::Plain),
            (format!("{}..{}", part.offsets.0, part.offsets.1), Tone::Plain),
            (part_name(&part.name).to_string(), Tone::Plain),
            (hottest_text(&part.hottest), Tone::Faint),
        ]);
    }
    grid
}

/// One cache line of the page: the letter of the part with most of its samples, and their number.
fn cell(line: &PageLine, total: u64, most: usize, style: Style) -> String {
    let Some(part) = line.parts.first() else {
        return format!("{:>1$}", style.paint(Tone::Faint, "."), most + 4);
    };
    let tone = Tone::of_fraction(line.count as f64 / total.max(1) as f64);
    format!("  {} {}", letter(*part), style.paint(tone, &format!("{:>most$}", grouped(line.count))))
}

/// The letter of a part, by its rank; parts beyond the alphabet share one.
fn letter(part: usize) -> char {
    (b'A'..=b'Z').chain(b'a'..=b'z').nth(part).map_or('*', char::from)
}

fn part_name(name: &str) -> &str {
    if name.is_empty() {
        "(not recorded)"
    } else {
        name
    }
}

fn hottest_text(blocks: &[(std::sync::Arc<str>, u64)]) -> String {
    let block = |(block, count): &(std::sync::Arc<str>, u64)| format!("{block} ({})", grouped(*count));
    blocks.iter().map(block).collect::<Vec<_>>().join(", ")
}
