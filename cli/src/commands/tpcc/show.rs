//! `hardmeter tpcc show`.

use crate::commands::output::Output;
use crate::commands::workload::writable;
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_tpcc::measure::files::{load, write_whole};
use hardmeter_tpcc::report::html::{page, Extras};
use hardmeter_tpcc::report::prices::Prices;
use hardmeter_tpcc::report::verdicts::{is_short, verdicts};
use hardmeter_tpcc::report::{merge, text};
use std::path::PathBuf;

/// Show the results of a run: figures, and a verdict on each clause; as text, JSON, or one HTML file.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit status 1 if a verdict is short. Several results of one run (a driver each) are merged first.\n\n\
                  A price sheet:\n  currency = \"EUR\"\n  months = 36                # of maintenance\n  [[item]]\n  \
                  name = \"server, 2 CPUs, 24 GiB\"\n  price = 4200.0             # each\n  quantity = 1\n  \
                  maintenance = 35.0         # each, a month\n\n\
                  Example:\n  hardmeter tpcc show run.json\n  hardmeter tpcc show run.json --html run.html --prices prices.toml\n  \
                  hardmeter tpcc show full.json --at half.json --at most.json --html run.html\n  \
                  hardmeter tpcc show run.json --format json | jq .summary.new_orders_a_minute"
)]
pub struct Show {
    /// The result, written by `hardmeter tpcc run --output`.
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// Write the report as one HTML file that needs nothing else, and print no text.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Another run of the same system at another load, for the graph of response time against throughput.
    #[arg(long, value_name = "RESULT", requires = "html")]
    at: Vec<PathBuf>,
    /// A price sheet (TOML): what the system costs, and so a New-Order a minute.
    #[arg(long, value_name = "FILE", requires = "html")]
    prices: Option<PathBuf>,
    /// Include published records for context.
    #[arg(long, requires = "html")]
    context: bool,
    /// Print a row for each rule that is not applicable, too.
    #[arg(long, conflicts_with = "html")]
    full: bool,
    #[command(flatten)]
    output: Output,
}

impl Show {
    pub(super) fn run(&self, _globals: &Globals) -> Result<Outcome, CommandError> {
        let results = self.results.iter().map(|path| load(path)).collect::<Result<Vec<_>, _>>()?;
        let result = merge::merge(results, merge::TOLERANCE_SECONDS)?;
        match &self.html {
            None => self.output.print("tpcc", || text::render(&result, self.full), || text::json(&result))?,
            Some(path) => {
                writable(path)?;
                let others = self.at.iter().map(|path| Ok((path.display().to_string(), load(path)?)));
                let extras = Extras {
                    others: others.collect::<Result<Vec<_>, CommandError>>()?,
                    prices: self.prices.as_deref().map(Prices::load).transpose()?,
                    context: self.context,
                };
                write_whole(path, page(&result, &extras).as_bytes())?;
            }
        }
        Ok(if is_short(&verdicts(&result)) { Outcome::Partial } else { Outcome::Complete })
    }
}
