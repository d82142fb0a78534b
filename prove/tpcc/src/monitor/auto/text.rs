//! A sweep as a table.

use super::{Point, Rule, Sweep};
use hardmeter_evidence::table::{Column, TextTable};
use std::fmt::Write;

impl Sweep {
    /// The table as text, and the conclusions.
    pub fn in_words(&self) -> String {
        let titles = [
            "connections",
            "New-Orders a minute",
            "of best",
            "server CPU s per 1000 New-Orders",
            "driver CPU s",
            "m",
            "p50 ms",
            "p99 ms",
            "failed",
        ];
        let columns = titles.map(Column::right).into_iter().chain([Column::left("")]);
        let mut table = TextTable::new(columns);
        self.points.iter().for_each(|point| table.plain(cells(point, point.connections == self.chosen)));
        let mut text = table.text();
        match self.rule {
            Some(Rule { multiplicity, cpus, needed }) => {
                let _ = writeln!(
                    text,
                    "\nm = {multiplicity:.2} with {cpus} connections: 2 x {cpus} CPUs / m = {needed} connections"
                );
            }
            None => text.push('\n'),
        }
        for remark in &self.remarks {
            let _ = writeln!(text, "{remark}");
        }
        let (chosen, best) = (self.chosen(), self.best());
        let _ = writeln!(
            text,
            "auto: {} connections, {:.0} % of the best, which is {}",
            chosen.connections,
            chosen.of_best * 100.0,
            best.connections
        );
        text
    }
}

fn cells(point: &Point, chosen: bool) -> [String; 10] {
    let optional = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
    };
    [
        point.connections.to_string(),
        format!("{:.0}", point.throughput),
        format!("{:.0} %", point.of_best * 100.0),
        optional(point.server_cpu, 3),
        format!("{:.3}", point.driver_cpu),
        optional(point.multiplicity, 2),
        format!("{:.2}", point.p50_ms),
        format!("{:.1}", point.p99_ms),
        point.failed.to_string(),
        if chosen { "<- auto" } else { "" }.to_string(),
    ]
}
