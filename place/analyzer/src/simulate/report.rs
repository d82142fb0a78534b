//! Outcomes side by side, for people and for programs.

use super::outcome::{Outcome, Times};
use super::validate::{Validation, WAYS};
use serde::Serialize;
use std::fmt::Write;

/// What was simulated, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Of the workload.
    pub scenario: String,
    /// In words.
    pub title: String,
    /// Which machine.
    pub machine: String,
    /// Its logical processors.
    pub processors: usize,
    /// Simulated seconds that were counted.
    pub seconds: f64,
    /// Of all chance.
    pub seed: u64,
    /// Where the numbers of damage are from.
    pub damage: String,
    /// The kernel's scheduler alone first, then policies.
    pub outcomes: Vec<Outcome>,
}

fn change(value: f64) -> String {
    format!("{:+.1} %", value * 100.0)
}

impl Report {
    /// As a table.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: {}\n{}, {} logical processors; {} s, seed {}\n\n",
            self.scenario, self.title, self.machine, self.processors, self.seconds, self.seed
        );
        let _ = writeln!(
            text,
            "{:10} {:>12} {:>9} {:>12} {:>9} {:>6} {:>10} {:>8}",
            "policy", "requests/s", "", "CPU/request", "", "busy", "moves/s", "replaced"
        );
        let default = &self.outcomes[0];
        for (i, one) in self.outcomes.iter().enumerate() {
            let against = |of: f64| if i == 0 { String::new() } else { change(of) };
            let _ = writeln!(
                text,
                "{:10} {:>12.0} {:>9} {:>9.1} us {:>9} {:>5.0}% {:>10.0} {:>8}",
                one.policy,
                one.throughput,
                against(one.throughput / default.throughput - 1.0),
                one.cpu_us,
                against(one.cpu_against(default)),
                one.busy * 100.0,
                one.moves_per_second,
                one.changes,
            );
        }
        for (heading, of) in
            [("Requests", (|one| &one.requests) as fn(&Outcome) -> &Vec<Times>), ("Kinds", |one| &one.kinds)]
        {
            let _ = writeln!(
                text,
                "\n{heading}: median and 99th percentile, us{}",
                if heading == "Kinds" { "; own time" } else { "" }
            );
            self.times(&mut text, of);
        }
        for one in &self.outcomes[1..] {
            if let Some(guard) = &one.guard {
                let _ = writeln!(text, "{}: guard: {}: {}", one.policy, guard.phase, guard.reason);
                for rule in guard.rules.iter().filter(|rule| !rule.on) {
                    let _ =
                        writeln!(text, "{}: guard: rule of {} off: {}", one.policy, rule.kind, rule.reason);
                }
            }
            for line in one.places.iter().chain(&one.remarks) {
                let _ = writeln!(text, "{}: {line}", one.policy);
            }
        }
        text
    }

    fn times(&self, text: &mut String, of: fn(&Outcome) -> &Vec<Times>) {
        for (i, times) in of(&self.outcomes[0]).iter().enumerate() {
            let name: String =
                times.name.chars().map(|c| if c.is_control() { '?' } else { c }).take(40).collect();
            let _ = writeln!(text, "  {name}");
            for outcome in &self.outcomes {
                let one = &of(outcome)[i];
                let own = one.own_us.map_or(String::new(), |own| format!("{own:>12.1}"));
                let class = one.class.map_or(String::new(), |class| format!("  {class:?}").to_lowercase());
                let _ = writeln!(
                    text,
                    "    {:10} {:>10.0} {:>10.0}{own}  n={}{class}",
                    outcome.policy, one.p50_us, one.p99_us, one.count
                );
            }
        }
    }
}

impl Validation {
    /// As a table.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "Ten mixes on two processors, percent against the default scheduler: simulated (measured: docs/design/place.md, section 4, medians)\n\n",
        );
        let _ = write!(text, "{:5}", "mix");
        for what in ["makespan", "CPU time"] {
            for (way, _) in WAYS {
                let _ =
                    write!(text, "{:>22}", format!("{what} {}", way.split(' ').next().unwrap_or_default()));
            }
        }
        text.push('\n');
        for mix in &self.mixes {
            let _ = write!(text, "{:5}", mix.mix);
            let pairs =
                mix.makespan.iter().zip(&mix.measured_makespan).chain(mix.cpu.iter().zip(&mix.measured_cpu));
            for (simulated, measured) in pairs {
                let _ = write!(text, "{:>22}", format!("{simulated:+.0} ({measured:+.0})"));
            }
            text.push('\n');
        }
        let (makespan, cpu) = (self.makespan_rank, self.cpu_rank);
        let _ =
            writeln!(text, "\nSpearman's rank correlation: makespan {makespan:.2}, processor time {cpu:.2}");
        text
    }
}
