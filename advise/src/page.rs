//! The results as text or JSON: a first screen of at most 40 lines, or everything.

use crate::look::shares::ratio;
use crate::{Finding, Look};
use hardmeter_evidence::number::grouped;
use hardmeter_evidence::table::{printable, wrap, Style, Tone};
use serde_json::{json, Value};
use std::fmt::Write;

const WIDTH: usize = 100;
const SHARES: usize = 9;
const STATEMENTS: usize = 3;
const FINDINGS: usize = 3;
const UNKNOWN: usize = 3;

/// A look and its findings.
#[derive(Clone, Debug)]
pub struct Page {
    /// The look.
    pub look: Look,
    /// The findings, the largest gain first.
    pub findings: Vec<Finding>,
}

impl Page {
    /// The result as JSON.
    pub fn json(&self) -> Value {
        json!({ "format": "hardmeter-tune", "version": 1, "look": self.look, "findings": self.findings })
    }

    /// The first screen: at most 40 lines of at most 100 columns. `again` is the given command, to which
    /// hints add options.
    pub fn first_screen(&self, style: Style, again: &str) -> String {
        let mut text = String::new();
        self.heading(&mut text);
        self.time(&mut text, style, SHARES);
        self.statements(&mut text, style, STATEMENTS);
        self.first_findings(&mut text, style);
        let unknown = &self.look.unknown;
        if !unknown.is_empty() {
            let _ = writeln!(text, "\n{}", style.paint(Tone::Title, "Unknown, and how to measure it"));
            for what in unknown.iter().take(UNKNOWN) {
                let _ = writeln!(text, "   {}", cut(what, WIDTH - 3));
            }
        }
        let hidden = self.findings.len().saturating_sub(FINDINGS);
        let more = if hidden > 0 { format!(" and {hidden} more remedies") } else { String::new() };
        let what = if self.findings.is_empty() { "all figures" } else { "evidence, commands, undo, risk" };
        let _ = writeln!(text, "\n{again} --full: {what}{more}");
        text
    }

    /// Everything: all shares, all findings with their evidence, commands, undo and risk.
    pub fn full(&self, style: Style) -> String {
        let mut text = String::new();
        self.heading(&mut text);
        self.time(&mut text, style, usize::MAX);
        self.statements(&mut text, style, 10);
        if self.findings.is_empty() {
            self.nothing(&mut text);
        }
        for (number, finding) in self.findings.iter().enumerate() {
            let title = format!("{}  {} ({})", number + 1, finding.title, finding.remedy);
            let _ = writeln!(text, "\n{}", style.paint(Tone::Title, &title));
            let advice = &finding.advice;
            let mut line = |name: &str, what: &str| {
                let _ = writeln!(text, "   {name:<11}{}", wrap(what, style, 14));
            };
            line("finding", &advice.finding);
            for evidence in &advice.evidence {
                let value = figure(evidence.value);
                let unit =
                    if evidence.unit.is_empty() { String::new() } else { format!(" {}", evidence.unit) };
                line("evidence", &format!("{}: {value}{unit} (n = {})", evidence.what, grouped(evidence.n)));
            }
            line("predicted", &format!("{}; {}", advice.prediction.words(), advice.prediction.effect));
            line("model", &advice.prediction.model);
            line("for", finding.audience.name());
            for command in &advice.apply {
                let _ = writeln!(text, "   {:<11}{}", "apply", printable(command));
            }
            for command in &advice.undo {
                let _ = writeln!(text, "   {:<11}{}", "undo", printable(command));
            }
            let mut line = |name: &str, what: &str| {
                let _ = writeln!(text, "   {name:<11}{}", wrap(what, style, 14));
            };
            line("risk", &advice.risk);
            line("read", finding.documentation);
        }
        if !self.look.unknown.is_empty() {
            let _ = writeln!(text, "\n{}", style.paint(Tone::Title, "Unknown, and how to measure it"));
            for what in &self.look.unknown {
                let _ = writeln!(text, "   {}", wrap(what, style, 3));
            }
        }
        text
    }

    fn heading(&self, text: &mut String) {
        let (look, server) = (&self.look, &self.look.server);
        let version = server.version.split([' ', '-']).next().unwrap_or_default();
        let (engine, work) = match look.mariadb {
            Some(_) => ("MariaDB", "statements"),
            None => ("PostgreSQL", "transactions"),
        };
        let idle = match look.time.idle {
            0 => String::new(),
            idle => format!(" ({idle} idle ones left out)"),
        };
        let line = format!(
            "{engine} {version}, database {}: {:.1} s, {} busy backends{idle}, {} {work} a second",
            server.database,
            look.seconds,
            look.time.busy,
            grouped(look.transactions_per_second().round() as u64)
        );
        let of_one_cpu = |seconds: f64| ratio(seconds, look.seconds) * 100.0;
        let backend = match look.cost.backend {
            Some(seconds) => format!(", {:.1} % in its backend", of_one_cpu(seconds)),
            None => String::new(),
        };
        let _ = writeln!(text, "{}", cut(&line, WIDTH));
        let _ = writeln!(
            text,
            "cost of looking: {:.1} % of one CPU here{backend}; {} samples; nothing was changed",
            of_one_cpu(look.cost.here),
            look.samples
        );
    }

    fn time(&self, text: &mut String, style: Style, most: usize) {
        let time = &self.look.time;
        if time.busy == 0 {
            let _ = writeln!(text, "\nNo session was active during the look: there is no time to divide.");
            return;
        }
        let title = format!("Where the time goes (100 % = {:.1} s of {} backends)", time.total, time.busy);
        let _ = writeln!(text, "\n{}", style.paint(Tone::Title, &title));
        let mut row = |name: &str, seconds: f64, n: String| {
            let share = ratio(seconds, time.total) * 100.0;
            let _ = writeln!(text, "   {:<52} {share:5.1} %   {n}", cut(name, 52));
        };
        let shown = if time.shares.len() <= most { time.shares.len() } else { most - 1 };
        for share in &time.shares[..shown] {
            let name = match share.event.as_str() {
                "" => share.kind.name().to_owned(),
                event => format!("{}: {event}", share.kind.name()),
            };
            use crate::Kind::{RunQueue, RunningKernel, RunningUser};
            let counted = matches!(share.kind, RunningUser | RunningKernel | RunQueue);
            let what = if counted { "exact, backends" } else { "sampled, n" };
            row(&name, share.seconds, format!("{what} = {}", grouped(share.n)));
        }
        if shown < time.shares.len() {
            let rest = &time.shares[shown..];
            let seconds = rest.iter().map(|share| share.seconds).sum();
            row(&format!("{} smaller ones", rest.len()), seconds, String::new());
        }
    }

    fn statements(&self, text: &mut String, style: Style, most: usize) {
        let look = &self.look;
        if look.statements.is_empty() {
            return;
        }
        let by = if look.counted { "by execution time" } else { "by samples of sessions" };
        let _ = writeln!(text, "\n{}", style.paint(Tone::Title, &format!("Statements, {by}")));
        for statement in look.statements.iter().take(most) {
            let detail = match (&statement.counts, statement.ms_per_call()) {
                (Some(counts), Some(ms)) => {
                    format!("{} ms a call, n = {}", figure(ms), grouped(counts.calls as u64))
                }
                _ => format!("n = {}", grouped(statement.samples)),
            };
            let share = statement.share * 100.0;
            let _ = writeln!(text, "   {:<60} {share:5.1} %   {detail}", cut(&statement.short(), 60));
        }
    }

    fn first_findings(&self, text: &mut String, style: Style) {
        if self.findings.is_empty() {
            return self.nothing(text);
        }
        let _ = writeln!(text, "\n{}", style.paint(Tone::Title, "What would help, as predicted"));
        for (number, finding) in self.findings.iter().take(FINDINGS).enumerate() {
            let title = cut(finding.title, 52);
            let gain = finding.advice.prediction.words();
            let (number, reader) = (number + 1, finding.audience.name());
            let _ = writeln!(text, "{number}  {title:<52} {gain}, for: {reader}");
            let _ = writeln!(text, "   {}", cut(&finding.advice.finding, WIDTH - 3));
            let _ = writeln!(text, "   -> {}", cut(&finding.advice.prediction.effect, WIDTH - 6));
        }
    }

    fn nothing(&self, text: &mut String) {
        let why = match self.look.time.busy {
            0 => "No rule fired. Without load few rules can: look while the server has load.",
            _ => "No remedy found: no rule fired for a gain of 2 % or more.",
        };
        let _ = writeln!(text, "\n{why}");
    }
}

/// At least three digits, and groups of thousands.
fn figure(value: f64) -> String {
    match value.abs() {
        100.0.. => grouped(value.abs().round() as u64),
        10.0..100.0 => format!("{value:.1}"),
        _ if value == value.trunc() => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    }
}

/// A text on one line, cut to this length.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let text = printable(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    match text.char_indices().nth(width) {
        Some(_) => text.chars().take(width - 3).chain("...".chars()).collect(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Measure;
    use crate::{Advice, Audience, Kind, Prediction, Share, Statement, TimeShares};

    fn finding(number: usize) -> Finding {
        let advice = Advice {
            finding: "long ".repeat(60),
            evidence: Vec::new(),
            prediction: Prediction::gain(0.5, "460 -> 8 ms a call", "model"),
            apply: vec!["ALTER DATABASE d SET jit = off;".into()],
            undo: vec!["ALTER DATABASE d RESET jit;".into()],
            changes: Vec::new(),
            risk: "none".into(),
        };
        let title = ["first", "second", "third", "fourth"][number];
        Finding {
            remedy: "jit",
            title,
            audience: Audience::Operator,
            documentation: "a/b",
            measure: Measure::Latency,
            advice,
        }
    }

    fn full_page() -> Page {
        let share = |number| Share { kind: Kind::Lock, event: format!("lock{number}"), seconds: 1.0, n: 10 };
        let statement = Statement { text: "SELECT \n 1 ".repeat(40), share: 0.1, ..Statement::default() };
        let look = Look {
            time: TimeShares {
                total: 30.0,
                shares: (0..30).map(share).collect(),
                busy: 4,
                ..TimeShares::default()
            },
            statements: vec![statement; 20],
            unknown: vec!["what ".repeat(50); 9],
            ..Look::default()
        };
        Page { look, findings: (0..4).map(finding).collect() }
    }

    #[test]
    fn the_first_screen_fits_a_terminal() {
        let text = full_page().first_screen(Style::default(), "hardmeter tune");
        assert!(text.lines().count() <= 40, "{} lines", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.contains("22 smaller ones") && text.contains(" 73.3 %"), "{text}");
        assert!(text.contains("3  third") && !text.contains("fourth"), "{text}");
        assert!(text.contains("--full: evidence, commands, undo, risk and 1 more remedies"), "{text}");
    }

    #[test]
    fn the_full_page_has_commands_and_undo() {
        let text = full_page().full(Style::default());
        assert!(text.contains("apply      ALTER DATABASE d SET jit = off;"), "{text}");
        assert!(
            text.contains("undo       ALTER DATABASE d RESET jit;") && text.contains("4  fourth"),
            "{text}"
        );
    }

    #[test]
    fn no_finding_is_said() {
        let mut page = full_page();
        page.findings.clear();
        assert!(page.first_screen(Style::default(), "x").contains("No remedy found"));
        page.look = Look::default();
        assert!(page.first_screen(Style::default(), "x").contains("look while the server has load"));
    }
}
