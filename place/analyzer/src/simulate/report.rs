//! A table of outcomes, as text and as data.

use super::outcome::{Outcome, Times};
use super::validate::{Validation, WAYS};
use hardmeter_evidence::table::{Style, TextTable};
use serde::Serialize;
use std::fmt::Write;

/// The simulated scenario and its results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The workload's name.
    pub scenario: String,
    /// A description.
    pub title: String,
    /// The machine.
    pub machine: String,
    /// The number of its logical processors.
    pub processors: usize,
    /// Simulated seconds that were counted.
    pub seconds: f64,
    /// The seed of all random choices.
    pub seed: u64,
    /// The source of the table of damage.
    pub damage: String,
    /// The kernel's scheduler alone first, then policies.
    pub outcomes: Vec<Outcome>,
}

fn change(value: f64) -> String {
    format!("{:+.1} %", value * 100.0)
}

impl Report {
    /// The report as a table.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: {}\n{}, {} logical processors; {} s, seed {}\n\n",
            self.scenario, self.title, self.machine, self.processors, self.seconds, self.seed
        );
        let titles = ["policy", "requests/s", "", "CPU/request", "", "busy", "moves/s", "replaced"];
        let mut table = TextTable::of_figures(titles);
        let default = &self.outcomes[0];
        for (i, one) in self.outcomes.iter().enumerate() {
            let against = |of: f64| if i == 0 { String::new() } else { change(of) };
            table.plain([
                one.policy.to_string(),
                format!("{:.0}", one.throughput),
                against(one.throughput / default.throughput - 1.0),
                format!("{:.1} us", one.cpu_us),
                against(one.cpu_against(default)),
                format!("{:.0}%", one.busy * 100.0),
                format!("{:.0}", one.moves_per_second),
                one.changes.to_string(),
            ]);
        }
        text.push_str(&table.text());
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
            let mut table = TextTable::of_figures(["policy", "p50", "p99", "own", "n", "class"]).untitled();
            for outcome in &self.outcomes {
                let one = &of(outcome)[i];
                table.plain([
                    outcome.policy.to_string(),
                    format!("{:.0}", one.p50_us),
                    format!("{:.0}", one.p99_us),
                    one.own_us.map_or(String::new(), |own| format!("{own:.1}")),
                    format!("n={}", one.count),
                    one.class.map_or(String::new(), |class| format!("{class:?}").to_lowercase()),
                ]);
            }
            text.push_str(&table.render(Style::default(), 4));
        }
    }
}

impl Validation {
    /// The report as a table.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "Ten mixes on two processors, percent against the default scheduler: simulated (measured: docs/design/place.md, section 4, medians)\n\n",
        );
        let ways = |what: &'static str| {
            WAYS.iter().map(move |(way, _)| format!("{what} {}", way.split(' ').next().unwrap_or_default()))
        };
        let titles =
            std::iter::once("mix".to_string()).chain(["makespan", "CPU time"].into_iter().flat_map(ways));
        let mut table = TextTable::of_figures(titles);
        for mix in &self.mixes {
            let pairs =
                mix.makespan.iter().zip(&mix.measured_makespan).chain(mix.cpu.iter().zip(&mix.measured_cpu));
            let cells = pairs.map(|(simulated, measured)| format!("{simulated:+.0} ({measured:+.0})"));
            table.plain(std::iter::once(mix.mix.to_string()).chain(cells));
        }
        text.push_str(&table.text());
        let (makespan, cpu) = (self.makespan_rank, self.cpu_rank);
        let _ =
            writeln!(text, "\nSpearman's rank correlation: makespan {makespan:.2}, processor time {cpu:.2}");
        text
    }
}
