//! `hardmeter record`: record memory samples of a command, a process or a server.

use super::throwaway::ThrowawayServer;
use super::times::duration;
use super::{observe, CommandError, Globals, Outcome};
use hardmeter_record::cgroup::{find_container, Cgroup};
use hardmeter_record::events::{parse_events, EventRequest};
use hardmeter_record::pmu::attributes::{Modes, Rate};
use hardmeter_record::session::{
    self, CaptureEnd, Chosen, Ending, Progress, Report, Request, RestartableServer, Series, SessionError,
    SourceChoice, StatementChoice,
};
use hardmeter_record::softpmu::Interleave;
use hardmeter_record::target::Target;
use hardmeter_samples::model::{EventSource, Period, Pid, StatementProbe};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::RefCell;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Record memory samples of a command, a process or a server.
#[derive(clap::Args, Debug)]
#[command(
    group = clap::ArgGroup::new("of_a_cgroup").args(["cgroup", "container"]).conflicts_with_all(["pid", "all", "server"]),
    after_help = "Events are written name[/period=N,freq=N,ldlat=N/][:u|:k], several with commas; `hardmeter events` \
                  lists them.\nCtrl-C ends a recording and keeps what it has.\n\n\
                  Example:\n  hardmeter record -e l1d-miss,l2-miss -- pgbench -c 10\n  \
                  hardmeter record -e l1d-miss:u -p 4711 -o backend.data\n  \
                  sudo hardmeter record --server DIR -- sleep 20\n  \
                  sudo hardmeter record --ghosts --server DIR -- sleep 60\n  \
                  sudo hardmeter record --interval 10m --keep 144 --server DIR\n  \
                  hardmeter record --source timer -F 1000 -a -- sleep 10\n  \
                  sudo hardmeter record --source timer --statements --server DIR -- pgbench -c 10"
)]
pub struct Arguments {
    #[command(flatten)]
    measured: Measured,
    /// Sample every N-th event.
    #[arg(short = 'c', long, value_name = "N", conflicts_with = "frequency", value_parser = clap::value_parser!(u64).range(1..))]
    period: Option<u64>,
    /// Let the kernel choose the period so that this many samples per second come from each CPU.
    #[arg(short = 'F', long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..))]
    frequency: Option<u64>,
    /// The file to write.
    #[arg(short, long, value_name = "FILE", default_value = "hardmeter.data")]
    output: PathBuf,
    /// Begin a new capture this often (10m, 1h, 90s), for days: FILE-TIME.data, with the time (UTC) at which it began.
    ///
    /// Each capture can be read alone. Nothing stops between two: samples wait until the next file is open. The default rate
    /// of the sources live and timer is lower: samples cost 0.2 % of a busy processor, as measured at the start. A capture
    /// that cannot be written is given up, and the next one is tried; after three in a row the recording ends with exit status
    /// 1. Ends with the command, the target, or Ctrl-C.
    #[arg(long, value_name = "TIME", value_parser = interval, conflicts_with_all = ["delay", "heap"])]
    interval: Option<Duration>,
    /// Keep the newest N finished captures of --interval, those of earlier recordings with the same -o included.
    #[arg(long, value_name = "N", requires = "interval", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Measure all processes of a control group and of those below it, by its path below /sys/fs/cgroup; those that enter it
    /// later, too.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Measure all processes of a running container, by its name or the beginning of its id: docker, podman, containerd,
    /// CRI-O, systemd-nspawn, LXC. No daemon is asked; docker's and podman's names are in files that root may read.
    #[arg(long, value_name = "NAME|ID")]
    container: Option<String>,
    /// Record the chain of callers with each sample.
    #[arg(long, alias = "call-chains")]
    call_graph: bool,
    /// Only loads that took at least this many cycles (Intel's load latency event).
    #[arg(long, value_name = "CYCLES")]
    ldlat: Option<u16>,
    /// Do not simulate causes of misses (cold, capacity, conflict, coherence), reuse distances, and huge pages:
    /// faster.
    #[arg(long)]
    no_causes: bool,
    /// Record which heap block each access is in, and where the program allocated it (software PMU, commands only).
    ///
    /// The program's malloc is replaced by Valgrind's: blocks have other addresses than with the C library.
    #[arg(long)]
    heap: bool,
    /// Follow running processes (-p or --server) and simulate the memory hierarchy under what they do: misses with
    /// causes, beside stall samples.
    ///
    /// A program of its own, hardmeter-ghost, stops a process at a system call for as long as it takes to copy its
    /// registers and about 200 pages, lets it run on, and executes the same stretch from the copy. Where the two end
    /// differently, the stretch is dropped and counted. Default events: stall, l1d-miss, l2-miss, stlb-miss;
    /// without stall in -e, time is not sampled. Needs the right to trace the processes: root, or their user
    /// where Yama allows it. `hardmeter doctor` tries it.
    #[arg(long, conflicts_with_all = ["all", "heap"])]
    ghosts: bool,
    /// Do not read a server's memory for objects and statements.
    #[arg(long)]
    no_objects: bool,
    /// Record which SQL statement each sample belongs to, by the server's own probes (USDT); for hardware and
    /// timer. Source live knows the statement without it: it reads the process's memory at each sample.
    ///
    /// While recording, the kernel keeps a breakpoint at the probe in the server's processes, and each statement costs
    /// them two traps of about 3 us (more with prepared statements): a quarter of the throughput where statements take
    /// 20 us, little where they take milliseconds. The texts go into the capture as clients sent them, constants
    /// included. It needs root, and a PostgreSQL built with --enable-dtrace, as Debian's is. The software PMU records
    /// statements without it.
    #[arg(long, overrides_with = "no_statements")]
    statements: bool,
    /// Do not record statements (the default for hardware and timer). Source live then takes more samples for the same
    /// cost.
    #[arg(long)]
    no_statements: bool,
}

/// The measurement: options common to `record` and `stat`.
#[derive(clap::Args, Debug)]
pub(super) struct Measured {
    /// The events to count [default: l1d-miss,l2-miss]. The timer only counts time.
    #[arg(short, long, value_name = "EVENTS")]
    events: Option<String>,
    /// The source of events.
    #[arg(long, value_enum, default_value_t = SourceName::Auto)]
    source: SourceName,
    /// The machine to simulate: `this`, a model's name, or a TOML file.
    #[arg(long, value_name = "MACHINE", default_value = "this")]
    machine: String,
    /// Simulate one cache line in N (1, 2, 4 ... 64): faster, less exact.
    #[arg(long, value_name = "N", default_value_t = 1)]
    set_sampling: u32,
    /// Simulate N cores (1 to 64), independent of the machine.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    cores: Option<u32>,
    /// How often the threads of a simulated program take turns: fine, so that lines move between their cores as on a
    /// processor, or coarse, which is faster and misses most of that.
    #[arg(long, value_enum, default_value_t = InterleaveName::Fine)]
    interleave: InterleaveName,
    /// Exclude the kernel.
    #[arg(long)]
    user_only: bool,
    /// Begin to measure this many seconds after the start.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    delay: Option<Duration>,
    /// Measure running processes with all their threads and children, later ones too.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["all", "server"])]
    pid: Vec<i32>,
    /// Measure all processes on every CPU.
    #[arg(short, long, conflicts_with = "server")]
    all: bool,
    /// Measure the server in this folder: one made by `hardmeter server`, or a PostgreSQL data folder.
    #[arg(long, value_name = "DIR")]
    server: Option<PathBuf>,
    /// The command to run while measuring; without -p, -a or --server, the one to measure.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum SourceName {
    /// The best that works here.
    Auto,
    /// The processor's counters, or the kernel's own events.
    Hardware,
    /// The software PMU.
    Simulated,
    /// The timer with registers: loads that threads wait for, with their data addresses.
    Live,
    /// The timer: CPU time, without addresses.
    Timer,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum InterleaveName {
    /// Turns of a microsecond of simulated time, and shorter ones where threads use the same lines.
    Fine,
    /// Turns of 100,000 blocks of code.
    Coarse,
}

/// The two events of the paper.
const DEFAULT_EVENTS: &str = "l1d-miss,l2-miss";

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("invalid delay {text:?}: expected seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text} s is not a time to wait"))
}

fn interval(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        length if length < Duration::from_secs(1) => Err("a capture takes a second or more".to_string()),
        length => Ok(length),
    }
}

impl Measured {
    /// The throwaway server that is the target, if it is one.
    pub(super) fn throwaway_server(
        &self,
        request: &mut Request,
    ) -> Result<Option<ThrowawayServer>, CommandError> {
        let Some(folder) = &self.server else { return Ok(None) };
        let server = ThrowawayServer::find(folder)?;
        if let Some(server) = &server {
            server.lead_clients_to_it();
            request.may_restart_server = true;
        }
        Ok(server)
    }

    /// Converts the options to a request.
    pub(super) fn request(&self) -> Result<Request, CommandError> {
        let events = parse_events(self.events.as_deref().unwrap_or(DEFAULT_EVENTS))
            .map_err(|error| CommandError::new(error, "`hardmeter events` lists what can be asked for"))?;
        if let (SourceName::Timer, Some(asked)) = (self.source, &self.events) {
            return Err(CommandError::new(
                format!("--source timer shows where time goes and counts no events: it cannot record {asked}"),
                "leave -e out (-F says how often), or take these events from another source: --source hardware \
                 (the processor's PMU, and the kernel's events such as cpu-clock), or --source simulated",
            ));
        }
        let target = if !self.pid.is_empty() {
            Target::Processes(self.pid.iter().copied().map(Pid).collect())
        } else if self.all {
            Target::System
        } else if let Some(folder) = &self.server {
            Target::Server(folder.clone())
        } else {
            Target::Command
        };
        if !self.set_sampling.is_power_of_two() || self.set_sampling > 64 {
            return Err(CommandError::new(
                format!("--set-sampling {} is not possible", self.set_sampling),
                "give 1, 2, 4, 8, 16, 32 or 64",
            ));
        }
        Ok(Request {
            events,
            rate: None,
            modes: self.user_only.then_some(Modes::USER),
            source: match self.source {
                SourceName::Auto => SourceChoice::Auto,
                SourceName::Hardware => SourceChoice::Hardware,
                SourceName::Simulated => SourceChoice::Simulated,
                SourceName::Live => SourceChoice::Live,
                SourceName::Timer => SourceChoice::Timer,
            },
            target,
            command: self.command.clone(),
            delay: self.delay,
            callchains: false,
            machine: self.machine.clone(),
            causes: false,
            set_sampling: self.set_sampling,
            heap: false,
            cores: self.cores,
            interleave: match self.interleave {
                InterleaveName::Fine => Interleave::Fine,
                InterleaveName::Coarse => Interleave::Coarse,
            },
            may_restart_server: false,
            statements: StatementChoice::None,
            // Options of the simulation select it.
            default_events: self.events.is_none()
                && self.machine == "this"
                && self.cores.is_none()
                && self.interleave == InterleaveName::Fine
                && self.set_sampling == 1,
            loads: Some(observe::load_finder),
            ghosts: false,
            interval: None,
        })
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let mut request = arguments.measured.request()?;
    let cgroup = match (&arguments.cgroup, &arguments.container) {
        (Some(path), _) => Some(Cgroup::find(path)),
        (None, Some(container)) => Some(find_container(container)),
        (None, None) => None,
    };
    if let Some(cgroup) = cgroup {
        let cgroup = cgroup.map_err(|error| CommandError::new(&error, error.remedy()))?;
        request.target = Target::Cgroup(cgroup);
    }
    request.rate = arguments
        .period
        .map(|period| Rate::Period(Period(period)))
        .or(arguments.frequency.map(Rate::Frequency));
    request.callchains = arguments.call_graph;
    request.causes = !arguments.no_causes;
    request.heap = arguments.heap;
    request.ghosts = arguments.ghosts;
    request.statements = match (arguments.statements, arguments.no_statements || arguments.no_objects) {
        (true, _) => StatementChoice::Probes,
        (false, true) => StatementChoice::None,
        (false, false) => StatementChoice::Read,
    };
    if let Some(cycles) = arguments.ldlat {
        request.events = request
            .events
            .into_iter()
            .map(|event| EventRequest { load_latency: Some(cycles), ..event })
            .collect();
    }
    let command_line: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(interval) = arguments.interval {
        let keep = arguments.keep.map(|keep| keep as usize);
        let series = Series { output: arguments.output.clone(), interval, keep };
        return run_series(&request, &series, arguments, globals, &command_line);
    }
    let mut server = arguments.measured.throwaway_server(&mut request)?;
    let mut bar = RecordingBar::new(globals);
    let report = session::record(
        &request,
        server.as_mut().map(|server| server as &mut dyn RestartableServer),
        (!arguments.no_objects).then(observe::attach),
        &arguments.output,
        &command_line,
        &mut |chosen| announce(chosen, globals),
        &mut |progress| bar.show(progress),
    );
    bar.clear();
    let report = report.map_err(|error| command_error(&error))?;
    Ok(conclude(&report, &arguments.output, arguments.ghosts, globals))
}

/// Captures that follow one another.
fn run_series(
    request: &Request,
    series: &Series,
    arguments: &Arguments,
    globals: &Globals,
    command_line: &[String],
) -> Result<Outcome, CommandError> {
    let bar = RefCell::new(RecordingBar::new(globals));
    let finished = |output: &Path, end: &CaptureEnd| {
        bar.borrow_mut().clear();
        match end {
            CaptureEnd::Written(report) if report.recorded.tally.total() > 0 => {
                conclude(report, output, false, globals);
            }
            // Nights and weekends are no fault.
            CaptureEnd::Written(_) if globals.quiet => {}
            CaptureEnd::Written(_) => {
                eprintln!("hardmeter: no samples in {}: the target did not run", output.display());
            }
            CaptureEnd::GivenUp(cause) => {
                eprintln!("hardmeter: {} is given up, and the next one is tried: {cause}", output.display());
            }
        }
    };
    let report = session::record_series(
        request,
        series,
        (!arguments.no_objects).then(observe::attach),
        command_line,
        &mut |chosen| announce_series(chosen, series, globals),
        &mut |progress| bar.borrow_mut().show(progress),
        &mut { finished },
    );
    bar.borrow_mut().clear();
    let report = report.map_err(|error| command_error(&error))?;
    if !globals.quiet {
        eprintln!("hardmeter: {} captures complete, {} not", report.complete, report.failed);
    }
    let complaint = report.status.and_then(command_complaint).filter(|_| report.ending == Ending::Command);
    let whole = report.failed == 0 && !report.target_ended_early && complaint.is_none();
    Ok(if whole { Outcome::Complete } else { Outcome::Partial })
}

/// The source, and how often it samples.
fn announce_series(chosen: &Chosen, series: &Series, globals: &Globals) {
    announce(chosen, globals);
    let rate = chosen.events.first().map(|event| event.rate);
    let rate = match (&chosen.live, rate) {
        (Some((found, _)), Some(Rate::Period(period))) => format!(
            "; a sample each {:.1} ms of CPU time, which costs {:.2} % of it",
            period.0 as f64 / 1e6,
            100.0 * found.sample_cost_ns as f64 / period.0 as f64
        ),
        (None, Some(Rate::Frequency(hertz))) if chosen.source == EventSource::Timer => {
            format!("; {hertz} samples a second and busy CPU")
        }
        _ => String::new(),
    };
    if !globals.quiet {
        eprintln!("hardmeter: a new capture each {} s{rate}", series.interval.as_secs_f64());
    }
}

/// Converts a session's error to one of this command.
pub(super) fn command_error(error: &SessionError) -> CommandError {
    CommandError::new(error, error.remedy())
}

/// One line on standard error: the source and the reason for it.
pub(super) fn announce(chosen: &Chosen, globals: &Globals) {
    if !globals.quiet {
        eprintln!("hardmeter: source {} ({})", source_name(chosen.source), chosen.reason);
    }
}

/// The source's name for `--source`.
pub(super) fn source_name(source: EventSource) -> &'static str {
    match source {
        EventSource::Hardware => "hardware",
        EventSource::Simulated => "simulated",
        EventSource::Live => "live",
        EventSource::Timer => "timer",
        EventSource::Imported => "imported",
    }
}

/// Prints the result of the recording, and the next command.
fn conclude(report: &Report, output: &Path, ghosts: bool, globals: &Globals) -> Outcome {
    let recorded = &report.recorded;
    let tally = &recorded.tally;
    let say = |line: String| {
        if !globals.quiet {
            eprintln!("hardmeter: {line}");
        }
    };
    let mut outcome = Outcome::Complete;
    // Views show the limits of a simulation; problems with the server are printed at once.
    let notes = report.notes.iter().filter(|_| report.source != EventSource::Simulated);
    for note in notes.chain(&report.remarks) {
        say(note.clone());
    }
    let lost = tally.lost_records + tally.lost_samples;
    if lost > 0 {
        say(format!("{lost} records were lost: the rings were full; take a longer period or fewer events"));
    }
    if tally.throttled > 0 {
        say(format!("the kernel throttled events {} times: take a longer period", tally.throttled));
    }
    match recorded.ending {
        Ending::DiskFull => {
            eprintln!(
                "hardmeter: no room left for {}: it is complete up to {:.1} s, {} bytes are missing\n  \
                 remedy: free some space, give another place with -o, or take a longer period",
                output.display(),
                recorded.duration.as_secs_f64(),
                recorded.discarded
            );
            outcome = Outcome::Partial;
        }
        Ending::Signal(signal) => say(format!("stopped by {}", signal_name(signal))),
        Ending::Command | Ending::Target | Ending::Interval => {}
    }
    if recorded.target_ended_early {
        eprintln!(
            "hardmeter: the profiled processes ended before the command did: the capture is complete up to then\n  \
             remedy: if a server crashed, see its log, then record again"
        );
        outcome = Outcome::Partial;
    }
    if let Some(complaint) = recorded.status.and_then(command_complaint) {
        eprintln!("hardmeter: the command {complaint}");
        // If the recorder stopped it, its exit status is not a failure of the command.
        if recorded.ending == Ending::Command {
            outcome = Outcome::Partial;
        }
    }
    let is_mark = |name: &str| StatementProbe::of_event(name).is_some();
    let marks: u64 = recorded
        .events
        .iter()
        .zip(&tally.samples)
        .filter(|(name, _)| is_mark(name))
        .map(|(_, samples)| samples)
        .sum();
    if marks > 0 {
        say(format!("{marks} marks of statements that begin or end"));
    }
    if tally.total() == marks {
        let (cause, remedy) = if ghosts {
            (
                "none of the events happened in the stretches that were counted",
                "a longer run; with loads among the events, `hardmeter report --quality` says how much was followed",
            )
        } else {
            (
                "the target ran too briefly for the period, or did not run in the sampled mode",
                "a shorter period (-c), a longer run, or `hardmeter stat` to see how often the events happen",
            )
        };
        eprintln!("hardmeter: no samples in {}: {cause}\n  remedy: {remedy}", output.display());
        return Outcome::Partial;
    }
    let each: Vec<String> = recorded
        .events
        .iter()
        .zip(&tally.samples)
        .filter(|(name, _)| !name.starts_with("dummy") && !is_mark(name))
        .map(|(name, samples)| format!("{samples} {name}"))
        .collect();
    say(format!(
        "{} from {} processes in {:.1} s, {} -> {}",
        each.join(", "),
        tally.processes.len(),
        recorded.duration.as_secs_f64(),
        size(recorded.bytes),
        output.display()
    ));
    if std::io::stderr().is_terminal() && recorded.ending != Ending::Interval {
        let input = match output.to_str() {
            Some("hardmeter.data") => String::new(),
            _ => format!(" -i {}", output.display()),
        };
        say(format!("next: hardmeter report{input}"));
    }
    outcome
}

/// How a command failed; `None` if it did not.
pub(super) fn command_complaint(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("ended with status {code}")),
        (None, Some(signal)) => Some(format!("was ended by {}", signal_name(signal))),
        (None, None) => None,
    }
}

pub(super) fn signal_name(signal: i32) -> String {
    match signal {
        libc::SIGINT => "SIGINT (Ctrl-C)".to_string(),
        libc::SIGTERM => "SIGTERM".to_string(),
        libc::SIGHUP => "SIGHUP".to_string(),
        libc::SIGSEGV => "SIGSEGV".to_string(),
        libc::SIGKILL => "SIGKILL".to_string(),
        other => format!("signal {other}"),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} B"),
        10_000..=9_999_999 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// A line that counts samples, from the third second on, on a terminal.
struct RecordingBar {
    started: Instant,
    bar: Option<ProgressBar>,
    wanted: bool,
}

impl RecordingBar {
    fn new(globals: &Globals) -> RecordingBar {
        RecordingBar {
            started: Instant::now(),
            bar: None,
            wanted: !globals.quiet && std::io::stderr().is_terminal(),
        }
    }

    fn show(&mut self, progress: Progress) {
        if !self.wanted || self.started.elapsed() < Duration::from_secs(2) {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} recording {elapsed_precise}  {msg}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        bar.set_message(match progress.measuring {
            true => format!("{} samples, {} (Ctrl-C ends)", progress.samples, size(progress.bytes)),
            false => "waiting for --delay".to_string(),
        });
        bar.tick();
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
