//! The tables of `hardmeter oo1`.

use hardmeter_evidence::table::TextTable;
use hardmeter_evidence::Median;
use hardmeter_oo1::metrics::{self, Metric};
use hardmeter_oo1::modes::Family;
use hardmeter_oo1::report::{CellReport, Entry, Outcome, Report};
use hardmeter_oo1::run::Run;

/// A report as text.
pub(super) fn in_words(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "OO1 on {} x {}, kernel {}, load {:.1}; medians over {} rounds of two runs each\n",
        machine.processors, machine.processor, machine.kernel, machine.load_average, report.rounds
    );
    for cell in &report.cells {
        text += &format!("\n{}\n", cell.cell.title());
        text += &times(cell);
        text += &ratios(cell);
        text += &offset_beats_p3l(cell);
        text += &troubles(cell);
    }
    text + &verdict(report)
}

/// One line per entry: times, then the process's resources.
fn times(cell: &CellReport) -> String {
    let names = metrics::names(cell);
    if names.is_empty() {
        return String::new();
    }
    let mut head = vec!["mode".to_owned()];
    head.extend(names.iter().map(|(name, unit)| match *unit {
        "x" => (*name).to_owned(),
        _ => format!("{name} {unit}"),
    }));
    head.extend(["faults", "handled", "reads", "MB read", "RSS MB", "store MB", "load s"].map(str::to_owned));
    let mut rows = vec![head];
    for entry in cell.sound() {
        let mut row = vec![entry.name.clone()];
        let metrics = metrics::of_entry(cell, entry);
        for (name, _) in &names {
            let found = metrics.iter().find(|metric| metric.name == *name);
            row.push(found.map_or_else(|| "-".into(), |metric| number(metric.median.value)));
        }
        row.extend(needs(entry));
        rows.push(row);
    }
    aligned(&rows)
}

fn needs(entry: &Entry) -> Vec<String> {
    let median = |of: &dyn Fn(&Run) -> f64| {
        let values: Vec<f64> = entry.runs.iter().map(|run| of(&run.run)).collect();
        Median::of(&values).map_or(0.0, |median| median.value)
    };
    vec![
        format!("{:.0}", median(&|run| (run.faults.minor + run.faults.major) as f64)),
        format!("{:.0}", median(&|run| run.faults.handled as f64)),
        format!("{:.0}", median(&|run| run.reads.calls as f64)),
        number(median(&|run| run.reads.bytes as f64 / 1e6)),
        number(median(&|run| run.rss_bytes as f64 / 1e6)),
        number(median(&|run| run.store_bytes as f64 / 1e6)),
        number(median(&|run| run.load_seconds)),
    ]
}

/// One line per entry: ratios with their intervals.
fn ratios(cell: &CellReport) -> String {
    let names = metrics::names(cell);
    let all: Vec<(&Entry, Vec<Metric>)> =
        cell.sound().map(|entry| (entry, metrics::of_entry(cell, entry))).collect();
    let mut columns: Vec<(String, bool, &str)> = Vec::new();
    for (name, unit) in &names {
        if *unit == "x" {
            continue;
        }
        // Compared with plain pointers only hot: they are not persistent and have no cold case.
        let per_visit = *unit == "ns/visit";
        let metric = all.iter().find_map(|(_, metrics)| metrics.iter().find(|metric| metric.name == *name));
        let Some(metric) = metric else { continue };
        if per_visit && metric.to_plain.is_some() {
            columns.push((format!("{name}/plain"), true, name));
        }
        if let Some(to) = &metric.to_texas {
            columns.push((format!("{name}/{}", to.to), false, name));
        }
    }
    if columns.is_empty() {
        return String::new();
    }
    let mut head = vec!["ratio (95 % interval)".to_owned()];
    head.extend(columns.iter().map(|(title, ..)| title.clone()));
    head.push("n".into());
    let mut rows = vec![head];
    for (entry, metrics) in &all {
        let mut row = vec![entry.name.clone()];
        let mut n = 0;
        for (_, plain, name) in &columns {
            let metric = metrics.iter().find(|metric| metric.name == *name);
            let found =
                metric.and_then(|metric| if *plain { &metric.to_plain } else { &metric.to_texas }.as_ref());
            row.push(match found {
                Some(ratio) if ratio.to == entry.name => "1".into(),
                Some(ratio) => {
                    n = ratio.median.n;
                    with_interval(&ratio.median)
                }
                None => "-".into(),
            });
        }
        row.push(n.max(metrics.first().map_or(0, |metric| metric.median.n)).to_string());
        rows.push(row);
    }
    format!("\n{}", aligned(&rows))
}

/// The store that has nothing to copy: the table shows where it is faster than P3L.
fn offset_beats_p3l(cell: &CellReport) -> String {
    let mut beaten = Vec::new();
    for (name, unit) in metrics::names(cell) {
        let best = |family| {
            let entry = metrics::best(cell, family, name)?;
            Some((entry, metrics::median(cell, entry, name)?.value))
        };
        let (Some((offset, theirs)), Some((p3l, ours))) = (best(Family::Offset), best(Family::P3l)) else {
            continue;
        };
        if unit != "x" && theirs < ours {
            let (theirs, ours) = (number(theirs), number(ours));
            beaten.push(format!("{name} {theirs} {unit} ({}) against {ours} ({})", offset.name, p3l.name));
        }
    }
    match beaten.is_empty() {
        true => String::new(),
        false => format!("offsets in a shared mapping are faster than P3L here: {}\n", beaten.join("; ")),
    }
}

/// The modes without results, and why.
fn troubles(cell: &CellReport) -> String {
    let mut text = String::new();
    for entry in &cell.entries {
        let name = &entry.name;
        let (line, remedy) = match &entry.outcome {
            Outcome::Sound => continue,
            Outcome::Wrong { seed, checksum, expected } => (
                format!(
                    "{name} visited OTHER PARTS than the others: checksum {checksum} instead of {expected} with seed \
                     {seed}; it is left out of the tables"
                ),
                "",
            ),
            Outcome::Failed { reason, remedy } => (format!("{name} FAILED and is left out of the tables: {reason}"), remedy.as_str()),
            Outcome::CannotHere { reason, remedy } => {
                (format!("{name} cannot run on this machine: {reason}"), remedy.as_str())
            }
            Outcome::Lacks { what } => (format!("{name} has no {what}"), ""),
        };
        text += &format!("{line}\n");
        if !remedy.is_empty() {
            text += &format!("  remedy: {remedy}\n");
        }
    }
    text
}

fn verdict(report: &Report) -> String {
    let count = |which: fn(&Entry) -> bool| {
        report.cells.iter().flat_map(|cell| &cell.entries).filter(|entry| which(entry)).count()
    };
    let runs: usize = report.cells.iter().flat_map(CellReport::sound).map(|entry| entry.runs.len()).sum();
    let wrong = count(|entry| matches!(entry.outcome, Outcome::Wrong { .. }));
    let failed = count(|entry| matches!(entry.outcome, Outcome::Failed { .. }));
    let mut text = match wrong {
        0 => format!("\nall modes visited the same parts: {runs} runs, checksums equal\n"),
        _ => format!("\n{wrong} times a mode visited different parts\n"),
    };
    if failed > 0 {
        text += &format!("{failed} times a mode failed\n");
    }
    text
}

fn with_interval(median: &Median) -> String {
    let interval = median.interval_95.map_or_else(String::new, |interval| {
        format!(" ({}..{})", number(interval.low), number(interval.high))
    });
    format!("{}{interval}", number(median.value))
}

/// A number with three significant digits; large ones without decimals.
fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 5) as usize;
    format!("{value:.digits$}")
}

/// A table of these rows, the first of them its titles.
fn aligned(rows: &[Vec<String>]) -> String {
    let Some((titles, rows)) = rows.split_first() else { return String::new() };
    let mut table = TextTable::of_figures(titles);
    rows.iter().for_each(|row| table.plain(row));
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let texts = [0.0, 0.0123456, 0.5, 1.0, 12.34, 68_213.4].map(number);
        assert_eq!(texts, ["0", "0.0123", "0.500", "1.00", "12.3", "68213"]);
    }
}
