//! The curve of latencies as SVG, and a page with it.

use super::{size, LatencyReport};
use crate::layout::printable;
use hardmeter_evidence::page::{table, Page, Section};
use hardmeter_samples::machine_latency::LatencyPoint;
use maud::{html, Markup};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
/// Where the axes begin and end.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 840.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 370.0;

/// Both axes, logarithmic.
struct Axes {
    bytes: (f64, f64),
    ns: (f64, f64),
}

impl Axes {
    fn x(&self, bytes: f64) -> f64 {
        let (low, high) = self.bytes;
        LEFT + (RIGHT - LEFT) * (bytes / low).ln() / (high / low).ln()
    }

    fn y(&self, ns: f64) -> f64 {
        let (low, high) = self.ns;
        BOTTOM - (BOTTOM - TOP) * (ns / low).ln() / (high / low).ln()
    }

    fn path(&self, points: &[LatencyPoint]) -> String {
        let place = |point: &LatencyPoint| {
            format!("{:.1},{:.1}", self.x(point.bytes as f64), self.y(point.ns.max(0.01)))
        };
        points.iter().map(place).collect::<Vec<_>>().join(" ")
    }
}

impl LatencyReport {
    /// The curve as a file of its own.
    pub fn svg(&self) -> String {
        self.drawing().into_string()
    }

    /// The curve, the figures, each size and each pair as a page.
    pub fn html(&self) -> String {
        let title = format!("Latencies of {}", printable(&self.processor));
        let text = |table: &crate::layout::TextTable| table.titles_and_rows();
        let (titles, rows) = text(&self.summary());
        let (headed, points, pages, cores) = self.tables();
        let of = |of: &crate::layout::TextTable| {
            let (titles, rows) = text(of);
            table(&titles, &rows, titles.len())
        };
        let mut sections = vec![
            Section::new("summary", "What a load costs", html! { (table(&titles, &rows, 0)) }),
            Section::new(
                "curve",
                "By the size of the memory",
                html! {
                    (self.drawing())
                    p.note { (headed) }
                    (of(&points))
                },
            ),
            Section::new("pages", "Translations", of(&pages)),
        ];
        if !self.cores.is_empty() {
            sections.push(Section::new("cores", "Core to core", of(&cores)));
        }
        let notes = self.notes();
        if !notes.is_empty() {
            let list = html! { ul { @for note in notes { li { (note) } } } };
            sections.push(Section::new("notes", "Quality and limits", list));
        }
        Page::new(&title, sections).html()
    }

    fn drawing(&self) -> Markup {
        let all = || self.huge.iter().chain(&self.small);
        let low = all().map(|point| point.ns).fold(f64::INFINITY, f64::min).clamp(0.01, 1e6);
        let high = all().map(|point| point.ns).fold(low * 2.0, f64::max);
        let first = self.huge.first().map_or(4096.0, |point| point.bytes as f64);
        let last = self.huge.last().map_or(8192.0, |point| point.bytes as f64).max(first * 2.0);
        let axes = Axes { bytes: (first, last), ns: (low / 1.1, high * 1.1) };
        let steps = |from: f64, to: f64, factor: f64| {
            std::iter::successors(Some(from), move |value| Some(value * factor))
                .take_while(move |value| *value <= to)
        };
        let values = [1.0, 2.0, 5.0].into_iter().flat_map(|digit| steps(digit / 10.0, high * 1.1, 10.0));
        let values: Vec<f64> = values.filter(|value| *value >= low / 1.1).collect();
        let anchored = |x: f64, y: f64, anchor: &str, text: String| {
            html! { text x=(format!("{x:.1}")) y=(format!("{y:.1}")) text-anchor=(anchor) fill="#777" { (text) } }
        };
        let line = |from: (f64, f64), to: (f64, f64), dashes: &str| {
            html! {
                line x1=(format!("{:.1}", from.0)) y1=(format!("{:.1}", from.1)) x2=(format!("{:.1}", to.0))
                    y2=(format!("{:.1}", to.1)) stroke="#999" stroke-width="1" stroke-dasharray=(dashes) {}
            }
        };
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) height=(HEIGHT)
                font-family="sans-serif" font-size="12" role="img"
                aria-label={ "Nanoseconds for a load by the size of the memory, on " (printable(&self.processor)) } {
                (line((LEFT, BOTTOM), (RIGHT, BOTTOM), ""))
                (line((LEFT, TOP), (LEFT, BOTTOM), ""))
                @for value in &values {
                    (line((LEFT - 4.0, axes.y(*value)), (LEFT, axes.y(*value)), ""))
                    (anchored(LEFT - 8.0, axes.y(*value) + 4.0, "end", format!("{value}")))
                }
                (anchored(LEFT - 8.0, TOP - 6.0, "end", "ns".into()))
                @for bytes in steps(first, last, 8.0) {
                    (line((axes.x(bytes), BOTTOM), (axes.x(bytes), BOTTOM + 4.0), ""))
                    (anchored(axes.x(bytes), BOTTOM + 18.0, "middle", size(bytes)))
                }
                @for cache in self.caches.iter().filter(|cache| (cache.reported_bytes as f64) < last) {
                    @let x = axes.x(cache.reported_bytes as f64);
                    (line((x, TOP), (x, BOTTOM), "3 3"))
                    (anchored(x + 4.0, TOP + 10.0, "start", format!("{} {}", cache.name, size(cache.reported_bytes as f64))))
                }
                @for (points, colour, name, y) in [
                    (&self.small, "#c0392b", "pages of 4 KB", BOTTOM + 40.0),
                    (&self.huge, "#2471a3", if self.huge_pages { "huge pages" } else { "pages as the kernel gave them" }, BOTTOM + 40.0),
                ] {
                    @let x = if colour == "#c0392b" { LEFT + 260.0 } else { LEFT };
                    polyline points=(axes.path(points)) fill="none" stroke=(colour) stroke-width="2" {}
                    text x=(x) y=(y) fill=(colour) { (name) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;

    #[test]
    fn the_picture_has_both_curves_and_the_sizes_of_sysfs() {
        let svg = example().svg();
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{svg}");
        assert_eq!(svg.matches("<polyline").count(), 2);
        // 18 points each.
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(points.split(' ').count(), 18, "{points}");
        for text in ["L1 32 KB", "L2 1 MB", "L3 256 MB", "A &lt;processor&gt;"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn the_page_is_whole_without_a_script() {
        let page = example().html();
        assert!(page.contains("<svg") && !page.contains("<script"), "{page}");
        assert!(page.contains("sysfs reports 256 MB") && page.contains("Core to core"));
        assert!(!page.contains("A <processor>"));
    }
}
