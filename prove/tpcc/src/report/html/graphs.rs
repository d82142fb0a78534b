//! The graphs of clause 5.6, and the run second by second.

use super::chart::{Axis, Band, Chart, Layer, Mark};
use crate::measure::{KindResult, RunResult, Second};
use crate::order::Mode;
use crate::report::batches::BATCH_SECONDS;
use crate::report::text::one_line;
use crate::report::verdicts::think_mean;
use crate::report::{chance, number};
use crate::time::Micros;
use crate::work::Kind;
use maud::{html, Markup};

/// Bars of a frequency distribution: the specification requires at least 20.
const BARS: usize = 40;
/// Maximum points of a line: neighbouring seconds are averaged.
const POINTS: usize = 400;
const SMALL: (f64, f64) = (440.0, 230.0);
const WIDE: (f64, f64) = (1000.0, 250.0);

/// A chart with its caption: name in bold, then explanations.
fn figure(chart: &Chart, caption: &str) -> Markup {
    html! { figure { figcaption { b { (chart.title) } " " (caption) } (chart.draw()) } }
}

/// A unit for times up to this many seconds, and its factor.
fn unit(seconds: f64) -> (&'static str, f64) {
    match seconds {
        _ if seconds < 0.002 => ("us", 1e6),
        _ if seconds < 2.0 => ("ms", 1e3),
        _ => ("s", 1.0),
    }
}

/// Counts of times in each of the bars from 0 to `end` seconds.
fn frequencies(times: &crate::measure::Times, end: f64) -> Vec<u64> {
    let up_to = |bar: usize| times.count_up_to(Micros::of_seconds(end * bar as f64 / BARS as f64));
    (0..BARS).map(|bar| up_to(bar + 1) - if bar == 0 { 0 } else { up_to(bar) }).collect()
}

fn distribution(title: String, times: &crate::measure::Times, end: f64, axis: &str) -> Chart {
    let (unit, scale) = unit(end);
    let counts = frequencies(times, end);
    let width = end * scale / BARS as f64;
    let bar = |(bar, count): (usize, &u64)| {
        let begin = bar as f64 * width;
        let told = format!(
            "{} to {} {unit}: {}",
            number::number(begin),
            number::number(begin + width),
            number::count(*count)
        );
        (begin, *count as f64, told)
    };
    let most = counts.iter().copied().max().unwrap_or(0);
    Chart {
        title,
        size: SMALL,
        x: Axis::exactly(format!("{axis}, {unit}"), end * scale),
        y: Axis::up_to("how many", most as f64),
        layers: vec![Layer::Bars { width, bars: counts.iter().enumerate().map(bar).collect() }],
        ..Chart::default()
    }
}

/// Clause 5.6.1: the frequency distribution of a transaction's response times, from 0 to four times the 90th percentile.
pub fn responses(result: &KindResult) -> Markup {
    let times = &result.response;
    let name = result.kind.name();
    let (Some(most), Some(mean)) = (times.quantile(0.9).map(Micros::as_seconds), times.mean_seconds()) else {
        return html! { figure { figcaption { b { (name) } " none ended in the interval" } } };
    };
    let end = 4.0 * most;
    let mut chart = distribution(name.into(), times, end, "response time");
    let (_, scale) = unit(end);
    let median = times.quantile(0.5).map_or(0.0, Micros::as_seconds);
    chart.marks = vec![
        Mark { at: median * scale, label: format!("50 % {}", number::seconds(median)) },
        Mark { at: mean * scale, label: format!("mean {}", number::seconds(mean)) },
        Mark { at: most * scale, label: format!("90 % {}", number::seconds(most)) },
    ];
    let beyond = times.count() - times.count_up_to(Micros::of_seconds(end));
    figure(&chart, &format!("n {}, {} of them beyond", number::count(times.count()), number::count(beyond)))
}

/// Clause 5.6.3: the frequency distribution of think times, with the required one.
pub fn thinking(result: &RunResult, kind: Kind) -> Option<Markup> {
    let Mode::Terminals { time_factor } = result.order.mode else { return None };
    let times = &result.of(kind).think;
    if times.count() == 0 || time_factor <= 0.0 {
        return None;
    }
    let mean = think_mean(kind) * time_factor;
    let end = 4.0 * mean;
    let mut chart = distribution(kind.name().into(), times, end, "think time");
    let (_, scale) = unit(end);
    let wanted = chance::exponential(mean);
    let n = times.count() as f64;
    let points: Vec<_> = (0..BARS)
        .map(|bar| {
            let edge = |bar: usize| end * bar as f64 / BARS as f64;
            let expected = n * (wanted(edge(bar + 1)) - wanted(edge(bar)));
            ((edge(bar) + edge(bar + 1)) / 2.0 * scale, expected)
        })
        .collect();
    chart.y = Axis::up_to("how many", points.iter().map(|point| point.1).fold(chart.y.to, f64::max));
    chart.layers.push(Layer::Line { class: 1, points });
    let seen = times.mean_seconds().unwrap_or(0.0);
    let beyond = times.count() - times.count_up_to(Micros::of_seconds(end));
    let caption = format!(
        "n {}, mean {} of {} wanted, {} beyond; the line: as drawn by the specification",
        number::count(times.count()),
        number::seconds(seen),
        number::seconds(mean),
        number::count(beyond)
    );
    Some(figure(&chart, &caption))
}

/// A rate per minute: a point for each group of seconds.
fn rates(series: &[Second], of: impl Fn(&Second) -> f64) -> Vec<(f64, f64)> {
    let together = series.len().div_ceil(POINTS).max(1);
    let chunks = series.chunks_exact(together).enumerate();
    chunks
        .map(|(number, chunk)| {
            let middle = (number as f64 + 0.5) * together as f64;
            (middle, chunk.iter().map(&of).sum::<f64>() / together as f64)
        })
        .collect()
}

/// The largest of this many seconds together.
fn peaks(series: &[Second], of: impl Fn(&Second) -> f64) -> Vec<(f64, f64)> {
    let together = series.len().div_ceil(POINTS).max(1);
    let chunks = series.chunks(together).enumerate();
    chunks
        .map(|(number, chunk)| {
            ((number as f64 + 0.5) * together as f64, chunk.iter().map(&of).fold(0.0, f64::max))
        })
        .collect()
}

/// A chart over the run's elapsed time, the interval set off.
fn elapsed(result: &RunResult, title: &str, axis: &str, class: u8, points: Vec<(f64, f64)>) -> Chart {
    let begin = result.order.ramp_seconds;
    let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
    Chart {
        title: title.into(),
        size: WIDE,
        x: Axis::exactly("seconds since the beginning", result.series.len() as f64),
        y: Axis::up_to(axis, most),
        bands: vec![Band {
            from: begin,
            to: begin + result.measured_seconds,
            label: "measurement interval".into(),
        }],
        layers: vec![Layer::Line { class, points }],
        marks: Vec::new(),
    }
}

/// Clause 5.6.4: throughput against elapsed time, with ramp, interval and checkpoints.
pub fn throughput(result: &RunResult) -> Markup {
    let points = rates(&result.series, |second| second.completed[Kind::NewOrder.index()] as f64 * 60.0);
    let mut chart = elapsed(result, "New-Orders a minute", "New-Orders a minute", 0, points);
    chart.marks = result
        .checkpoints
        .iter()
        .map(|checkpoint| Mark { at: checkpoint.at, label: "checkpoint".into() })
        .collect();
    // Too many labels would overlap: omit them.
    if chart.marks.len() > 12 {
        chart.marks.iter_mut().for_each(|mark| mark.label.clear());
    }
    let together = result.series.len().div_ceil(POINTS).max(1);
    figure(&chart, &format!("by {together} s; dashed: checkpoints ({})", result.checkpoints.len()))
}

/// The other series.
pub fn series(result: &RunResult) -> Markup {
    let all = &result.series;
    let worst = peaks(all, |second| second.longest as f64 / 1e3);
    let waiting = peaks(all, |second| f64::from(second.waiting));
    let failures = rates(all, |second| f64::from(second.failures));
    let others = rates(all, |second| second.completed.iter().sum::<u64>() as f64);
    let mut figures = [
        elapsed(result, "Longest response time of New-Order", "ms", 1, worst),
        elapsed(result, "Transactions of all kinds", "a second", 2, others),
        elapsed(result, "Most that waited for a connection", "transactions", 3, waiting),
        elapsed(result, "Failures, those tried again too", "a second", 4, failures),
    ];
    figures.iter_mut().for_each(|chart| chart.size = SMALL);
    html! { div.charts { @for chart in &figures { (figure(chart, "")) } } }
}

/// Clause 5.6.2: response times of New-Order against throughput. With several results, each gives a point; with
/// one, its batches do, including those of the ramp.
pub fn load(result: &RunResult, others: &[(String, RunResult)]) -> Markup {
    if others.is_empty() {
        return by_batches(result);
    }
    let all = others.iter().map(|(name, other)| (name.as_str(), other)).chain([("this run", result)]);
    let points: Vec<_> = all
        .filter_map(|(name, result)| {
            let most = result.of(Kind::NewOrder).response.quantile(0.9)?;
            Some((result.throughput(), most.as_seconds() * 1e3, one_line(name)))
        })
        .collect();
    let mut line: Vec<_> = points.iter().map(|(x, y, _)| (*x, *y)).collect();
    line.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut chart =
        against(result, line.iter().map(|point| point.0), line.iter().map(|point| point.1), "90 %, ms");
    chart.layers = vec![Layer::Line { class: 0, points: line }, Layer::Points { class: 0, points }];
    figure(
        &chart,
        &format!(
            "90 % of the response times of {} runs; dashed: 50, 80, 100 % of this one",
            others.len() + 1
        ),
    )
}

fn by_batches(result: &RunResult) -> Markup {
    let batches = result.series.chunks_exact(BATCH_SECONDS).enumerate().filter_map(|(number, batch)| {
        let n: u64 = batch.iter().map(|second| second.completed[Kind::NewOrder.index()]).sum();
        let total: u64 = batch.iter().map(|second| second.response_total).sum();
        let told = format!("second {}", number * BATCH_SECONDS);
        (n > 0).then(|| (n as f64 * 60.0 / BATCH_SECONDS as f64, total as f64 / n as f64 / 1e3, told))
    });
    let points: Vec<_> = batches.collect();
    let xs = points.iter().map(|point| point.0);
    let mut chart = against(result, xs, points.iter().map(|point| point.1), "mean, ms");
    let n = points.len();
    chart.layers = vec![Layer::Points { class: 0, points }];
    let caption = format!(
        "means of {n} batches of {BATCH_SECONDS} s of this run, its ramp too; dashed: 50, 80, 100 % of the reported throughput. \
         For the specification's graph run it at 50 and 80 % of the load, and give those results (--at)"
    );
    figure(&chart, &caption)
}

fn against(
    result: &RunResult,
    xs: impl Iterator<Item = f64>,
    ys: impl Iterator<Item = f64>,
    axis: &str,
) -> Chart {
    let reported = result.throughput();
    let mark = |share: f64| Mark { at: reported * share, label: format!("{:.0} %", share * 100.0) };
    Chart {
        title: "Response time of New-Order against throughput".into(),
        size: WIDE,
        x: Axis::up_to("New-Orders a minute", xs.fold(reported * 1.05, f64::max)),
        y: Axis::up_to(axis, ys.fold(0.0, f64::max)),
        marks: [0.5, 0.8, 1.0].map(mark).into(),
        ..Chart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Times;

    #[test]
    fn bars_count_each_time_once() {
        let mut times = Times::new();
        // One in the middle of each of the first 20 bars of 0.1 s, and one outside.
        (0..20).for_each(|bar| times.record(Micros(bar * 100_000 + 50_000)));
        times.record(Micros::seconds(100));
        let counts = frequencies(&times, 4.0);
        assert_eq!(counts[..20], [1; 20]);
        assert_eq!(counts[20..], [0; 20]);
    }

    #[test]
    fn a_rate_is_the_mean_of_its_seconds() {
        let second = |orders| Second { completed: [orders, 0, 0, 0, 0], ..Second::default() };
        let series: Vec<_> = (0..800).map(second).collect();
        let points = rates(&series, |second| second.completed[0] as f64);
        assert_eq!((points.len(), points[0], points[399]), (400, (1.0, 0.5), (799.0, 798.5)));
        assert_eq!(peaks(&series, |second| second.completed[0] as f64)[0], (1.0, 1.0));
    }
}
