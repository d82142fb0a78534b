//! The folder shared by servers and analyzer, and the analyzer's state in it.

use crate::commands::CommandError;
use hardmeter_split::state::{State, StateError};
use std::path::PathBuf;

/// The folder shared by servers and analyzer.
#[derive(clap::Args, Debug)]
pub(super) struct Folder {
    /// The segments' folder [default: the environment's SPLIT_DIRECTORY, else /run/hardmeter-split].
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Folder {
    pub(super) fn path(&self) -> PathBuf {
        hardmeter_split::segment::directory(self.directory.as_deref())
    }
}

/// The state that the analyzer of a folder wrote last.
pub(super) fn state(folder: &Folder) -> Result<State, CommandError> {
    State::read(&folder.path()).map_err(|error| {
        let remedy = match error {
            StateError::Missing(_) => {
                "start one: hardmeter split analyze; or name the servers' folder (--directory)"
            }
            StateError::Unreadable(..) => "start an analyzer of this version: hardmeter split analyze",
        };
        CommandError::new(error, remedy)
    })
}
