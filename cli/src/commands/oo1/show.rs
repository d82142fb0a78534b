//! `hardmeter oo1 show`.

use super::{run, table, Output};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_oo1::report::Report;
use std::path::PathBuf;

/// Print the tables of a result file, and draw its figures.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  hardmeter oo1 show result.json\n  hardmeter oo1 show result.json --plots figures"
)]
pub struct Show {
    /// The output of hardmeter oo1 run -o.
    #[arg(value_name = "RESULT")]
    file: PathBuf,
    /// Draw the paper's figures for which the result has runs into this folder.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Show {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let report = Report::read(&self.file)?;
        if let Some(folder) = &self.plots {
            run::draw(&report, folder, globals)?;
        }
        self.output.print("oo1", || table::in_words(&report), || report.to_json())?;
        Ok(if report.is_sound() { Outcome::Complete } else { Outcome::Partial })
    }
}
