//! The rule of a remedy, its advice, and the order of findings.

use crate::change::{applying, undoing, Change, ChangeKind, Scope, Takes};
use crate::look::server::Server;
use crate::look::Look;
use crate::trial::Measure;
use serde::Serialize;

/// Who can apply a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Audience {
    /// Runs the server: settings, memory, connections.
    Operator,
    /// Writes the programs that send statements.
    Application,
    /// Owns tables and indexes.
    Schema,
    /// Changes the server's source.
    Hacker,
}

impl Audience {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Audience::Operator => "operator",
            Audience::Application => "application",
            Audience::Schema => "schema",
            Audience::Hacker => "hacker",
        }
    }
}

/// One figure that a rule relies on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// What was measured.
    pub what: String,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The number of observations.
    pub n: u64,
}

impl Evidence {
    /// A figure of `n` observations.
    pub fn new(what: impl Into<String>, value: f64, unit: &str, n: u64) -> Evidence {
        Evidence { what: what.into(), value, unit: unit.into(), n }
    }
}

/// The predicted effect of a remedy, before it is tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Prediction {
    /// The share of the backends' active time (all except waits for the client) that would be saved; `None`
    /// without a model of this gain.
    pub gain: Option<f64>,
    /// The share of the backends' CPU time that would be saved, if that is more informative: for work that
    /// mostly waits for a device, the same CPU time is a small part of the active time.
    pub of_cpu: Option<f64>,
    /// The share of the statements' execution time that would be saved, if it differs: commits, and the way between
    /// client and server, are active time and not execution.
    pub of_execution: Option<f64>,
    /// The harm grows while the server runs: it ranks as 5 % at least.
    pub grows: bool,
    /// The effect in the units of the user: "459 -> 5.3 ms a call".
    pub effect: String,
    /// How the gain is computed, and what the model does not include.
    pub model: String,
}

impl Prediction {
    /// A gain of this share of the active time.
    pub fn gain(gain: f64, effect: impl Into<String>, model: impl Into<String>) -> Prediction {
        Prediction {
            gain: Some(gain.clamp(0.0, 1.0)),
            of_cpu: None,
            of_execution: None,
            grows: false,
            effect: effect.into(),
            model: model.into(),
        }
    }

    /// No model predicts it: `why` describes how to measure it.
    pub fn unknown(effect: impl Into<String>, why: impl Into<String>) -> Prediction {
        Prediction { effect: effect.into(), model: why.into(), ..Prediction::default() }
    }

    /// The same with the share of the CPU time.
    pub fn with_cpu(self, share: f64) -> Prediction {
        Prediction { of_cpu: Some(share.clamp(0.0, 1.0)), ..self }
    }

    /// The same with the share of the execution time.
    pub fn with_execution(self, share: f64) -> Prediction {
        Prediction { of_execution: Some(share.clamp(0.0, 1.0)), ..self }
    }

    /// The share that is predicted to be saved of what a trial measures.
    pub fn by(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::Latency => self.of_execution.or(self.gain),
            Measure::Cpu => self.of_cpu.or(self.gain),
            Measure::Throughput => self.gain,
            Measure::Log => None,
        }
    }

    /// The prediction of what a trial measures, as text.
    pub fn words_by(&self, measure: Measure) -> String {
        let named = match measure {
            Measure::Latency => self.of_execution.map(|share| (share, "execution time")),
            Measure::Cpu => self.of_cpu.map(|share| (share, "CPU time")),
            Measure::Log => return "no figure".to_owned(),
            Measure::Throughput => None,
        };
        match named.or(self.gain.map(|gain| (gain, "active time"))) {
            Some((share, of)) => format!("-{:.0} % of {of}", share * 100.0),
            None => "no figure".to_owned(),
        }
    }

    /// True if it is worth a remedy: by the active time, CPU time or execution time.
    fn matters(&self) -> bool {
        let others = [self.of_cpu, self.of_execution];
        self.grows
            || self.gain.is_none_or(|gain| gain >= LEAST_GAIN)
            || others.into_iter().flatten().any(|share| share >= LEAST_OF_OTHERS)
    }

    /// The gain as text.
    pub(crate) fn words(&self) -> String {
        let small = self.gain.is_some_and(|gain| gain < LEAST_GAIN);
        match self.gain {
            Some(_) if small && self.of_cpu.is_some() => self.words_by(Measure::Cpu),
            Some(_) if small => self.words_by(Measure::Latency),
            Some(_) => self.words_by(Measure::Throughput),
            None if self.grows => "no figure: the harm grows".into(),
            None => "no prediction".into(),
        }
    }

    fn rank(&self) -> f64 {
        self.gain.unwrap_or(0.0).max(if self.grows { 0.05 } else { 0.0 })
    }
}

/// The advice of a rule that fired.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Advice {
    /// The problem, in one sentence.
    pub finding: String,
    /// The figures that the rule relies on.
    pub evidence: Vec<Evidence>,
    /// The predicted effect of the remedy.
    pub prediction: Prediction,
    /// Commands that apply it; a line that begins with `--` is a comment.
    pub apply: Vec<String>,
    /// Commands that undo it.
    pub undo: Vec<String>,
    /// The same as data; none if a person must do something that no statement does.
    pub changes: Vec<Change>,
    /// The risk.
    pub risk: String,
}

impl Advice {
    /// Adds a change of a setting; if the server's command line sets it, a person must change it, since no
    /// statement can: then its commands are comments.
    pub(crate) fn with_setting(self, server: &Server, scope: Scope, name: &str, value: &str) -> Advice {
        let change = match scope == Scope::System && server.on_command_line.iter().any(|one| one == name) {
            true => Change {
                kind: ChangeKind::CommandLine {
                    name: name.into(),
                    value: value.into(),
                    before: server.setting(name).into(),
                },
                takes: Takes::Restart,
            },
            false => server.change(scope, name, value),
        };
        self.with_changes(vec![change])
    }

    /// Sets the commands from the statements of these changes, each followed by its comments.
    pub(crate) fn with_changes(self, changes: Vec<Change>) -> Advice {
        let (mut apply, mut undo) = (applying(&changes), undoing(&changes));
        apply.extend(self.apply);
        undo.extend(self.undo);
        Advice { apply, undo, changes, ..self }
    }
}

/// A remedy: a rule over a look, and the advice if it fires. Each has a file of its own in `remedies/`.
#[derive(Clone, Copy, Debug)]
pub struct Remedy {
    /// Its name on the command line: the name of its file, with `-` for `_`.
    pub id: &'static str,
    /// Its effect, in a few words.
    pub title: &'static str,
    /// Who can apply it.
    pub audience: Audience,
    /// Where to read more: a chapter of the server's manual.
    pub documentation: &'static str,
    /// The rule: `None` if the look has no evidence for this remedy.
    pub examine: fn(&Look) -> Option<Advice>,
}

/// A remedy whose rule fired.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The remedy's name.
    pub remedy: &'static str,
    /// Its effect.
    pub title: &'static str,
    /// Who can apply it.
    pub audience: Audience,
    /// Where to read more.
    pub documentation: &'static str,
    /// What a trial of it measures.
    pub measure: Measure,
    /// The rule's advice.
    #[serde(flatten)]
    pub advice: Advice,
}

/// Gains of active time below this are not worth a remedy.
const LEAST_GAIN: f64 = 0.02;
/// Unless they are this part of the CPU time or of the execution time: then waits of others hide what is gained.
const LEAST_OF_OTHERS: f64 = 0.1;

/// Runs the rules of these remedies; findings are ordered by predicted gain.
pub fn advise(look: &Look, remedies: &[Remedy]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = remedies
        .iter()
        .filter_map(|remedy| {
            let Remedy { id, title, audience, documentation, examine } = *remedy;
            let (measure, advice) = (Measure::of_remedy(id), examine(look)?);
            Some(Finding { remedy: id, title, audience, documentation, measure, advice })
        })
        .filter(|finding| finding.advice.prediction.matters())
        .collect();
    findings.sort_by(|a, b| b.advice.prediction.rank().total_cmp(&a.advice.prediction.rank()));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(id: &'static str, examine: fn(&Look) -> Option<Advice>) -> Remedy {
        Remedy { id, title: "", audience: Audience::Operator, documentation: "", examine }
    }

    fn of(prediction: Prediction) -> Option<Advice> {
        Some(Advice { prediction, ..Advice::default() })
    }

    #[test]
    fn a_setting_of_the_command_line_is_a_persons_to_change() {
        let advice = Advice::default();
        let settings = [("work_mem".to_owned(), "64".to_owned())].into();
        let server = Server { settings, on_command_line: vec!["work_mem".into()], ..Server::default() };
        let system = advice.clone().with_setting(&server, Scope::System, "work_mem", "4MB");
        assert_eq!((system.changes.len(), system.changes[0].takes), (1, Takes::Restart));
        assert!(system.apply[0].starts_with("-- the server's command line sets work_mem (now 64)"));
        // A database's setting takes precedence over the command line.
        let database = advice.with_setting(&server, Scope::Database("d".into()), "work_mem", "4MB");
        assert_eq!(database.apply, ["ALTER DATABASE d SET work_mem = '4MB';"]);
    }

    #[test]
    fn the_largest_gain_comes_first_and_small_ones_are_left_out() {
        let remedies = [
            fixed("unknown", |_| of(Prediction::unknown("", ""))),
            fixed("tiny", |_| of(Prediction::gain(0.01, "", ""))),
            fixed("little cpu", |_| of(Prediction::gain(0.01, "", "").with_cpu(0.09).with_execution(0.09))),
            fixed("small", |_| of(Prediction::gain(0.03, "", ""))),
            fixed("grows", |_| of(Prediction { grows: true, ..Prediction::unknown("", "") })),
            fixed("grows, now little", |_| of(Prediction { grows: true, ..Prediction::gain(0.01, "", "") })),
            fixed("large", |_| of(Prediction::gain(0.4, "", ""))),
            fixed("of cpu", |_| of(Prediction::gain(0.01, "", "").with_cpu(0.3))),
        ];
        let order: Vec<&str> = advise(&Look::default(), &remedies).iter().map(|found| found.remedy).collect();
        assert_eq!(order, ["large", "grows", "grows, now little", "small", "of cpu", "unknown"]);
        assert_eq!(Prediction::gain(0.01, "", "").with_cpu(0.3).words(), "-30 % of CPU time");
        assert_eq!(Prediction::gain(0.4, "", "").with_cpu(0.6).words(), "-40 % of active time");
        assert_eq!(Prediction::gain(0.01, "", "").with_execution(0.5).words(), "-50 % of execution time");
    }

    #[test]
    fn a_prediction_is_one_of_what_the_trial_measures() {
        let all = Prediction::gain(0.1, "", "").with_cpu(0.3).with_execution(0.5);
        let by = |prediction: &Prediction| Measure::ALL.map(|measure| prediction.by(measure));
        // Execution time, CPU time, throughput.
        assert_eq!(by(&all), [Some(0.5), Some(0.3), Some(0.1)]);
        assert_eq!(by(&Prediction::gain(0.1, "", "")), [Some(0.1); 3]);
        assert_eq!(all.words_by(Measure::Cpu), "-30 % of CPU time");
        assert_eq!(Prediction::unknown("", "").words_by(Measure::Cpu), "no figure");
        let order =
            advise(&Look::default(), &[fixed("unused-indexes", |_| of(Prediction::gain(0.5, "", "")))]);
        assert_eq!(order[0].measure, Measure::Cpu);
    }
}
