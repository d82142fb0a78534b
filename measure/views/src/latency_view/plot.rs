//! The curve of latencies in characters: both axes are logarithmic.

use super::{size, LatencyReport};
use hardmeter_samples::machine_latency::LatencyPoint;

/// Rows of the plot.
const ROWS: usize = 14;
/// Columns of the plot at most; a curve becomes no clearer beyond.
const MOST: usize = 90;
/// Columns of the labels at the left.
const LABEL: usize = 7;

impl LatencyReport {
    /// The plot, with the sizes that the kernel reports marked on its axis.
    pub(super) fn plot(&self, width: usize) -> String {
        let columns = width.saturating_sub(LABEL + 3).clamp(20, MOST);
        let all = || self.huge.iter().chain(&self.small);
        let ends = |of: fn(&LatencyPoint) -> f64| {
            let values = all().map(of);
            values.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)))
        };
        let (first, last) = ends(|point| point.bytes as f64);
        let (low, high) = ends(|point| point.ns.max(0.01));
        if self.huge.len() < 2 || !first.is_finite() || high <= low {
            return String::new();
        }
        let at = |value: f64, low: f64, high: f64, steps: usize| {
            let part = (value.max(low) / low).ln() / (high / low).ln();
            ((part * (steps - 1) as f64).round() as usize).min(steps - 1)
        };
        let mut cells = vec![vec![' '; columns]; ROWS];
        for cache in &self.caches {
            let bytes = cache.reported_bytes as f64;
            if bytes < last {
                let column = at(bytes, first, last, columns);
                cells.iter_mut().for_each(|row| row[column] = ':');
            }
        }
        for (points, sign) in [(&self.small, 'o'), (&self.huge, '*')] {
            for point in points {
                let row = ROWS - 1 - at(point.ns, low, high, ROWS);
                cells[row][at(point.bytes as f64, first, last, columns)] = sign;
            }
        }
        let mut text = String::new();
        for (row, line) in cells.iter().enumerate() {
            let part = (ROWS - 1 - row) as f64 / (ROWS - 1) as f64;
            let value = low * (high / low).powf(part);
            // Every third row and the last one have their value.
            let label = if row % 3 == 0 || row == ROWS - 1 { short(value) } else { String::new() };
            let line: String = line.iter().collect();
            text.push_str(format!("{label:>LABEL$} |{line}").trim_end());
            text.push('\n');
        }
        let (first, last) = (size(first), size(last));
        let gap = columns.saturating_sub(first.len() + last.len());
        text.push_str(&format!("{:>LABEL$} +{}\n", "ns", "-".repeat(columns)));
        text.push_str(&format!("{:>LABEL$}  {first}{}{last}\n", "", " ".repeat(gap)));
        let pages = if self.huge_pages { "huge pages" } else { "no huge pages were given" };
        text.push_str(&format!("{:>LABEL$}  * {pages}  o 4 KB pages  : sysfs's sizes\n", ""));
        text
    }
}

fn short(ns: f64) -> String {
    match ns {
        ns if ns >= 10.0 => format!("{ns:.0}"),
        ns => format!("{ns:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;

    #[test]
    fn the_curve_rises_from_the_lower_left_to_the_upper_right() {
        let plot = example().plot(100);
        let rows: Vec<&str> = plot.lines().collect();
        assert_eq!(rows.len(), 17, "{plot}");
        let column = |row: &str, sign: char| row.find(sign);
        assert_eq!(
            column(rows[13], '*'),
            Some(9),
            "the smallest size is at the left of the lowest row: {plot}"
        );
        assert!(rows[0].contains('o'), "small pages are highest: {plot}");
        assert!(rows[15].contains("4 KB") && rows[15].ends_with("512 MB"), "{plot}");
        assert!(rows.iter().all(|row| row.len() <= 100), "{plot}");
        // Three caches have their marks where no point lies.
        let most = rows.iter().map(|row| row.matches(':').count()).max();
        assert_eq!(most, Some(3), "{plot}");
    }

    #[test]
    fn nothing_measured_is_no_plot() {
        let mut none = example();
        none.0.huge.clear();
        none.0.small.clear();
        assert_eq!(none.plot(80), "");
    }
}
