//! A result in words, for a terminal.

use crate::result::{Latency, RunResult, Visited};
use crate::scenario::Totals;
use hardmeter_servers::web::Php;
use std::fmt::Write;

/// The whole result as text.
pub fn report(result: &RunResult) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    line(heading(result));
    let refused = result.faults.get("refused").copied().unwrap_or(0);
    line(format!(
        "{} requests in {:.2} s, {:.1} a second; {} refused, {} wrong{}",
        result.requests,
        result.seconds,
        result.requests as f64 / result.seconds.max(1e-9),
        refused,
        result.errors,
        faults(result)
    ));
    line(String::new());
    line(format!("{:<26}{}", "time in ms", Latency::heading()));
    line(format!("{:<26}{}", "  from when it was due", result.latency_ms.as_line()));
    line(format!("{:<26}{}", "  from when it was sent", result.from_sending_ms.as_line()));
    line(String::new());
    line(cpu(result));
    line(format!(
        "{} statements, {} of them writing; {} rows read; {:.1} MB of files; {} requests waited for a connection at most",
        result.totals.statements,
        result.writes,
        result.totals.rows,
        result.totals.bytes as f64 / 1e6,
        result.longest_queue
    ));
    if let (Some(paper), Visited::Scenario { scale, .. }) = (&result.paper, &result.visited) {
        line(String::new());
        line(beside_paper(&result.totals, paper, *scale));
        if let Some(times) = result.paper_times {
            line(format!(
                "time until the last answer: {:.3} s; the paper, on another machine: {:.3} s plain, {:.3} s collecting, {:.3} s placing",
                result.seconds, times.plain, times.collecting, times.placing
            ));
        }
    }
    line(String::new());
    line(format!(
        "{:<20}{:>9}{:>8}{:>7}{:>10}{:>TIME$}{:>TIME$}",
        "interaction", "requests", "share", "wrong", "bytes", "p50 ms", "p99 ms"
    ));
    for one in &result.interactions {
        line(format!(
            "{:<20}{:>9}{:>7.1}%{:>7}{:>10}{:>TIME$.2}{:>TIME$.2}",
            one.name,
            one.requests,
            100.0 * one.requests as f64 / result.requests.max(1) as f64,
            one.errors,
            one.bytes / one.requests.max(1),
            one.latency_ms.p50,
            one.latency_ms.p99
        ));
    }
    text
}

fn heading(result: &RunResult) -> String {
    let asked = match &result.visited {
        Visited::OpenMix { mix, rate, arrivals, connections, visitors } => format!(
            "{mix:?} mix, open loop: {rate} a second ({arrivals:?}), {connections} connections, {visitors} visitors"
        ),
        Visited::ClosedMix { mix, clients } => format!("{mix:?} mix, closed loop: {clients} clients"),
        Visited::Scenario { scenario, clients, .. } => format!("{scenario:?} scenario: {clients} clients"),
    };
    let site = &result.site;
    let php = match site.php {
        Php::Fpm => "PHP-FPM",
        _ => "mod_php",
    };
    format!(
        "{asked}\non {php}, {} with {} workers; {} members, {} items; seed {}; placement {}",
        site.mpm.name(),
        site.workers,
        site.population.users,
        site.population.items,
        result.seed,
        site.split
    )
}

fn faults(result: &RunResult) -> String {
    let wrong = result.faults.iter().filter(|(kind, _)| *kind != "refused");
    let text = wrong.map(|(kind, count)| format!("{kind}: {count}")).collect::<Vec<_>>().join(", ");
    if text.is_empty() {
        text
    } else {
        format!(" ({text})")
    }
}

fn cpu(result: &RunResult) -> String {
    let cpu = &result.cpu;
    let php = if result.site.php == Php::Fpm { "Apache" } else { "Apache with PHP" };
    let mut text = format!("processor time a request, us: {php} {:.0}", cpu.apache_us_per_request);
    if result.site.php == Php::Fpm {
        let _ = write!(text, ", PHP-FPM {:.0}", cpu.fpm_us_per_request);
    }
    let _ = write!(text, ", MariaDB {:.0}", cpu.mariadb_us_per_request);
    if result.site.split.is_on() {
        let _ = write!(text, ", analyzer {:.0}", cpu.analyzer_us_per_request);
    }
    let _ = write!(
        text,
        "; servers in all {:.0}; the load generator {:.0}",
        cpu.servers_us_per_request, cpu.generator_us_per_request
    );
    text
}

fn beside_paper(ours: &Totals, paper: &Totals, scale: f64) -> String {
    let mut text = format!("{:<24}{:>14}{:>14}{:>10}\n", "totals", "here", "the paper", "ratio");
    let rows: [(&str, u64, u64); 5] = [
        ("clients", ours.clients, paper.clients),
        ("files", ours.files, paper.files),
        ("statements", ours.statements, paper.statements),
        ("rows read", ours.rows, paper.rows),
        ("bytes of files", ours.bytes, paper.bytes),
    ];
    for (name, here, there) in rows {
        let ratio = here as f64 / (there as f64 * scale).max(1.0);
        let _ = writeln!(text, "{name:<24}{here:>14}{there:>14}{ratio:>10.3}");
    }
    if scale == 1.0 {
        text.truncate(text.trim_end().len());
    } else {
        let _ = write!(text, "(ratios are to {scale} of the paper's totals, as the number of clients is)");
    }
    text
}

impl Latency {
    const HEADING: [&'static str; 6] = ["mean", "p50", "p90", "p99", "p99.9", "max"];

    fn heading() -> String {
        Self::HEADING.iter().map(|name| format!("{name:>TIME$}")).collect()
    }

    fn as_line(&self) -> String {
        let values = [self.mean, self.p50, self.p90, self.p99, self.p999, self.max];
        values.iter().map(|value| format!("{value:>TIME$.2}")).collect()
    }
}

/// Columns of times: a scenario's requests may take the hour of its patience, 3600000.00 ms.
const TIME: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_an_hour_keep_apart() {
        let hour = 3_600_000.0;
        let times = Latency { mean: 0.5, p50: hour, p90: hour, p99: hour, p999: hour, max: hour };
        let words = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            words(times.as_line()),
            ["0.50", "3600000.00", "3600000.00", "3600000.00", "3600000.00", "3600000.00"]
        );
        assert_eq!(times.as_line().len(), Latency::heading().len(), "each below its name");
    }
}
