//! `--format text|json`: for commands with one result, as text for people or a value for programs.

use super::CommandError;
use crate::terminal;
use hardmeter_evidence::envelope::envelope;
use serde_json::Value;

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Json,
}

#[derive(clap::Args, Debug)]
pub(super) struct Output {
    /// The output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Output {
    /// Whether people are to read it.
    pub(super) fn is_text(&self) -> bool {
        self.format == Format::Text
    }

    /// Prints a result; `view` names its format in JSON.
    pub(super) fn print(
        &self,
        view: &str,
        text: impl FnOnce() -> String,
        value: impl FnOnce() -> Value,
    ) -> Result<(), CommandError> {
        match self.format {
            Format::Text => terminal::print(&text()),
            Format::Json => terminal::print_json(&envelope(view, 1, value())),
        }
    }
}
