//! `hardmeter sharing`: show the contended cache lines.

use super::{CommandError, Globals, Outcome};
use crate::terminal::{print, print_json, screen_style};
use crate::view::{outcome, require_samples_of, write_page, Printed, SentencesForm, ViewArguments};
use hardmeter_answers::SharingQuestion;
use hardmeter_views::{sentences_text, SharingDetail, SharingReport, Wanted};
use std::path::PathBuf;

/// Show contended cache lines: which code waits for which, over which bytes, and the effect of another layout.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter record -e coherence-miss,invalidation --period 1 --cores 4 --server DIR -- pgbench -n -c 10 -t 20
  hardmeter sharing                      the ten worst lines, three of them access by access
  hardmeter sharing --top 50 --lines 10 --rows 20
  hardmeter sharing -i perf.data         of \"perf c2c record\" or \"perf mem record\"
  hardmeter sharing --lines 10 --html sharing.html
  hardmeter sharing --format json | jq '.lines[0].verdict'

Columns:
  misses    accesses that waited because another core had written the line
  local     those of them that were loads of a line that another core of the node had modified
            (perf: local HITM); remote: that a core of another node had
  taken     stores that took the line away from other cores
  sharing   true: on bytes that the other core wrote; false: on other bytes of the line; mixed: both
  bytes     of the line, from its start; \"?\": the width is not known, a word of four is shown
  blamed    misses of others that name this write as the latest of another core
  takes     stores of this code that took the line away
  others    samples of other events")]
pub struct Arguments {
    #[command(flatten)]
    view: ViewArguments,
    /// Lines in the table (default: 10).
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// All contended lines.
    #[arg(long, conflicts_with = "top")]
    all: bool,
    /// Lines shown access by access.
    #[arg(long, value_name = "N", default_value_t = 3)]
    lines: usize,
    /// Rows per table of a line.
    #[arg(long, value_name = "N", default_value_t = 8)]
    rows: usize,
    /// Infer verdicts from the samples' addresses even if the simulator recorded them: to assess the inference.
    #[arg(long)]
    inferred: bool,
    /// Also write the report as one self-contained HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    shown: Printed<SentencesForm>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let question = SharingQuestion {
        lines: (!arguments.all).then_some(arguments.top.unwrap_or(10)),
        judge_by_samples: arguments.inferred,
    };
    let report = SharingReport(arguments.view.ask(globals, |answers| answers.sharing(&question))?);
    require_samples_of(&report.heading, report.samples, &report.unread, globals)?;
    let detail = SharingDetail { lines: arguments.lines, rows: arguments.rows };
    write_page(arguments.html.as_deref(), || report.html(detail))?;
    match arguments.shown.format {
        SentencesForm::Text => {
            arguments.shown.extent.print(wanted(arguments), globals, &(&report, detail))?
        }
        SentencesForm::Sentences => {
            print(&sentences_text(&report.sentences_or_reason(), screen_style(globals)))?
        }
        SentencesForm::Json => print_json(&report.json())?,
    }
    Ok(outcome(&report.unread, globals))
}

/// The parts of the view that the options select.
fn wanted(arguments: &Arguments) -> Wanted {
    Wanted { all_rows: arguments.all || arguments.top.is_some(), ..Wanted::default() }
}
