//! `--format text|json`: for commands whose result is one text for people and one value for programs.

use super::CommandError;
use crate::terminal;
use hardmeter_evidence::envelope::envelope;
use serde_json::Value;

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

#[derive(clap::Args, Debug)]
pub(super) struct Output {
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Output {
    /// Whether people are to read it.
    pub(super) fn is_text(&self) -> bool {
        self.format == Format::Text
    }

    /// Prints a result; `view` names its format for programs.
    pub(super) fn print(
        &self,
        view: &str,
        text: impl FnOnce() -> String,
        value: impl FnOnce() -> Value,
    ) -> Result<(), CommandError> {
        match self.format {
            Format::Text => terminal::print(&text()),
            Format::Json => terminal::print(&format!("{:#}\n", envelope(view, 1, value()))),
        }
    }
}
