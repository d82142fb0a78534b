//! Parts of sections: tables, heat maps, bars.

use crate::number::grouped;
use maud::{html, Markup};

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
    /// True if the cell is marked.
    pub marked: bool,
    /// The text shown when the pointer rests on it.
    pub text: String,
}

/// Rows of coloured cells, each row with its label.
pub fn heat_map(rows: &[(String, Vec<HeatCell>)]) -> Markup {
    // Seven classes with colours in the style sheet: more could not be distinguished.
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

/// A piece of a [`bar`].
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Its part of the whole, 0 to 1.
    pub share: f64,
    /// The samples that it is computed from.
    pub n: u64,
    /// Its label.
    pub label: String,
}

/// A narrower piece of a bar has its label as a title only.
const LEGIBLE: f64 = 0.05;

/// A bar of adjacent pieces, each with its label. The rest of the bar is faint.
pub fn bar(title: &str, pieces: &[Bar]) -> Markup {
    let text =
        |piece: &Bar| format!("{} {:.0} % (n = {})", piece.label, piece.share * 100.0, grouped(piece.n));
    let all = pieces.iter().map(text).collect::<Vec<_>>().join(", ");
    html! {
        div.stack role="img" aria-label={ (title) ": " (all) } {
            span.stack-title { (title) }
            span.stack-bar {
                @for (number, piece) in pieces.iter().enumerate() {
                    span class={ "piece piece-" (number.min(4)) } title=(text(piece))
                        style=(format!("width:{:.2}%", piece.share * 100.0)) { @if piece.share >= LEGIBLE { (text(piece)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_cell() {
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
    fn a_bar_can_be_read_without_seeing_it() {
        let piece = |share, n, label: &str| Bar { share, n, label: label.into() };
        let pieces = [piece(0.5, 1234, "cold"), piece(0.25, 9, "<i>")];
        let markup = bar("Causes", &pieces).into_string();
        assert!(
            markup.contains("aria-label=\"Causes: cold 50 % (n = 1,234), &lt;i&gt; 25 % (n = 9)\""),
            "{markup}"
        );
        assert!(markup.contains("style=\"width:25.00%\""), "{markup}");
    }
}
