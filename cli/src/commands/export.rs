//! `hardmeter export`: write a capture for other programs.

use super::{CommandError, Globals, Outcome};
use crate::view::{outcome, require_samples, ViewArguments};
use hardmeter_answers::{Answers, AnswersError, Stacks, Walk};
use hardmeter_samples::model::EventIndex;
use hardmeter_views::{folded, write_file, write_pprof, FirefoxProfile, ReportError, SampleRows};
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Write a capture for other programs: flame graphs, pprof, the Firefox Profiler, a spreadsheet.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter export --to folded --event l1d-miss | flamegraph.pl > l1d.svg
  hardmeter export --to pprof -o misses.pb.gz && go tool pprof -top -sample_index=l2-miss misses.pb.gz
  hardmeter export --to firefox -o misses.json      open it on https://profiler.firefox.com
  hardmeter export --to csv -o samples.csv          one row per sample

Several events: pprof has a sample type and Firefox a track for each; csv has a column; folded stacks are of one
event, chosen with --event.")]
pub struct Arguments {
    /// The form to write.
    #[arg(long, value_enum, value_name = "FORM")]
    to: Form,
    #[command(flatten)]
    view: ViewArguments,
    /// The file to write; standard output if not given.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Folded stacks, for flame graphs.
    Folded,
    /// pprof's gzipped profile.
    Pprof,
    /// The Firefox Profiler's JSON.
    Firefox,
    /// One row per sample, comma-separated.
    Csv,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    if arguments.to == Form::Pprof && arguments.output.is_none() && io::stdout().is_terminal() {
        return Err(CommandError::new(
            "a pprof profile is binary and would garble the terminal",
            "give a file with -o FILE, or a pipe",
        ));
    }
    let output = arguments.output.as_deref();
    let unread = arguments.view.ask(globals, |answers| match arguments.to {
        Form::Folded => export_folded(answers, output),
        Form::Pprof => export_pprof(answers, output),
        Form::Firefox => export_firefox(answers, &arguments.view.input, output),
        Form::Csv => export_csv(answers, output),
    })?;
    Ok(outcome(&unread, globals))
}

/// Parts of the capture that could not be read, one sentence each.
type Unread = Vec<String>;

fn export_folded(answers: &Answers, output: Option<&Path>) -> Result<Unread, CommandError> {
    let capture = answers.capture();
    let event = match (answers.filter().events.as_slice(), capture.events().len()) {
        ([event], _) => *event,
        ([], 0 | 1) => EventIndex(0),
        _ => {
            return Err(CommandError::new(
                format!(
                    "folded stacks are of one event, but there are: {}",
                    capture.event_names().join(", ")
                ),
                "choose one with --event",
            ))
        }
    };
    let (stacks, mut walk) = count_stacks(answers)?;
    let text = folded(&stacks, &mut walk.pass, event);
    put(output, |writer| Ok(writer.write_all(text.as_bytes())?))?;
    Ok(walk.unread())
}

fn export_pprof(answers: &Answers, output: Option<&Path>) -> Result<Unread, CommandError> {
    let (stacks, mut walk) = count_stacks(answers)?;
    let heading = answers.capture().heading(&walk);
    put(output, |writer| Ok(write_pprof(&stacks, &mut walk.pass, &heading, writer)?))?;
    Ok(walk.unread())
}

fn count_stacks(answers: &Answers) -> Result<(Stacks, Walk), CommandError> {
    let mut stacks = Stacks::default();
    let walk = answers.each::<AnswersError>(&mut |pass, sample, located| {
        stacks.add(sample, located, pass);
        Ok(ControlFlow::Continue(()))
    })?;
    let samples = stacks.counts().map(|count| count.samples).sum();
    require_samples(&answers.capture().heading(&walk), samples)?;
    Ok((stacks, walk))
}

fn export_firefox(answers: &Answers, input: &Path, output: Option<&Path>) -> Result<Unread, CommandError> {
    let capture = answers.capture();
    let mut stacks = Stacks::default();
    let product = format!("hardmeter {}", input.display());
    let started = capture.started().unwrap_or(SystemTime::UNIX_EPOCH);
    let mut profile = FirefoxProfile::new(&product, capture.event_names(), started);
    let mut samples = 0;
    let walk = answers.each::<AnswersError>(&mut |pass, sample, located| {
        let stack = stacks.add(sample, located, pass);
        profile.add(sample, located, stack, &stacks, pass);
        samples += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    require_samples(&capture.heading(&walk), samples)?;
    put(output, |writer| Ok(profile.write(writer)?))?;
    Ok(walk.unread())
}

fn export_csv(answers: &Answers, output: Option<&Path>) -> Result<Unread, CommandError> {
    let capture = answers.capture();
    let walk = put(output, |writer| {
        let mut rows = SampleRows::new(writer, capture.event_names(), capture.line_size())?;
        let mut samples = 0;
        let walk = answers.each::<ReportError>(&mut |pass, sample, located| {
            rows.add(sample, located, pass)?;
            samples += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        rows.finish()?;
        require_samples(&capture.heading(&walk), samples)?;
        Ok(walk)
    })?;
    Ok(walk.map_or_else(Vec::new, |walk| walk.unread()))
}

/// Why a result was not written: an I/O error, or an empty result.
enum Failure {
    Write(io::Error),
    Other(CommandError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Write(error)
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        error.into_io().map_or_else(|other| Failure::Other(other.into()), Failure::Write)
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        Failure::Other(error)
    }
}

/// Passes `write` the file of `-o`, or standard output. `None` if the reader of standard output closed it.
fn put<T>(
    output: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<Option<T>, CommandError> {
    let result = match output {
        Some(path) => write_file(path, write),
        None => {
            let mut stdout = io::BufWriter::new(io::stdout().lock());
            write(&mut stdout).and_then(|value| {
                stdout.flush()?;
                Ok(value)
            })
        }
    };
    let name = output.map_or("standard output".into(), Path::to_string_lossy);
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Write(error)) if output.is_none() && error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(None)
        }
        Err(Failure::Write(error)) => Err(CommandError::new(
            format!("cannot write {name}: {error}"),
            "check that the folder exists, that you may write there, and that there is room",
        )),
        Err(Failure::Other(error)) => Err(error),
    }
}
