//! One file per subcommand: its arguments, and the calls of the part that does the work.

pub mod annotate;
pub mod auction;
pub mod compare;
mod compare_files;
pub mod doctor;
pub mod events;
pub mod export;
pub mod generate;
mod interruption;
pub mod latency;
pub mod objects;
mod observe;
pub mod oo1;
pub mod open;
mod output;
pub mod overhead;
pub mod pages;
mod place;
mod place_engines;
pub mod queries;
pub mod record;
pub mod report;
pub mod server;
pub mod sharing;
pub mod split;
pub mod stat;
mod throwaway;
mod times;
pub mod tpcc;
pub mod tpch;
pub mod tui;
pub mod tune;
mod tune_auto;
mod tune_estimate;
mod tune_ledger;
mod tune_options;
mod tune_server;
mod tune_try;
pub mod why;
mod workload;

use std::fmt;

/// Options of every command.
#[derive(clap::Args, Debug)]
pub struct Globals {
    /// When to colour; `auto`: only on a terminal.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
    /// Print results and errors only: no progress, no warnings, no headings.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// When to colour.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Color {
    Auto,
    Always,
    Never,
}

/// How a successful command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Complete: exit status 0.
    Complete,
    /// Incomplete (with a message on standard error): exit status 1.
    Partial,
}

/// Why a command failed: cause and remedy. Exit status 1.
#[derive(Debug)]
pub struct CommandError {
    cause: String,
    remedy: String,
}

impl CommandError {
    /// An error with cause and remedy; the remedy may be empty if the cause contains it.
    pub fn new(cause: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        CommandError { cause: cause.to_string(), remedy: remedy.to_string() }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        if !self.remedy.is_empty() {
            write!(f, "\n  remedy: {}", self.remedy)?;
        }
        Ok(())
    }
}
