//! `hardmeter export`: write a capture for other programs.

use super::compare_files::captures_of;
use super::{CommandError, Globals, Outcome};
use crate::terminal::warning;
use crate::view::{outcome, require_samples, ViewArguments};
use hardmeter_answers::{Answers, AnswersError, Stacks, Walk};
use hardmeter_samples::model::EventIndex;
use hardmeter_views::{
    counted, folded, write_file, write_fleet, write_otlp, write_pprof, CaptureIdentity, FirefoxProfile,
    FleetWritten, LabelledStacks, ReportError, SampleRows,
};
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Write a capture for other programs: flame graphs, pprof, the Firefox Profiler, a spreadsheet, a data base.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter export --to folded --event l1d-miss | flamegraph.pl > l1d.svg
  hardmeter export --to pprof -o misses.pb.gz && go tool pprof -top -sample_index=l2-miss misses.pb.gz
  hardmeter export --to firefox -o misses.json      open it on https://profiler.firefox.com
  hardmeter export --to csv -o samples.csv          one row per sample
  hardmeter export --to otlp -o profile.otlp && curl -H 'Content-Type: application/x-protobuf' \\
    --data-binary @profile.otlp http://localhost:4318/v1development/profiles
  hardmeter export --to parquet -o fleet --release 3.2 *.data    for DuckDB and Spark: docs/fleet.md

Several events: pprof has a sample type, OTLP a profile and Firefox a track for each; csv and parquet have a column; folded stacks are
of one event, chosen with --event.

parquet writes into a folder: samples/ID.parquet, findings/ID.parquet and captures/ID.parquet, where ID depends on the
capture alone. Exporting it again replaces its files.")]
pub struct Arguments {
    /// The form to write.
    #[arg(long, value_enum, value_name = "FORM")]
    to: Form,
    #[command(flatten)]
    view: ViewArguments,
    /// With --to parquet: captures, folders of captures, or quoted patterns; that of -i if none is given.
    #[arg(value_name = "CAPTURE")]
    captures: Vec<PathBuf>,
    /// The file to write, or the folder of --to parquet; standard output, or hardmeter.parquet, if not given.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With --to parquet and otlp: what ran, such as the version of an application; by default the server with its version.
    #[arg(long, value_name = "TEXT")]
    release: Option<String>,
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
    /// OpenTelemetry's profiles, for an OTLP receiver.
    Otlp,
    /// Apache Parquet: samples, findings and conditions of several captures.
    Parquet,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let binary = matches!(arguments.to, Form::Pprof | Form::Otlp);
    if binary && arguments.output.is_none() && io::stdout().is_terminal() {
        return Err(CommandError::new(
            "the profile is binary and would garble the terminal",
            "give a file with -o FILE, or a pipe",
        ));
    }
    if arguments.to == Form::Parquet {
        return export_parquet(arguments, globals);
    }
    if !arguments.captures.is_empty() {
        return Err(CommandError::new(
            "only --to parquet takes captures as arguments",
            "name one capture with -i FILE",
        ));
    }
    if arguments.release.is_some() && arguments.to != Form::Otlp {
        return Err(CommandError::new("only parquet and otlp have a release", "leave out --release"));
    }
    let output = arguments.output.as_deref();
    let unread = arguments.view.ask(globals, |answers| match arguments.to {
        Form::Folded => export_folded(answers, output),
        Form::Pprof => export_pprof(answers, output),
        Form::Firefox => export_firefox(answers, &arguments.view.input, output),
        Form::Csv => export_csv(answers, output),
        Form::Otlp => export_otlp(answers, arguments.release.as_deref(), output),
        Form::Parquet => unreachable!("handled above: it has several captures"),
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
    let (stacks, mut walk) = count_labelled(answers)?;
    let heading = answers.capture().heading(&walk);
    put(output, |writer| Ok(write_pprof(&stacks, &mut walk.pass, &heading, writer)?))?;
    Ok(walk.unread())
}

fn export_otlp(
    answers: &Answers,
    release: Option<&str>,
    output: Option<&Path>,
) -> Result<Unread, CommandError> {
    let (stacks, mut walk) = count_labelled(answers)?;
    let heading = answers.capture().heading(&walk);
    let identity = CaptureIdentity::of(answers.capture(), release)?;
    put(output, |writer| Ok(write_otlp(&stacks, &mut walk.pass, &heading, &identity, writer)?))?;
    Ok(walk.unread())
}

fn count_labelled(answers: &Answers) -> Result<(LabelledStacks, Walk), CommandError> {
    let mut stacks = LabelledStacks::default();
    let walk = answers.each_with_objects::<AnswersError>(&mut |pass, sample, located| {
        let object = pass.object(sample);
        stacks.add(sample, located, object, pass);
        Ok(ControlFlow::Continue(()))
    })?;
    require_samples(&answers.capture().heading(&walk), stacks.samples())?;
    Ok((stacks, walk))
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

/// The folder of --to parquet where -o names none.
const FLEET: &str = "hardmeter.parquet";

/// Writes each capture. One that cannot be read does not keep the others from being written.
fn export_parquet(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let captures = match arguments.captures.as_slice() {
        [] => vec![arguments.view.input.clone()],
        named => captures_of(named)?,
    };
    let folder = arguments.output.as_deref().unwrap_or(Path::new(FLEET));
    if folder.is_file() {
        return Err(CommandError::new(
            format!("{} is a file, and --to parquet writes into a folder", folder.display()),
            "name a folder, new or of an earlier export, with -o FOLDER",
        ));
    }
    let (mut samples, mut written, mut partial) = (0, 0, false);
    for capture in &captures {
        match export_one(capture, folder, arguments, globals) {
            Ok(fleet) => {
                partial |= outcome(&fleet.unread, globals) == Outcome::Partial;
                samples += fleet.samples;
                written += 1;
            }
            Err(error) if captures.len() == 1 => return Err(error),
            Err(error) => {
                partial = true;
                eprintln!("{} {}: {error}", warning(globals, "hardmeter:"), capture.display());
            }
        }
    }
    if written == 0 {
        return Err(CommandError::new(
            format!("none of the {} captures could be exported", captures.len()),
            "see the messages above",
        ));
    }
    if !globals.quiet {
        let (samples, captures) = (counted(samples, "sample"), counted(written, "capture"));
        eprintln!("{samples} of {captures} in {}", folder.display());
    }
    Ok(if partial { Outcome::Partial } else { Outcome::Complete })
}

fn export_one(
    capture: &Path,
    folder: &Path,
    arguments: &Arguments,
    globals: &Globals,
) -> Result<FleetWritten, CommandError> {
    let release = arguments.release.as_deref();
    let written = arguments.view.samples.ask(capture, globals, |answers| {
        write_fleet(answers, release, folder).map_err(|error| match error.into_io() {
            Ok(error) => cannot_write(&folder.to_string_lossy(), &error),
            Err(other) => other.into(),
        })
    })?;
    require_samples(&written.heading, written.samples)?;
    Ok(written)
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
        Some(path) => write_file(path, |writer| write(writer)),
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
        Err(Failure::Write(error)) => Err(cannot_write(&name, &error)),
        Err(Failure::Other(error)) => Err(error),
    }
}

fn cannot_write(name: &str, error: &io::Error) -> CommandError {
    CommandError::new(
        format!("cannot write {name}: {error}"),
        "check that the folder exists, that you may write there, and that there is room",
    )
}
