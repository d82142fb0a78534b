//! `hardmeter queries`: for whom a server misses.

use super::{CommandError, Globals, Outcome};
use crate::view::{outcome, require_samples_of, Printed, RowsForm, ViewArguments};
use hardmeter_answers::{QueriesQuestion, QueryColumn};
use hardmeter_views::{QueriesReport, Wanted};

/// Show which work the misses belong to: by SQL statement, operator, phase, role of the process.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter queries                               by statement, per event
  hardmeter queries --by operator                 by operator of the executed plan
  hardmeter queries --by statement,object --event l2-miss
  hardmeter queries --by role,phase --all
  hardmeter queries --by statement,operator --side-by-side
                                                  every event of each plan node
  hardmeter queries --format json | jq '.tables[0].rows[0]'

Columns (--by):
  statement   the statement that the process executed, without its constants
  operator    the innermost executor node on the call chain (record with --call-graph),
              those of the extension ccopt among them
  phase       the outermost phase on the call chain: parse, plan, execute, commit
  role        what the process is to the server: client backend, checkpointer ...
  object      the object of the data address, as in hardmeter objects
A backend that executes none is before its first statement, or between two.
\"-\": the samples do not tell. The rows of a table add up to its n.
Where the server counted transactions and rows while it was recorded, each row says
how many events it has per transaction, per row returned and per row written.")]
pub struct Arguments {
    #[command(flatten)]
    view: ViewArguments,
    /// Columns to group by.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', default_value = "statement")]
    by: Vec<QueryColumn>,
    /// Rows per table (default: 20).
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// All rows.
    #[arg(long, conflicts_with = "top")]
    all: bool,
    /// All events in one table: the events that each row's samples stand for, and the number of samples (n).
    #[arg(long)]
    side_by_side: bool,
    #[command(flatten)]
    shown: Printed<RowsForm>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let question = QueriesQuestion {
        columns: arguments.by.clone(),
        limit: (!arguments.all).then_some(arguments.top.unwrap_or(20)),
        side_by_side: arguments.side_by_side,
    };
    let report = QueriesReport(arguments.view.ask(globals, |answers| answers.queries(&question))?);
    require_samples_of(&report.heading, report.coverage.samples, &report.unread, globals)?;
    let wanted = Wanted::rows(arguments.all || arguments.top.is_some());
    arguments.shown.print(wanted, globals, &report)?;
    Ok(outcome(&report.unread, globals))
}
