//! `hardmeter split off`.

use super::folder::Folder;
use crate::commands::{CommandError, Outcome};
use hardmeter_split::segment::{monotonic_ns, Change, Folder as Segments};

/// Switch collecting off for all servers: affinities are restored, nothing is measured. On again with --on.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Works without an analyzer, and whether or not one runs.\n\nExample:\n  hardmeter split off"
)]
pub(super) struct Off {
    #[command(flatten)]
    folder: Folder,
    /// Switch it on again.
    #[arg(long)]
    on: bool,
}

impl Off {
    pub(super) fn run(&self) -> Result<Outcome, CommandError> {
        let directory = self.folder.path();
        let mut segments = Segments::existing(&directory).map_err(|error| {
            CommandError::new(
                format!("the segments' folder {}: {error}", directory.display()),
                "name the folder that the servers use (--directory)",
            )
        })?;
        let mut outcome = Outcome::Complete;
        for change in segments.scan(monotonic_ns()) {
            match change {
                Change::Came(app, title) => {
                    let Some(application) = segments.application(app) else { continue };
                    application.collect(self.on);
                    println!("{title}: {}", if self.on { "on" } else { "off" });
                }
                Change::Refused(path, refusal) => {
                    eprintln!("{}: {refusal}", path.display());
                    outcome = Outcome::Partial;
                }
                Change::Died(..) | Change::Left(..) => {}
            }
        }
        Ok(outcome)
    }
}
