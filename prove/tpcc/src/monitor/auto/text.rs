//! A sweep as a table.

use super::{Point, Rule, Sweep};
use std::fmt::Write;

impl Sweep {
    /// The table, and what follows from it.
    pub fn in_words(&self) -> String {
        let mut text = String::from(
            "connections  New-Orders a minute  of best   CPU s per 1000 New-Orders       m   response ms   failed\n\
             \x20                                          server        driver               p50    p99\n",
        );
        for point in &self.points {
            line(&mut text, point, point.connections == self.chosen);
        }
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

fn line(text: &mut String, point: &Point, chosen: bool) {
    let optional = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:>11}  {:>19.0}  {:>5.0} %  {:>9}  {:>12.3}  {:>6}  {:>6.2} {:>6.1}  {:>6}{}",
        point.connections,
        point.throughput,
        point.of_best * 100.0,
        optional(point.server_cpu, 3),
        point.driver_cpu,
        optional(point.multiplicity, 2),
        point.p50_ms,
        point.p99_ms,
        point.failed,
        if chosen { "  <- auto" } else { "" }
    );
}
