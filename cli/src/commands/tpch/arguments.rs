//! What the commands share: whose they are, and how their arguments are read.

use crate::commands::place::Workload;
use hardmeter_tpch::queries::Query;
use hardmeter_tpch::TpchError;
use std::str::FromStr;

/// Whose commands these are.
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

/// Reads an argument; says what would be right when it is not.
pub(super) fn argument<T: FromStr<Err = TpchError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| with_remedy(&error))
}

fn with_remedy(error: &TpchError) -> String {
    format!("{error}\n  remedy: {}", error.remedy())
}
