//! The three figures of Suzuki, Kitsuregawa and Takagi (1994), drawn from this machine's measurements.
//!
//! | figure | graph | horizontal | vertical |
//! |---|---|---|---|
//! | 1, cold to warm | with locality | traversal, each from a new random part | its time |
//! | 2, hot | with locality | the same patterns | one of ten repetitions, right after the first time |
//! | 3, hot | without | repetition | one of ten repetitions, always of the first pattern |
//!
//! A point is the median over all runs of the contestant. Times are on a logarithmic axis: the slowest mode here is
//! three hundred times slower than the fastest.

use crate::error::Oo1Error;
use crate::order::{grouped, Protocol};
use crate::report::{write_whole, CellReport, Entry, Report};
use hardmeter_evidence::Median;
use plotters::prelude::*;
use std::path::{Path, PathBuf};

const SIZE: (u32, u32) = (900, 540);
/// Distinguishable with colour blindness (Okabe and Ito), black for the limit.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 0, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
];

/// A line of a figure: its name, and milliseconds by unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The contestant.
    pub name: String,
    /// One point a unit.
    pub ms: Vec<f64>,
}

/// One of the paper's figures, of one graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// 1, 2 or 3.
    pub number: u8,
    /// Its title.
    pub title: String,
    /// The horizontal axis.
    pub horizontal: &'static str,
    /// One a contestant.
    pub lines: Vec<Line>,
    parts: u64,
}

impl Figure {
    /// The figures that a report has the runs for.
    pub fn of_report(report: &Report) -> Vec<Figure> {
        report.cells.iter().filter_map(Figure::of_cell).collect()
    }

    fn of_cell(cell: &CellReport) -> Option<Figure> {
        let (number, phase, horizontal) = match cell.cell.protocol {
            Protocol::Figure1 => (1, "first", "traversal, each from a new random part"),
            Protocol::Figure2 => (2, "repeat", "traversal, repeated ten times right after it was first made"),
            Protocol::Figure3 => (3, "repeat-first", "repetition of the first traversal, after all others"),
            _ => return None,
        };
        let line = |entry: &Entry| Line { name: entry.name.clone(), ms: points(entry, phase) };
        let lines: Vec<Line> = cell.sound().map(line).filter(|line| !line.ms.is_empty()).collect();
        let (what, how) = match number {
            1 => ("cold to warm", cell.cell.page_cache.name()),
            _ => ("hot", cell.cell.page_cache.name()),
        };
        let title = format!(
            "Figure {number}: {what}, {} locality; {} parts, layout {}, page cache {how} before",
            if cell.cell.graph.locality { "with" } else { "without" },
            grouped(cell.cell.graph.parts),
            cell.cell.layout.name(),
        );
        (!lines.is_empty()).then_some(Figure {
            number,
            title,
            horizontal,
            lines,
            parts: cell.cell.graph.parts,
        })
    }

    /// The name of its file.
    pub fn file_name(&self) -> String {
        format!("figure{}-{}.svg", self.number, self.parts)
    }

    /// Writes the drawing into a folder; returns its path.
    ///
    /// # Errors
    ///
    /// [`Oo1Error`] if the drawing or the file fails.
    pub fn draw(&self, folder: &Path) -> Result<PathBuf, Oo1Error> {
        let path = folder.join(self.file_name());
        let svg = self
            .svg()
            .map_err(|error| Oo1Error::Drawing { path: path.clone(), reason: error.to_string() })?;
        write_whole(&path, svg.as_bytes())?;
        Ok(path)
    }

    fn svg(&self) -> Result<String, Box<dyn std::error::Error>> {
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            root.fill(&WHITE)?;
            let all = || self.lines.iter().flat_map(|line| line.ms.iter().copied());
            let lowest = all().fold(f64::INFINITY, f64::min).max(1e-6);
            let highest = all().fold(0.0, f64::max).max(lowest * 10.0);
            let units = self.lines.iter().map(|line| line.ms.len()).max().unwrap_or(1);
            let mut chart = ChartBuilder::on(&root)
                .caption(&self.title, ("sans-serif", 17))
                .margin(12)
                .margin_right(170)
                .x_label_area_size(42)
                .y_label_area_size(72)
                .build_cartesian_2d(0.0..units as f64, (lowest / 1.5..highest * 1.5).log_scale())?;
            chart
                .configure_mesh()
                .light_line_style(WHITE)
                .bold_line_style(RGBColor(225, 225, 225))
                .x_desc(self.horizontal)
                .y_desc("milliseconds a traversal")
                .x_label_formatter(&|x| format!("{x:.0}"))
                .y_label_formatter(&|y| milliseconds(*y))
                .draw()?;
            for (at, line) in self.lines.iter().enumerate() {
                let style = COLOURS[at % COLOURS.len()].stroke_width(if at < COLOURS.len() { 2 } else { 1 });
                let points = line.ms.iter().enumerate().map(|(unit, ms)| (unit as f64 + 0.5, *ms));
                chart.draw_series(LineSeries::new(points, style))?;
            }
            self.legend(&root)?;
            root.present()?;
        }
        Ok(svg)
    }

    /// Names at the right, the slowest on top, in the order of the lines.
    fn legend<DB: DrawingBackend>(
        &self,
        root: &DrawingArea<DB, plotters::coord::Shift>,
    ) -> Result<(), Box<dyn std::error::Error>>
    where
        DB::ErrorType: 'static,
    {
        let mut ranked: Vec<(usize, &Line)> = self.lines.iter().enumerate().collect();
        let typical = |line: &Line| Median::of(&line.ms).map_or(0.0, |median| median.value);
        ranked.sort_by(|left, right| typical(right.1).total_cmp(&typical(left.1)));
        let left = SIZE.0 as i32 - 160;
        for (place, (at, line)) in ranked.into_iter().enumerate() {
            let y = 50 + 19 * place as i32;
            let style = COLOURS[at % COLOURS.len()].stroke_width(if at < COLOURS.len() { 2 } else { 1 });
            root.draw(&PathElement::new([(left, y), (left + 18, y)], style))?;
            let text = format!("{} {}", line.name, milliseconds(typical(line)));
            root.draw(&Text::new(text, (left + 23, y - 6), ("sans-serif", 12)))?;
        }
        Ok(())
    }
}

/// The median over all runs, by unit; for repetitions, per repetition.
fn points(entry: &Entry, phase: &str) -> Vec<f64> {
    let phases: Vec<_> = entry.runs.iter().filter_map(|run| run.run.phase(phase)).collect();
    let units = phases.iter().map(|phase| phase.wall_ns.len()).min().unwrap_or(0);
    let point = |unit: usize| {
        let values: Vec<f64> =
            phases.iter().map(|phase| phase.wall_ns[unit] / phase.repeats.max(1) as f64 / 1e6).collect();
        Median::of(&values).map(|median| median.value)
    };
    (0..units).filter_map(point).collect()
}

/// Three significant digits.
fn milliseconds(value: f64) -> String {
    let digits = (2 - value.max(1e-9).log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{entry, report};
    use crate::run::Phase;

    fn report_of(protocol: Protocol, phase: &str, repeats: u64) -> Report {
        let mut report =
            report(vec![entry("plain", 1.0, [1.0; 2], [1.0; 2]), entry("e", 1.0, [1.0; 2], [1.0; 2])]);
        report.cells[0].cell.protocol = protocol;
        for (at, entry) in report.cells[0].entries.iter_mut().enumerate() {
            for run in &mut entry.runs {
                let wall_ns: Vec<f64> = [40e6, 20e6, 10e6].map(|ns| ns * (at + 1) as f64).into();
                run.run.phases =
                    vec![Phase { name: phase.into(), repeats, cpu_ns: wall_ns.clone(), wall_ns }];
            }
        }
        report
    }

    #[test]
    fn a_point_is_one_traversal() {
        let figures = Figure::of_report(&report_of(Protocol::Figure1, "first", 1));
        assert_eq!(figures[0].number, 1);
        assert_eq!(figures[0].lines[1], Line { name: "e".into(), ms: vec![80.0, 40.0, 20.0] });
        let figures = Figure::of_report(&report_of(Protocol::Figure2, "repeat", 10));
        assert_eq!(figures[0].lines[0].ms, [4.0, 2.0, 1.0], "a unit has ten");
        assert_eq!(Figure::of_report(&report_of(Protocol::Texas, "cold", 1)), []);
    }

    #[test]
    fn a_figure_is_an_svg_with_its_lines_and_names() {
        let folder = tempfile::tempdir().unwrap();
        let figures = Figure::of_report(&report_of(Protocol::Figure3, "repeat-first", 10));
        let path = figures[0].draw(folder.path()).unwrap();
        assert!(path.ends_with("figure3-20000.svg"));
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("Figure 3: hot, with locality; 20,000 parts"));
        assert!(svg.contains("plain 2") && svg.contains("e 4"), "names with medians");
        assert_eq!(svg.matches("stroke=\"#D55E00\"").count(), 2, "the second line, and in the legend");
    }

    #[test]
    fn milliseconds_have_three_digits_that_count() {
        let texts = [0.0123456, 1.0, 12.34, 1234.0].map(milliseconds);
        assert_eq!(texts, ["0.0123", "1", "12.3", "1234"]);
    }
}
