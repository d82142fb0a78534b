//! `hardmeter tpcc compare`.

use crate::commands::output::Output;
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_tpcc::measure::files::load;
use hardmeter_tpcc::report::compare::{compare, render};
use serde_json::json;
use std::path::PathBuf;

/// Compare two runs: by how much B differs from A, and whether chance explains it.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Throughput is compared by means of batches of 10 s or more, because neighbouring seconds are alike; response \
                  times by the ranks of their quantiles. CPU time is one number a run: repeat the runs. Runs of another mode, load \
                  or number of warehouses are not compared unless --force is said.\n\n\
                  Example:\n  hardmeter tpcc compare before.json after.json\n  \
                  hardmeter tpcc compare 8-connections.json 16-connections.json --format json"
)]
pub struct Compare {
    /// The result to begin from.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The result that is held against it.
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Compare although the runs are not comparable, with a warning.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    output: Output,
}

impl Compare {
    pub(super) fn run(&self, _globals: &Globals) -> Result<Outcome, CommandError> {
        let comparison = compare(&load(&self.a)?, &load(&self.b)?, self.force)?;
        let (a, b) = (self.a.display().to_string(), self.b.display().to_string());
        self.output.print(
            "tpcc-compare",
            || render(&comparison, &a, &b),
            || json!({ "a": a, "b": b, "comparison": comparison }),
        )?;
        Ok(Outcome::Complete)
    }
}
