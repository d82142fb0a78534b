//! Shared by the commands: their workload, and parsing of arguments.

use crate::commands::place::Workload;
use hardmeter_tpch::queries::Query;
use hardmeter_tpch::TpchError;
use std::str::FromStr;

/// The workload of these commands.
pub(super) const TPCH: Workload = Workload { name: "tpch", title: "TPC-H" };

/// A list of queries on the command line.
#[derive(Clone, Debug)]
pub(super) struct Queries(pub(super) Vec<Query>);

impl FromStr for Queries {
    type Err = String;

    fn from_str(text: &str) -> Result<Queries, String> {
        Query::list(text).map(Queries).map_err(|error| with_remedy(&error))
    }
}

/// Parses an argument; an error says what was expected.
pub(super) fn argument<T: FromStr<Err = TpchError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| with_remedy(&error))
}

fn with_remedy(error: &TpchError) -> String {
    format!("{error}\n  remedy: {}", error.remedy())
}
