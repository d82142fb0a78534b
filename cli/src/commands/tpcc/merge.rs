//! `hardmeter tpcc merge`.

use crate::commands::workload::{remark, writable};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_tpcc::measure::files::{load, save};
use hardmeter_tpcc::report::merge::{merge, TOLERANCE_SECONDS};
use std::path::PathBuf;

/// Merge the results of several drivers of one run into one.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Histograms add without loss: the sum is what a single driver would have recorded. The drivers must have had the \
                  same order, each its own warehouses, and must have begun together (tpcc run --start-at).\n\n\
                  Example:\n  hardmeter tpcc merge east.json west.json --output both.json\n  hardmeter tpcc show both.json"
)]
pub struct Merge {
    /// The results, in any order.
    #[arg(required = true, num_args = 2.., value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// The file of the sum.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Maximum start skew between drivers in seconds, by their calendars.
    #[arg(long, value_name = "SECONDS", default_value_t = TOLERANCE_SECONDS)]
    tolerance: f64,
}

impl Merge {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        writable(&self.output)?;
        let results = self.results.iter().map(|path| load(path)).collect::<Result<Vec<_>, _>>()?;
        let sum = merge(results, self.tolerance)?;
        for said in &sum.environment.remarks {
            remark(globals, said);
        }
        save(&sum, &self.output)?;
        Ok(Outcome::Complete)
    }
}
