//! `hardmeter report`: show where the misses are.

use super::{CommandError, Globals, Outcome};
use crate::terminal::{print, style, Progress};
use crate::view::{outcome, require_samples, ViewArguments};
use hardmeter_answers::{Dimension, Located, Measure, Pass, Remark, SortBy, Table, Top, TopOptions, Value};
use hardmeter_samples::model::Sample;
use hardmeter_views::{Capture, QualityReport, Shown, SymbolNames, TopReport, WalkOptions};
use std::ops::ControlFlow;

/// Show where the misses are: count, share, address, routine, source line.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter report                                the ten addresses with most samples, per event
  hardmeter report --by routine --top 20
  hardmeter report --by process,routine --event l2-miss --user-only
  hardmeter report --by level,latency --sort key --all
  hardmeter report --columns count,interval,median-latency,routine --by routine
  hardmeter report --quality                      how far the samples can be trusted
  hardmeter report -i perf.data --format json | jq '.tables[0].rows[0]'

Columns to group by (--by, --columns):
  event address ip routine line file image process pid tid cpu mode level latency
  operation tlb snoop data-address cache-line cause set
  class object part statement role
Figures (--columns):
  count share interval events total-latency mean-latency median-latency

\"address\" is the address in the program's own numbering, as objdump prints it;
of a program that cannot be read, the position in its file. \"ip\" is the address
that the process saw.
Every share is of n, the samples of its event; \"interval\" is its 95 % interval.")]
pub struct Arguments {
    #[command(flatten)]
    view: ViewArguments,
    /// Columns to group by.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', default_value = "address")]
    by: Vec<Dimension>,
    /// Columns to show, in this order; those that are no figures are grouped by too.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', value_parser = parse_shown)]
    columns: Vec<Shown>,
    /// Rows per table.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// All rows.
    #[arg(long, conflicts_with = "top")]
    all: bool,
    /// Order of the rows: count, events, total-latency, mean-latency, median-latency, or key (the columns
    /// themselves, ascending).
    #[arg(long, value_name = "COLUMN", default_value = "count", value_parser = str::parse::<SortBy>)]
    sort: SortBy,
    /// Grade the samples instead: addresses computed again from registers, skid, shadowing, losses.
    #[arg(long, conflicts_with_all = ["by", "columns", "top", "all", "sort"])]
    quality: bool,
    /// Form of the result.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
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
    let capture = arguments.view.open()?;
    if arguments.quality {
        return run_quality(arguments, globals, &capture);
    }
    let (report, unread) = build(arguments, globals, &capture)?;
    match arguments.format {
        Format::Text => print(&report.render(style(globals), globals.quiet))?,
        Format::Json => print(&format!("{:#}\n", report.json()))?,
        Format::Csv => print(&report.csv()?)?,
    }
    Ok(outcome(&unread, globals))
}

fn run_quality(arguments: &Arguments, globals: &Globals, capture: &Capture) -> Result<Outcome, CommandError> {
    let progress = Progress::start(globals);
    let watch = |samples| progress.samples(samples);
    let options = arguments.view.walk(capture, &watch)?;
    let mut report = QualityReport::make(capture, options)?;
    drop(progress);
    report.filter = arguments.view.filter_text();
    require_samples(&report.heading, report.samples())?;
    match arguments.format {
        Format::Text => print(&report.render(style(globals), globals.quiet))?,
        Format::Json => print(&format!("{:#}\n", report.json()))?,
        Format::Csv => {
            return Err(CommandError::new(
                "the grade of a capture has no form of comma-separated values",
                "--format text or json",
            ))
        }
    }
    Ok(outcome(&report.unread, globals))
}

fn build(
    arguments: &Arguments,
    globals: &Globals,
    capture: &Capture,
) -> Result<(TopReport, Vec<String>), CommandError> {
    let by = grouping(arguments);
    let medians = arguments.sort == SortBy::MedianLatency
        || arguments.columns.contains(&Shown::Measure(Measure::MedianLatency));
    let options = TopOptions {
        by: by.clone(),
        limit: (!arguments.all).then_some(arguments.top),
        sort: arguments.sort,
        medians,
        line_size: capture.line_size(),
    };
    let filter = arguments.view.filter(capture)?;
    let mut top = Top::new(options);
    let needs = |what: fn(Dimension) -> bool| by.iter().any(|dimension| what(*dimension));
    let progress = Progress::start(globals);
    let walk_options = WalkOptions {
        filter: filter.clone(),
        symbols: needs(|dimension| dimension.needs_place() || dimension.needs_object())
            .then(|| arguments.view.symbols()),
        progress: &|samples| progress.samples(samples),
    };
    let with_objects = needs(Dimension::needs_object);
    let mut count = |pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, mut located: Located| {
        if with_objects {
            located.object = pass.object(sample);
        }
        top.add_with(sample, located, pass);
        Ok(ControlFlow::Continue(()))
    };
    let mut walk = match needs(Dimension::needs_notes) {
        true => capture.walk_with_objects(walk_options, &mut count)?,
        false => capture.walk(walk_options, &mut count)?,
    };
    let mut tables = top.tables(&mut walk.pass, &capture.event_names());
    // An event that was filtered out, or never meant to have samples, is not shown as one without.
    tables.retain(|table| {
        let wanted = |event| filter.events.is_empty() || filter.events.contains(&event);
        table.event.is_none_or(|event| wanted(event) && (table.total > 0 || !capture.is_carrier(event)))
    });
    let names = top.named_share(&mut walk.pass);
    drop(progress);
    let heading = capture.heading(&walk);
    if let Err(empty) = require_samples(&heading, tables.iter().map(|table| table.total).sum()) {
        outcome(&walk.unread(), globals);
        return Err(empty);
    }
    let mut remarks = walk.remarks(names);
    let shown = columns(arguments, &by, &tables, &mut remarks);
    let filter = arguments.view.filter_text();
    Ok((TopReport { heading, filter, shown, tables, names, remarks }, walk.unread()))
}

/// The columns to group by: those of `--by` with what is usually shown beside them, and those of `--columns`.
fn grouping(arguments: &Arguments) -> Vec<Dimension> {
    let mut by = match arguments.by.as_slice() {
        [single] if !names_dimensions(arguments) => single.with_companions(),
        several => several.to_vec(),
    };
    for shown in &arguments.columns {
        match shown {
            Shown::Dimension(dimension) if !by.contains(dimension) => by.push(*dimension),
            _ => {}
        }
    }
    by.dedup();
    by
}

/// True if `--columns` names grouping columns; with figures alone the default ones are shown.
fn names_dimensions(arguments: &Arguments) -> bool {
    arguments.columns.iter().any(|shown| matches!(shown, Shown::Dimension(_)))
}

/// The columns to show. An empty column gives a warning and is not shown unless it was asked
/// for by name.
fn columns(
    arguments: &Arguments,
    by: &[Dimension],
    tables: &[Table],
    remarks: &mut Vec<Remark>,
) -> Vec<Shown> {
    let is_empty = |dimension: &Dimension| {
        tables.iter().all(|table| {
            let Some(column) = table.columns.iter().position(|column| column == dimension) else {
                return true;
            };
            table.rows.iter().all(|row| row.values[column] == Value::Absent)
        })
    };
    let empty: Vec<Dimension> = by.iter().copied().filter(is_empty).collect();
    // What the symbols lack is told, with its remedy, by the remarks on names.
    let told = |dimension: &Dimension| matches!(dimension, Dimension::Line | Dimension::File);
    let untold = empty.iter().filter(|dimension| !told(dimension));
    remarks.extend(untold.map(|column| Remark::EmptyColumn { column: *column }));
    if names_dimensions(arguments) {
        return arguments.columns.clone();
    }
    let mut shown = arguments.columns.clone();
    if shown.is_empty() {
        shown.extend([Measure::Count, Measure::Share].map(Shown::Measure));
        let latencies = tables.iter().flat_map(|table| &table.rows).any(|row| row.latency.samples > 0);
        if latencies && !by.contains(&Dimension::Latency) {
            shown.push(Shown::Measure(Measure::MeanLatency));
        }
        shown.extend(sorting_measure(arguments.sort).filter(|sorted| !shown.contains(sorted)));
    }
    let asked = |dimension: &Dimension| arguments.by.contains(dimension);
    let kept = by.iter().filter(|dimension| !empty.contains(dimension) || asked(dimension));
    shown.extend(kept.map(|dimension| Shown::Dimension(*dimension)));
    shown
}

/// What the rows are ordered by is seen.
fn sorting_measure(sort: SortBy) -> Option<Shown> {
    let measure = match sort {
        SortBy::Count | SortBy::Key => return None,
        SortBy::Events => Measure::Events,
        SortBy::TotalLatency => Measure::TotalLatency,
        SortBy::MeanLatency => Measure::MeanLatency,
        SortBy::MedianLatency => Measure::MedianLatency,
    };
    Some(Shown::Measure(measure))
}
