//! Misses of caches of other sizes: the miss ratio against the size, with this machine's levels marked.

use crate::ask::HtmlReport;
use hardmeter_answers::why::{CacheLevel, MissRatioCurve};
use hardmeter_evidence::number::{counted, grouped};
use hardmeter_evidence::page::{table, Section};
use maud::{html, Markup};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 26.0;
const LINE_SIZE: u64 = 64;

impl HtmlReport {
    pub(super) fn reuse_section(&self) -> Option<Section> {
        let curve = self.why.reuse.as_ref()?;
        let points = points(curve);
        let walks = self.why.page_walks.as_ref();
        let body = html! {
            p { "Of " (counted(curve.uses, "use")) " of the second level (one line in " (curve.one_line_in)
                " was followed), the share that a fully associative LRU cache of each size would miss. Not filtered." }
            figure { (self.drawn(&points)) }
            details { summary { "As a table" } (sizes(curve)) }
            @if let Some(walks) = walks {
                @let saved = |left: u64| 100.0 * (1.0 - left as f64 / walks.small.max(1) as f64);
                p { "Page walks: " (grouped(walks.small)) " with small pages. Huge pages for shared memory alone would save "
                    b { (format!("{:.0} %", saved(walks.shared_huge))) } ", for all memory "
                    b { (format!("{:.0} %", saved(walks.all_huge))) } "." }
            }
        };
        (points.len() > 1).then(|| Section::new("reuse", "What other cache sizes would miss", body))
    }

    fn drawn(&self, points: &[(u64, f64)]) -> Markup {
        let (first, last) = (log2(points[0].0), log2(points[points.len() - 1].0));
        let most = points.iter().map(|point| point.1).fold(0.0, f64::max).max(1e-9);
        let top = (most * 10.0).ceil() / 10.0;
        let x = |size: u64| LEFT + (log2(size) - first) / (last - first).max(1e-9) * (WIDTH - LEFT - 10.0);
        let y = |ratio: f64| TOP + (1.0 - ratio / top) * (HEIGHT - TOP - BOTTOM);
        let line = points.iter().enumerate().map(|(index, (size, ratio))| {
            format!("{}{:.1} {:.1}", if index == 0 { "M" } else { "L" }, x(*size), y(*ratio))
        });
        let line = line.collect::<Vec<_>>().join("");
        let levels = [("L1", CacheLevel::L1d), ("L2", CacheLevel::L2), ("L3", CacheLevel::L3)];
        let marks: Vec<(&str, u64, bool)> = levels
            .into_iter()
            .filter_map(|(name, level)| {
                let size = self.why.hierarchy.as_ref()?.level(level)?.size().0;
                let inside = log2(size) >= first && log2(size) <= last;
                Some((name, size, inside))
            })
            .collect();
        let label = format!(
            "Miss ratio by cache size: from {:.0} % at {} to {:.0} % at {}",
            points[0].1 * 100.0,
            bytes(points[0].0),
            points[points.len() - 1].1 * 100.0,
            bytes(points[points.len() - 1].0)
        );
        let mut ticks: Vec<u64> = points.iter().map(|point| point.0).collect();
        let every = ticks.len().div_ceil(9).max(1);
        ticks = ticks.into_iter().step_by(every).collect();
        html! {
            svg.chart viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(label) {
                @for step in 0..=4 {
                    @let ratio = top * f64::from(step) / 4.0;
                    line.grid x1=(LEFT) x2=(WIDTH - 10.0) y1=(format!("{:.1}", y(ratio))) y2=(format!("{:.1}", y(ratio))) {}
                    text.tick x=(LEFT - 6.0) y=(format!("{:.1}", y(ratio) + 4.0)) text-anchor="end" { (format!("{:.0} %", ratio * 100.0)) }
                }
                @for size in &ticks {
                    text.tick x=(format!("{:.1}", x(*size))) y=(HEIGHT - 10.0) text-anchor="middle" { (bytes(*size)) }
                }
                @for (name, size, _) in marks.iter().filter(|mark| mark.2) {
                    line.mark x1=(format!("{:.1}", x(*size))) x2=(format!("{:.1}", x(*size))) y1=(TOP) y2=(HEIGHT - BOTTOM) {}
                    text x=(format!("{:.1}", x(*size))) y=(TOP - 8.0) text-anchor="middle" { (name) " " (bytes(*size)) }
                }
                path.line.colour-1 d=(line) {}
            }
            figcaption {
                @for (name, size, _) in marks.iter().filter(|mark| !mark.2) { (name) " (" (bytes(*size)) ") lies outside the drawing. " }
            }
        }
    }
}

/// Size and miss ratio at each power of two of lines where a bucket of distances ends: exact there, by
/// counting.
fn points(curve: &MissRatioCurve) -> Vec<(u64, f64)> {
    let ratio = |missing: u64| missing as f64 / curve.uses.max(1) as f64;
    let reused: u64 = curve.distances.iter().map(|row| row.uses).fold(0, u64::saturating_add);
    let mut missing = curve.lines_followed.saturating_add(reused).min(curve.uses);
    let mut points = Vec::new();
    if let Some(row) = curve.distances.first() {
        points.push((row.above.max(1).saturating_mul(LINE_SIZE), ratio(missing)));
    }
    for row in &curve.distances {
        missing = missing.saturating_sub(row.uses);
        points.push((row.up_to.saturating_mul(LINE_SIZE), ratio(missing)));
    }
    // The first level catches nearly all short distances: the flat beginning of the curve is left out.
    let flat = points.iter().take_while(|point| point.1 > 0.998).count();
    points.split_off(flat.saturating_sub(1))
}

fn sizes(curve: &MissRatioCurve) -> Markup {
    let titles = ["miss ratio", "±", "misses against now", "second level of"].map(str::to_string);
    let row = |effect: &hardmeter_answers::why::SizeEffect| {
        vec![
            format!("{:.2} %", effect.miss_ratio * 100.0),
            format!("{:.2} %", effect.standard_error * 196.0),
            effect.change.map_or("-".into(), |change| format!("{:+.1} %", change * 100.0)),
            bytes(effect.size.0),
        ]
    };
    table(&titles, &curve.sizes.iter().map(row).collect::<Vec<_>>(), 3)
}

fn log2(size: u64) -> f64 {
    (size.max(1) as f64).log2()
}

fn bytes(size: u64) -> String {
    match size {
        0..1024 => format!("{size} B"),
        1024..1_048_576 => format!("{} KB", size.div_ceil(1024)),
        1_048_576..1_073_741_824 => format!("{} MB", size >> 20),
        _ => format!("{} GB", size >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_answers::why::ReuseDistance;
    use hardmeter_samples::model::ByteCount;

    /// 1,000 uses: 100 are first uses, 300 come after up to 4 lines, 600 after up to 8.
    #[test]
    fn the_curve_falls_by_the_uses_that_fit() {
        let distances = vec![
            ReuseDistance { above: 2, up_to: 4, uses: 300 },
            ReuseDistance { above: 4, up_to: 8, uses: 600 },
        ];
        let now = ByteCount(512);
        let curve = MissRatioCurve {
            uses: 1000,
            lines_followed: 100,
            one_line_in: 64,
            now,
            sizes: Vec::new(),
            distances,
        };
        assert_eq!(points(&curve), [(128, 1.0), (256, 0.7), (512, 0.1)]);
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(
            [bytes(512), bytes(49152), bytes(2 << 20), bytes(3 << 30)],
            ["512 B", "48 KB", "2 MB", "3 GB"]
        );
    }
}
