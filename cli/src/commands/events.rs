//! `hardmeter events`: list the events, by the question they answer.

use super::output::Output;
use super::{CommandError, Globals, Outcome};
use crate::terminal;
use hardmeter_record::events::catalogue::{self, CatalogueEntry};
use hardmeter_record::events::processor::Processor;
use hardmeter_record::pmu::attributes::Rate;
use hardmeter_samples::model::MemoryEvent;
use serde_json::json;
use std::fmt::Write;

/// List the events by the question that they answer.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Besides these, `record` and `stat` take the kernel's events (cpu-clock, page-faults, cycles, ...), \
                  aliases and PMU/terms/ of sysfs,\nnames of libpfm4 (MEM_LOAD_RETIRED:L2_MISS), raw codes (r10d1) and \
                  watched addresses (mem:0x601040/8:w).\n\nExample:\n  hardmeter events"
)]
pub struct Arguments {
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let processor = Processor::this_machine();
    let entries = catalogue::this_machine();
    arguments.output.print(
        "events",
        || table(&processor, &entries, globals),
        || json!({ "processor": processor, "events": entries }),
    )?;
    Ok(Outcome::Complete)
}

/// The simulation's data in an event's samples. A branch or a plain instruction has no data address; causes apply
/// to cache misses only.
fn simulated_text(event: &str) -> &'static str {
    use MemoryEvent::{BranchesMispredicted, Instructions, L1dMiss, L1iMiss, L2Miss, L3Miss};
    match MemoryEvent::from_name(event) {
        Some(L1dMiss | L1iMiss | L2Miss | L3Miss) => "yes   exact, with data address, registers and cause",
        Some(BranchesMispredicted | Instructions) => "yes   exact, with registers",
        _ => "yes   exact, with data address and registers",
    }
}

fn table(processor: &Processor, entries: &[CatalogueEntry], globals: &Globals) -> String {
    let bold = |text: &str| match terminal::style(globals).color {
        true => format!("\x1b[1m{text}\x1b[0m"),
        false => text.to_string(),
    };
    let mut text = String::new();
    let virtual_machine = if processor.virtual_machine { " (virtual machine)" } else { "" };
    // Writing into a string cannot fail.
    let _ = writeln!(text, "On this machine: {}{virtual_machine}\n", processor.name);
    for entry in entries {
        let _ = writeln!(text, "{}", bold(entry.question));
        let rate = match entry.default_rate {
            Rate::Period(period) => format!("every {period}"),
            Rate::Frequency(hertz) => format!("{hertz} Hz"),
        };
        let _ = writeln!(text, "  -e {:<22} default: sampled {rate}", entry.event);
        let hardware = match (&entry.hardware, &entry.refusal) {
            (Some(answer), _) => {
                let mut parts = vec![answer.name.to_string()];
                parts.push(match (answer.data_address, answer.precise_ip) {
                    (true, _) => "data address and exact instruction".to_string(),
                    (false, 2..) => "exact instruction".to_string(),
                    (false, _) => "instruction a few behind".to_string(),
                });
                if !answer.caveat.is_empty() {
                    parts.push(answer.caveat.to_string());
                }
                parts.extend(answer.concessions.iter().map(ToString::to_string));
                format!("yes   {}", parts.join("; "))
            }
            (None, refusal) => format!("no    {}", refusal.as_deref().unwrap_or("not offered")),
        };
        let _ = writeln!(text, "     hardware   {hardware}");
        let simulated = match entry.simulated {
            true => simulated_text(entry.event),
            false => "no    `hardmeter doctor` shows what is missing",
        };
        let _ = writeln!(text, "     simulated  {simulated}\n");
    }
    let _ = writeln!(text, "{}", bold("Which loads does a running server wait for?"));
    let _ = writeln!(
        text,
        "  -e stall                  source live, x86-64, AArch64: time at loads, with the data address; no PMU\n"
    );
    let _ = writeln!(text, "{}", bold("Where does the time go?"));
    let _ = writeln!(
        text,
        "  --source timer            1000 Hz, on every machine; instruction only, no data address"
    );
    text
}
