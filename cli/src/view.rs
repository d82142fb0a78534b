//! Shared by the viewing commands (`report`, `annotate`, `why` ...): the capture, the filter, where to find names, and
//! the form of the result.

use crate::commands::{CommandError, Globals, Outcome};
use crate::terminal::{page, print, print_json, screen_style, style, warning, Progress};
use hardmeter_answers::{Answers, AnswersError, Capture, Filter, Heading, ModeFilter};
use hardmeter_samples::model::{Cycles, Pid};
use hardmeter_symbols::SymbolizerOptions;
use hardmeter_views::{
    sentences_text, write_file, CompareReport, LatencyReport, Listing, ObjectsReport, PageReport,
    QualityReport, QueriesReport, ReportError, SharingDetail, SharingReport, Style, TopReport, Wanted,
    WhyReport,
};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Which capture, and which of its samples.
#[derive(clap::Args, Debug)]
pub struct ViewArguments {
    /// The capture: a file of hardmeter or perf, or - for standard input.
    #[arg(short, long, value_name = "FILE", default_value = "hardmeter.data")]
    pub input: PathBuf,
    #[command(flatten)]
    pub samples: SampleArguments,
}

/// Which samples of a capture, and where names are.
#[derive(clap::Args, Debug)]
pub struct SampleArguments {
    /// Only these events (perf's modifiers may be left out).
    #[arg(short, long = "event", value_name = "NAME", value_delimiter = ',', help_heading = "Which samples")]
    pub events: Vec<String>,
    /// Only samples in user mode.
    #[arg(long, conflicts_with = "kernel_only", help_heading = "Which samples")]
    pub user_only: bool,
    /// Only samples in kernel mode.
    #[arg(long, help_heading = "Which samples")]
    pub kernel_only: bool,
    /// Only these processes.
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',', help_heading = "Which samples")]
    pub pids: Vec<i32>,
    /// Only processes or threads of these names.
    #[arg(long = "comm", value_name = "NAME", value_delimiter = ',', help_heading = "Which samples")]
    pub processes: Vec<String>,
    /// Only accesses with at least this latency in cycles.
    #[arg(long, value_name = "CYCLES", help_heading = "Which samples")]
    pub min_latency: Option<u64>,
    /// Fetch missing debug files from the servers of DEBUGINFOD_URLS.
    #[arg(long, help_heading = "Names")]
    pub debuginfod: bool,
    /// The root file system of the machine of the capture.
    #[arg(long, value_name = "DIR", help_heading = "Names")]
    pub sysroot: Option<PathBuf>,
}

/// How much of a view to print.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Extent {
    /// Print all of it, through a pager on a terminal; by default a view is one screen.
    #[arg(long)]
    full: bool,
}

/// How much of a view to print, and in which form.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Printed<F: clap::ValueEnum + Send + Sync + 'static> {
    #[command(flatten)]
    pub extent: Extent,
    /// Form of the result.
    #[arg(long, value_enum, default_value = "text")]
    pub format: F,
}

/// The forms of a view that has sentences and rows.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsForm {
    Text,
    /// Only the sentences above the tables.
    Sentences,
    Json,
    /// Every row of every table, comma-separated.
    Csv,
}

/// The forms of a view that has sentences.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentencesForm {
    Text,
    /// Only the sentences above the tables.
    Sentences,
    Json,
}

/// A view as text: all of it, or one screen.
pub trait TextView {
    /// The complete text; `quiet` leaves out heading and warnings.
    fn complete(&self, style: Style, quiet: bool) -> String;
    /// The first screen.
    fn first_screen(&self, style: Style, wanted: Wanted) -> String;
}

macro_rules! text_views {
    ($($view:ty),* $(,)?) => {$(
        impl TextView for $view {
            fn complete(&self, style: Style, quiet: bool) -> String {
                self.render(style, quiet)
            }

            fn first_screen(&self, style: Style, wanted: Wanted) -> String {
                self.screen(style, wanted)
            }
        }
    )*};
}

text_views!(
    CompareReport,
    LatencyReport,
    Listing,
    ObjectsReport,
    PageReport,
    QualityReport,
    QueriesReport,
    TopReport,
    WhyReport,
);

impl TextView for (&SharingReport, SharingDetail) {
    fn complete(&self, style: Style, quiet: bool) -> String {
        self.0.render(style, self.1, quiet)
    }

    fn first_screen(&self, style: Style, wanted: Wanted) -> String {
        self.0.screen(style, wanted)
    }
}

/// A view of sentences and rows.
pub trait RowsView: TextView {
    /// The sentences above the tables.
    fn answer(&self) -> Vec<String>;
    /// All figures.
    fn value(&self) -> Value;
    /// Every row, comma-separated.
    fn table(&self) -> Result<String, ReportError>;
}

macro_rules! rows_views {
    ($($view:ty),* $(,)?) => {$(
        impl RowsView for $view {
            fn answer(&self) -> Vec<String> {
                self.sentences()
            }

            fn value(&self) -> Value {
                self.json()
            }

            fn table(&self) -> Result<String, ReportError> {
                self.csv()
            }
        }
    )*};
}

rows_views!(CompareReport, ObjectsReport, QueriesReport);

impl Printed<RowsForm> {
    /// Prints the view in the requested format.
    pub fn print(&self, wanted: Wanted, globals: &Globals, view: &impl RowsView) -> Result<(), CommandError> {
        match self.format {
            RowsForm::Text => self.extent.print(wanted, globals, view),
            RowsForm::Sentences => print(&sentences_text(&view.answer(), screen_style(globals))),
            RowsForm::Json => print_json(&view.value()),
            RowsForm::Csv => print(&view.table()?),
        }
    }
}

impl Extent {
    /// Prints the complete view, or its first screen.
    pub fn print(self, wanted: Wanted, globals: &Globals, view: &impl TextView) -> Result<(), CommandError> {
        match self.full {
            true => page(&view.complete(style(globals), globals.quiet)),
            false => {
                print(&view.first_screen(screen_style(globals), Wanted { quiet: globals.quiet, ..wanted }))
            }
        }
    }
}

impl ViewArguments {
    /// Opens the capture, runs the queries, and shows the progress.
    pub fn ask<A, E>(
        &self,
        globals: &Globals,
        question: impl FnOnce(&Answers) -> Result<A, E>,
    ) -> Result<A, CommandError>
    where
        CommandError: From<E>,
    {
        self.samples.ask(&self.input, globals, question)
    }
}

impl SampleArguments {
    /// Opens a capture, runs a query, and shows the progress in the meantime.
    pub fn ask<A, E>(
        &self,
        input: &Path,
        globals: &Globals,
        question: impl FnOnce(&Answers) -> Result<A, E>,
    ) -> Result<A, CommandError>
    where
        CommandError: From<E>,
    {
        let answers = self.open(input)?;
        let progress = Progress::start(globals);
        let answers = answers.watched_by(move |samples| progress.samples(samples));
        Ok(question(&answers)?)
    }

    /// Opens the capture for questions about these samples.
    pub fn open(&self, input: &Path) -> Result<Answers, CommandError> {
        if !input.exists() {
            if let Some(partial) = partial_of(input) {
                return Err(CommandError::new(
                    format!(
                        "there is no {}, but {}: a recording that is running, or was killed",
                        input.display(),
                        partial.display()
                    ),
                    format!("wait for its end, or read the part that is written: -i {}", partial.display()),
                ));
            }
            if input.as_os_str() == "hardmeter.data" {
                return Err(CommandError::new(
                    "there is no hardmeter.data in this folder",
                    "record one (hardmeter record -- COMMAND), or name another capture with -i FILE",
                ));
            }
        }
        let answers = Answers::open(input)?.with_symbols(self.symbols());
        let filter = self.filter(answers.capture())?;
        Ok(answers.of_samples(filter))
    }

    /// The filter from the options.
    fn filter(&self, capture: &Capture) -> Result<Filter, CommandError> {
        let events: Result<Vec<_>, _> = self.events.iter().map(|name| capture.find_event(name)).collect();
        let mode = match (self.user_only, self.kernel_only) {
            (true, _) => ModeFilter::User,
            (_, true) => ModeFilter::Kernel,
            _ => ModeFilter::Any,
        };
        Ok(Filter {
            events: events?,
            mode,
            pids: self.pids.iter().map(|pid| Pid(*pid)).collect(),
            processes: self.processes.clone(),
            min_latency: self.min_latency.map(Cycles),
        })
    }

    /// Where to look for symbols.
    fn symbols(&self) -> SymbolizerOptions {
        SymbolizerOptions {
            allow_debuginfod: self.debuginfod,
            sysroot: self.sysroot.clone(),
            ..SymbolizerOptions::default()
        }
    }
}

/// The latest unfinished recording with a capture's name in its folder: `NAME.PID-N.partial`.
fn partial_of(capture: &Path) -> Option<PathBuf> {
    let prefix = format!("{}.", capture.file_name()?.to_str()?);
    let folder = match capture.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let is_partial = |name: &str| {
        let middle = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".partial"));
        middle.is_some_and(|middle| middle.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
    };
    let partials = std::fs::read_dir(folder).ok()?.flatten();
    partials
        .filter(|entry| entry.file_name().to_str().is_some_and(is_partial))
        .max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok())
        .map(|entry| capture.with_file_name(entry.file_name()))
}

/// An error for a capture without samples: the recorded events, and possible reasons.
pub fn require_samples(heading: &Heading, passing: u64) -> Result<(), CommandError> {
    if passing > 0 {
        return Ok(());
    }
    if heading.samples() > 0 {
        return Err(CommandError::new(
            format!("none of the {} samples of {} passes the filter", heading.samples(), heading.file),
            "loosen --event, --user-only, --kernel-only, --pid, --comm or --min-latency",
        ));
    }
    let events: Vec<&str> = heading.events.iter().map(|event| event.name.as_str()).collect();
    let lost = match heading.lost_samples + heading.lost_records {
        0 => String::new(),
        lost => format!(" {lost} records were lost."),
    };
    let traces: String = heading.undecoded_traces.iter().map(|trace| format!(" {trace}.")).collect();
    Err(CommandError::new(
        format!(
            "{} holds no sample of {}.{lost}{traces} The target may have ended at once, slept all the time, run in a mode \
             or process that was not recorded, or had fewer events than one period",
            heading.file,
            if events.is_empty() { "any event".to_string() } else { events.join(", ") },
        ),
        "record longer or with a smaller period; \"hardmeter doctor\" shows whether the event works here",
    ))
}

/// Prints on standard error which parts of the capture could not be read; the result is then partial.
pub fn outcome(unread: &[String], globals: &Globals) -> Outcome {
    if unread.is_empty() {
        return Outcome::Complete;
    }
    if !globals.quiet {
        eprintln!("{} the result is partial: {}", warning(globals, "hardmeter:"), unread.join("; "));
        eprintln!("  remedy: copy the capture again from where it was recorded, or record again");
    }
    Outcome::Partial
}

/// Writes an HTML page in addition to the printed text, if requested.
pub fn write_page(path: Option<&Path>, page: impl FnOnce() -> String) -> Result<(), CommandError> {
    let Some(path) = path else { return Ok(()) };
    let page = page();
    write_file(path, |file| file.write_all(page.as_bytes())).map_err(|error| {
        CommandError::new(
            format!("cannot write {}: {error}", path.display()),
            "check the folder, your rights and the free space there",
        )
    })
}

/// Like [`require_samples`], but first prints which parts of the capture could not be read.
pub fn require_samples_of(
    heading: &Heading,
    passing: u64,
    unread: &[String],
    globals: &Globals,
) -> Result<(), CommandError> {
    require_samples(heading, passing).inspect_err(|_| {
        outcome(unread, globals);
    })
}

impl From<AnswersError> for CommandError {
    fn from(error: AnswersError) -> Self {
        CommandError::new(error, "")
    }
}

impl From<ReportError> for CommandError {
    fn from(error: ReportError) -> Self {
        CommandError::new(error, "")
    }
}
