//! `hardmeter tpcc run`.

mod files;
pub(super) mod order;
mod prepare;
pub(super) mod system;

use crate::commands::output::Output;
use crate::commands::place_engines::EnginePlace;
use crate::commands::times;
use crate::commands::workload::{cancelled_by_signals, remark, Bar};
use crate::commands::{CommandError, Globals, Outcome};
use files::{may_be_written, Files};
use hardmeter_session::Stop;
use hardmeter_tpcc::backend::Backends;
use hardmeter_tpcc::measure::files::{to_json, write_whole};
use hardmeter_tpcc::measure::{interval, DriverPart, Ending, Environment, RunResult};
use hardmeter_tpcc::monitor::{auto, drive, Logs};
use hardmeter_tpcc::observe::{environment, CpuPlan, Cpus, Pins, Process, Server, Watch};
use hardmeter_tpcc::order::{Mode, RunOrder};
use hardmeter_tpcc::report::html::{page, Extras};
use hardmeter_tpcc::report::prices::Prices;
use hardmeter_tpcc::report::text;
use hardmeter_tpcc::stub::Stub;
use hardmeter_tpcc::time::Micros;
use indicatif::HumanCount;
use order::{departures, in_words, What};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use system::System;

/// Run TPC-C: load if needed, ramp up, measure, check, and write a report.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Without more: 10 warehouses and their 100 terminals with the specification's keying and think times on a \
                  throwaway server, five minutes in all. NAME.html is the report, NAME.json the result for show, compare \
                  and merge. A password is read from PGPASSWORD or ~/.pgpass. Exit status 1 if the run was cut off or a \
                  consistency condition does not hold.\n\n\
                  Example:\n  hardmeter tpcc run --warehouses 10\n  \
                  hardmeter tpcc run --mode closed --clients 16 --ramp 20s --interval 2m --output peak\n  \
                  hardmeter tpcc run --set work_mem=64MB --set jit=off\n  \
                  hardmeter tpcc run --connection 'host=db1 user=bench dbname=tpcc' --warehouses 100 --ramp 20m --interval 2h\n  \
                  hardmeter tpcc run --stub 2ms --warehouses 10000 --interval 1m"
)]
pub struct Run {
    /// Number of warehouses [default: those that are loaded, or 10]. An empty database is loaded first.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    warehouses: Option<u32>,
    #[command(flatten)]
    what: What,
    /// CPUs of the server's daemons, of this run's backends and of the driver: 'daemons=0 backends=1-3/4-7
    /// driver=0' (connection k belongs to group k mod 2), or auto. Restored afterwards.
    #[arg(long, value_name = "PLAN", value_parser = planned, help_heading = "Transactions")]
    cpu_plan: Option<Planned>,
    /// No server: answers come after this time, to measure the driver.
    #[arg(long, value_name = "TIME", value_parser = times::duration, help_heading = "Where",
          conflicts_with_all = ["server", "connection", "database", "checkpoint_every", "set"])]
    stub: Option<Duration>,
    /// Do not check the twelve consistency conditions afterwards.
    #[arg(long)]
    no_check: bool,
    /// Write NAME.json and NAME.html [default: tpcc-DATE-TIME].
    #[arg(short, long, value_name = "NAME", help_heading = "Files")]
    output: Option<PathBuf>,
    /// Overwrite files that are there already.
    #[arg(long, help_heading = "Files")]
    overwrite: bool,
    /// Write a line for each deferred delivery into this file (clause 2.7.2.2).
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    deliveries: Option<PathBuf>,
    /// Write a line for each acknowledged New-Order into this file (clause 3.5.3).
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    successes: Option<PathBuf>,
    /// A price sheet (TOML, see hardmeter tpcc show --help): the cost of the system, and per New-Order.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    prices: Option<PathBuf>,
    #[command(flatten)]
    place: EnginePlace,
    /// Print a row for each rule that is not applicable, too.
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    format: Output,
}

/// A CPU plan as given by the user.
#[derive(Clone, Debug)]
enum Planned {
    Auto,
    Plan(CpuPlan),
}

fn planned(text: &str) -> Result<Planned, String> {
    match text {
        "auto" => Ok(Planned::Auto),
        _ => text.parse().map(Planned::Plan),
    }
}

impl Run {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let files = Files::named(self.output.as_deref(), self.overwrite)?;
        for path in self.deliveries.iter().chain(&self.successes) {
            may_be_written(path, self.overwrite)?;
        }
        let prices = self.prices.as_deref().map(Prices::load).transpose()?;
        let system = match self.stub {
            Some(service) => System::Stub(Stub { service: service.into() }),
            None => System::find_or_make(&self.place, self.warehouses, globals)?,
        };
        let stop = cancelled_by_signals();
        let population = system.population(self.warehouses, !self.what.is_part(), &stop, globals)?;
        let order = self.what.order(population).map_err(|cause| {
            CommandError::new(cause, "see hardmeter tpcc run --help under Several drivers")
        })?;
        let settings = self.what.settings().map_err(|cause| CommandError::new(cause, "give it once"))?;
        let backends = system.backends(self.what.style(), self.what.origin(), &settings, &stop)?;
        let (order, found) = match self.what.wants_auto() {
            true => best_connections(&system, order, backends.as_ref(), &stop, globals)?,
            false => (order, None),
        };
        announce(&order, &backends.description(), self.stub.is_some(), globals);
        let mut result = self.measure(&system, &order, backends.as_ref(), &stop, globals)?;
        result.environment.remarks.extend(found);
        // Print the result even if it cannot be saved.
        let written = write(&files, &result, prices);
        self.format.print("tpcc", || text::render(&result, self.full), || text::json(&result))?;
        written?;
        remark(globals, &format!("report {}, result {}", files.html.display(), files.json.display()));
        Ok(how_it_went(&result, globals))
    }

    /// Runs it with an observer of the server, and checks the data afterwards.
    fn measure(
        &self,
        system: &System,
        order: &RunOrder,
        backends: &dyn Backends,
        stop: &Stop,
        globals: &Globals,
    ) -> Result<RunResult, CommandError> {
        // A separate stop: observation continues to the end even if the run is stopped.
        let observing = Stop::new();
        let mut server = system.observer(&observing)?;
        let mut environment = environment(server.as_deref_mut());
        let pins = self.pins(server.as_ref().and_then(|server| server.first_process()))?;
        environment.cpu_plan = pins.as_ref().map(|pins| pins.plan().to_string());
        let bound = pins.as_ref().map(|pins| pins.around(backends));

        let every = order.checkpoint_seconds.map(Duration::from_secs_f64);
        let watch = server.map(|server| Watch::start(server, observing, every, pins.clone()));
        let logs = Logs { deliveries: self.deliveries.clone(), successes: self.successes.clone() };
        let bar = Bar::new(globals);
        let driven = drive(order, bound.as_deref().unwrap_or(backends), &logs, stop, &bar);
        drop(bar);
        let mut result = driven?;
        // The backends know the version now.
        environment.system = backends.description();
        if let Some(watch) = watch {
            let begin = interval(order).start;
            let seen =
                watch.end(result.started_at, begin..begin + Micros::of_seconds(result.measured_seconds));
            result.checkpoints = seen.checkpoints;
            result.server = seen.server;
            environment.remarks.extend(seen.remarks);
        }
        environment.remarks.extend(result.drivers.iter().filter_map(clock_step));
        self.look_afterwards(system, &mut result, &mut environment, stop, globals);
        result.environment = environment;
        Ok(result)
    }

    fn pins(&self, server: Option<Process>) -> Result<Option<Arc<Pins>>, CommandError> {
        let plan = match &self.cpu_plan {
            None => return Ok(None),
            Some(Planned::Plan(plan)) => plan.clone(),
            Some(Planned::Auto) => CpuPlan::usual(&Cpus::available()).ok_or_else(|| {
                CommandError::new("with one CPU there is nothing to distribute", "leave out --cpu-plan")
            })?,
        };
        Ok(Some(Arc::new(Pins::begin(plan, server)?)))
    }

    /// The state after the run: size of the database, and consistency.
    fn look_afterwards(
        &self,
        system: &System,
        result: &mut RunResult,
        environment: &mut Environment,
        stop: &Stop,
        globals: &Globals,
    ) {
        let size = |server: &mut Box<dyn Server>| server.database_bytes();
        match system
            .observer(&Stop::new())
            .map(|server| server.map(|mut server| size(&mut server)).transpose())
        {
            Ok(Ok(bytes)) => environment.database_bytes.1 = bytes.unwrap_or(0),
            Ok(Err(error)) | Err(error) => {
                environment.remarks.push(format!("the database's size after the run is not known: {error}"));
            }
        }
        let why_not = match &result.ending {
            _ if self.no_check => Some("--no-check".to_owned()),
            Ending::Interrupted => Some("the run was interrupted".into()),
            Ending::Complete | Ending::Failed { .. } => {
                let bar = Bar::new(globals);
                match system.conditions(stop, &bar) {
                    Ok(conditions) => {
                        result.conditions = conditions;
                        None
                    }
                    Err(error) => Some(error.to_string()),
                }
            }
        };
        if let (Some(why), None) = (why_not, self.stub) {
            environment.remarks.push(format!("the consistency conditions were not checked: {why}"));
        }
    }
}

/// A warning for a driver whose wall clock was stepped: its times use another clock and are right, but log files
/// and start times of other drivers are affected.
fn clock_step(driver: &DriverPart) -> Option<String> {
    // The slew of a disciplined clock within an hour, in seconds.
    const SLEWED: f64 = 0.1;
    let step = driver.clock_step_seconds;
    (step.abs() > SLEWED).then(|| {
        format!(
            "the clock of {} was set {} by {:.1} s during the run: response times are right, times of day are not",
            driver.host,
            if step > 0.0 { "forward" } else { "back" },
            step.abs()
        )
    })
}

/// The order with the best number of connections, and how it was found, as text.
fn best_connections(
    system: &System,
    order: RunOrder,
    backends: &dyn Backends,
    stop: &Stop,
    globals: &Globals,
) -> Result<(RunOrder, Option<String>), CommandError> {
    let server = system.observer(&Stop::new())?.and_then(|server| server.first_process());
    let bar = Bar::new(globals);
    let sweep = auto::find(&order, backends, server, stop, &bar)?;
    drop(bar);
    let Some(sweep) = sweep else {
        return Err(CommandError::new("trying numbers of connections was interrupted", "run it again"));
    };
    let tried: Vec<String> = sweep.points.iter().map(|point| point.connections.to_string()).collect();
    let rule = sweep.rule.map_or_else(
        || "the server's processes cannot be seen, and the rule has no input".to_owned(),
        |rule| {
            format!(
                "a backend works {:.0} % of its time, so the rule says {}",
                rule.multiplicity * 100.0,
                rule.needed
            )
        },
    );
    let found = format!("{} connections, the best of {} tried ({rule})", sweep.chosen, tried.join(", "));
    remark(globals, &found);
    Ok((RunOrder { connections: sweep.chosen.max(order.threads), ..order }, Some(found)))
}

fn announce(order: &RunOrder, system: &str, is_stub: bool, globals: &Globals) {
    remark(globals, &format!("running {} on {system}", what_runs(order)));
    for departure in departures(order, is_stub) {
        remark(globals, &format!("not as specified: {departure}"));
    }
}

/// The run and its duration, as text.
fn what_runs(order: &RunOrder) -> String {
    let who = match order.mode {
        Mode::Terminals { .. } => format!("{} terminals", HumanCount(u64::from(order.warehouses) * 10)),
        Mode::Closed { clients } => format!("{} clients without think times", HumanCount(clients.into())),
        Mode::Open { rate } => format!("{rate} transactions a second"),
    };
    format!(
        "{} warehouses, {who}, {} connections: ramp {}, interval {}",
        HumanCount(order.warehouses.into()),
        order.connections,
        in_words(order.ramp_seconds),
        in_words(order.interval_seconds)
    )
}

fn how_it_went(result: &RunResult, globals: &Globals) -> Outcome {
    for remark_ in &result.environment.remarks {
        remark(globals, remark_);
    }
    let broken: Vec<String> = result
        .conditions
        .iter()
        .filter(|condition| condition.held == Some(false))
        .map(|condition| condition.number.to_string())
        .collect();
    if !broken.is_empty() {
        remark(globals, &format!("consistency conditions that do not hold: {}", broken.join(", ")));
    }
    match (&result.ending, broken.is_empty()) {
        (Ending::Complete, true) => return Outcome::Complete,
        (Ending::Complete, false) => {}
        (Ending::Interrupted, _) => {
            remark(globals, "the run was interrupted: the report covers a part of it")
        }
        (Ending::Failed { reason }, _) => {
            remark(globals, &format!("the run failed: {reason}; the report covers the time until then"));
        }
    }
    Outcome::Partial
}

fn write(files: &Files, result: &RunResult, prices: Option<Prices>) -> Result<(), CommandError> {
    let html = page(result, &Extras { prices, ..Extras::default() });
    write_whole(&files.json, to_json(result).as_bytes())?;
    write_whole(&files.html, html.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_told_of() {
        let driver = |clock_step_seconds| DriverPart {
            host: "here".into(),
            first_warehouse: 1,
            warehouses: 1,
            terminals: 10,
            started_at: 0,
            clock_step_seconds,
            cpu_seconds: 0.0,
            resident_bytes: 0,
            cpus: 1,
            abandoned: 0,
        };
        assert_eq!(clock_step(&driver(0.02)), None);
        let back = clock_step(&driver(-3600.0)).unwrap();
        assert!(back.starts_with("the clock of here was set back by 3600.0 s during the run"), "{back}");
        assert!(clock_step(&driver(2.0)).unwrap().contains("forward by 2.0 s"));
    }
}
