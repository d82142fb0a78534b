//! `hardmeter stat`: count events without sampling.

use super::output::Output;
use super::record::{announce, command_complaint, command_error, signal_name, source_name, Measured};
use super::{CommandError, Globals, Outcome};
use hardmeter_record::session::{self, Ending, RestartableServer, StatReport};
use serde_json::json;
use std::fmt::Write;

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
    arguments.output.print(|| table(&report, globals.quiet), value)?;
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
    let counts: Vec<String> = report
        .events
        .iter()
        .map(|event| event.count.map_or_else(|| "not counted".to_string(), grouped))
        .collect();
    let width = counts.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (event, count) in report.events.iter().zip(&counts) {
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
        // Writing into a string cannot fail.
        let _ = match remarks.is_empty() {
            true => writeln!(text, "{count:>width$}  {}", event.name),
            false => writeln!(text, "{count:>width$}  {:<22}  {}", event.name, remarks.join("; ")),
        };
    }
    if !counts_only {
        let seconds = report.duration.as_secs_f64();
        let _ = writeln!(text, "\nin {seconds:.3} s, source {}", source_name(report.source));
    }
    text
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_parted() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }
}
