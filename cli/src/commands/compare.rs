//! `hardmeter compare`: what differs between two sides of one or several captures each.

use super::compare_files::captures_of;
use super::{CommandError, Globals, Outcome};
use crate::terminal::{print, print_json, screen_style};
use crate::view::{outcome, write_page, Printed, RowsForm, SampleArguments};
use hardmeter_answers::{
    Answers, AnswersError, CompareColumn, CompareRun, Comparison, CubeAnswer, CubeQuestion, Incomparable, Per,
};
use hardmeter_html::DifferencePage;
use hardmeter_views::{CompareReport, CountsReport, Wanted};
use std::path::{Path, PathBuf};

/// Compare two builds, settings or days: what misses more or less, where, and whether chance explains it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter compare before.data after.data
  hardmeter compare before/ after/                    folders: each capture in them is a run
  hardmeter compare --a before-*.data --b after-*.data
  hardmeter compare before.data after.data --by object --event l2-miss --full
  hardmeter compare before.data after.data --html difference.html
  hardmeter compare before.data after.data --format csv > difference.csv
  hardmeter compare before.data after.data --format json | jq '.events[0].total.change'
  hardmeter compare --counts 58173/280759 50540/265927    two counts, each of a total

Columns (--by):
  function     aligned by name; one without a name by its instructions
  instruction  without addresses, targets of jumps and places in the stack frame
  line         counted from the function's first line: moved code is not a difference
  object       class and name of the object of the data address, as in hardmeter objects
  statement    without its constants
By default there are two tables: by function, and by all of function, instruction, line and object.

Rates are for a transaction where the server counted them in all captures, else for 1,000 instructions, else for a
second. With one run on a side, intervals are of sampling alone; with two or more on both sides they are between runs.
A row differs (*) at a false discovery rate of 5 % among the rows of its table.")]
pub struct Arguments {
    /// Side A, then side B: a capture, a folder of captures, or a quoted pattern such as 'before-*.data'.
    #[arg(value_name = "CAPTURE", num_args = 2, required_unless_present_any = ["a", "counts"])]
    sides: Vec<PathBuf>,
    /// Captures of side A, each a run.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "b", conflicts_with_all = ["sides", "counts"])]
    a: Vec<PathBuf>,
    /// Captures of side B.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "a", conflicts_with_all = ["sides", "counts"])]
    b: Vec<PathBuf>,
    /// Two counts instead of captures, each with or without the total that it is of: 58173/280759 50540/265927.
    #[arg(long, value_name = "COUNT[/TOTAL]", num_args = 2, value_parser = parse_count, conflicts_with = "sides")]
    counts: Vec<Count>,
    #[command(flatten)]
    samples: SampleArguments,
    /// Columns to align rows by, for one table.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    by: Vec<CompareColumn>,
    /// Write everything as a page with a differential flame graph, too.
    #[arg(long, value_name = "FILE", conflicts_with = "counts")]
    html: Option<PathBuf>,
    /// The unit of work that rates are for: transaction, instruction (1,000 of them), second, run, or share (of all
    /// events of the same name).
    #[arg(long, value_name = "UNIT", value_parser = str::parse::<Per>)]
    per: Option<Per>,
    #[command(flatten)]
    shown: Printed<RowsForm>,
}

/// A count, and the total that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    count: u64,
    total: Option<u64>,
}

fn parse_count(text: &str) -> Result<Count, String> {
    let number = |text: &str| {
        let digits = text.replace(',', "");
        digits.parse::<u64>().map_err(|_| format!("invalid count \"{text}\": expected a whole number"))
    };
    let Some((count, total)) = text.split_once('/') else {
        return Ok(Count { count: number(text)?, total: None });
    };
    let (count, total) = (number(count)?, number(total)?);
    if count > total {
        return Err(format!("{count} is more than its total, {total}"));
    }
    Ok(Count { count, total: Some(total) })
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    if let [a, b] = arguments.counts.as_slice() {
        return run_counts(*a, *b, arguments, globals);
    }
    let (a, b) = match arguments.sides.as_slice() {
        [a, b] => (captures_of(std::slice::from_ref(a))?, captures_of(std::slice::from_ref(b))?),
        _ => (captures_of(&arguments.a)?, captures_of(&arguments.b)?),
    };
    let tables = match arguments.by.as_slice() {
        [] => vec![vec![CompareColumn::Function], CompareColumn::PLACE.to_vec()],
        by => vec![distinct(by)],
    };
    let read = |files: &[PathBuf]| files.iter().map(|file| read_run(file, arguments, globals)).collect();
    let (of_a, of_b): (Result<Vec<CompareRun>, _>, Result<Vec<CompareRun>, _>) = (read(&a), read(&b));
    let report = CompareReport(Comparison::of(&of_a?, &of_b?, &tables, arguments.per)?);
    if let Some(path) = &arguments.html {
        let (a, b) = (cubes(&a, arguments, globals)?, cubes(&b, arguments, globals)?);
        write_page(Some(path), || DifferencePage::of(&report, &a, &b).html())?;
    }
    arguments.shown.print(Wanted::default(), globals, &report)?;
    Ok(outcome(&report.unread, globals))
}

fn read_run(file: &Path, arguments: &Arguments, globals: &Globals) -> Result<CompareRun, CommandError> {
    let run = arguments.samples.ask::<_, AnswersError>(file, globals, Answers::compare_run)?;
    if run.events.iter().all(|event| event.sum.samples == 0) {
        return Err(CommandError::new(
            format!("no sample of {} passes the filter", file.display()),
            "loosen --event, --user-only, --kernel-only, --pid, --comm or --min-latency, or record longer",
        ));
    }
    Ok(run)
}

/// All samples of the captures with their call paths: a second walk over each.
fn cubes(
    files: &[PathBuf],
    arguments: &Arguments,
    globals: &Globals,
) -> Result<Vec<CubeAnswer>, CommandError> {
    let question = CubeQuestion::default();
    let cube = |file: &PathBuf| {
        arguments.samples.ask::<_, AnswersError>(file, globals, |answers| answers.cube(&question))
    };
    files.iter().map(cube).collect()
}

fn run_counts(a: Count, b: Count, arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let totals = match (a.total, b.total) {
        (Some(a), Some(b)) => Some([a, b]),
        (None, None) => None,
        _ => {
            return Err(CommandError::new(
                "one count has a total and the other one has none",
                "give both as COUNT/TOTAL, or both as COUNT",
            ))
        }
    };
    if arguments.shown.format == RowsForm::Csv {
        return Err(CommandError::new("two counts have no table for --format csv", "use --format json"));
    }
    let report = CountsReport { counts: [a.count, b.count], totals };
    match arguments.shown.format {
        RowsForm::Json => print_json(&report.json())?,
        _ => print(&report.text(screen_style(globals)))?,
    }
    Ok(Outcome::Complete)
}

/// Each column once, in the order given.
fn distinct(columns: &[CompareColumn]) -> Vec<CompareColumn> {
    let mut distinct: Vec<CompareColumn> = Vec::new();
    for column in columns {
        if !distinct.contains(column) {
            distinct.push(*column);
        }
    }
    distinct
}

impl From<Incomparable> for CommandError {
    fn from(error: Incomparable) -> Self {
        CommandError::new(error, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_numbers_within_their_total() {
        assert_eq!(parse_count("58,173/280,759"), Ok(Count { count: 58_173, total: Some(280_759) }));
        assert_eq!(parse_count("7"), Ok(Count { count: 7, total: None }));
        for wrong in ["", "-1", "1/", "2/1", "x/3", "1.5"] {
            assert!(parse_count(wrong).is_err(), "{wrong}");
        }
    }
}
