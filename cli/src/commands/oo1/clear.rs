//! `hardmeter oo1 clear`.

use super::arguments::Place;
use crate::commands::{CommandError, Outcome};
use crate::terminal;
use hardmeter_oo1::stores::Stores;
use indicatif::HumanBytes;

/// Delete the graphs and stores that earlier runs keep.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter oo1 clear")]
pub struct Clear {
    #[command(flatten)]
    place: Place,
}

impl Clear {
    pub(super) fn run(&self) -> Result<Outcome, CommandError> {
        let folder = self.place.folder();
        let bytes = if folder.is_dir() { Stores::open(&folder)?.clear()? } else { 0 };
        terminal::print(&format!("cleared {} in {}\n", HumanBytes(bytes), folder.display()))?;
        Ok(Outcome::Complete)
    }
}
