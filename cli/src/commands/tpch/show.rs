//! `hardmeter tpch show`.

use super::arguments::{argument, Queries};
use super::Output;
use crate::commands::{CommandError, Outcome};
use hardmeter_tpch::parameters::{Parameters, Source};
use hardmeter_tpch::queries::Query;
use hardmeter_tpch::Scale;
use serde_json::json;

/// Print the queries with their parameters.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter tpch show --queries 6 | psql\n  hardmeter tpch show --seed 42")]
pub struct Show {
    /// The queries and their order.
    #[arg(long, value_name = "LIST", default_value = "1-22")]
    queries: Queries,
    /// Draw the parameters by the specification's rules from this seed [default: validation values].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The scale of the data; a parameter of Q11 depends on it.
    #[arg(long, value_name = "SF", default_value = "1", value_parser = argument::<Scale>)]
    scale: Scale,
    #[command(flatten)]
    output: Output,
}

impl Show {
    pub(super) fn run(&self) -> Result<Outcome, CommandError> {
        let source = self.seed.map_or(Source::Validation, Source::Seed);
        let sql = |query: Query| query.sql(&Parameters::of(query, source, self.scale));
        let Queries(queries) = &self.queries;
        let text = || {
            let texts =
                queries.iter().map(|query| format!("-- {query}, {}\n{};\n", query.title(), sql(*query)));
            texts.collect::<Vec<_>>().join("\n")
        };
        let value = || {
            let values = queries
                .iter()
                .map(|query| json!({ "query": query.number(), "title": query.title(), "sql": sql(*query) }));
            values.collect()
        };
        self.output.print("tpch-show", text, value)?;
        Ok(Outcome::Complete)
    }
}
