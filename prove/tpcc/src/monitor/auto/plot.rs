//! Charts of the sweep: throughput and CPU cost over the number of connections.

use super::{Point, Sweep};
use crate::error::TpccError;
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (760, 760);
/// Distinguishable with colour blindness (Okabe and Ito).
const BLUE: RGBColor = RGBColor(0, 114, 178);
const VERMILION: RGBColor = RGBColor(213, 94, 0);
const GREEN: RGBColor = RGBColor(0, 158, 115);
const GREY: RGBColor = RGBColor(225, 225, 225);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// A line of a chart: name, colour, and points by number of connections.
struct Line {
    name: &'static str,
    colour: RGBColor,
    points: Vec<(u32, f64)>,
}

impl Sweep {
    /// The text of an SVG file.
    ///
    /// # Errors
    ///
    /// [`TpccError::Drawing`] with the reason.
    pub fn to_svg(&self) -> Result<String, TpccError> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| TpccError::Drawing { reason: error.to_string() })?;
        Ok(svg)
    }

    fn draw(&self, svg: &mut String) -> Drawn {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (upper, lower) = root.split_vertically(SIZE.1 / 2);
        let line = |name, colour, value: &dyn Fn(&Point) -> Option<f64>| Line {
            name,
            colour,
            points: self.points.iter().filter_map(|point| Some((point.connections, value(point)?))).collect(),
        };
        self.chart(
            &upper,
            "New-Orders a minute, closed loop",
            &[line("mean of its legs", BLUE, &|point| Some(point.throughput))],
        )?;
        self.chart(
            &lower,
            "CPU seconds per 1000 New-Orders",
            &[
                line("server", VERMILION, &|point| point.server_cpu),
                line("driver", GREEN, &|point| Some(point.driver_cpu)),
            ],
        )?;
        root.present()?;
        Ok(())
    }

    fn chart(&self, area: &Area, title: &str, lines: &[Line]) -> Drawn {
        let place = |connections: u32| f64::from(connections).log2();
        let all = || lines.iter().flat_map(|line| line.points.iter());
        let highest = all().map(|(_, value)| *value).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let last = self.points.last().map_or(0.0, |point| place(point.connections));
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 17))
            .margin(12)
            .margin_right(30)
            .x_label_area_size(40)
            .y_label_area_size(76)
            .build_cartesian_2d(-0.2..last.max(1.0) + 0.2, 0.0..highest * 1.1)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(GREY)
            .x_desc("connections")
            .x_label_formatter(&|x| connections_at(*x))
            .y_label_formatter(&|y| if highest >= 100.0 { format!("{y:.0}") } else { format!("{y:.2}") })
            .draw()?;
        let chosen = place(self.chosen);
        chart
            .draw_series(LineSeries::new([(chosen, 0.0), (chosen, highest * 1.1)], BLACK.stroke_width(1)))?;
        let label =
            Text::new(format!("auto: {}", self.chosen), (chosen + 0.05, highest * 1.08), ("sans-serif", 13));
        chart.draw_series([label])?;
        for Line { name, colour, points } in lines {
            let colour = *colour;
            let placed = || points.iter().map(|&(connections, value)| (place(connections), value));
            chart
                .draw_series(LineSeries::new(placed(), colour.stroke_width(2)))?
                .label(*name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
            chart.draw_series(placed().map(|point| Circle::new(point, 3, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::MiddleLeft)
            .background_style(WHITE)
            .label_font(("sans-serif", 13))
            .draw()?;
        Ok(())
    }
}

/// A label of the axis: empty for fractions.
fn connections_at(place: f64) -> String {
    let connections = place.exp2();
    if (place - place.round()).abs() < 1e-6 {
        format!("{connections:.0}")
    } else {
        String::new()
    }
}
