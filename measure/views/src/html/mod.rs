//! The frame of an HTML view: one file that stands alone. No script, no network, no font: it survives mail, archives and
//! machines without a net, and its own policy forbids it to fetch anything.
//!
//! Text is escaped by `maud`'s macro, which takes nothing into the page that was not either written here or escaped.
//! Control characters, which a foreign file may have in its names, are replaced by the caller ([`crate::printable`]).

use crate::heading::HeadingText;
use crate::layout::Style;
use hardmeter_answers::Heading;
use maud::{html, Markup, PreEscaped, DOCTYPE};

const STYLE: &str = include_str!("page.css");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// A section of a page.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name in the page's own links: letters, digits, hyphens.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What is in it.
    pub body: Markup,
}

/// A whole page: how the capture came to be, then the sections, with links to them above.
pub fn page(title: &str, heading: &Heading, sections: &[Section]) -> String {
    let conditions = heading.render(Style::default(), &[]) + &heading.render_limits(Style::default());
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "hardmeter " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                details { summary { "How this was recorded" } pre { (conditions) } }
                nav { ul {
                    @for section in sections {
                        li { a href={ "#" (section.id) } { (section.title) } }
                    }
                } }
                @for section in sections {
                    section id=(section.id) { h2 { (section.title) } (section.body) }
                }
            }
        }
    };
    markup.into_string()
}

/// A table: the titles, then rows; the first `numeric` columns are aligned to the right.
pub fn table(titles: &[String], rows: &[Vec<String>], numeric: usize) -> Markup {
    let class = |column: usize| (column < numeric).then_some("number");
    html! {
        div.scroll { table {
            thead { tr {
                @for (column, title) in titles.iter().enumerate() { th class=[class(column)] { (title) } }
            } }
            tbody {
                @for row in rows { tr {
                    @for (column, cell) in row.iter().enumerate() { td class=[class(column)] { (cell) } }
                } }
            }
        } }
    }
}

/// A cell of a [`heat_map`].
#[derive(Clone, Debug, PartialEq)]
pub struct HeatCell {
    /// 0 to 1.
    pub heat: f64,
    /// Whether it is marked.
    pub marked: bool,
    /// What is told when the pointer rests on it.
    pub text: String,
}

/// Rows of coloured cells, each row with its label.
pub fn heat_map(rows: &[(String, Vec<HeatCell>)]) -> Markup {
    // Seven steps, as classes: colours stand in one place, and the eye tells no more apart.
    let class = |cell: &HeatCell| {
        let step = if cell.heat <= 0.0 { 0 } else { 1 + (cell.heat.min(1.0) * 5.99) as u32 };
        format!("heat-{step}{}", if cell.marked { " marked" } else { "" })
    };
    html! {
        div.scroll { table.heat { tbody {
            @for (label, cells) in rows { tr {
                th { (label) }
                @for cell in cells { td class=(class(cell)) title=(cell.text) {} }
            } }
        } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_their_cell() {
        let hostile = "</td><script>alert(1)</script>".to_string();
        let markup = table(&["n".into(), "name".into()], &[vec!["1".into(), hostile]], 1).into_string();
        assert!(!markup.contains("<script") && markup.contains("&lt;script&gt;"), "{markup}");
        assert!(markup.contains("<td class=\"number\">1</td><td>&lt;/td&gt;"), "{markup}");
        let cell = HeatCell { heat: 0.5, marked: true, text: "\" onload=\"x".into() };
        let markup = heat_map(&[("sets 0-63".into(), vec![cell])]).into_string();
        assert!(markup.contains("<td class=\"heat-3 marked\" title=\"&quot; onload=&quot;x\">"), "{markup}");
    }

    #[test]
    fn heat_has_seven_steps() {
        let step = |heat| {
            let cell = HeatCell { heat, marked: false, text: String::new() };
            heat_map(&[(String::new(), vec![cell])]).into_string()
        };
        assert!(step(0.0).contains("heat-0"));
        assert!(step(0.001).contains("heat-1"));
        assert!(step(1.0).contains("heat-6") && step(7.0).contains("heat-6"));
    }

    #[test]
    fn the_style_fetches_nothing() {
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
