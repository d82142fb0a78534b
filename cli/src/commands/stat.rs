//! `hardmeter stat`: count events without sampling.

use super::output::Output;
use super::record::{announce, command_complaint, command_error, signal_name, source_name, Measured};
use super::{CommandError, Globals, Outcome};
use hardmeter_evidence::number::grouped;
use hardmeter_evidence::table::{Column, TextTable};
use hardmeter_record::session::{self, Ending, RestartableServer, StatReport};
use serde_json::json;

/// Count events without sampling.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Counts of events that had to share a counter are scaled to the whole time, and marked.\n\n\
                  Example:\n  hardmeter stat -e l1d-miss,loads -- ls\n  hardmeter stat -e page-faults -p 4711"
)]
pub struct Arguments {
    #[command(flatten)]
    measured: Measured,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let mut request = arguments.measured.request()?;
    let mut server = arguments.measured.throwaway_server(&mut request)?;
    let restartable = server.as_mut().map(|server| server as &mut dyn RestartableServer);
    let report = session::stat(&request, restartable, &mut |chosen| announce(chosen, globals))
        .map_err(|error| command_error(&error))?;
    let value = || {
        json!({
            "source": report.source,
            "seconds": report.duration.as_secs_f64(),
            "command_status": report.status.and_then(|status| status.code()),
            "events": report.events,
            "notes": report.notes,
        })
    };
    arguments.output.print("stat", || table(&report, globals.quiet), value)?;
    let mut outcome = Outcome::Complete;
    if let Some(complaint) = report.status.and_then(command_complaint) {
        eprintln!("hardmeter: the command {complaint}");
        if report.ending == Ending::Command {
            outcome = Outcome::Partial;
        }
    }
    if let Ending::Signal(signal) = report.ending {
        if !globals.quiet {
            eprintln!("hardmeter: stopped by {}", signal_name(signal));
        }
    }
    if report.events.iter().any(|event| event.count.is_none()) {
        eprintln!(
            "hardmeter: some events never had a counter\n  remedy: count fewer events at once, or stop other profilers"
        );
        outcome = Outcome::Partial;
    }
    Ok(outcome)
}

fn table(report: &StatReport, counts_only: bool) -> String {
    let mut grid =
        TextTable::new([Column::right("count"), Column::left("event"), Column::left("about")]).untitled();
    for event in &report.events {
        let mut remarks: Vec<String> = Vec::new();
        if event.one_line_in > 1 {
            remarks.push(format!(
                "about: scaled from {} on 1 cache line in {}",
                grouped(event.counted),
                event.one_line_in
            ));
        } else if event.scaled {
            remarks.push(format!(
                "scaled from {} counted in {:.0} % of the time",
                grouped(event.counted),
                event.running_share * 100.0
            ));
        }
        remarks.extend(event.concessions.iter().map(ToString::to_string));
        let count = event.count.map_or_else(|| "not counted".to_string(), grouped);
        grid.plain([count, event.name.to_string(), remarks.join("; ")]);
    }
    let mut text = grid.text();
    if !counts_only {
        let seconds = report.duration.as_secs_f64();
        text += &format!("\nin {seconds:.3} s, source {}\n", source_name(report.source));
    }
    text
}
