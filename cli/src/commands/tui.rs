//! `hardmeter tui`: a capture in the terminal, or the choice of what to record.

use super::{CommandError, Globals, Outcome};
use crate::terminal::Progress;
use crate::view::SampleArguments;
use hardmeter_record::doctor;
use hardmeter_record::events::catalogue;
use hardmeter_tui::{browse, choose, watch, CaptureChapters, Choice, Chooser, Picked, Recording, Watch};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Browse a capture in the terminal; without one, choose what to record.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter tui hardmeter.data
  sudo hardmeter tui                     servers, sources and events of this machine; records in sight, opens the result

Chapters: findings, routines (Enter: the code), objects, statements, why, sharing. Keyboard only; ? lists the keys.")]
pub struct Arguments {
    /// The capture; without one, choose what to record.
    #[arg(value_name = "CAPTURE")]
    capture: Option<PathBuf>,
    /// The file of a new recording.
    #[arg(short, long, value_name = "FILE", default_value = "hardmeter.data")]
    output: PathBuf,
    #[command(flatten)]
    samples: SampleArguments,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(CommandError::new(
            "this command needs a terminal",
            "for a file or pipe use `hardmeter report`, and --html FILE for a page",
        ));
    }
    let capture = match &arguments.capture {
        Some(capture) => capture.clone(),
        None => match recorded(arguments, globals)? {
            Some(capture) => capture,
            None => return Ok(Outcome::Complete),
        },
    };
    let chapters = {
        let progress = Progress::start(globals);
        progress.say(&format!("reading {}", capture.display()));
        CaptureChapters::new(arguments.samples.open(&capture)?)?
    };
    browse(chapters).map_err(|error| unusable(&error))?;
    Ok(Outcome::Complete)
}

fn unusable(error: &io::Error) -> CommandError {
    CommandError::new(format!("cannot use the terminal: {error}"), "set TERM, or use `hardmeter report`")
}

/// Lets the user choose, and records; `None` if the user quits.
fn recorded(arguments: &Arguments, globals: &Globals) -> Result<Option<PathBuf>, CommandError> {
    let chooser = {
        let progress = Progress::start(globals);
        progress.say("looking at servers, sources and events");
        Chooser::new(targets(), sources(), events(), &["l1d-miss", "l2-miss"])
    };
    let Some(picked) = choose(chooser).map_err(|error| unusable(&error))? else { return Ok(None) };
    record(&picked, &arguments.output)?;
    Ok(Some(arguments.output.clone()))
}

/// `hardmeter record` with the user's choice: its counts and findings are shown while it runs.
fn record(picked: &Picked, output: &Path) -> Result<(), CommandError> {
    let seconds = picked.seconds.to_string();
    let shown = format!("$ hardmeter record {} -- sleep {seconds}", picked.arguments.join(" "));
    let own = std::env::current_exe().map_err(|error| {
        CommandError::new(format!("cannot find this program: {error}"), "run `hardmeter record` yourself")
    })?;
    let mut command = Command::new(own);
    command.arg("record").args(&picked.arguments).arg("-o").arg(output).args(["--", "sleep", &seconds]);
    let cannot =
        |error: io::Error| CommandError::new(format!("cannot record: {error}"), "see docs/record.md");
    let mut recording = Recording::start(command, output).map_err(cannot)?;
    let planned = Duration::from_secs(picked.seconds.into());
    watch(&mut recording, Watch::new(shown, planned)).map_err(|error| unusable(&error))?;
    let ended = recording.wait().map_err(cannot)?;
    // Messages that the screen showed briefly are repeated on standard error.
    ended.said.iter().for_each(|line| eprintln!("{line}"));
    match ended.status.success() {
        true => Ok(()),
        false => Err(CommandError::new("nothing was recorded", "see the messages above")),
    }
}

/// Running servers, and the whole machine.
fn targets() -> Vec<Choice> {
    let mut targets: Vec<Choice> = running_servers();
    targets.push(Choice {
        label: "whole machine".into(),
        about: "all processes on every CPU".into(),
        words: vec!["-a".into()],
        possible: true,
    });
    targets
}

/// PostgreSQL and MariaDB servers: processes of these names whose parent has another one.
fn running_servers() -> Vec<Choice> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let name = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let mut servers: Vec<(u32, Choice)> = Vec::new();
    for entry in entries.flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        let Ok(number) = pid.parse::<u32>() else { continue };
        let Some(comm) = name(&pid) else { continue };
        let engine = match comm.trim_end() {
            "postgres" => "PostgreSQL",
            "mariadbd" | "mysqld" => "MariaDB",
            _ => continue,
        };
        if parent_of(&pid).and_then(|parent| name(&parent)).as_deref() == Some(comm.as_str()) {
            continue;
        }
        let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).ok();
        let folder = folder.filter(|folder| folder.join("PG_VERSION").is_file());
        let words = match &folder {
            Some(folder) => vec!["--server".into(), folder.to_string_lossy().into_owned()],
            None => vec!["-p".into(), pid.clone()],
        };
        let about = folder.map_or(String::new(), |folder| folder.display().to_string());
        let choice = Choice { label: format!("{engine} {pid}"), about, words, possible: true };
        servers.push((number, choice));
    }
    servers.sort_by_key(|(pid, _)| *pid);
    servers.into_iter().map(|(_, choice)| choice).collect()
}

fn parent_of(pid: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    Some(parent.trim().to_string())
}

/// The sources with what they cost; docs/record.md has the figures.
fn sources() -> Vec<Choice> {
    let cost = |source: &str| match source {
        "hardware" => "slows the server little; loads and stores with data addresses",
        "live" => "aims at 0.7 % of a CPU; loads that are waited for; no PMU, no restart",
        "simulated" => "some 20 times slower, restarts throwaway servers; every miss with its cause",
        "timer" => "hardly slows it; where the time goes, no data addresses",
        _ => "",
    };
    let choice = |verdict: doctor::SourceVerdict| Choice {
        label: verdict.source.to_string(),
        about: match verdict.works {
            true => format!("{}\n{}", cost(verdict.source), verdict.evidence),
            false => format!("{}: {}", verdict.evidence, verdict.remedy),
        },
        words: vec!["--source".into(), verdict.source.to_string()],
        possible: verdict.works,
    };
    doctor::examine().sources.into_iter().map(choice).collect()
}

fn events() -> Vec<Choice> {
    let choice = |entry: catalogue::CatalogueEntry| Choice {
        label: entry.event.to_string(),
        about: entry.question.to_string(),
        words: Vec::new(),
        possible: entry.hardware.is_some() || entry.simulated,
    };
    catalogue::this_machine().into_iter().map(choice).collect()
}
