//! `hardmeter objects`: on what data a server misses.

use super::{CommandError, Globals, Outcome};
use crate::view::{outcome, require_samples_of, Printed, RowsForm, ViewArguments};
use hardmeter_answers::{Formula, ObjectLevel, ObjectsQuestion};
use hardmeter_views::{ObjectsReport, Wanted};

/// Show which data the misses are on: by table, index, lock, memory context, variable.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter objects                               by class, name and part of object, per event
  hardmeter objects --by class
  hardmeter objects --by instance --event l2-miss --all
  hardmeter objects --by partition                where the misses of a table, index or lock are
  hardmeter objects --define 'slot=(addr - 0x7f0000000000) / 1024 % 16'
  hardmeter objects --format json | jq '.coverage.specific_share'

Levels (--by): class (\"index\"), name (\"public.t_pkey\"), instance (\"main block 7\"),
part (\"line pointers\"), partition (\"main block 0-63\": a sixteenth of a table or
index at most; of locks the partition by its number). A name stands beside its
class; parts are of all instances together, unless both are asked for. Partitions
of an object follow each other, and are drawn.

Names come from the side file of the capture (NAME.objects), which hardmeter record
writes when it records a PostgreSQL server; of other programs, from the allocations
that the software PMU saw, from symbols, and from mappings.
\"sure\" is the share of a row's samples whose object was surely the one named at
their moment: the server's own state was read with the sample, or the object was
seen before and after.

Formulas (--define): whole numbers; addr, phys, line (addr / line size), page
(addr / 4096), set, pid, cpu; + - * / % << >> & ^ | ~ and parentheses.")]
pub struct Arguments {
    #[command(flatten)]
    view: ViewArguments,
    /// Levels to group by.
    #[arg(long, value_name = "LEVELS", value_delimiter = ',', default_value = "part", value_parser = parse_level)]
    by: Vec<ObjectLevel>,
    /// Define an object by a formula over the address: a further column. May be repeated.
    #[arg(long, value_name = "NAME=FORMULA", value_parser = str::parse::<Formula>)]
    define: Vec<Formula>,
    /// Rows per table (default: 20; by partition 64).
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// All rows.
    #[arg(long, conflicts_with = "top")]
    all: bool,
    #[command(flatten)]
    shown: Printed<RowsForm>,
}

fn parse_level(name: &str) -> Result<ObjectLevel, String> {
    let found = ObjectLevel::ALL.iter().find(|(_, known)| *known == name).map(|(level, _)| *level);
    found.ok_or_else(|| {
        let known: Vec<&str> = ObjectLevel::ALL.iter().map(|(_, name)| *name).collect();
        format!("unknown level \"{name}\"; known: {}", known.join(", "))
    })
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let usual = if arguments.by.contains(&ObjectLevel::Partition) { 64 } else { 20 };
    let question = ObjectsQuestion {
        levels: ObjectLevel::complete(&arguments.by),
        formulas: arguments.define.clone(),
        limit: (!arguments.all).then_some(arguments.top.unwrap_or(usual)),
    };
    let report = ObjectsReport(arguments.view.ask(globals, |answers| answers.objects(&question))?);
    let passing = report.coverage.with_address + report.coverage.without_address;
    require_samples_of(&report.heading, passing, &report.unread, globals)?;
    let wanted = Wanted::rows(arguments.all || arguments.top.is_some());
    arguments.shown.print(wanted, globals, &report)?;
    Ok(outcome(&report.unread, globals))
}
