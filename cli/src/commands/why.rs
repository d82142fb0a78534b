//! `hardmeter why`: why misses happen, with the evidence.

use super::{CommandError, Globals, Outcome};
use crate::terminal::{print, print_json, screen_style};
use crate::view::{outcome, require_samples_of, write_page, Printed, SentencesForm, ViewArguments};
use hardmeter_answers::WhyQuestion;
use hardmeter_record::softpmu::find_machine;
use hardmeter_views::{sentences_text, Wanted, WhyReport};
use std::path::PathBuf;

/// Explain why misses happen: cold, capacity, conflict, sharing, page walks; and what helps.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter why                                   causes, sets, reuse, remedies, per event
  hardmeter why --event l2-miss --comm postgres
  hardmeter why --html why.html                   with the map of sets, as one file
  hardmeter why -i perf.data --machine icelake-sp
  hardmeter why --score                           how well inference does, on a simulated capture
  hardmeter why --format json | jq '.events[].causes[] | {cause, share}'

Causes that the software PMU recorded are exact for the simulated machine. Those of
other captures are inferred from samples: by reuse distance, cache sets that stand
out, first bursts and snoops, each with its p, or \"unknown\". L3 sets of real
machines are never known.")]
pub struct Arguments {
    #[command(flatten)]
    view: ViewArguments,
    /// The recorded machine, if the capture does not describe its caches: `this`, a model's name, or a TOML file.
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Infer causes even where the software PMU recorded them, and compare: the confusion matrix, agreement, kappa.
    #[arg(long, visible_alias = "inferred")]
    score: bool,
    /// Places, objects and statements per cause.
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Write the report as one HTML file, too.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    shown: Printed<SentencesForm>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let machine = arguments.machine.as_deref().map(find_machine).transpose();
    let machine = machine.map_err(|error| CommandError::new(error, ""))?;
    let question = WhyQuestion { machine, infer: arguments.score, limit: arguments.top };
    let report = WhyReport(arguments.view.ask(globals, |answers| answers.why(&question))?);
    require_samples_of(&report.heading, report.passing, &report.unread, globals)?;
    write_page(arguments.html.as_deref(), || report.html())?;
    match arguments.shown.format {
        SentencesForm::Text => arguments.shown.extent.print(Wanted::default(), globals, &report)?,
        SentencesForm::Sentences => print(&sentences_text(&report.sentences(), screen_style(globals)))?,
        SentencesForm::Json => print_json(&report.json())?,
    }
    Ok(outcome(&report.unread, globals))
}
