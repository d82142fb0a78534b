//! `hardmeter tpcc compare`.

use crate::commands::output::Output;
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_tpcc::compare::{of_runs, Run};
use hardmeter_tpcc::measure::files::load;
use serde_json::json;
use std::path::PathBuf;

/// Compare two sides: what differs, and whether B is better or worse than A.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "One result a side is described, never judged: two runs of one configuration differ by their hour. Several \
                  results a side are judged if the sides took turns (A B B A ...): each run and its neighbour in time are one \
                  observation, and a verdict takes seven or more. Runs of another mode, load or number of warehouses are not \
                  compared unless --force is given.\n\n\
                  Example:\n  hardmeter tpcc compare before.json after.json\n  \
                  hardmeter tpcc compare --a before-*.json --b after-*.json"
)]
pub struct Compare {
    /// Two results of hardmeter tpcc run, A and B.
    #[arg(value_name = "RESULT", num_args = 2, required_unless_present_any = ["a", "b"])]
    results: Vec<PathBuf>,
    /// Results of side A, each a run.
    #[arg(long, value_name = "RESULT", num_args = 1.., requires = "b", conflicts_with = "results")]
    a: Vec<PathBuf>,
    /// Results of side B.
    #[arg(long, value_name = "RESULT", num_args = 1.., requires = "a", conflicts_with = "results")]
    b: Vec<PathBuf>,
    /// Compare although the runs are not comparable, with a warning.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    output: Output,
}

impl Compare {
    pub(super) fn run(&self, _globals: &Globals) -> Result<Outcome, CommandError> {
        let (a, b) = match self.results.as_slice() {
            [a, b] => (std::slice::from_ref(a), std::slice::from_ref(b)),
            _ => (self.a.as_slice(), self.b.as_slice()),
        };
        let comparison = of_runs(&runs(a)?, &runs(b)?, self.force)?;
        self.output.print("tpcc-compare", || comparison.in_words(), || json!({ "runs": comparison }))?;
        Ok(Outcome::Complete)
    }
}

fn runs(files: &[PathBuf]) -> Result<Vec<Run>, CommandError> {
    let mut runs = Vec::new();
    for (at, file) in files.iter().enumerate() {
        if files[..at].contains(file) {
            return Err(CommandError::new(
                format!("{} is named twice on one side", file.display()),
                "name each run once: a run that counts twice makes the intervals too narrow",
            ));
        }
        runs.push(Run { name: file.display().to_string(), result: load(file)? });
    }
    Ok(runs)
}
