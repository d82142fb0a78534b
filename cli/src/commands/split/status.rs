//! `hardmeter split status`.

use super::folder::Folder;
use crate::commands::output::Output;
use crate::commands::{CommandError, Globals, Outcome};
use crate::terminal;
use hardmeter_split::machine;
use hardmeter_split::segment::{monotonic_ns, Change, Folder as Segments};
use hardmeter_split::state::{self, without_in_words, State, StateError};
use hardmeter_split::view;
use std::fmt::Write;

/// Show what the analyzer and the servers do now.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit status: 0 an analyzer works, 1 none does. As JSON it is all that the analyzer knows.\n\n\
                        Example:\n  hardmeter split status"
)]
pub(super) struct Status {
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    output: Output,
}

impl Status {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let directory = self.folder.path();
        match State::read(&directory) {
            Ok(state) => {
                let alive = !state.is_stale(monotonic_ns());
                self.output.print("split-state", || in_words(&state, alive), || serde_json::json!(state))?;
                Ok(if alive { Outcome::Complete } else { Outcome::Partial })
            }
            Err(StateError::Missing(_)) => {
                println!("no analyzer works on {}", directory.display());
                let mut segments = Segments::existing(&directory).map_err(|error| {
                    CommandError::new(
                        format!("the segments' folder {}: {error}", directory.display()),
                        "start a server with a module of SPLiT, or the analyzer; or name another folder (--directory)",
                    )
                })?;
                for change in segments.scan(monotonic_ns()) {
                    match change {
                        Change::Came(_, title) => println!("  {title} measures, and waits for one"),
                        Change::Refused(path, refusal) => {
                            eprintln!(
                                "{} {}: {refusal}",
                                terminal::warning(globals, "refused:"),
                                path.display()
                            );
                        }
                        Change::Died(..) | Change::Left(..) => {}
                    }
                }
                Ok(Outcome::Partial)
            }
            Err(error) => {
                Err(CommandError::new(error, "start an analyzer of this version: hardmeter split analyze"))
            }
        }
    }
}

/// Number of kinds with a time slice to show; `split top` has the rest.
const SLICES: usize = 12;

fn slices_of(app: &state::Application) -> String {
    match (app.sliced, app.slices) {
        (0, 0) => String::new(),
        (threads, changes) => {
            format!(", {threads} threads with a slice of SPLiT's, {changes} changes so far")
        }
    }
}

fn in_words(state: &State, alive: bool) -> String {
    let mut text = String::new();
    let placement = if state.placement_on { "on" } else { "off" };
    let _ = if alive {
        writeln!(text, "analyzer {}: policy {}, placement {placement}", state.pid, state.policy)
    } else {
        writeln!(text, "no analyzer works; the last one was {}, policy {}", state.pid, state.policy)
    };
    let _ = writeln!(text, "machine: {}", machine::describe(&state.machine));
    let because =
        if state.probe.reason.is_empty() { String::new() } else { format!(" ({})", state.probe.reason) };
    let _ = writeln!(text, "probe: {}{because}", state.probe.kind);
    if let Some(neighbours) = state.probe.neighbours.in_words() {
        let _ = writeln!(text, "neighbours: {neighbours}");
    }
    if state.guard.active {
        let _ = writeln!(text, "guard: {}: {}", state.guard.phase, state.guard.reason);
        for rule in state.guard.rules.iter().filter(|rule| !rule.on) {
            let _ = writeln!(text, "guard: rule of {} off, it runs anywhere: {}", rule.kind, rule.reason);
        }
    }
    for app in &state.applications {
        let without = without_in_words(&app.without);
        let collecting = if app.collecting { "" } else { ", switched off" };
        let _ = writeln!(
            text,
            "{} ({}): {} kinds, {} sections, measures by {}{without}{collecting}{}",
            app.name,
            app.app,
            app.kinds,
            app.sections,
            app.backend,
            slices_of(app)
        );
        if let Some(admission) = app.admission.in_words() {
            let _ = writeln!(text, "  admission: {admission}");
        }
    }
    let slices = view::slices(state);
    for line in slices.iter().take(SLICES) {
        let _ = writeln!(text, "{line}");
    }
    if slices.len() > SLICES {
        let _ = writeln!(text, "[{} kinds more with a slice: hardmeter split top]", slices.len() - SLICES);
    }
    for remark in &state.plan.remarks {
        let _ = writeln!(text, "{remark}");
    }
    text
}
