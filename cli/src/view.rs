//! What the viewing commands (`report`, `annotate`, `export`) share: which capture, which samples, where names are.

use crate::commands::{CommandError, Globals, Outcome};
use crate::terminal::warning;
use hardmeter_answers::{Filter, ModeFilter};
use hardmeter_samples::model::{Cycles, Pid};
use hardmeter_symbols::SymbolizerOptions;
use hardmeter_views::{Capture, Heading, ReportError, WalkOptions};
use std::path::{Path, PathBuf};

/// Which capture, and which of its samples.
#[derive(clap::Args, Debug)]
pub struct ViewArguments {
    /// The capture: a file of hardmeter or perf, or - for standard input.
    #[arg(short, long, value_name = "FILE", default_value = "hardmeter.data")]
    pub input: PathBuf,
    /// Only these events (perf's modifiers may be left out).
    #[arg(short, long = "event", value_name = "NAME", value_delimiter = ',', help_heading = "Which samples")]
    pub events: Vec<String>,
    /// Only samples taken in programs.
    #[arg(long, conflicts_with = "kernel_only", help_heading = "Which samples")]
    pub user_only: bool,
    /// Only samples taken in the kernel.
    #[arg(long, help_heading = "Which samples")]
    pub kernel_only: bool,
    /// Only these processes.
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',', help_heading = "Which samples")]
    pub pids: Vec<i32>,
    /// Only processes or threads of these names.
    #[arg(long = "comm", value_name = "NAME", value_delimiter = ',', help_heading = "Which samples")]
    pub processes: Vec<String>,
    /// Only accesses that took at least so many cycles.
    #[arg(long, value_name = "CYCLES", help_heading = "Which samples")]
    pub min_latency: Option<u64>,
    /// Fetch missing debug files from the servers of DEBUGINFOD_URLS.
    #[arg(long, help_heading = "Names")]
    pub debuginfod: bool,
    /// The root file system of the machine of the capture.
    #[arg(long, value_name = "DIR", help_heading = "Names")]
    pub sysroot: Option<PathBuf>,
}

impl ViewArguments {
    /// Opens the capture.
    pub fn open(&self) -> Result<Capture, CommandError> {
        if !self.input.exists() {
            if let Some(partial) = partial_of(&self.input) {
                return Err(CommandError::new(
                    format!(
                        "there is no {}, but {}: a recording that runs still, or was killed",
                        self.input.display(),
                        partial.display()
                    ),
                    format!("wait for its end, or see what there is of it: -i {}", partial.display()),
                ));
            }
            if self.input.as_os_str() == "hardmeter.data" {
                return Err(CommandError::new(
                    "there is no hardmeter.data in this folder",
                    "record one (hardmeter record -- COMMAND), or name another capture with -i FILE",
                ));
            }
        }
        Ok(Capture::open(&self.input)?)
    }

    /// The filter that the options ask for.
    pub fn filter(&self, capture: &Capture) -> Result<Filter, CommandError> {
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

    /// How the view walks over the capture: these samples, names from where these options say, watched by `progress`.
    pub fn walk<'a>(
        &self,
        capture: &Capture,
        progress: &'a dyn Fn(u64),
    ) -> Result<WalkOptions<'a>, CommandError> {
        Ok(WalkOptions { filter: self.filter(capture)?, symbols: Some(self.symbols()), progress })
    }

    /// The filter in words, as shown above a table; events are seen from the tables themselves.
    pub fn filter_text(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.user_only {
            parts.push("user mode".to_string());
        }
        if self.kernel_only {
            parts.push("kernel mode".to_string());
        }
        if !self.pids.is_empty() {
            let pids: Vec<String> = self.pids.iter().map(i32::to_string).collect();
            parts.push(format!("processes {}", pids.join(", ")));
        }
        if !self.processes.is_empty() {
            parts.push(format!("processes named {}", self.processes.join(", ")));
        }
        parts.extend(self.min_latency.map(|least| format!("latency of at least {least} cycles")));
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Where to look for names.
    pub fn symbols(&self) -> SymbolizerOptions {
        SymbolizerOptions {
            allow_debuginfod: self.debuginfod,
            sysroot: self.sysroot.clone(),
            ..SymbolizerOptions::default()
        }
    }
}

/// The latest unfinished recording of a capture's name beside it: `NAME.PID-N.partial`.
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

/// A capture without samples has nothing to show: says which events were recorded and why there may be none.
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
    Err(CommandError::new(
        format!(
            "{} holds no sample of {}.{lost} The target may have ended at once, slept all the time, run in a mode \
             or process that was not recorded, or had fewer events than one period",
            heading.file,
            if events.is_empty() { "any event".to_string() } else { events.join(", ") },
        ),
        "record longer or with a smaller period; \"hardmeter doctor\" shows whether the event works here",
    ))
}

/// Says on standard error what could not be read of the capture; the result shown is then partial.
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

impl From<ReportError> for CommandError {
    fn from(error: ReportError) -> Self {
        CommandError::new(error, "")
    }
}
