//! `hardmeter tune try`: applies a remedy reversibly, measures it in blocks, and undoes it unless it is kept.

use super::output::Output;
use super::tune_options::TrialOptions;
use super::tune_server::TunedServer;
use super::workload::{cancelled_by_signals, remark, Bar};
use super::{CommandError, Globals, Outcome};
use crate::terminal;
use hardmeter_advise::trial::{
    conduct_on_copy, conduct_with_restarts, Closing, Conducted, CopyPlan, Ledger, Load, Measure, Order, Pace,
    Proposal, ReplayPlan, RestartPlan, Running, Switch, TryError, TryProgress, Tuned, Wanted,
};
use hardmeter_advise::{advise, look, Finding};
use hardmeter_evidence::Verdict;
use hardmeter_session::{Stop, Target};
use serde_json::json;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Try a remedy on the live server: applied reversibly, proven in blocks, undone.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Without --yes it prints the change and its undoing, and changes nothing. With --yes blocks as found
and blocks with the change follow each other in random order, under the server's own traffic or LOAD, until the
verdict is sure: better, worse, same, or undecided. Then the change is undone; with --keep a proven gain stays.

A setting that needs a restart is tried with --copy: on a throwaway copy of the server (pg_basebackup), which is started
again for each block. Its load is LOAD, which finds the copy by PGHOST and PGPORT, or the statements of the server's
traffic, replayed. The server itself is only read; the copy is removed. With --restart it is tried on the server itself,
which is restarted before each block and at the end: all of its sessions end each time, and clients must connect again.

An unused or duplicate index of MariaDB is hidden from statements (IGNORED): the trial tells whether one needs it. Writes
maintain it still; with --ddl it is dropped, and built again to undo that.

The state before is written to a ledger first (hardmeter tune log). Ctrl-C undoes at once; if this program dies, its
watchdog undoes; if both die, hardmeter tune undo does. LOAD finds the server by PGHOST, PGPORT, PGUSER, PGDATABASE.

Exit status: 0 when the trial was decided, or only printed; 1 when it was not decided or failed; 2 for wrong arguments.

Examples:
  hardmeter tune try jit --server /var/tmp/pg
  hardmeter tune try jit --server /var/tmp/pg --yes --keep
  hardmeter tune try missing-index --server /var/tmp/pg --database shop --yes -- pgbench -n -c 4 -T 600 shop
  hardmeter tune try --set shared_buffers=2GB --server /var/tmp/pg --copy /var/tmp --yes -- pgbench -n -c 4 -T 600 shop
  hardmeter tune try --set wal_buffers=64MB --server /var/tmp/pg --restart --yes -- pgbench -n -c 4 -T 600 shop
  hardmeter tune try --set work_mem=64MB --url 'host=/run/postgresql dbname=shop' --yes --per-block -- psql -f report.sql")]
pub struct Arguments {
    /// The remedy, by the name that `hardmeter tune` gives it.
    #[arg(required_unless_present = "set", conflicts_with = "set")]
    remedy: Option<String>,
    /// A setting to try instead of a remedy; may be repeated: all of them are tried together.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    server: TunedServer,
    /// Make the change: without this option nothing is changed.
    #[arg(long)]
    yes: bool,
    /// Leave the change in place if a gain is proven.
    #[arg(long, requires = "yes", conflicts_with = "copy")]
    keep: bool,
    /// Restart the server itself for each block, for a setting that needs it; COMMAND restarts it [default: pg_ctl, or
    /// its unit of systemd].
    #[arg(
        long,
        value_name = "COMMAND",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        group = "restarted",
        help_heading = "How a remedy is tried"
    )]
    restart: Option<String>,
    /// Drop an index of MariaDB and build it again in each round, instead of hiding it from statements.
    #[arg(long)]
    ddl: bool,
    /// The deciding metric [default: chosen for the remedy].
    #[arg(long, value_enum, value_name = "MEASURE")]
    measure: Option<MeasureName>,
    /// Duration of the observation for the remedy's evidence, in seconds.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    #[command(flatten)]
    options: TrialOptions,
    #[command(flatten)]
    output: Output,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum MeasureName {
    /// Execution time per call.
    Latency,
    /// CPU time of the server per transaction.
    Cpu,
    /// Transactions a second.
    Throughput,
    /// Log written per transaction, of PostgreSQL.
    Log,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let (pace, guards) = (arguments.options.pace()?, arguments.options.guards()?);
    let server = arguments.server.tuned()?;
    arguments.options.copies(&server)?;
    let load = arguments.options.load(server.environment());
    let (ledger, stop) = (Ledger::of_user(), cancelled_by_signals());
    let (wanted, finding) = match &arguments.remedy {
        Some(remedy) => {
            // With a copy LOAD runs only there: the server is measured under its own traffic.
            let load_of_look = match (arguments.options.copy(), &load) {
                (Some(_), _) => Load::Traffic,
                (None, Load::PerBlock(command)) => Load::Throughout(command.clone()),
                (None, load) => load.clone(),
            };
            let running = Running::start(&load_of_look, ledger.beside("load.log"))?;
            let finding = arguments.finding(remedy, &server, &stop, globals)?;
            running.still_works()?;
            (Wanted::of_finding(&finding)?, Some(finding))
        }
        None => {
            let wanted: Result<Vec<Wanted>, TryError> =
                arguments.set.iter().map(|text| Wanted::of_text(text)).collect();
            (wanted?, None)
        }
    };
    let wanted = match arguments.ddl {
        true => wanted,
        false => wanted.into_iter().map(Wanted::hidden).collect(),
    };
    let name = finding.as_ref().map_or_else(|| arguments.set.join(", "), |found| found.remedy.to_owned());
    let measure = arguments.measure.map_or_else(|| server.measure(&name, &load), MeasureName::measure);
    let place = arguments.place(&server, &wanted, &ledger)?;
    let (switches, pace) = match &place {
        Place::Copy(copy) => (vec![Switch::Copy(copy.switch.clone())], Pace { settle: copy.warm_up, ..pace }),
        Place::Restarted(plan) => {
            (vec![Switch::Restart(plan.switch.clone())], Pace { settle: plan.warm_up, ..pace })
        }
        Place::Server => (server.plan(&wanted, &load)?, pace),
    };
    let per_block = arguments.options.per_block();
    let proposal =
        Proposal { name: name.clone(), finding: finding.clone(), switches, measure, pace, per_block };
    let style = terminal::style(globals);
    if arguments.output.is_text() {
        terminal::print(&proposal.text(style))?;
    }
    if !arguments.yes {
        let text = || "\nNothing was changed. With --yes it is tried, and undone.\n".to_owned();
        arguments.output.print("tune-try", text, || {
            json!({ "format": "hardmeter-tune-try", "version": 1, "tried": false, "proposal": proposal.json() })
        })?;
        return Ok(Outcome::Complete);
    }
    let advice = finding.as_ref().map(|finding| &finding.advice);
    let order = Order {
        wanted,
        remedy: name,
        finding: advice.map(|advice| advice.finding.clone()),
        evidence: advice.map_or(json!([]), |advice| json!(advice.evidence)),
        predicted: advice.and_then(|advice| advice.prediction.by(measure)),
        measure,
        pace,
        keep: arguments.keep,
        guards,
        run: None,
        seed: nanoseconds(),
    };
    let conducted = arguments.conduct(&order, (&server, &place), &load, (&ledger, &stop), globals);
    print_conducted(&conducted?, &proposal, arguments, globals)
}

/// Prints a completed trial.
fn print_conducted(
    conducted: &Conducted,
    proposal: &Proposal,
    arguments: &Arguments,
    globals: &Globals,
) -> Result<Outcome, CommandError> {
    let has = |wanted: fn(&Switch) -> bool| proposal.switches.iter().any(wanted);
    let undone = match has(|switch| matches!(switch, Switch::Copy(_))) {
        true => "the copy is removed; the server was not changed",
        false => "undone: the server is as it was before",
    };
    let ends = match has(|switch| matches!(switch, Switch::Global(_))) {
        true => "; a restart of the server ends it: write it into the configuration, too",
        false => "",
    };
    let kept = format!("kept; hardmeter tune undo {} restores what was before{ends}", conducted.entry);
    for entry in &conducted.leftovers {
        remark(globals, &format!("entry {entry} of an earlier trial was open, and was undone first"));
    }
    let text = || {
        let end = match conducted.closed {
            Closing::Kept => kept.clone(),
            Closing::Undone => undone.to_owned(),
            Closing::Foreign => format!("left to others: {}", conducted.note),
        };
        let result = conducted.result.text(terminal::style(globals));
        format!("\n{result}\n{end} (entry {} of the ledger)\n", conducted.entry)
    };
    arguments.output.print("tune-try", text, || {
        json!({
            "format": "hardmeter-tune-try",
            "version": 1,
            "tried": true,
            "proposal": proposal.json(),
            "entry": conducted.entry,
            "result": conducted.result,
            "closed": conducted.closed,
            "note": conducted.note,
        })
    })?;
    Ok(match conducted.result.verdict {
        Verdict::Undecided => Outcome::Partial,
        _ => Outcome::Complete,
    })
}

impl MeasureName {
    fn measure(self) -> Measure {
        match self {
            MeasureName::Latency => Measure::Latency,
            MeasureName::Cpu => Measure::Cpu,
            MeasureName::Throughput => Measure::Throughput,
            MeasureName::Log => Measure::Log,
        }
    }
}

impl Arguments {
    fn finding(
        &self,
        remedy: &str,
        server: &Tuned,
        stop: &Stop,
        globals: &Globals,
    ) -> Result<Finding, CommandError> {
        if !server.remedies().iter().any(|known| known.id == remedy) {
            let names: Vec<&str> = server.remedies().iter().map(|known| known.id).collect();
            return Err(CommandError::new(
                format!("no remedy is named {remedy}"),
                format!("name one of {}; or a setting: --set NAME=VALUE", names.join(", ")),
            ));
        }
        let bar = Bar::new(globals);
        let progress = |share: f64| bar.stands_at((share * 1000.0) as usize, 1000, "observing the server");
        let look = server.look(Duration::from_secs(self.seconds), stop, &progress)?;
        drop(bar);
        let findings = advise(&look, server.remedies());
        let found: Vec<&str> = findings.iter().map(|finding| finding.remedy).collect();
        let others = match found.is_empty() {
            true => "nothing else was found".to_owned(),
            false => format!("found was: {}", found.join(", ")),
        };
        findings.into_iter().find(|finding| finding.remedy == remedy).ok_or_else(|| {
            CommandError::new(
                format!("{} s of observation gave no evidence for {remedy}; {others}", self.seconds),
                "observe longer with --seconds, or while the load runs",
            )
        })
    }

    /// Where the trial is made, by the options.
    fn place(&self, server: &Tuned, wanted: &[Wanted], ledger: &Ledger) -> Result<Place, CommandError> {
        match (self.options.copy(), &self.restart, server) {
            (Some(folder), _, Tuned::Postgres(target)) => {
                let warm_up = self.options.warm_up()?;
                Ok(Place::Copy(Box::new(CopyPlan::new(target, wanted, folder, warm_up, nanoseconds())?)))
            }
            (None, Some(command), Tuned::Postgres(target)) => {
                let of_folder = self.server.restart_command();
                let command = Some(command.clone()).filter(|command| !command.is_empty()).or(of_folder);
                let warm_up = self.options.warm_up()?;
                Ok(Place::Restarted(RestartPlan::new(target, wanted, command.as_deref(), warm_up, ledger)?))
            }
            (_, Some(_), Tuned::Mariadb(_)) => {
                Err(CommandError::new("MariaDB is not restarted yet", "leave out --restart"))
            }
            _ => Ok(Place::Server),
        }
    }

    fn conduct(
        &self,
        order: &Order,
        (server, place): (&Tuned, &Place),
        load: &Load,
        (ledger, stop): (&Ledger, &Stop),
        globals: &Globals,
    ) -> Result<Conducted, TryError> {
        let bar = Bar::new(globals);
        let progress = |what: &str, share: f64| bar.stands_at((share * 1000.0) as usize, 1000, what);
        let watchdog = |token: &str| watchdog(&self.server, token);
        match (place, server) {
            (Place::Copy(copy), Tuned::Postgres(target)) => {
                on_copy((self, target, load), order, copy, (ledger, &watchdog, stop, &progress))
            }
            (Place::Restarted(plan), Tuned::Postgres(target)) => {
                conduct_with_restarts(order, (plan, target), (ledger, &watchdog), load, stop, &progress)
            }
            _ => server.conduct(order, (ledger, &watchdog), load, stop, &progress),
        }
    }
}

/// The server on which a trial is made.
enum Place {
    /// The server itself.
    Server,
    /// A copy of it.
    Copy(Box<CopyPlan>),
    /// The server itself, which is restarted for each block.
    Restarted(RestartPlan),
}

/// The inputs of a trial on a copy, besides its order.
type Hands<'a> = (&'a Ledger, &'a dyn Fn(&str) -> Command, &'a Stop, TryProgress<'a>);

/// Conducts it on a copy, under LOAD or the traffic that the server has now.
fn on_copy(
    (arguments, target, load): (&Arguments, &Target, &Load),
    order: &Order,
    copy: &CopyPlan,
    (ledger, watchdog, stop, progress): Hands,
) -> Result<Conducted, TryError> {
    let replay = match load {
        Load::Traffic => {
            let looking = |share: f64| progress("looking at the traffic to replay", share);
            let look = look(target, Duration::from_secs(arguments.seconds), stop, &looking)?;
            Some(ReplayPlan::of(&look, target)?)
        }
        _ => None,
    };
    conduct_on_copy(order, copy, ledger, watchdog, (load, replay.as_ref()), stop, progress)
}

/// The moment, as a seed.
fn nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64)
}

/// This program again, as the watchdog of a trial.
pub(super) fn watchdog(server: &TunedServer, token: &str) -> Command {
    // An update may have replaced the program under its path; this link still leads to the running one.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("hardmeter");
    command.args(["tune", "watchdog", "--trial", token]).args(server.words());
    command
}

impl From<TryError> for CommandError {
    fn from(error: TryError) -> CommandError {
        CommandError::new(&error, error.remedy())
    }
}
