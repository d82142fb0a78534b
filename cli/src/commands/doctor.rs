//! `hardmeter doctor`: reports which event sources this machine has, and the remedies for the others.

use super::output::Output;
use super::{CommandError, Globals, Outcome};
use crate::terminal;
use hardmeter_evidence::table::{Column, Style, TextTable, Tone};
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
    arguments.output.print(
        "doctor",
        || prescription(&diagnosis, terminal::style(globals).color),
        || json!(diagnosis),
    )?;
    // The timer alone records no misses, so it is not sufficient.
    match diagnosis.best_source() {
        Some(verdict) if verdict.source != "timer" => Ok(Outcome::Complete),
        _ => Ok(Outcome::Partial),
    }
}

/// A row, and the remedy below it where there is one.
fn row<const N: usize>(table: &mut TextTable, cells: [(&str, Tone); N], remedy: &str) {
    table.row(cells.into_iter().map(|(text, tone)| (text.to_string(), tone)).collect());
    if !remedy.is_empty() {
        table.note(format!("-> {remedy}"));
    }
}

fn prescription(diagnosis: &Diagnosis, color: bool) -> String {
    let style = Style { color, width: None };
    let mut sources = TextTable::new(["state", "source", "evidence"].map(Column::left)).untitled();
    for verdict in &diagnosis.sources {
        let state = if verdict.works { ("works", Tone::Good) } else { ("missing", Tone::Hot) };
        row(
            &mut sources,
            [state, (verdict.source, Tone::Plain), (&verdict.evidence, Tone::Plain)],
            &verdict.remedy,
        );
    }
    let mut checks = TextTable::new(["state", "evidence"].map(Column::left)).untitled();
    for check in &diagnosis.checks {
        let state = match check.state {
            State::Ok => ("ok", Tone::Good),
            State::Warn => ("warn", Tone::Warm),
            State::Missing => ("missing", Tone::Hot),
        };
        let evidence = format!("{}: {}", check.name, check.evidence);
        row(&mut checks, [state, (&evidence, Tone::Plain)], &check.remedy);
    }
    let mut text = format!("{}\n\n", diagnosis.processor.name);
    for (title, table) in [("Sources of samples", sources), ("Checks", checks)] {
        text += &format!("{}\n{}\n", style.paint(Tone::Title, title), table.render(style, 2));
    }
    let works =
        |source: &str| diagnosis.sources.iter().any(|verdict| verdict.works && verdict.source == source);
    match diagnosis.best_source() {
        Some(_) if !works("hardware") && works("live") => {
            let other = if works("simulated") { "simulated" } else { "timer" };
            let _ = writeln!(
                text,
                "`hardmeter record` takes the source live here for what runs already, {other} for a command."
            );
        }
        Some(verdict) => {
            let _ = writeln!(text, "`hardmeter record` takes the source {} here.", verdict.source);
        }
        None => {
            let _ = writeln!(text, "Nothing can be recorded here until one of these is fixed.");
        }
    }
    text
}
