//! `hardmeter split report`.

use super::folder::{state, Folder};
use crate::commands::{CommandError, Outcome};
use hardmeter_split::segment::monotonic_ns;
use hardmeter_split::view::page::page;
use hardmeter_views::write_file;
use std::io;
use std::path::PathBuf;

/// Write the analyzer's state as one HTML file: kinds, mutual slowdown, effect of placement.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter split report -o split.html")]
pub(super) struct Report {
    #[command(flatten)]
    folder: Folder,
    /// The file to write.
    #[arg(short, long, value_name = "FILE", default_value = "split.html")]
    output: PathBuf,
}

impl Report {
    pub(super) fn run(&self) -> Result<Outcome, CommandError> {
        let state = state(&self.folder)?;
        let page = page(&state, monotonic_ns());
        write_file(&self.output, |writer| -> io::Result<()> { writer.write_all(page.as_bytes()) }).map_err(
            |error| {
                CommandError::new(
                    format!("cannot write {}: {error}", self.output.display()),
                    "write elsewhere (--output), or free some space",
                )
            },
        )?;
        eprintln!("hardmeter: {} kinds -> {}", state.workload.kinds.len(), self.output.display());
        Ok(Outcome::Complete)
    }
}
