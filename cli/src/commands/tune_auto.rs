//! `hardmeter tune --auto`: tries one remedy after another, keeps those proven to gain, and undoes the
//! others.

use super::output::Output;
use super::tune_options::TrialOptions;
use super::tune_server::TunedServer;
use super::tune_try::watchdog;
use super::workload::{cancelled_by_signals, remark, Bar};
use super::{CommandError, Globals, Outcome};
use crate::terminal;
use hardmeter_advise::trial::{auto, survey, AutoOrder, End, Hands, Ledger, Step, Survey};
use std::io::{stdin, stdout, IsTerminal};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The options of one run.
pub(super) struct Wanted<'a> {
    pub(super) server: &'a TunedServer,
    pub(super) options: &'a TrialOptions,
    pub(super) seconds: u64,
    pub(super) yes: bool,
    pub(super) ddl: bool,
    pub(super) most_steps: u32,
    pub(super) output: &'a Output,
}

/// Runs the command.
pub(super) fn run(wanted: &Wanted, globals: &Globals) -> Result<Outcome, CommandError> {
    let (pace, guards) = (wanted.options.pace()?, wanted.options.guards()?);
    let server = wanted.server.tuned()?;
    wanted.options.copies(&server)?;
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    let order = AutoOrder {
        load: wanted.options.load(server.environment()),
        server,
        look: Duration::from_secs(wanted.seconds),
        pace,
        guards,
        ddl: wanted.ddl,
        copy: wanted.options.copy().map(Path::to_owned),
        warm_up: wanted.options.warm_up()?,
        most_steps: wanted.most_steps,
        run: format!("{}-{}", nanoseconds / 1_000_000_000, std::process::id()),
        seed: nanoseconds,
    };
    let (ledger, stop, bar) = (Ledger::of_user(), cancelled_by_signals(), Bar::new(globals));
    let progress = |what: &str, share: f64| bar.stands_at((share * 1000.0) as usize, 1000, what);
    let ended = |step: &Step| bar.0.suspend(|| remark(globals, &step.line()));
    let watchdog = |token: &str| watchdog(wanted.server, token);
    let hands =
        Hands { ledger: &ledger, watchdog: &watchdog, stop: &stop, progress: &progress, ended: &ended };
    let first = survey(&order, &hands)?;
    let style = terminal::style(globals);
    if !first.candidates.is_empty() {
        bar.0.suspend(|| announced(wanted, &first, globals))?;
        if !wanted.yes && !confirmed(wanted)? {
            bar.0.finish_and_clear();
            let text = || "Nothing was changed. With --yes this is done.\n".to_owned();
            wanted.output.print("tune-auto", text, || first.json())?;
            return Ok(Outcome::Complete);
        }
    }
    let report = auto(&order, &hands, first);
    bar.0.finish_and_clear();
    let text = || report.text(style, &wanted.server.again());
    wanted.output.print("tune-auto", text, || report.json())?;
    Ok(match report.end {
        End::NothingToGain => Outcome::Complete,
        _ => Outcome::Partial,
    })
}

/// Prints what the run will try first.
fn announced(wanted: &Wanted, survey: &Survey, globals: &Globals) -> Result<(), CommandError> {
    match wanted.output.is_text() {
        true => terminal::print(&format!("{}\n", survey.text(terminal::style(globals)))),
        false => Ok(()),
    }
}

/// Asks on a terminal; elsewhere the answer is no.
fn confirmed(wanted: &Wanted) -> Result<bool, CommandError> {
    if !wanted.output.is_text() || !stdin().is_terminal() || !stdout().is_terminal() {
        return Ok(false);
    }
    terminal::print("Try these on the server? [y/N] ")?;
    let mut answer = String::new();
    let read = stdin().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}
