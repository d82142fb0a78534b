//! The change that a trial will make, and how it is undone: printed before anything is changed.

use super::{Measure, Pace, Switch};
use crate::Finding;
use hardmeter_evidence::table::{wrap, Style, Tone};
use serde_json::{json, Value};
use std::fmt::Write;

/// A trial that can be conducted.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The remedy's name, or the setting.
    pub name: String,
    /// Its finding; `None` for a setting that the user named.
    pub finding: Option<Finding>,
    /// The switches.
    pub switches: Vec<Switch>,
    /// The metric that decides.
    pub measure: Measure,
    /// The length of blocks, and their largest number.
    pub pace: Pace,
    /// The length of blocks is the duration of the load's command.
    pub per_block: bool,
}

impl Proposal {
    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "remedy": self.name,
            "finding": self.finding,
            "switches": self.switches,
            "apply": self.apply(),
            "undo": self.undo(),
            "measure": self.measure,
            "block_seconds": if self.per_block { None } else { Some(self.pace.block) },
            "most_rounds": self.pace.most_rounds,
            "minimum_effect": self.pace.minimum,
        })
    }

    fn apply(&self) -> Vec<String> {
        self.switches.iter().flat_map(Switch::apply).collect()
    }

    fn undo(&self) -> Vec<String> {
        self.switches.iter().rev().flat_map(Switch::undo).collect()
    }

    /// As text.
    pub fn text(&self, style: Style) -> String {
        let title = match &self.finding {
            Some(finding) => format!("{}: {}", self.name, finding.title),
            None => self.name.clone(),
        };
        let mut text = format!("{}\n", style.paint(Tone::Title, &title));
        let mut line = |name: &str, what: &str| {
            let _ = writeln!(text, "   {name:<11}{}", wrap(what, style, 14));
        };
        if let Some(finding) = &self.finding {
            let prediction = &finding.advice.prediction;
            line("finding", &finding.advice.finding);
            line("predicted", &format!("{}; {}", prediction.words_by(self.measure), prediction.effect));
        }
        for statement in self.apply() {
            line("changes", &statement);
        }
        for switch in &self.switches {
            if let Switch::Copy(copy) = switch {
                for setting in &copy.settings {
                    line(
                        "before",
                        &format!("{} is {} on the server, and stays so", setting.name, setting.was),
                    );
                }
            }
            if let Switch::Restart(restart) = switch {
                for setting in &restart.settings {
                    line("before", &format!("{} is {}", setting.name, setting.was));
                }
                line(
                    "restarts",
                    "the server, before each block and at the end: all its sessions end each time",
                );
            }
            if let Switch::Global(global) = switch {
                line("before", &format!("{} is {}", global.name, global.prior));
            }
            if let Switch::OnlineIndex(index) = switch {
                line("before", &index.before());
            }
            if let Switch::Setting(setting) = switch {
                let prior = match &setting.prior {
                    Some(prior) => format!("the line there is '{prior}'"),
                    None => "no line there sets it".into(),
                };
                line("before", &format!("{} is {}; {prior}", setting.name, setting.was));
                if let Some(plans) = setting.plans_in_words() {
                    line("plans", &plans);
                }
            }
        }
        for statement in self.undo() {
            line("undone by", &statement);
        }
        line("decided by", &self.decided());
        if let Some(finding) = &self.finding {
            line("risk", &finding.advice.risk);
        }
        text
    }

    fn decided(&self) -> String {
        let Pace { block, first_blocks, most_rounds, minimum, .. } = self.pace;
        let what = format!("{}, from {:.1} % on", self.measure.name(), minimum * 100.0);
        if self.per_block {
            return format!(
                "{what}; {first_blocks} runs of the load as found, then at most {most_rounds} rounds of two"
            );
        }
        let restarts = |switch: &Switch| matches!(switch, Switch::Copy(_) | Switch::Restart(_));
        // After a restart the skipped part is added, and a second for starting.
        let each = if self.switches.iter().any(restarts) { block + self.pace.settle + 1.0 } else { block };
        let seconds = |rounds: u32| f64::from(first_blocks + 2 * rounds) * each;
        format!(
            "{what}; {first_blocks} blocks of {block} s as found, then at most {most_rounds} rounds of two: \
             {:.0} to {:.0} s",
            seconds(7.min(most_rounds)),
            seconds(most_rounds)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_and_undone_is_printed_before() {
        let setting = serde_json::from_value(json!({
            "kind": "setting", "name": "jit", "value": "off", "database": null, "prior": "on", "was": "on", "becomes": "off", "replans": true
        }));
        let (block, settle, first_blocks, most_rounds) = (5.0, 1.5, 6, 24);
        let proposal = Proposal {
            name: "jit=off".into(),
            finding: None,
            switches: vec![setting.unwrap()],
            measure: Measure::Latency,
            pace: Pace { block, settle, first_blocks, most_rounds, minimum: 0.02, longest_build: 30.0 },
            per_block: false,
        };
        let text = proposal.text(Style::default());
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "changes ALTER SYSTEM SET jit = 'off';",
            "before jit is on; the line there is 'on'",
            "plans at each switch sessions are made to plan again",
            "undone by ALTER SYSTEM SET jit = 'on';",
            // 6 + 2 x 7 = 20 blocks, 6 + 2 x 24 = 54 blocks.
            "at most 24 rounds of two: 100 to 270 s",
        ] {
            assert!(joined.contains(part), "{part}: {text}");
        }
        assert_eq!(proposal.json()["undo"][0], "ALTER SYSTEM SET jit = 'on';");
    }
}
