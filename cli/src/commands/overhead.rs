//! `hardmeter overhead`: what counting and sampling cost a workload, by its own throughput.

use super::output::Output;
use super::{CommandError, Globals, Outcome};
use crate::terminal::{screen_style, Progress};
use hardmeter_evidence::number::counted;
use hardmeter_evidence::table::{wrap, Column, TextTable};
use hardmeter_evidence::Verdict;
use hardmeter_record::overhead::{
    measure, printed_throughput, Mode, ModeResult, Overhead, OverheadError, OverheadOptions, RunFigure,
};
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output as Finished, Stdio};
use std::time::Instant;

/// Measure what counting and sampling cost a workload, by its own throughput.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter overhead -- pgbench -S -c 2 -T 5
  sudo hardmeter overhead --source live --server DIR -- pgbench -n -S -c 2 -T 5
  hardmeter overhead --after 'rows/s:' -- ./my-load

The command runs many times: not measured, counted (as by hardmeter stat) and sampled (as by hardmeter record), in random
order and back. Its throughput is what it prints: pgbench, sysbench, wrk and ab are known, --after names another one;
without any, it is runs per second. Nothing is written but a capture in a temporary folder, which is removed.

Rounds end as soon as both costs are known: an interval that lies beyond --least, or within it.")]
pub struct Arguments {
    /// The events to count and sample [default: l1d-miss,l2-miss].
    #[arg(short, long, value_name = "EVENTS")]
    events: Option<String>,
    /// The source of events: auto, hardware, simulated, live, timer.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Sample every N-th event.
    #[arg(short = 'c', long, value_name = "N", conflicts_with = "frequency")]
    period: Option<u64>,
    /// Samples per second and CPU.
    #[arg(short = 'F', long, value_name = "HZ")]
    frequency: Option<u64>,
    /// Record the chain of callers with each sample.
    #[arg(long)]
    call_graph: bool,
    /// Measure running processes; the command is their load.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with = "server")]
    pid: Vec<i32>,
    /// Measure the server in this folder; the command is its load.
    #[arg(long, value_name = "DIR")]
    server: Option<PathBuf>,
    /// The text before the throughput in the command's output.
    #[arg(long, value_name = "TEXT")]
    after: Option<String>,
    /// Rounds at most; each runs the command six times.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(2..=1000))]
    rounds: u32,
    /// The smallest change that matters, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    least: f64,
    #[command(flatten)]
    output: Output,
    /// The workload.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("invalid percentage \"{text}\""))?;
    match number > 0.0 && number < 100.0 {
        true => Ok(number),
        false => Err(format!("{text} % is not between 0 and 100")),
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let folder = tempfile::tempdir().map_err(|error| {
        CommandError::new(
            format!("cannot make a temporary folder: {error}"),
            "check TMPDIR and its free space",
        )
    })?;
    let begun = Instant::now();
    let options = OverheadOptions {
        most_rounds: arguments.rounds,
        least_effect: arguments.least / 100.0,
        seed: u64::from(std::process::id()),
    };
    let mut runs = 0u32;
    let result = {
        let progress = Progress::start(globals);
        measure(options, &mut |mode| {
            runs += 1;
            progress.say(&format!("run {runs}: measuring {}", mode.name()));
            run_once(arguments, mode, folder.path())
        })
        .map_err(|error| explained(&error))?
    };
    let seconds = begun.elapsed().as_secs_f64();
    let value = || {
        let command: Vec<_> = arguments.command.iter().map(|word| word.to_string_lossy()).collect();
        json!({ "command": command, "runs": runs, "seconds": seconds, "overhead": result })
    };
    let text = || text(&result, arguments, (runs, seconds), globals);
    arguments.output.print("overhead", text, value)?;
    Ok(Outcome::Complete)
}

fn explained(error: &OverheadError) -> CommandError {
    let remedy = match error {
        OverheadError::Run { mode, .. } if *mode == Mode::Off.name() => "run the command alone first",
        OverheadError::Run { .. } => "`hardmeter doctor` shows what can be measured here",
        OverheadError::Units { .. } => "name the text before the number with --after TEXT",
        OverheadError::Trial(_) => "",
    };
    CommandError::new(error, remedy)
}

/// Runs the workload in a mode. The error is its last message.
fn run_once(arguments: &Arguments, mode: Mode, folder: &Path) -> Result<RunFigure, String> {
    let mut command = match mode {
        Mode::Off => {
            let mut command = Command::new(&arguments.command[0]);
            command.args(&arguments.command[1..]);
            command
        }
        Mode::Count | Mode::Sample => measured(arguments, mode, folder)?,
    };
    let begun = Instant::now();
    let finished = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", command.get_program().to_string_lossy()))?;
    let seconds = begun.elapsed().as_secs_f64();
    if !finished.status.success() {
        return Err(last_words(&finished));
    }
    let output = String::from_utf8_lossy(&finished.stdout);
    match (printed_throughput(&output, arguments.after.as_deref()), &arguments.after) {
        (Some(figure), _) => Ok(figure),
        (None, Some(after)) => Err(format!("its output has no number after \"{after}\"")),
        (None, None) => Ok(RunFigure { throughput: 1.0 / seconds, unit: "runs/s".into() }),
    }
}

/// `hardmeter stat` or `hardmeter record` of the workload.
fn measured(arguments: &Arguments, mode: Mode, folder: &Path) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(own);
    command.arg("--quiet").arg(if mode == Mode::Count { "stat" } else { "record" });
    if let Some(events) = &arguments.events {
        command.args(["-e", events]);
    }
    if let Some(source) = &arguments.source {
        command.args(["--source", source]);
    }
    if let Some(server) = &arguments.server {
        command.arg("--server").arg(server);
    }
    if !arguments.pid.is_empty() {
        let pids: Vec<String> = arguments.pid.iter().map(i32::to_string).collect();
        command.args(["-p", &pids.join(",")]);
    }
    if mode == Mode::Sample {
        command.arg("-o").arg(folder.join("overhead.data"));
        if let Some(period) = arguments.period {
            command.args(["-c", &period.to_string()]);
        }
        if let Some(frequency) = arguments.frequency {
            command.args(["-F", &frequency.to_string()]);
        }
        if arguments.call_graph {
            command.arg("--call-graph");
        }
    }
    command.arg("--").args(&arguments.command);
    Ok(command)
}

/// The last nonempty line that a failed program printed, or its exit status.
fn last_words(finished: &Finished) -> String {
    let errors = String::from_utf8_lossy(&finished.stderr).into_owned();
    let line =
        errors.lines().rfind(|line| !line.trim().is_empty() && !line.trim_start().starts_with("remedy:"));
    let status = finished.status;
    line.map_or_else(
        || status.to_string(),
        |line| format!("{} ({status})", line.trim_start_matches("hardmeter: ")),
    )
}

fn text(result: &Overhead, arguments: &Arguments, (runs, seconds): (u32, f64), globals: &Globals) -> String {
    let style = screen_style(globals);
    let mut text = String::new();
    if !globals.quiet {
        let words: Vec<_> = arguments.command.iter().map(|word| word.to_string_lossy()).collect();
        let runs = counted(u64::from(runs), "run");
        text += &wrap(&format!("{}: {runs} in {seconds:.0} s", words.join(" ")), style, 2);
        text += "\n\n";
        for sentence in result.modes.iter().filter_map(|mode| sentence(mode, result)) {
            text += &format!("* {}\n", wrap(&sentence, style, 2));
        }
        if let Some(problem) = &result.count_problem {
            text += &format!("* {}\n", wrap(&format!("Nothing was counted: {problem}."), style, 2));
        }
        text.push('\n');
    }
    let mut table = TextTable::new([
        Column::left("measuring"),
        Column::right(format!("median {}", result.unit)),
        Column::right("runs"),
        Column::right("against off"),
        Column::right("95 %"),
        Column::right("rounds"),
        Column::left("verdict"),
    ]);
    for mode in &result.modes {
        let dash = || "-".to_string();
        let interval = mode
            .interval_95
            .map(|interval| format!("{:+.2}..{:+.2} %", interval.low * 100.0, interval.high * 100.0));
        table.plain([
            mode.mode.name().to_string(),
            format!("{:.2}", mode.throughput.value),
            mode.throughput.n.to_string(),
            mode.change.map_or_else(dash, |change| format!("{:+.2} %", change * 100.0)),
            interval.unwrap_or_else(dash),
            if mode.mode == Mode::Off { dash() } else { mode.rounds.to_string() },
            if mode.mode == Mode::Off { dash() } else { mode.verdict.to_string() },
        ]);
    }
    text + &table.render(style, 0)
}

/// `Sampling costs 1.2 % of the tps (0.5..1.9 %, n = 12 rounds).`
fn sentence(mode: &ModeResult, result: &Overhead) -> Option<String> {
    let doing = match mode.mode {
        Mode::Off => return None,
        Mode::Count => "Counting",
        Mode::Sample => "Sampling",
    };
    let change = mode.change?;
    let n = format!("n = {}", counted(mode.rounds as u64, "round"));
    let least = format!("{} %", result.least_effect * 100.0);
    let interval = mode
        .interval_95
        .map(|interval| format!("{:.2}..{:.2} %", -interval.high * 100.0, -interval.low * 100.0));
    let interval = interval.unwrap_or_else(|| "no interval yet".into());
    Some(match mode.verdict {
        Verdict::Same => format!("{doing} costs less than {least} of the {}: {interval}, {n}.", result.unit),
        Verdict::Undecided => format!(
            "{doing}: {:.2} % of the {} ({interval}, {n}), not decided; more --rounds or a longer command decide.",
            -change * 100.0,
            result.unit
        ),
        Verdict::Worse | Verdict::Better => {
            format!("{doing} costs {:.2} % of the {} ({interval}, {n}).", -change * 100.0, result.unit)
        }
    })
}
