//! `hardmeter report`: show where the misses are.

use super::{tune_ledger, CommandError, Globals, Outcome};
use crate::terminal::{print, print_json};
use crate::view::{outcome, require_samples_of, write_page, Printed, ViewArguments};
use hardmeter_answers::{Answers, Dimension, Measure, Shown, SortBy, TopQuestion};
use hardmeter_html::HtmlReport;
use hardmeter_views::{counted, grouped, QualityReport, TopReport, Wanted};
use std::path::{Path, PathBuf};

/// Show where the misses are: count, share, address, routine, source line.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter report                                the ten addresses with most stall time or samples, per event
  hardmeter report --by routine --top 20
  hardmeter report --by process,routine --event l2-miss --user-only
  hardmeter report --by level,latency --sort key --all
  hardmeter report --columns count,interval,median-latency,routine --by routine
  hardmeter report --quality                      how far the samples can be trusted
  hardmeter report --html report.html             everything, with pictures, as one file to look at and to mail
  hardmeter report -i perf.data --format json | jq '.tables[0].rows[0]'

Columns to group by (--by, --columns):
  event address ip routine line file image process pid tid cpu mode level latency
  operation tlb snoop data-address cache-line cause set
  class object part statement role
Figures (--columns):
  count share interval events total-latency stall mean-latency median-latency

\"address\" is the address in the program's own numbering, as objdump prints it;
of a program that cannot be read, the position in its file. \"ip\" is the address
that the process saw.
Every share is of n, the samples of its event; \"interval\" is its 95 % interval. \"stall\"
is the share of the latencies of the event: of the time that the core stood still.")]
pub struct Arguments {
    #[command(flatten)]
    view: ViewArguments,
    /// Columns to group by.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', default_value = "address")]
    by: Vec<Dimension>,
    /// Columns to show, in this order; dimensions among them are grouped by, too.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', value_parser = parse_shown)]
    columns: Vec<Shown>,
    /// Rows per table (default: 10).
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// All rows.
    #[arg(long, conflicts_with = "top")]
    all: bool,
    /// Order of the rows: count, events, total-latency, mean-latency, median-latency, or key (the columns
    /// themselves, ascending). Default: total-latency where latencies are exposed ones (simulated), else count.
    #[arg(long, value_name = "COLUMN", value_parser = str::parse::<SortBy>)]
    sort: Option<SortBy>,
    /// Grade the samples instead: recomputed addresses, skid, shadowing, losses.
    #[arg(long, conflicts_with_all = ["by", "columns", "top", "all", "sort"])]
    quality: bool,
    /// Write the complete report, with charts and filters, as one HTML file that needs no network; print no table.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["by", "columns", "top", "all", "sort", "quality", "format"])]
    html: Option<PathBuf>,
    #[command(flatten)]
    shown: Printed<Format>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    Csv,
}

fn parse_shown(name: &str) -> Result<Shown, String> {
    let measure = name.parse::<Measure>().map(Shown::Measure);
    measure.or_else(|_| name.parse::<Dimension>().map(Shown::Dimension)).map_err(|error| {
        let measures: Vec<&str> = Measure::ALL.iter().map(|(_, name)| *name).collect();
        format!("{error}, {}", measures.join(", "))
    })
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    if let Some(path) = &arguments.html {
        let unread = write_html(&arguments.view, globals, path)?;
        return Ok(outcome(&unread, globals));
    }
    if arguments.quality {
        return run_quality(arguments, globals);
    }
    let question = TopQuestion {
        by: arguments.by.clone(),
        columns: arguments.columns.clone(),
        limit: (!arguments.all).then_some(arguments.top.unwrap_or(10)),
        sort: arguments.sort,
    };
    let report = TopReport(arguments.view.ask(globals, |answers| answers.top(&question))?);
    require_samples_of(&report.heading, report.samples(), &report.unread, globals)?;
    match arguments.shown.format {
        Format::Text => arguments.shown.extent.print(wanted(arguments), globals, &report)?,
        Format::Json => print_json(&report.json())?,
        Format::Csv => print(&report.csv()?)?,
    }
    Ok(outcome(&report.unread, globals))
}

/// Writes the report as a page and prints its path; returns the parts of the capture that could not be read.
pub(super) fn write_html(
    view: &ViewArguments,
    globals: &Globals,
    path: &Path,
) -> Result<Vec<String>, CommandError> {
    let report = view.ask(globals, HtmlReport::of)?;
    let tuning = report.server_process().and_then(tune_ledger::chapter_of);
    let report = report.with_chapter(tuning);
    require_samples_of(report.heading(), report.samples(), report.unread(), globals)?;
    let page = report.html();
    let kilobytes = page.len().div_ceil(1000) as u64;
    write_page(Some(path), || page)?;
    if !globals.quiet {
        eprintln!(
            "hardmeter: report of {}, {} kB -> {}",
            counted(report.samples(), "sample"),
            grouped(kilobytes),
            path.display()
        );
    }
    Ok(report.unread().to_vec())
}

fn run_quality(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let report = QualityReport(arguments.view.ask(globals, Answers::quality)?);
    require_samples_of(&report.heading, report.samples(), &report.unread, globals)?;
    match arguments.shown.format {
        Format::Text => arguments.shown.extent.print(Wanted::default(), globals, &report)?,
        Format::Json => print_json(&report.json())?,
        Format::Csv => {
            return Err(CommandError::new(
                "the grade of a capture has no form of comma-separated values",
                "--format text or json",
            ))
        }
    }
    Ok(outcome(&report.unread, globals))
}

/// The parts of the view that the options select.
fn wanted(arguments: &Arguments) -> Wanted {
    let all_rows = arguments.all || arguments.top.is_some();
    Wanted { all_rows, all_columns: !arguments.columns.is_empty(), ..Wanted::default() }
}
