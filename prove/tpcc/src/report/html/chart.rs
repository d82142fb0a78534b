//! SVG charts: axes with round numbers, lines, bars, points, bands and marks. Colours are classes of the page's
//! style sheet, so that a chart works on light and on dark backgrounds.

use crate::report::number;
use maud::{html, Markup};
use std::fmt::Write as _;

/// The plot area in the view box; the rest is for titles and numbers.
const LEFT: f64 = 62.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;
const RIGHT: f64 = 14.0;

/// A chart.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// The alternative text.
    pub title: String,
    /// Width and height of the view box.
    pub size: (f64, f64),
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Spans of x that are set off.
    pub bands: Vec<Band>,
    /// The layers, drawn in order.
    pub layers: Vec<Layer>,
    /// Vertical lines.
    pub marks: Vec<Mark>,
}

/// An axis from 0, or of powers of ten.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// Title with unit.
    pub title: String,
    /// Lower end.
    pub from: f64,
    /// Upper end.
    pub to: f64,
}

/// A span of x that is set off.
#[derive(Clone, Debug)]
pub struct Band {
    /// Begin.
    pub from: f64,
    /// End.
    pub to: f64,
    /// The label.
    pub label: String,
}

/// A vertical line.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Position on the axis.
    pub at: f64,
    /// The label.
    pub label: String,
}

/// A layer of a chart.
#[derive(Clone, Debug)]
pub enum Layer {
    /// A line through points.
    Line {
        /// Colour class, 0 to 4.
        class: u8,
        /// Its points.
        points: Vec<(f64, f64)>,
    },
    /// Bars from `x` to `x + width`.
    Bars {
        /// Width of a bar.
        width: f64,
        /// Begin, height and tooltip of each bar.
        bars: Vec<(f64, f64, String)>,
    },
    /// Points without lines.
    Points {
        /// Colour class, 0 to 4.
        class: u8,
        /// Position and tooltip of each point.
        points: Vec<(f64, f64, String)>,
    },
}

impl Axis {
    /// A chart from 0 to a round number that is at least this.
    pub fn up_to(title: impl Into<String>, most: f64) -> Axis {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let step = round_step(most);
        Axis { title: title.into(), from: 0.0, to: (most / step).ceil() * step }
    }

    /// An axis from 0 to exactly `to`.
    pub fn exactly(title: impl Into<String>, to: f64) -> Axis {
        Axis { title: title.into(), from: 0.0, to: if to > 0.0 { to } else { 1.0 } }
    }

    fn ticks(&self) -> Vec<f64> {
        let step = round_step(self.to - self.from);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).map(|number| number as f64 * step).collect()
    }
}

/// A round step (1, 2 or 5 times a power of ten) that divides a width into four to ten parts.
fn round_step(width: f64) -> f64 {
    let rough = width / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    match rough / power {
        share if share < 1.5 => power,
        share if share < 3.5 => 2.0 * power,
        share if share < 7.5 => 5.0 * power,
        _ => 10.0 * power,
    }
}

fn tick_label(value: f64, step: f64) -> String {
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    number::with_decimals(value, decimals)
}

impl Chart {
    /// The chart as SVG.
    pub fn draw(&self) -> Markup {
        let (width, height) = self.size;
        let (right, bottom) = (width - RIGHT, height - BOTTOM);
        let x_of = |x: f64| {
            let share = (x - self.x.from) / (self.x.to - self.x.from);
            LEFT + share.clamp(0.0, 1.0) * (right - LEFT)
        };
        let y_of = |y: f64| {
            let share = (y - self.y.from) / (self.y.to - self.y.from);
            bottom - share.clamp(0.0, 1.0) * (bottom - TOP)
        };
        let at = |value: f64| format!("{value:.1}");
        let (x_step, y_step) = (round_step(self.x.to - self.x.from), round_step(self.y.to - self.y.from));
        html! {
            svg class="chart" viewBox=(format!("0 0 {width} {height}")) role="img" aria-label=(self.title)
                xmlns="http://www.w3.org/2000/svg" {
                @for band in &self.bands {
                    rect.band x=(at(x_of(band.from))) y=(TOP) height=(at(bottom - TOP))
                        width=(at((x_of(band.to) - x_of(band.from)).max(0.0))) {}
                    text.small x=(at(x_of(band.from) + 4.0)) y=(TOP + 11.0) { (band.label) }
                }
                @for tick in self.y.ticks() {
                    line.grid x1=(at(LEFT)) x2=(at(right)) y1=(at(y_of(tick))) y2=(at(y_of(tick))) {}
                    text.tick text-anchor="end" x=(at(LEFT - 6.0)) y=(at(y_of(tick) + 3.5)) { (tick_label(tick, y_step)) }
                }
                @for tick in self.x.ticks() {
                    line.axis x1=(at(x_of(tick))) x2=(at(x_of(tick))) y1=(at(bottom)) y2=(at(bottom + 4.0)) {}
                    text.tick text-anchor="middle" x=(at(x_of(tick))) y=(at(bottom + 16.0)) { (tick_label(tick, x_step)) }
                }
                line.axis x1=(at(LEFT)) x2=(at(right)) y1=(at(bottom)) y2=(at(bottom)) {}
                @for layer in &self.layers {
                    @match layer {
                        Layer::Line { class, points } => {
                            path class=(format!("line colour-{class}")) d=(path(points, &x_of, &y_of)) {}
                        }
                        Layer::Bars { width, bars } => {
                            @for (x, y, told) in bars {
                                rect.bar-of-chart x=(at(x_of(*x))) y=(at(y_of(*y))) height=(at((bottom - y_of(*y)).max(0.0)))
                                    width=(at((x_of(x + width) - x_of(*x) - 0.6).max(0.4))) { title { (told) } }
                            }
                        }
                        Layer::Points { class, points } => {
                            @for (x, y, told) in points {
                                circle class=(format!("point colour-{class}")) cx=(at(x_of(*x))) cy=(at(y_of(*y))) r="3" {
                                    title { (told) }
                                }
                            }
                        }
                    }
                }
                @for (number, mark) in self.marks.iter().enumerate() {
                    line.mark x1=(at(x_of(mark.at))) x2=(at(x_of(mark.at))) y1=(TOP) y2=(at(bottom)) {}
                    // Labels of neighbours at different heights, and on the side with more space.
                    text.small text-anchor=(if x_of(mark.at) > right - 70.0 { "end" } else { "start" })
                        x=(at(x_of(mark.at) + if x_of(mark.at) > right - 70.0 { -3.0 } else { 3.0 }))
                        y=(at(TOP + 11.0 + 11.0 * (number % 4) as f64)) { (mark.label) }
                }
                text.title text-anchor="middle" x=(at((LEFT + right) / 2.0)) y=(at(height - 6.0)) { (self.x.title) }
                text.title text-anchor="middle" transform=(format!("translate(12 {:.1}) rotate(-90)", (TOP + bottom) / 2.0)) {
                    (self.y.title)
                }
            }
        }
    }
}

fn path(points: &[(f64, f64)], x_of: &dyn Fn(f64) -> f64, y_of: &dyn Fn(f64) -> f64) -> String {
    let mut path = String::with_capacity(points.len() * 12);
    for (number, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{:.1} {:.1}", if number == 0 { "M" } else { "L" }, x_of(*x), y_of(*y));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        let axis = Axis::up_to("", 12.86);
        assert_eq!((axis.to, axis.ticks()), (14.0, vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]));
        assert_eq!(Axis::up_to("", 0.0).to, 1.0);
        assert_eq!(Axis::up_to("", f64::NAN).to, 1.0);
        assert_eq!(Axis::up_to("", 1000.0).ticks(), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(tick_label(0.25, 0.05), "0.25");
        assert_eq!(tick_label(2000.0, 500.0), "2,000");
    }

    #[test]
    fn a_chart_draws_what_it_is_given_where_it_belongs() {
        let chart = Chart {
            title: "a \"test\" <of> charts".into(),
            size: (LEFT + 100.0 + RIGHT, TOP + 100.0 + BOTTOM),
            x: Axis::exactly("x", 10.0),
            y: Axis::exactly("y", 10.0),
            bands: vec![Band { from: 5.0, to: 10.0, label: "interval".into() }],
            layers: vec![
                Layer::Line { class: 0, points: vec![(0.0, 0.0), (10.0, 10.0)] },
                Layer::Bars { width: 1.0, bars: vec![(5.0, 5.0, "half".into())] },
            ],
            marks: vec![Mark { at: 2.0, label: "checkpoint".into() }],
        };
        let text = chart.draw().into_string();
        // From the lower left corner to the upper right one; a bar of half the height.
        assert!(text.contains("d=\"M62.0 114.0L162.0 14.0\""), "{text}");
        assert!(text.contains("x=\"112.0\" y=\"64.0\" height=\"50.0\""), "{text}");
        assert!(text.contains("aria-label=\"a &quot;test&quot; &lt;of&gt; charts\""), "{text}");
    }
}
