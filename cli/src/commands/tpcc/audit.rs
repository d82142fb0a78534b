//! `hardmeter tpcc audit`.

use super::name::TPCC;
use crate::commands::output::Output;
use crate::commands::place_engines::{Data, EnginePlace};
use crate::commands::workload::{cancelled_by_signals, Bar};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_evidence::table::{Column, Style, TextTable};
use hardmeter_tpcc::audit::{audit, Audit as Audited, Condition, Finding, Tool, Verdict};
use hardmeter_tpcc::mariadb;
use hardmeter_tpcc::report::probability;
use indicatif::HumanCount;
use serde_json::json;

/// Check the twelve consistency conditions, and check the driver by its data.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Everything is read in one snapshot, so an audit may run beside a workload. Exit status 1 if a line is \
                  short.\n\nExample:\n  hardmeter tpcc audit\n  \
                  hardmeter tpcc audit --foreign go-tpc --connection 'host=/run/postgresql user=postgres dbname=tpcc'"
)]
pub struct Audit {
    /// The tool that made the tables: go-tpc, sysbench, benchbase, hammerdb, benchmarksql [default: this one].
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
        self.output.print("tpcc-audit", || in_words(&audited, data.description()), || json!(audited))?;
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
    let columns =
        [Column::right("number"), Column::left("rule"), Column::right("time"), Column::left("verdict")];
    let mut conditions = TextTable::new(columns).untitled();
    audited.conditions.iter().for_each(|condition| condition_row(condition, &mut conditions));
    text += &conditions.render(Style::default(), 2);
    text += "\nproperties of the driver, from the data\n";
    let (left, right) = (Column::left, Column::right);
    let columns = [left("what"), right("value"), right("n"), left("expected"), left("verdict")];
    let mut findings = TextTable::new(columns).untitled();
    audited.findings.iter().for_each(|finding| findings.plain(finding_row(finding)));
    text + &findings.render(Style::default(), 2)
}

/// The tool that loaded the database, if known.
fn loader(audited: &Audited) -> &'static str {
    match (audited.tool, audited.marked) {
        (Tool::Hardmeter, false) => {
            "an unknown tool (no load of hardmeter left its mark; name the tool with --foreign)"
        }
        (tool, _) => tool.name(),
    }
}

fn condition_row(condition: &Condition, table: &mut TextTable) {
    let Condition { number, rule, verdict, violations, examples, seconds } = condition;
    table.plain([
        number.to_string(),
        rule.to_string(),
        format!("{seconds:.1} s"),
        word(*verdict).to_string(),
    ]);
    if *violations > 0 {
        table.note(format!("{} rows break it: {}", HumanCount(*violations), examples.join("; ")));
    }
}

fn finding_row(finding: &Finding) -> [String; 5] {
    let value = match (finding.value, finding.unit) {
        (None, _) => "-".into(),
        (Some(p), "p") => probability(p),
        (Some(count), "") if count.fract() == 0.0 => HumanCount(count as u64).to_string(),
        (Some(value), unit) => format!("{value:.2} {unit}"),
    };
    [
        finding.name.to_string(),
        value.trim_end().to_string(),
        format!("n {}", HumanCount(finding.n)),
        format!("{} ({})", finding.expected, finding.clause),
        word(finding.verdict).to_string(),
    ]
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::Short => "SHORT",
        Verdict::Undecided => "undecided",
        Verdict::NotApplicable => "not applicable",
    }
}
