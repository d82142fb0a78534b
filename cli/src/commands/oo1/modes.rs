//! `hardmeter oo1 modes`.

use super::Output;
use crate::commands::{CommandError, Outcome};
use hardmeter_evidence::table::{Column, Style, TextTable};
use hardmeter_oo1::modes::{self, Mode};
use hardmeter_oo1::programs::Programs;
use serde_json::{json, Value};

/// List the modes: which are built here, and why others are not.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter oo1 modes")]
pub struct Modes {
    #[command(flatten)]
    output: Output,
}

impl Modes {
    pub(super) fn run(&self) -> Result<Outcome, CommandError> {
        let programs = Programs::find()?;
        self.output.print("oo1-modes", || in_words(&programs), || as_json(&programs))?;
        Ok(Outcome::Complete)
    }
}

fn title(mode: &str) -> &'static str {
    modes::find(mode).map_or("not one of Hardmeter's", |mode: &Mode| mode.title)
}

fn in_words(programs: &Programs) -> String {
    let mut table = TextTable::new(["", "mode", ""].map(Column::left)).untitled();
    for mode in programs.modes() {
        table.plain(["built", mode, title(mode)]);
    }
    for (mode, reason) in programs.missing() {
        table.plain(["not built".to_string(), mode.to_string(), format!("{}: {reason}", title(mode))]);
    }
    format!("in {}\n{}", programs.folder().display(), table.render(Style::default(), 2))
}

fn as_json(programs: &Programs) -> Value {
    let built =
        programs.modes().iter().map(|mode| json!({ "mode": mode, "title": title(mode), "built": true }));
    let missing = programs.missing().into_iter().map(
        |(mode, reason)| json!({ "mode": mode, "title": title(mode), "built": false, "reason": reason }),
    );
    json!({
        "folder": programs.folder(),
        "modes": built.chain(missing).collect::<Vec<_>>(),
    })
}
