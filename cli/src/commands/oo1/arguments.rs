//! What the commands share: where stores are kept, and how their arguments are read.

use hardmeter_oo1::Oo1Error;
use hardmeter_servers::cache_folder;
use std::path::PathBuf;
use std::str::FromStr;

/// Where graphs and stores are kept.
#[derive(clap::Args, Debug)]
pub(super) struct Place {
    /// Where graphs and stores are kept [default: oo1 in the cache folder of hardmeter].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Place {
    pub(super) fn folder(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| cache_folder().join("oo1"))
    }
}

/// Reads an argument; says what would be right when it is not.
pub(super) fn argument<T: FromStr<Err = Oo1Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: Oo1Error| error.to_string())
}
