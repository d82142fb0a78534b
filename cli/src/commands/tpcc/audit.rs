//! `hardmeter tpcc audit`.

use super::name::TPCC;
use crate::commands::output::Output;
use crate::commands::place_engines::{Data, EnginePlace};
use crate::commands::workload::{cancelled_by_signals, Bar};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_tpcc::audit::{audit, Audit as Audited, Condition, Finding, Tool, Verdict};
use hardmeter_tpcc::mariadb;
use hardmeter_tpcc::report::probability;
use indicatif::HumanCount;
use serde_json::json;

/// Check the twelve consistency conditions, and what the data say of the tool that made them.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Everything is read in one snapshot, so an audit may run beside a workload. Exit status 1 if a line is \
                  short.\n\nExample:\n  hardmeter tpcc audit\n  \
                  hardmeter tpcc audit --foreign go-tpc --connection 'host=/run/postgresql user=postgres dbname=tpcc'"
)]
pub(super) struct Audit {
    /// The tool whose tables they are: go-tpc, sysbench, benchbase, hammerdb, benchmarksql [default: this one].
    #[arg(long, value_name = "TOOL", default_value = "hardmeter", hide_default_value = true)]
    foreign: Tool,
    #[command(flatten)]
    place: EnginePlace,
    #[command(flatten)]
    output: Output,
}

impl Audit {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let data = self.place.find(&TPCC, globals)?;
        let stop = cancelled_by_signals();
        let bar = Bar::new(globals);
        let audited = match &data {
            Data::Postgres(target) => audit(target, self.foreign, &stop, &bar)?,
            Data::Mariadb(target) => mariadb::audit(target, self.foreign, &stop, &bar)?,
        };
        drop(bar);
        self.output.print(|| in_words(&audited, data.description()), || json!(audited))?;
        Ok(if audited.is_short() { Outcome::Partial } else { Outcome::Complete })
    }
}

fn in_words(audited: &Audited, place: &str) -> String {
    let mut text = format!(
        "{} warehouses of {} in the database {place}, audited in {:.1} s\n\nconsistency, clause 3.3.2\n",
        HumanCount(audited.warehouses),
        loader(audited),
        audited.seconds
    );
    for condition in &audited.conditions {
        text += &condition_line(condition);
    }
    text += "\nwhat the data say of their driver\n";
    for finding in &audited.findings {
        text += &finding_line(finding);
    }
    text
}

/// Which tool loaded the database, as far as it is known.
fn loader(audited: &Audited) -> &'static str {
    match (audited.tool, audited.marked) {
        (Tool::Hardmeter, false) => {
            "an unknown tool (no load of hardmeter left its mark; name the tool with --foreign)"
        }
        (tool, _) => tool.name(),
    }
}

fn condition_line(condition: &Condition) -> String {
    let Condition { number, rule, verdict, violations, examples, seconds } = condition;
    let mut text = format!("  {number:>2}  {rule:<74} {:>5.1} s  {}\n", seconds, word(*verdict));
    if *violations > 0 {
        text += &format!("        {} rows break it: {}\n", HumanCount(*violations), examples.join("; "));
    }
    text
}

fn finding_line(finding: &Finding) -> String {
    let value = match (finding.value, finding.unit) {
        (None, _) => "-".into(),
        (Some(p), "p") => probability(p),
        (Some(count), "") if count.fract() == 0.0 => HumanCount(count as u64).to_string(),
        (Some(value), unit) => format!("{value:.2} {unit}"),
    };
    format!(
        "  {:<46} {:>10}  n {:>11}  {:<44} {}\n",
        finding.name,
        value.trim_end(),
        HumanCount(finding.n).to_string(),
        format!("{} ({})", finding.expected, finding.clause),
        word(finding.verdict)
    )
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::Short => "SHORT",
        Verdict::Undecided => "undecided",
        Verdict::NotApplicable => "not applicable",
    }
}
