//! The measurements of a trial, and how they are printed.

use super::Measure;
use hardmeter_evidence::number::counted;
use hardmeter_evidence::table::{printable, Column, Style, TextTable, Tone};
use hardmeter_evidence::{Interval, Verdict};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// A metric as found (A) and with the change (B).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gauge {
    /// The metric.
    pub measure: Measure,
    /// True if it decided the verdict; the others could only find harm.
    pub decides: bool,
    /// The median of the blocks as found.
    pub found: Option<f64>,
    /// The median of the blocks with the change.
    pub changed: Option<f64>,
    /// B divided by A, minus 1, over the rounds.
    pub change: Option<f64>,
    /// Its always-valid 95 % interval.
    pub interval: Option<Interval>,
    /// Rounds in which both had a value.
    pub rounds: usize,
    /// The difference of neighbouring blocks in the first part, in which nothing was changed: 0.05 is 5 %.
    pub spread: Option<f64>,
    /// The smallest change that the full number of rounds would probably prove.
    pub provable: Option<f64>,
}

/// A statement that became slower.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regression {
    /// Its text.
    pub text: String,
    /// Its time per call divided by that before, minus 1.
    pub change: f64,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
}

/// The measurements of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// The verdict.
    pub verdict: Verdict,
    /// Rounds of a block as found and a block with the change.
    pub rounds: u32,
    /// The number of rounds after which it would have ended without a verdict.
    pub most_rounds: u32,
    /// Its duration.
    pub seconds: f64,
    /// The metrics; the first one decides.
    pub gauges: Vec<Gauge>,
    /// Statements that became slower by 2 % or more, proven.
    pub regressions: Vec<Regression>,
    /// Statements that were compared one by one.
    pub compared: usize,
    /// Errors that the change caused.
    pub errors: Option<String>,
    /// It ended early: a gain that matters had become unlikely.
    pub unlikely: bool,
    /// Changes that were left out, or measured in another way than requested.
    pub remarks: Vec<String>,
}

impl TrialResult {
    /// The metric that decides.
    pub fn primary(&self) -> Option<&Gauge> {
        self.gauges.iter().find(|gauge| gauge.decides)
    }

    /// The result as text.
    pub fn text(&self, style: Style) -> String {
        let mut text = String::new();
        let rounds = counted(u64::from(self.rounds), "round");
        let by = self.primary().map_or("no measure", |gauge| gauge.measure.name());
        let verdict = style.paint(Tone::Title, &format!("{} by {by}", self.verdict.word()));
        let _ = writeln!(text, "{verdict}: {rounds} in {:.0} s", self.seconds);
        let columns = [
            Column::left(""),
            Column::right("as found"),
            Column::right("changed"),
            Column::right("change"),
            Column::right("95 % interval"),
            Column::right("A/A spread"),
            Column::right("provable"),
        ];
        let mut table = TextTable::new(columns);
        for gauge in &self.gauges {
            let value =
                |value: Option<f64>| value.map_or("-".into(), |value| figure(value, gauge.measure.unit()));
            let share =
                |value: Option<f64>| value.map_or("-".into(), |value| format!("{:.1} %", value * 100.0));
            let cells = [
                gauge.measure.name().to_owned(),
                value(gauge.found),
                value(gauge.changed),
                gauge.change.map_or("-".into(), signed),
                gauge.interval.map_or("open".into(), interval),
                share(gauge.spread),
                share(gauge.provable),
            ];
            table.plain(cells);
        }
        text += &table.render(style, 2);
        for sentence in self.sentences() {
            let _ = writeln!(text, "  {sentence}");
        }
        text
    }

    /// Facts that are not in the table.
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        match self.verdict {
            Verdict::Undecided if self.unlikely => {
                let early = if self.rounds < self.most_rounds { "ended early: " } else { "" };
                sentences
                    .push(format!("{early}a gain of the smallest size that matters has become unlikely"));
            }
            Verdict::Undecided => sentences.push(format!(
                "not decided in {}: ask for more with --rounds, or for longer blocks with --block",
                counted(u64::from(self.rounds), "round")
            )),
            _ => {}
        }
        sentences.extend(self.errors.clone());
        for one in &self.regressions {
            let text = printable(&one.text.split_whitespace().collect::<Vec<_>>().join(" "));
            let text: String = text.chars().take(60).collect();
            let within = one.interval.map_or(String::new(), |ends| format!(" ({})", interval(ends)));
            sentences.push(format!("slower by {}{within}: {text}", signed(one.change)));
        }
        if self.regressions.is_empty() && self.compared > 0 {
            let statements = counted(self.compared as u64, "statement");
            sentences.push(format!("none of {statements} is proven slower by 2 % or more"));
        }
        sentences.extend(self.remarks.iter().cloned());
        sentences
    }
}

/// A change: in per cent, or as a factor from ten on.
pub(super) fn signed(change: f64) -> String {
    match change >= 9.0 {
        true => format!("x{:.0}", 1.0 + change),
        false => format!("{:+.1} %", change * 100.0),
    }
}

pub(super) fn interval(ends: Interval) -> String {
    match ends.high >= 9.0 {
        true => format!("{} .. {}", signed(ends.low), signed(ends.high)),
        false => format!("{:+.1} .. {:+.1} %", ends.low * 100.0, ends.high * 100.0),
    }
}

pub(super) fn figure(value: f64, unit: &str) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0} {unit}"),
        middle if middle >= 1.0 => format!("{value:.2} {unit}"),
        _ => format!("{value:.4} {unit}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::trial) fn result(verdict: Verdict, change: f64) -> TrialResult {
        let gauge = Gauge {
            measure: Measure::Latency,
            decides: true,
            found: Some(11.8),
            changed: Some(11.8 * (1.0 + change)),
            change: Some(change),
            interval: Some(Interval { low: change - 0.01, high: change + 0.01 }),
            rounds: 7,
            spread: Some(0.031),
            provable: Some(0.021),
        };
        TrialResult {
            verdict,
            rounds: 7,
            most_rounds: 24,
            seconds: 70.0,
            gauges: vec![gauge],
            regressions: Vec::new(),
            compared: 3,
            errors: None,
            unlikely: false,
            remarks: Vec::new(),
        }
    }

    #[test]
    fn a_result_is_a_verdict_a_table_and_what_it_does_not_say() {
        let mut gained = result(Verdict::Better, -0.88);
        let text = gained.text(Style::default());
        assert!(text.starts_with("better by execution time per call: 7 rounds in 70 s\n"), "{text}");
        for part in
            ["11.80 ms", "1.42 ms", "-88.0 %", "-89.0 .. -87.0 %", "3.1 %", "2.1 %", "none of 3 statements"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        gained.regressions.push(Regression { text: "SELECT\n 1".into(), change: 0.07, interval: None });
        let text = gained.text(Style::default());
        assert!(text.contains("slower by +7.0 %: SELECT 1") && !text.contains("none of"), "{text}");
    }

    #[test]
    fn large_changes_are_factors() {
        assert_eq!(
            (signed(-0.5), signed(8.9), signed(107.25)),
            ("-50.0 %".into(), "+890.0 %".into(), "x108".into())
        );
        assert_eq!(interval(Interval { low: 0.5, high: 20.0 }), "+50.0 % .. x21");
        assert_eq!(interval(Interval { low: -0.5, high: 0.25 }), "-50.0 .. +25.0 %");
    }

    #[test]
    fn what_is_not_decided_says_so() {
        let mut open = result(Verdict::Undecided, 0.001);
        assert!(open.sentences()[0].starts_with("not decided in 7 rounds"));
        open.unlikely = true;
        assert!(open.sentences()[0].contains("unlikely"));
    }

    #[test]
    fn results_survive_json() {
        let gained = result(Verdict::Better, -0.88);
        let json = serde_json::to_string(&gained).unwrap();
        assert_eq!(serde_json::from_str::<TrialResult>(&json).unwrap(), gained);
    }
}
