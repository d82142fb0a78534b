//! `hardmeter tune undo`, `log` and `report`, and the watchdog of a trial.

use super::output::Output;
use super::tune_server::TunedServer;
use super::workload::remark;
use super::{CommandError, Globals, Outcome};
use crate::terminal;
use crate::view::write_page;
use hardmeter_advise::trial::{
    self, undo_all, undo_all_of_mariadb, undo_entry, undo_entry_of_mariadb, watch_mariadb, Entry, Ledger,
    Switch, Tuned, Undone,
};
use hardmeter_evidence::number::counted;
use hardmeter_evidence::page::Section;
use serde_json::json;
use std::io::{stdin, stdout};
use std::path::PathBuf;
use std::time::Duration;

/// Undo what trials have left open on a server, or a change that was kept.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A trial undoes its change itself, and its watchdog does when the trial is killed. This is for the rest: a machine that
went down with both. What another session has changed since is left to it.

Exit status: 0 when nothing is open any more on this server; 1 when something could not be undone; 2 for wrong
arguments.

Examples:
  hardmeter tune undo --server /var/tmp/pg
  hardmeter tune undo 7 --server /var/tmp/pg")]
pub struct Undo {
    /// The entry to undo, open or kept [default: all that are open].
    entry: Option<u64>,
    #[command(flatten)]
    server: TunedServer,
    #[command(flatten)]
    output: Output,
}

/// Show what was tried: predicted, measured, kept or undone.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The ledger is $XDG_STATE_HOME/hardmeter/tune/ledger.jsonl (else below ~/.local/state): one JSON value a line, with
evidence, prediction, the values before, and the result.

Example:
  hardmeter tune log")]
pub struct Log {
    #[command(flatten)]
    output: Output,
}

/// Write what was tried as a page: before and after each step, what was undone and why.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The page has all entries of the ledger, by server. `hardmeter report --html` has the same chapter for the server of a
capture, if trials were made on it.

Example:
  hardmeter tune report --html tuning.html")]
pub struct Report {
    /// The page's file.
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
}

#[derive(clap::Args, Debug)]
pub struct Watchdog {
    /// The trial's key in the ledger.
    #[arg(long)]
    trial: String,
    #[command(flatten)]
    server: TunedServer,
}

/// How long a watchdog retries while a server restarts or recovers.
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) fn undo(arguments: &Undo, _globals: &Globals) -> Result<Outcome, CommandError> {
    let ledger = Ledger::of_user();
    let (server, mut done) = addressed(&arguments.server, &ledger)?;
    done.extend(match (&server, arguments.entry) {
        (None, _) => Vec::new(),
        (Some(Tuned::Mariadb(target)), Some(number)) => {
            vec![undo_entry_of_mariadb(target, &ledger, number)?]
        }
        (Some(Tuned::Mariadb(target)), None) => undo_all_of_mariadb(target, &ledger)?,
        (Some(Tuned::Postgres(target)), Some(number)) => vec![undo_entry(target, &ledger, number)?],
        (Some(Tuned::Postgres(target)), None) => undo_all(target, &ledger)?,
    });
    let text = || {
        if done.is_empty() {
            return "Nothing is open on this server.\n".to_owned();
        }
        done.iter().map(|(entry, undone)| line(entry, undone)).collect()
    };
    arguments.output.print("tune-undo", text, || {
        let entries =
            done.iter().map(|(entry, undone)| json!({ "entry": entry.begin.entry, "undone": undone }));
        json!({ "format": "hardmeter-tune-undo", "version": 1, "entries": entries.collect::<Vec<_>>() })
    })?;
    Ok(Outcome::Complete)
}

/// Entries that were closed, with the results.
type Closed = Vec<(Entry, Undone)>;

/// The server, and the entries that were closed because their servers are gone. One that a killed trial left down has no
/// address before it is started; `None`: it is one of those that are gone.
fn addressed(server: &TunedServer, ledger: &Ledger) -> Result<(Option<Tuned>, Closed), CommandError> {
    let error = match server.tuned() {
        Err(error) if server.is_folder() => error,
        tuned => return Ok((Some(tuned?), Vec::new())),
    };
    let trial::Revived { closed, failed } = trial::revive(ledger)?;
    let is_its =
        |entry: &Entry| entry.begin.restart().is_some_and(|restart| server.has_folder(&restart.data));
    match server.tuned() {
        Ok(tuned) => Ok((Some(tuned), closed)),
        Err(_) if closed.iter().any(|(entry, _)| is_its(entry)) => Ok((None, closed)),
        // Why it was not started is the cause.
        Err(_) => Err(failed
            .into_iter()
            .find(|(entry, _)| is_its(entry))
            .map_or(error, |(_, cause)| CommandError::from(cause))),
    }
}

fn line(entry: &Entry, undone: &Undone) -> String {
    let commands: Vec<String> = entry.begin.switches.iter().rev().flat_map(Switch::undo).collect();
    let what = match undone {
        Undone::Restored => format!("undone: {}", commands.join(" ")),
        Undone::AsBefore => "all was as before".into(),
        Undone::Foreign(why) => why.clone(),
    };
    format!("entry {}, {}: {what}\n", entry.begin.entry, entry.begin.remedy)
}

pub(super) fn log(arguments: &Log, globals: &Globals) -> Result<Outcome, CommandError> {
    let ledger = Ledger::of_user();
    let log = trial::Log(ledger.entries()?);
    match ledger.unreadable()? {
        0 => {}
        lines => {
            remark(globals, &format!("lines of {} that cannot be read: {lines}", ledger.path().display()))
        }
    }
    let style = terminal::style(globals);
    arguments.output.print("tune-log", || log.text(style), || log.json())?;
    Ok(Outcome::Complete)
}

pub(super) fn report(arguments: &Report, globals: &Globals) -> Result<Outcome, CommandError> {
    let entries = Ledger::of_user().entries()?;
    write_page(Some(&arguments.html), || trial::page(&entries))?;
    remark(globals, &format!("{} -> {}", counted(entries.len() as u64, "trial"), arguments.html.display()));
    Ok(Outcome::Complete)
}

/// The chapter *Tuning* for the server with this first process; `None` if nothing was tried on it.
pub(super) fn chapter_of(postmaster: i32) -> Option<Section> {
    trial::chapter(&Ledger::of_user().entries_of_process(postmaster).ok()?)
}

pub(super) fn watchdog(arguments: &Watchdog) -> Result<Outcome, CommandError> {
    let mariadb = arguments.server.mariadb()?;
    let pipes =
        (&mut stdin().lock() as &mut dyn std::io::Read, &mut stdout().lock() as &mut dyn std::io::Write);
    let (ledger, token) = (Ledger::of_user(), &arguments.trial);
    match mariadb {
        Some(target) => watch_mariadb(&target, &ledger, token, pipes, PATIENCE)?,
        None => trial::watch(&arguments.server.target()?, &ledger, token, pipes, PATIENCE)?,
    }
    Ok(Outcome::Complete)
}
