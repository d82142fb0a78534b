//! Shared by the commands: the folder of stores, and parsing of arguments.

use hardmeter_oo1::Oo1Error;
use hardmeter_servers::cache_folder;
use std::path::PathBuf;
use std::str::FromStr;

/// The folder of graphs and stores.
#[derive(clap::Args, Debug)]
pub(super) struct Place {
    /// The folder of graphs and stores [default: oo1 in the cache folder of hardmeter].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Place {
    pub(super) fn folder(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| cache_folder().join("oo1"))
    }
}

/// Parses an argument; an error says what was expected.
pub(super) fn argument<T: FromStr<Err = Oo1Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: Oo1Error| error.to_string())
}
