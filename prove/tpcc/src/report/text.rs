//! A result for the terminal, and as JSON.

use super::number::{self, count, seconds, with_decimals};
use super::summary::{mode_in_words, Quantiles, Summary};
use super::verdicts::{self, Group, Outcome, Verdict};
use super::DISCLAIMER;
use crate::measure::{Ending, RunResult};
use crate::settings::in_words;
use hardmeter_evidence::table::{Column, Style, TextTable};
use serde_json::json;
use std::fmt::Write as _;

/// A result as text: the answer, a line for each transaction, the verdicts. `full`: with a line for each rule that is
/// not applicable.
pub fn render(result: &RunResult, full: bool) -> String {
    let summary = Summary::of(result);
    let verdicts = verdicts::verdicts(result);
    let mut text = headline(result, &summary, &verdicts);
    text.push('\n');
    text += &kinds(&summary);
    text.push('\n');
    text += &costs(result, &summary);
    if !result.errors.is_empty() {
        text += "\nfailures of the whole run\n";
        let columns =
            [Column::left("kind"), Column::left("code"), Column::right("count"), Column::left("more")];
        let mut table = TextTable::new(columns).untitled();
        for errors in &result.errors {
            let code = if errors.code.is_empty() { "-" } else { &errors.code };
            let more =
                format!("{} tried again; the first: {}", count(errors.retried), one_line(&errors.example));
            table.plain([errors.kind.name(), code, &count(errors.count), &more]);
        }
        text += &table.render(Style::default(), 2);
    }
    for remark in &result.environment.remarks {
        let _ = writeln!(text, "warning: {}", one_line(remark));
    }
    let is_shown = |verdict: &&Verdict| full || verdict.outcome != Outcome::NotApplicable;
    for group in Group::ALL {
        let of_group = verdicts.iter().filter(|verdict| verdict.group == group);
        let lines: Vec<_> = of_group.filter(is_shown).collect();
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{}", group.title());
            text += &verdict_lines(&lines);
        }
    }
    let folded: Vec<&str> =
        verdicts.iter().filter(|verdict| !is_shown(verdict)).map(|verdict| verdict.name.as_str()).collect();
    if !folded.is_empty() {
        let _ = writeln!(text, "\nnot applicable (--full has their rows): {}", folded.join("; "));
    }
    text += "\n[m] not verified against the official text    [o] our own rule, no clause\n";
    text
}

/// The result's figures and verdicts as JSON.
pub fn json(result: &RunResult) -> serde_json::Value {
    let verdicts = verdicts::verdicts(result);
    json!({
        "disclaimer": DISCLAIMER,
        "short": verdicts::is_short(&verdicts),
        "ending": result.ending,
        "started_at": result.started_at,
        "summary": Summary::of(result),
        "verdicts": verdicts,
        "errors": result.errors,
        "checkpoints": result.checkpoints,
        "conditions": result.conditions,
        "order": result.order,
        "environment": result.environment,
        "drivers": result.drivers,
    })
}

/// The figure and the verdicts in short; then what ran.
fn headline(result: &RunResult, summary: &Summary, verdicts: &[Verdict]) -> String {
    let half =
        summary.half_interval.map_or(String::new(), |half| format!(" \u{b1} {}", number::number(half)));
    let mut text = format!(
        "{}{half} New-Orders a minute, {} a warehouse; NOPM {}\n",
        with_decimals(summary.new_orders_a_minute.floor(), 0),
        with_decimals(summary.per_warehouse, 2),
        with_decimals(summary.nopm.floor(), 0),
    );
    match &result.ending {
        Ending::Complete => {}
        Ending::Interrupted => text += "INTERRUPTED: this is what there was until then\n",
        Ending::Failed { reason } => {
            let _ = writeln!(text, "FAILED: {}; this is what there was until then", one_line(reason));
        }
    }
    let _ = writeln!(text, "{}: {}", verdicts::answer(verdicts), verdicts::summary(verdicts));
    for short in verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Short) {
        let _ = writeln!(text, "  {}: {}, wanted {}", short.name, short.found_in_words(), short.wanted);
    }
    let _ = writeln!(text, "{DISCLAIMER}");
    let order = &result.order;
    let terminals: u64 = result.drivers.iter().map(|driver| u64::from(driver.terminals)).sum();
    let _ = writeln!(
        text,
        "{} warehouses, {}{}; {} connections; {} after a ramp of {}\n{}, begun {}",
        count(u64::from(order.warehouses)),
        if terminals > 0 { format!("{} ", count(terminals)) } else { String::new() },
        mode_in_words(order.mode),
        order.connections,
        number::duration(result.measured_seconds),
        number::duration(order.ramp_seconds),
        if result.environment.system.is_empty() { "unknown system" } else { &result.environment.system },
        number::date(result.started_at)
    );
    if !order.settings.is_empty() {
        let _ = writeln!(text, "settings of its connections: {}", one_line(&in_words(&order.settings)));
    }
    text
}

fn kinds(summary: &Summary) -> String {
    let mut table = TextTable::of_figures([
        "",
        "completed",
        "share",
        "p50",
        "p90",
        "p95",
        "p99",
        "p99.9",
        "max",
        "mean",
        "lag p99",
        "queue p90",
        "serv. p90",
    ]);
    for kind in &summary.kinds {
        let of = |quantiles: &Option<Quantiles>, pick: fn(&Quantiles) -> f64| {
            quantiles.as_ref().map_or_else(|| "-".into(), |quantiles| seconds(pick(quantiles)))
        };
        let response = |pick| of(&kind.response, pick);
        table.plain([
            kind.kind.name().to_string(),
            count(kind.completed),
            format!("{:.2} %", kind.share),
            response(|times| times.p50),
            response(|times| times.p90),
            response(|times| times.p95),
            response(|times| times.p99),
            response(|times| times.p999),
            response(|times| times.max),
            response(|times| times.mean),
            of(&kind.lag, |times| times.p99),
            of(&kind.queued, |times| times.p90),
            of(&kind.service, |times| times.p90),
        ]);
    }
    let mut text = table.text();
    if let Some(delivery) = &summary.delivery {
        let _ = writeln!(
            text,
            "deferred deliveries: {} done, 90 % within {}, the longest {}",
            count(delivery.n),
            seconds(delivery.p90),
            seconds(delivery.max)
        );
    }
    text
}

fn costs(result: &RunResult, summary: &Summary) -> String {
    let cost =
        |value: Option<f64>| value.map_or_else(|| "not seen".into(), |value| format!("{value:.4} CPU s"));
    format!(
        "by 1,000 New-Orders: driver {}, server {}; driver's memory {} in {}\n",
        cost(summary.driver_cpu_per_1000),
        cost(summary.server_cpu_per_1000),
        number::bytes(summary.driver_resident_bytes),
        if result.drivers.len() == 1 {
            "1 process".into()
        } else {
            format!("{} processes", result.drivers.len())
        }
    )
}

fn verdict_lines(verdicts: &[&Verdict]) -> String {
    let (left, right) = (Column::left, Column::right);
    let columns = [left("verdict"), left("rule"), right("found"), right("n"), left("wanted")];
    let mut table = TextTable::new(columns).untitled();
    for verdict in verdicts {
        let mark = match verdict.basis {
            verdicts::Basis::Read => "",
            verdicts::Basis::NotVerified => " [m]",
            verdicts::Basis::Ours => "[o]",
        };
        let n = if verdict.n > 0 { format!("n {}", count(verdict.n)) } else { String::new() };
        let clause = if verdict.clause.is_empty() { String::new() } else { format!("({})", verdict.clause) };
        table.plain([
            verdict.outcome.word().to_string(),
            verdict.name.to_string(),
            verdict.found_in_words(),
            n,
            format!("{} {clause}{mark}", verdict.wanted),
        ]);
        if !verdict.note.is_empty() && verdict.outcome != Outcome::NotApplicable {
            table.note(one_line(&verdict.note));
        }
    }
    table.render(Style::default(), 2)
}

/// A text from a server or a file, without line breaks and terminal control characters.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Errors;
    use crate::report::testing;
    use crate::work::Kind;

    #[test]
    fn the_text_has_the_figures_and_says_what_it_is_not() {
        let mut result = testing::run(20, 60.0, 120.0, 3);
        result.errors.push(Errors {
            kind: Kind::Payment,
            code: "40001".into(),
            count: 3,
            retried: 2,
            example: "could not\nserialize \u{1b}[31m".into(),
        });
        let orders = result.of(Kind::NewOrder);
        let (all, kept) = (orders.completed, orders.completed - orders.rolled_back);
        assert!(kept < all);
        let text = render(&result, false);
        let first = text.lines().next().unwrap();
        assert!(first.starts_with(&format!("{} \u{b1} ", all / 2)), "{first}");
        assert!(first.ends_with(&format!("NOPM {}", kept / 2)), "{first}");
        assert!(text.contains("not a TPC result"));
        assert!(text.contains("could not serialize  [31m") && !text.contains('\u{1b}'));
        assert!(text.contains("20 warehouses, 200 terminals with keying"));
        // One CPU second for each; the driver used 0.5 s.
        let cost =
            format!("driver {:.4} CPU s, server {:.4} CPU s", 500.0 / all as f64, 12_500.0 / all as f64);
        assert!(text.contains(&cost), "{text}");
        assert!(text.lines().nth(1).unwrap().starts_with("no rule is SHORT: "), "{text}");
        // Rows that are not applicable are one line, unless all are wanted.
        let rows = |text: &str| text.lines().filter(|line| line.starts_with("  not applicable ")).count();
        let full = render(&result, true);
        let folded = verdicts::verdicts(&result);
        let folded = folded.iter().filter(|verdict| verdict.outcome == Outcome::NotApplicable).count();
        assert!(folded > 0);
        assert_eq!((rows(&text), rows(&full)), (0, folded), "{text}");
        assert!(
            text.contains("\nnot applicable (--full has their rows): ") && !full.contains("--full"),
            "{text}"
        );
        let value = json(&result);
        assert_eq!(value["summary"]["kinds"][0]["completed"], all);
        assert_eq!(value["short"], false);
        result.ending = Ending::Failed { reason: "the server went away".into() };
        let text = render(&result, false);
        let lines: Vec<&str> = text.lines().collect();
        // The figure, how it ended, the verdicts, and each SHORT rule with what was wanted.
        assert_eq!(lines[1], "FAILED: the server went away; this is what there was until then");
        assert!(lines[2].starts_with("1 rule is SHORT: ") && lines[2].contains(", 1 SHORT, "), "{text}");
        assert!(lines[3].starts_with("  complete: ") && lines[3].contains(", wanted "), "{text}");
        assert_eq!(json(&result)["short"], true);
    }
}
