//! `hardmeter latency`: what this machine's caches, memory, TLBs and cores cost.

use super::output::Format;
use super::{CommandError, Globals, Outcome};
use crate::terminal::{print_json, Progress};
use crate::view::{write_page, Printed};
use hardmeter_record::latency::{measure, LatencyError, LatencyOptions};
use hardmeter_record::softpmu::this_machine;
use hardmeter_views::{LatencyReport, Wanted};
use std::path::PathBuf;

/// Measure what this machine's caches, memory, TLBs and cores cost: in half a minute, without rights.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter latency
  hardmeter latency --full                            each size, each pair of processors
  hardmeter latency --html latency.html --svg latency.svg
  hardmeter latency --write-machine this.toml && hardmeter record --machine this.toml -- COMMAND
  hardmeter latency --format json | jq '.summary'

Loads follow pointers in random order, so that nothing is fetched ahead or overlapped. A cache ends where the latency
rises; sizes reported by sysfs that are away from that by more than a factor of 1.5 are noted: virtual machines
misreport them. Run it on an idle machine: what else runs uses the same caches.")]
pub struct Arguments {
    /// The largest memory to try; default: twice the last-level cache, 64 MiB to 512 MiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    largest: Option<u64>,
    /// How often each figure is measured, 6 to 1000; medians and their 95 % intervals are shown.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(6..=1000))]
    repeats: u16,
    /// Write this machine as a model for `record --machine FILE`, with the measured latencies.
    #[arg(long, value_name = "FILE")]
    write_machine: Option<PathBuf>,
    /// Write everything as a page, too.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the curve as a picture, too.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    shown: Printed<Format>,
}

/// `64K`, `16M`, `1G`, or bytes.
fn parse_size(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 64 << 10;
    const MOST: u64 = 64 << 30;
    let (digits, factor) = match text.chars().next_back() {
        Some('K' | 'k') => (&text[..text.len() - 1], 1u64 << 10),
        Some('M' | 'm') => (&text[..text.len() - 1], 1 << 20),
        Some('G' | 'g') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    let bytes = bytes.ok_or_else(|| format!("invalid size \"{text}\": expected 64K, 16M, 1G or bytes"))?;
    match (LEAST..=MOST).contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("{text} is not between 64K and 64G")),
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let options = LatencyOptions { largest: arguments.largest, repeats: arguments.repeats.into() };
    let measured = {
        let progress = Progress::start(globals);
        measure(options, &|what| progress.say(&format!("measuring: {what}")))?
    };
    let report = LatencyReport(measured);
    if let Some(path) = &arguments.write_machine {
        let machine = this_machine().map_err(LatencyError::from)?;
        write_page(Some(path), || report.in_machine(&machine).to_toml())?;
        if !globals.quiet {
            eprintln!("hardmeter: this machine's model -> {}", path.display());
        }
    }
    write_page(arguments.html.as_deref(), || report.html())?;
    write_page(arguments.svg.as_deref(), || report.svg())?;
    match arguments.shown.format {
        Format::Text => arguments.shown.extent.print(Wanted::default(), globals, &report)?,
        Format::Json => print_json(&report.json())?,
    }
    Ok(Outcome::Complete)
}

impl From<LatencyError> for CommandError {
    fn from(error: LatencyError) -> Self {
        CommandError::new(error, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_hand() {
        assert_eq!(parse_size("64K"), Ok(65_536));
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        assert_eq!(parse_size("131072"), Ok(131_072));
        for wrong in ["", "K", "1K", "65G", "-1M", "99999999999999999999G", "1.5M"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
