//! A result as text for a terminal.

use crate::result::{RunResult, Visited};
use crate::scenario::Totals;
use hardmeter_evidence::table::TextTable;
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
    line(times(result));
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
    line(interactions(result));
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn times(result: &RunResult) -> String {
    let mut table = TextTable::of_figures(["time in ms", "mean", "p50", "p90", "p99", "p99.9", "max"]);
    for (name, times) in
        [("  from when it was due", &result.latency_ms), ("  from when it was sent", &result.from_sending_ms)]
    {
        let values = [times.mean, times.p50, times.p90, times.p99, times.p999, times.max];
        let values = values.map(|value| format!("{value:.2}"));
        table.plain(std::iter::once(name.to_string()).chain(values));
    }
    table.text()
}

fn interactions(result: &RunResult) -> String {
    let titles = ["interaction", "requests", "share", "wrong", "bytes", "p50 ms", "p99 ms"];
    let mut table = TextTable::of_figures(titles);
    for one in &result.interactions {
        table.plain([
            one.name.to_string(),
            one.requests.to_string(),
            format!("{:.1}%", 100.0 * one.requests as f64 / result.requests.max(1) as f64),
            one.errors.to_string(),
            (one.bytes / one.requests.max(1)).to_string(),
            format!("{:.2}", one.latency_ms.p50),
            format!("{:.2}", one.latency_ms.p99),
        ]);
    }
    table.text()
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
    let mut table = TextTable::of_figures(["totals", "here", "the paper", "ratio"]);
    let rows: [(&str, u64, u64); 5] = [
        ("clients", ours.clients, paper.clients),
        ("files", ours.files, paper.files),
        ("statements", ours.statements, paper.statements),
        ("rows read", ours.rows, paper.rows),
        ("bytes of files", ours.bytes, paper.bytes),
    ];
    for (name, here, there) in rows {
        let ratio = here as f64 / (there as f64 * scale).max(1.0);
        table.plain([name.to_string(), here.to_string(), there.to_string(), format!("{ratio:.3}")]);
    }
    let mut text = table.text();
    if scale == 1.0 {
        text.truncate(text.trim_end().len());
    } else {
        let _ = write!(text, "(ratios are to {scale} of the paper's totals, as the number of clients is)");
    }
    text
}
