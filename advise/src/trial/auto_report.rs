//! The report of a run of `--auto`: as text of at most 40 lines, and as JSON.

use super::outcome::Closing;
use super::result::{interval, signed};
use super::sift::{Candidate, Left};
use super::{TrialResult, TryError};
use crate::look::shares::ratio;
use crate::page::cut;
use crate::Look;
use hardmeter_evidence::number::{counted, grouped};
use hardmeter_evidence::table::{printable, Column, Style, TextTable, Tone};
use serde::Serialize;
use serde_json::{json, Value};
use std::fmt::Write;

const WIDTH: usize = 100;
/// Rows in each part of the text: the others are only counted.
const STEPS: usize = 10;
const KEPT: usize = 5;
const LEFT: usize = 4;

/// The server's activity during a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Seen {
    /// Transactions a second.
    pub transactions_per_second: f64,
    /// Time in the server for each transaction, without waits for the client, in milliseconds.
    pub active_ms: Option<f64>,
    /// Backends that worked.
    pub busy: u64,
}

impl Seen {
    pub(super) fn of(look: &Look) -> Seen {
        let rate = look.transactions_per_second();
        Seen {
            transactions_per_second: rate,
            active_ms: (rate > 0.0).then(|| ratio(look.active_backends, rate) * 1e3),
            busy: look.time.busy,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.busy == 0
    }

    fn words(&self) -> String {
        let active = self.active_ms.map_or(String::new(), |ms| format!(", {ms:.3} ms each in the server"));
        format!("{} transactions a second{active}", grouped(self.transactions_per_second.round() as u64))
    }
}

/// The reason why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum End {
    /// No remedy is left that may be tried and has a predicted gain or no prediction.
    NothingToGain,
    /// No session was active during the look.
    NoLoad,
    /// The allowed number of trials was reached.
    MostSteps,
    /// Ended by Ctrl-C or a signal.
    Interrupted,
    /// The server, the load or the ledger failed.
    Failed {
        /// The error.
        reason: String,
    },
}

impl End {
    pub(super) fn failed(error: &TryError) -> End {
        let remedy = error.remedy();
        let remedy = if remedy.is_empty() { remedy } else { format!(" ({remedy})") };
        End::Failed { reason: format!("{error}{remedy}") }
    }
}

/// One trial of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Its number, from 1.
    pub number: usize,
    /// The remedy's name.
    pub remedy: String,
    /// The remedy's effect.
    pub title: String,
    /// The rule's finding.
    pub finding: String,
    /// The share that was predicted to be saved of what decides.
    pub predicted: Option<f64>,
    /// The statements that apply it.
    pub apply: Vec<String>,
    /// The statements that undo it.
    pub undo: Vec<String>,
    /// Its entry in the ledger; `None`: it ended before it had one.
    pub entry: Option<u64>,
    /// The measurements; `None` if the trial ended early.
    pub result: Option<TrialResult>,
    /// How the change ended; `None`: nothing was changed, or it is open.
    pub closed: Option<Closing>,
    /// A note on how it ended, if necessary.
    pub note: String,
    /// It was tried on a copy of the server.
    pub on_copy: bool,
    /// The commands for the administrator, because the gain was proven on a copy.
    pub by_hand: Vec<String>,
}

impl Step {
    /// The step as one line.
    pub fn line(&self) -> String {
        let verdict = self.result.as_ref().map_or("ended early".to_owned(), |result| {
            let change = result
                .primary()
                .and_then(|gauge| gauge.change)
                .map_or(String::new(), |change| format!(" ({})", signed(change)));
            format!("{}{change}", result.verdict)
        });
        let note = if self.result.is_none() { format!(": {}", self.note) } else { String::new() };
        format!("step {}, {}: {verdict}, {}{note}", self.number, self.remedy, self.state())
    }

    fn state(&self) -> &'static str {
        match (self.closed, self.entry) {
            (Some(_), _) if self.on_copy => "on a copy",
            (Some(closed), _) => super::log::state(Some(closed)),
            (None, Some(_)) => "open",
            (None, None) => "nothing was changed",
        }
    }
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AutoReport {
    /// The server and the database, as text.
    pub server: String,
    /// The name of the run in the ledger.
    pub run: String,
    /// Its duration.
    pub seconds: f64,
    /// The server's activity in the first look.
    pub before: Seen,
    /// The server's activity in the last look.
    pub after: Seen,
    /// The trials, in their order.
    pub steps: Vec<Step>,
    /// Findings of the last look that are left to a person.
    pub left: Vec<Left>,
    /// The reason why it ended.
    pub end: End,
}

impl AutoReport {
    pub(super) fn new(server: &str, run: &str, before: Seen) -> AutoReport {
        AutoReport {
            server: server.to_owned(),
            run: run.to_owned(),
            seconds: 0.0,
            before,
            after: before,
            steps: Vec::new(),
            left: Vec::new(),
            end: End::NothingToGain,
        }
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let mut value = json!(self);
        value["format"] = json!("hardmeter-tune-auto");
        value["version"] = json!(1);
        value["tried"] = json!(true);
        value
    }

    fn kept(&self) -> Vec<&Step> {
        self.steps.iter().filter(|step| step.closed == Some(Closing::Kept)).collect()
    }

    /// The report as text. `again` are the options that name the server.
    pub fn text(&self, style: Style, again: &str) -> String {
        let kept = self.kept();
        let mut text = String::new();
        let title = match &self.end {
            End::NothingToGain if self.steps.is_empty() => {
                format!("No remedy for {} that may be tried", printable(&self.server))
            }
            _ => {
                let by_hand = self.steps.iter().filter(|step| !step.by_hand.is_empty()).count();
                format!(
                    "Tuned {}: {} in {:.0} s, {} kept{}",
                    printable(&self.server),
                    counted(self.steps.len() as u64, "trial"),
                    self.seconds,
                    kept.len(),
                    if by_hand > 0 { format!(", {by_hand} proven on a copy") } else { String::new() }
                )
            }
        };
        let _ = writeln!(text, "{}", style.paint(Tone::Title, &title));
        if !self.steps.is_empty() {
            text += &self.table(style);
        }
        for step in &kept[..kept.len().min(KEPT)] {
            let entry = step.entry.map_or(String::new(), |entry| entry.to_string());
            let apply = step.apply.join(" ");
            let _ = writeln!(text, "  kept: {}", cut(&apply, WIDTH - 8));
            let _ = writeln!(text, "        undone by: hardmeter tune undo {entry} {again}");
        }
        if kept.iter().flat_map(|step| &step.apply).any(|statement| statement.starts_with("SET GLOBAL ")) {
            let _ = writeln!(
                text,
                "  a restart of the server ends what SET GLOBAL has set: write it into the configuration, too"
            );
        }
        for step in self.steps.iter().filter(|step| !step.by_hand.is_empty()).take(KEPT) {
            let _ = writeln!(text, "  proven on a copy, and yours to apply:");
            let _ = writeln!(text, "        {}", cut(&step.by_hand.join(" "), WIDTH - 8));
        }
        if kept.len() > KEPT {
            let _ = writeln!(text, "  {} more are kept: hardmeter tune log", kept.len() - KEPT);
        }
        if !self.steps.is_empty() {
            let _ = writeln!(text, "\nFirst look: {}", self.before.words());
            let _ = writeln!(text, "Last look:  {} (two looks, not a trial)", self.after.words());
        } else {
            let _ = writeln!(text, "The look saw {}.", self.before.words());
        }
        text += &left_text(&self.left, style);
        let _ = writeln!(text, "\n{}", self.end_words());
        if !self.steps.is_empty() {
            let _ = writeln!(
                text,
                "hardmeter tune report --html tuning.html: each step with its blocks' figures"
            );
        }
        text
    }

    fn table(&self, style: Style) -> String {
        let columns = [
            Column::right("step"),
            Column::left("remedy"),
            Column::right("predicted"),
            Column::right("measured"),
            Column::right("95 % interval"),
            Column::left("verdict"),
            Column::left("state"),
            Column::right("entry"),
        ];
        let mut table = TextTable::new(columns);
        for step in self.steps.iter().take(STEPS) {
            let gauge = step.result.as_ref().and_then(|result| result.primary());
            table.plain([
                step.number.to_string(),
                printable(&step.remedy),
                step.predicted.map_or("-".into(), |gain| signed(-gain)),
                gauge.and_then(|gauge| gauge.change).map_or("-".into(), signed),
                gauge.and_then(|gauge| gauge.interval).map_or("-".into(), interval),
                step.result.as_ref().map_or("ended early".into(), |result| result.verdict.to_string()),
                step.state().into(),
                step.entry.map_or("-".into(), |entry| entry.to_string()),
            ]);
        }
        let mut text = table.render(style, 0);
        if self.steps.len() > STEPS {
            let _ = writeln!(text, "  {} more: hardmeter tune log", self.steps.len() - STEPS);
        }
        let early = self.steps.iter().filter(|step| step.result.is_none());
        for step in early.take(2) {
            let _ = writeln!(text, "  {}", cut(&step.line(), WIDTH - 2));
        }
        let slower = self.steps.iter().filter(|step| {
            step.closed == Some(Closing::Kept)
                && step.result.as_ref().is_some_and(|result| !result.regressions.is_empty())
        });
        for step in slower.take(2) {
            let worst = step.result.iter().flat_map(|result| &result.regressions).next();
            if let Some(worst) = worst {
                let what =
                    format!("step {} makes slower by {}: {}", step.number, signed(worst.change), worst.text);
                let _ = writeln!(text, "  {}", cut(&what, WIDTH - 2));
            }
        }
        text
    }

    fn end_words(&self) -> String {
        match &self.end {
            End::NothingToGain if self.left.is_empty() && self.kept().len() < self.steps.len() => {
                "No further remedy to try: no other rule fired for a relevant gain.".into()
            }
            End::NothingToGain if self.left.is_empty() => {
                "No remedy is left: no rule fired for a relevant gain.".into()
            }
            End::NothingToGain => "No remedy is left that may be tried here.".into(),
            End::NoLoad => {
                "No session was active during the look: run this while the server has load, or give a load: -- LOAD"
                    .into()
            }
            End::MostSteps => {
                "Ended after the maximum number of steps: run it again, or allow more.".into()
            }
            End::Interrupted => "Interrupted; no change is open: all changes that were not kept are undone.".into(),
            End::Failed { reason } => format!("Ended early: {}", cut(reason, 300)),
        }
    }
}

/// The remedies that will be tried first, before anything is changed.
pub(super) fn plan_text(seen: &Seen, candidates: &[Candidate], left: &[Left], style: Style) -> String {
    let mut text = format!("The server does {}.\n", seen.words());
    let title = "These are tried, one after the other; those with a proven gain are kept, the others undone";
    let _ = writeln!(text, "\n{}", style.paint(Tone::Title, title));
    for (number, candidate) in candidates.iter().take(KEPT).enumerate() {
        let finding = &candidate.finding;
        let gain = match finding.advice.prediction.by(finding.measure) {
            Some(_) => format!("{} predicted", finding.advice.prediction.words_by(finding.measure)),
            None => "no prediction".into(),
        };
        let _ = writeln!(text, "{}  {}: {}, {gain}", number + 1, finding.remedy, finding.title);
        let of = |statements: Vec<String>| cut(&statements.join(" "), WIDTH - 14);
        let apply = candidate.switches.iter().flat_map(super::Switch::apply).collect();
        let undo = candidate.switches.iter().rev().flat_map(super::Switch::undo).collect();
        let _ = writeln!(text, "   changes    {}", of(apply));
        let _ = writeln!(text, "   undone by  {}", of(undo));
    }
    if candidates.len() > KEPT {
        let _ = writeln!(text, "   {} more", candidates.len() - KEPT);
    }
    text += &left_text(left, style);
    text + "\nEach look after a step may find others of these kinds.\n"
}

fn left_text(left: &[Left], style: Style) -> String {
    let mut text = String::new();
    if left.is_empty() {
        return text;
    }
    let _ = writeln!(text, "\n{}", style.paint(Tone::Title, "Left to a person"));
    for one in left.iter().take(LEFT) {
        let gain = one.predicted.map_or(String::new(), |gain| format!(" -{:.0} %", gain * 100.0));
        let line = format!("{} ({}{gain}): {}", one.remedy, one.audience, one.reason);
        let _ = writeln!(text, "   {}", cut(&line, WIDTH - 3));
    }
    if left.len() > LEFT {
        let _ = writeln!(text, "   {} more: hardmeter tune --full", left.len() - LEFT);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::result::tests::result;
    use crate::trial::sift::tests::finding;
    use hardmeter_evidence::Verdict;

    fn step(number: usize, closed: Option<Closing>, verdict: Verdict, change: f64) -> Step {
        Step {
            number,
            remedy: "jit".into(),
            title: "switch it off".into(),
            finding: "compiling takes long".into(),
            predicted: Some(0.9),
            apply: vec!["ALTER SYSTEM SET jit = 'off';".into()],
            undo: vec!["ALTER SYSTEM RESET jit;".into()],
            entry: Some(number as u64 + 3),
            result: Some(result(verdict, change)),
            closed,
            note: String::new(),
            on_copy: false,
            by_hand: Vec::new(),
        }
    }

    fn report(steps: Vec<Step>, end: End) -> AutoReport {
        let before = Seen { transactions_per_second: 23.0, active_ms: Some(85.2), busy: 2 };
        AutoReport { steps, end, ..AutoReport::new("shop at /run", "1", before) }
    }

    #[test]
    fn a_tuned_server_has_nothing_to_gain() {
        let text = report(Vec::new(), End::NothingToGain).text(Style::default(), "--server /s");
        assert!(text.starts_with("No remedy for shop at /run"), "{text}");
        assert!(text.contains("23 transactions a second, 85.200 ms each"), "{text}");
        assert!(report(Vec::new(), End::NoLoad).text(Style::default(), "").contains("No session was active"));
    }

    #[test]
    fn each_step_has_its_line_and_kept_ones_their_undo() {
        let steps = vec![
            step(1, Some(Closing::Kept), Verdict::Better, -0.88),
            step(2, Some(Closing::Undone), Verdict::Same, 0.001),
            Step {
                result: None,
                note: "ended early: no memory".into(),
                ..step(3, Some(Closing::Undone), Verdict::Same, 0.0)
            },
        ];
        let report = report(steps, End::NothingToGain);
        let text = report.text(Style::default(), "--server /s");
        assert!(text.starts_with("Tuned shop at /run: 3 trials in 0 s, 1 kept\n"), "{text}");
        for part in [
            "-88.0 %",
            "-89.0 .. -87.0 %",
            "kept: ALTER SYSTEM SET jit = 'off';",
            "undone by: hardmeter tune undo 4 --server /s",
            "step 3, jit: ended early, undone: ended early: no memory",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json = report.json();
        assert_eq!(
            (&json["format"], &json["steps"][0]["closed"]),
            (&json!("hardmeter-tune-auto"), &json!("kept"))
        );
        assert_eq!(json["end"]["why"], "nothing_to_gain");
    }

    #[test]
    fn what_gained_on_a_copy_is_for_a_person_to_apply() {
        let apply = ["ALTER SYSTEM SET shared_buffers = '64MB';", "-- then restart the server"];
        let by_hand = apply.map(String::from).to_vec();
        let step = step(1, Some(Closing::Undone), Verdict::Better, -0.4);
        let report = report(vec![Step { on_copy: true, by_hand, ..step }], End::NothingToGain);
        let text = report.text(Style::default(), "--server /s");
        assert!(
            text.starts_with("Tuned shop at /run: 1 trial in 0 s, 0 kept, 1 proven on a copy\n"),
            "{text}"
        );
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "better on a copy 4",
            "yours to apply: ALTER SYSTEM SET shared_buffers = '64MB'; -- then restart the server",
            "No further remedy to try",
        ] {
            assert!(joined.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_screen_is_enough() {
        let mut many = report(
            (1..=15).map(|number| step(number, Some(Closing::Kept), Verdict::Better, -0.5)).collect(),
            End::MostSteps,
        );
        let left = Left {
            remedy: "connections".into(),
            title: "a pool".into(),
            audience: "application",
            predicted: Some(0.9),
            reason: "long ".repeat(60),
            apply: Vec::new(),
        };
        many.left = vec![left.clone(); 9];
        let text = many.text(Style::default(), "--server /s");
        assert!(text.lines().count() <= 40, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");

        let candidate = |number: usize| Candidate {
            finding: finding(["jit", "spill"][number % 2], Some(0.5), Vec::new()),
            wanted: Vec::new(),
            switches: Vec::new(),
        };
        let candidates: Vec<Candidate> = (0..9).map(candidate).collect();
        let plan = plan_text(&many.before, &candidates, &many.left, Style::default());
        assert!(
            plan.lines().count() <= 40 && plan.contains("1  jit: a title, -50 % of active time"),
            "{plan}"
        );
    }
}
