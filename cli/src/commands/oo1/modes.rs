//! `hardmeter oo1 modes`.

use super::Output;
use crate::commands::{CommandError, Outcome};
use hardmeter_oo1::modes::{self, Mode};
use hardmeter_oo1::programs::Programs;
use serde_json::{json, Value};

/// List the modes: which are built here, and why others are not.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter oo1 modes")]
pub(super) struct Modes {
    #[command(flatten)]
    output: Output,
}

impl Modes {
    pub(super) fn run(&self) -> Result<Outcome, CommandError> {
        let programs = Programs::find()?;
        self.output.print(|| in_words(&programs), || as_json(&programs))?;
        Ok(Outcome::Complete)
    }
}

fn title(mode: &str) -> &'static str {
    modes::find(mode).map_or("not one of Hardmeter's", |mode: &Mode| mode.title)
}

fn in_words(programs: &Programs) -> String {
    let mut text = format!("in {}\n", programs.folder().display());
    for mode in programs.modes() {
        text += &format!("  {:<9} {mode:<16} {}\n", "built", title(mode));
    }
    for (mode, reason) in programs.missing() {
        text += &format!("  {:<9} {mode:<16} {}: {reason}\n", "not built", title(mode));
    }
    text
}

fn as_json(programs: &Programs) -> Value {
    let built =
        programs.modes().iter().map(|mode| json!({ "mode": mode, "title": title(mode), "built": true }));
    let missing = programs.missing().into_iter().map(
        |(mode, reason)| json!({ "mode": mode, "title": title(mode), "built": false, "reason": reason }),
    );
    json!({
        "format": "hardmeter-oo1-modes",
        "version": 1,
        "folder": programs.folder(),
        "modes": built.chain(missing).collect::<Vec<_>>(),
    })
}
