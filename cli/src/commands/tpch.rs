//! `hardmeter tpch`: load TPC-H, check its answers, run its queries by several variants of a session.

mod check;
mod interruption;
mod load;
mod place;
mod run;
mod show;

use super::{CommandError, Globals, Outcome};
use crate::terminal;
use hardmeter_tpch::queries::Query;
use hardmeter_tpch::TpchError;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::io::IsTerminal;
use std::str::FromStr;

/// Load TPC-H into PostgreSQL, check its answers, compare variants of a session by its queries.
#[derive(clap::Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Without --server or --connection a throwaway server of its own is used, which load makes.\n\
                  Results are derived from TPC-H and not comparable to published TPC-H results.\n\n\
                  Example:\n  hardmeter tpch load --scale 1\n  hardmeter tpch check\n  \
                  hardmeter tpch run --variant stock= --variant 'no-nl=enable_nestloop=off'"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Load(load::Load),
    Check(check::Check),
    Run(run::Run),
    Show(show::Show),
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

#[derive(clap::Args, Debug)]
struct Output {
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Output {
    fn print(
        &self,
        text: impl FnOnce() -> String,
        value: impl FnOnce() -> Value,
    ) -> Result<(), CommandError> {
        match self.format {
            Format::Text => terminal::print(&text()),
            Format::Json => terminal::print(&format!("{:#}\n", value())),
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    match &arguments.action {
        Action::Load(load) => load.run(globals),
        Action::Check(check) => check.run(globals),
        Action::Run(run) => run.run(globals),
        Action::Show(show) => show.run(),
    }
}

impl From<TpchError> for CommandError {
    fn from(error: TpchError) -> CommandError {
        CommandError::new(&error, error.remedy())
    }
}

/// A list of queries on the command line.
#[derive(Clone, Debug)]
struct Queries(Vec<Query>);

impl FromStr for Queries {
    type Err = String;

    fn from_str(text: &str) -> Result<Queries, String> {
        Query::list(text).map(Queries).map_err(|error| with_remedy(&error))
    }
}

/// Reads an argument; says what would be right when it is not.
fn argument<T: FromStr<Err = TpchError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| with_remedy(&error))
}

fn with_remedy(error: &TpchError) -> String {
    format!("{error}\n  remedy: {}", error.remedy())
}

/// A line on standard error that tells how far the work is; on a terminal only, and gone afterwards.
struct Bar(ProgressBar);

impl Bar {
    fn new(globals: &Globals) -> Bar {
        let bar = if globals.quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            let style = ProgressStyle::with_template("{msg}  [{bar:30}] {human_pos}/{human_len}  {eta} left");
            ProgressBar::new(0).with_style(style.expect("a valid template").progress_chars("=> "))
        };
        Bar(bar)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Something that is not the result, on standard error.
fn remark(globals: &Globals, what: &str) {
    if !globals.quiet {
        eprintln!("hardmeter: {what}");
    }
}
