//! `hardmeter doctor`: tell which event sources this machine has, and what mends the others.

use super::output::Output;
use super::{CommandError, Globals, Outcome};
use crate::terminal;
use hardmeter_record::doctor::{self, Diagnosis, State};
use serde_json::json;
use std::fmt::Write;

/// List the event sources of this machine, and what is missing for the others.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit status: 0 when a source of memory events works, else 1.\n\nExample:\n  hardmeter doctor"
)]
pub struct Arguments {
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let diagnosis = doctor::examine();
    arguments
        .output
        .print(|| prescription(&diagnosis, terminal::style(globals).color), || json!(diagnosis))?;
    // The timer alone shows no misses: that is not what hardmeter is for.
    match diagnosis.best_source() {
        Some(verdict) if verdict.source != "timer" => Ok(Outcome::Complete),
        _ => Ok(Outcome::Partial),
    }
}

fn prescription(diagnosis: &Diagnosis, color: bool) -> String {
    let paint = |code: &str, text: &str| match color {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_string(),
    };
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{}\n", diagnosis.processor.name);
    let _ = writeln!(text, "{}", paint("1", "Sources of samples"));
    for verdict in &diagnosis.sources {
        let word = match verdict.works {
            true => paint("32", "works  "),
            false => paint("31", "missing"),
        };
        let _ = writeln!(text, "  {word}  {:<10} {}", verdict.source, verdict.evidence);
        if !verdict.remedy.is_empty() {
            let _ = writeln!(text, "{:22}-> {}", "", verdict.remedy);
        }
    }
    let _ = writeln!(text, "\n{}", paint("1", "Checks"));
    for check in &diagnosis.checks {
        let word = match check.state {
            State::Ok => paint("32", "ok     "),
            State::Warn => paint("33", "warn   "),
            State::Missing => paint("31", "missing"),
        };
        let _ = writeln!(text, "  {word}  {}: {}", check.name, check.evidence);
        if !check.remedy.is_empty() {
            let _ = writeln!(text, "{:11}-> {}", "", check.remedy);
        }
    }
    let works =
        |source: &str| diagnosis.sources.iter().any(|verdict| verdict.works && verdict.source == source);
    match diagnosis.best_source() {
        Some(_) if !works("hardware") && works("live") => {
            let other = if works("simulated") { "simulated" } else { "timer" };
            let _ = writeln!(
                text,
                "\n`hardmeter record` takes the source live here for what runs already, {other} for a command."
            );
        }
        Some(verdict) => {
            let _ = writeln!(text, "\n`hardmeter record` takes the source {} here.", verdict.source);
        }
        None => {
            let _ = writeln!(text, "\nNothing can be recorded here until one of these is fixed.");
        }
    }
    text
}
