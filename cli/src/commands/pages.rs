//! `hardmeter pages`: all misses on a relation, folded onto one page.

use super::{CommandError, Globals, Outcome};
use crate::terminal::{print, print_json};
use crate::view::{outcome, require_samples_of, Printed, ViewArguments};
use hardmeter_answers::PagesQuestion;
use hardmeter_views::{PageReport, Wanted};

/// Show where on the pages of a table or index the misses are, on one drawn page.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter pages pgbench_accounts_pkey           all its pages folded onto one
  hardmeter pages public.pgbench_accounts --event l2-miss
  hardmeter pages pgbench_branches --format html > branches.html
  hardmeter pages pgbench_accounts --format json | jq '.pages[0].parts'

Each cell is one cache line of the page: the samples on it in all blocks, and the
letter of the part that has most of them. The list below says which part that is,
on how many distinct blocks it was sampled, and which blocks are hottest.")]
pub struct Arguments {
    /// The table or index, with or without its schema.
    relation: String,
    #[command(flatten)]
    shown: Printed<Format>,
    #[command(flatten)]
    view: ViewArguments,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    Html,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let question = PagesQuestion { relation: arguments.relation.clone() };
    let report = PageReport(arguments.view.ask(globals, |answers| answers.pages(&question))?);
    require_samples_of(&report.heading, report.heading.samples(), &report.unread, globals)?;
    match arguments.shown.format {
        Format::Text => arguments.shown.extent.print(Wanted::default(), globals, &report)?,
        Format::Json => print_json(&report.json())?,
        Format::Html => print(&report.html())?,
    }
    Ok(outcome(&report.unread, globals))
}
