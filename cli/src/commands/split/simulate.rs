//! `hardmeter split simulate`.

use crate::commands::output::Output;
use crate::commands::workload::remark;
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_split::model::{Machine, Plan};
use hardmeter_split::policy::{self, Policy};
use hardmeter_split::simulate::{self, mixes, report::Report, validate, Damage, Length, Scenario};
use hardmeter_split::trace::Reader;
use serde_json::json;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// What would placement do on a machine of any size? A trace of sections, or a known mix, under each policy.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Machines: CORESxTHREADS,l2=SIZE,l3=SIZE/CORES (/CORES: the cores that share a cache), core-i7-965 (the paper's), this.\n\
                        Mixes: A B C D E F H K M N (two kinds each, as measured in the design), auction, much-data (the paper's).\n\n\
                        Example:\n  hardmeter split simulate --mix C --machine 2x1,l2=2M,l3=32M\n  \
                        hardmeter split simulate --trace sections.trace --machine 64x2,l2=2M,l3=32M/8 --policy soft,lazy\n  \
                        hardmeter split simulate --mix E --machine 128x1,l2=2M,l3=32M/8 --guard\n  \
                        hardmeter split simulate --check"
)]
pub(super) struct Simulate {
    /// A recorded trace (hardmeter split analyze --trace FILE).
    #[arg(long, value_name = "FILE", conflicts_with = "mix")]
    trace: Option<PathBuf>,
    /// A mix that is known without a recording.
    #[arg(long, value_name = "NAME", default_value = "auction")]
    mix: String,
    /// The machine to simulate.
    #[arg(long, value_name = "MACHINE", default_value = "this")]
    machine: String,
    /// Policies, separated by commas: observe, paper, lazy, soft, or all (time slices are not simulated). The
    /// default scheduler is always included for comparison.
    #[arg(long, value_name = "NAMES", default_value = "all", value_parser = policies)]
    policy: Names,
    /// Put each policy's plans on trial, as `split analyze` does, and switch off those that do not help. The trial
    /// precedes the measured time and takes a tenth of its usual duration.
    #[arg(long)]
    guard: bool,
    /// A fixed plan of your own (JSON, as in the analyzer's state). May be repeated.
    #[arg(long, value_name = "FILE")]
    plan: Vec<PathBuf>,
    /// Simulated seconds that count.
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Simulated seconds before anything is placed.
    #[arg(long, default_value_t = 0.5, value_parser = seconds)]
    learn: f64,
    /// Simulated seconds between two polls of the analyzer.
    #[arg(long, default_value_t = 0.25, value_parser = seconds)]
    interval: f64,
    /// Equal seeds give equal runs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How sections affect each other's data, in numbers [default: as measured for the design].
    #[arg(long, value_name = "FILE")]
    damage: Option<PathBuf>,
    /// Compare the simulator with the ten mixes as they were measured on two processors, and nothing else.
    #[arg(long, conflicts_with_all = ["trace", "machine", "policy", "plan", "guard"])]
    check: bool,
    #[command(flatten)]
    output: Output,
}

/// Names of policies that exist.
#[derive(Clone, Debug)]
struct Names(Vec<String>);

fn policies(text: &str) -> Result<Names, String> {
    let names: Vec<String> = match text {
        "all" => policy::SIMULATED.iter().map(ToString::to_string).collect(),
        "none" => Vec::new(),
        _ => text.split(',').map(String::from).collect(),
    };
    match names.iter().find(|name| policy::by_name(name).is_none()) {
        Some(name) => {
            Err(format!("there is no policy '{name}': {}, all or none", policy::SIMULATED.join(", ")))
        }
        None => Ok(Names(names)),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("invalid time '{text}': expected 0.01 to 3600 seconds")),
    }
}

impl Simulate {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let length = Length {
            learn_seconds: self.learn,
            seconds: self.seconds,
            interval_seconds: self.interval,
            seed: self.seed,
        };
        let damage = self.damage()?;
        if self.check {
            let validation = validate::validate(&damage, &Length { learn_seconds: 0.0, ..length });
            self.output.print("split-validation", || validation.text(), || json!(validation))?;
            return Ok(Outcome::Complete);
        }
        let machine = machine(&self.machine)?;
        let scenario = self.scenario(globals, &machine, &damage)?;
        let mut outcomes = vec![simulate::simulate(&scenario, &machine, &damage, None, &length)];
        for name in &self.policy.0 {
            let policy: Option<Box<dyn Policy>> = policy::by_name(name);
            outcomes.push(match policy.as_deref() {
                Some(policy) if self.guard => {
                    simulate::simulate_guarded(&scenario, &machine, &damage, policy, &length)
                }
                policy => simulate::simulate(&scenario, &machine, &damage, policy, &length),
            });
        }
        for path in &self.plan {
            let plan = plan(path)?;
            outcomes.push(simulate::simulate_plan(&scenario, &machine, &damage, &plan, &length));
        }
        let report = Report {
            scenario: scenario.name.clone(),
            title: scenario.title.clone(),
            machine: machine.source.clone(),
            processors: machine.cpus.len(),
            seconds: self.seconds,
            seed: self.seed,
            damage: damage.source.clone(),
            outcomes,
        };
        self.output.print("split-simulation", || report.text(), || json!(report))?;
        Ok(Outcome::Complete)
    }

    fn damage(&self) -> Result<Damage, CommandError> {
        let Some(path) = &self.damage else { return Ok(Damage::documented()) };
        let text = read(path)?;
        Damage::parse(&text).map_err(|error| CommandError::new(format!("{}: {error}", path.display()), ""))
    }

    fn scenario(
        &self,
        globals: &Globals,
        machine: &Machine,
        damage: &Damage,
    ) -> Result<Scenario, CommandError> {
        let Some(path) = &self.trace else {
            return mixes::named(&self.mix, machine.cpus.len()).ok_or_else(|| {
                let names = mixes::NAMES.join(", ");
                CommandError::new(format!("there is no mix '{}'", self.mix), format!("one of {names}"))
            });
        };
        let damaged =
            |error: &dyn std::fmt::Display| CommandError::new(format!("{}: {error}", path.display()), "");
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let mut reader = Reader::new(BufReader::new(file)).map_err(|error| damaged(&error))?;
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let scenario = simulate::replay::scenario(&name, &mut reader, machine.l2_bytes, damage)
            .map_err(|error| damaged(&error))?;
        if reader.was_cut() {
            remark(
                globals,
                "the trace's last line is not whole and was left out: its writer was interrupted",
            );
        }
        Ok(scenario)
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new(format!("{}: {error}", path.display()), "name a file that exists and may be read")
}

fn read(path: &Path) -> Result<String, CommandError> {
    fs::read_to_string(path).map_err(|error| unreadable(path, &error))
}

fn machine(text: &str) -> Result<Machine, CommandError> {
    if text == "this" {
        return hardmeter_split::machine::read()
            .map_err(|error| CommandError::new(error, "describe the machine: --machine 8x2,l2=2M,l3=32M"));
    }
    simulate::machine::parse(text).map_err(|error| CommandError::new(error, ""))
}

fn plan(path: &Path) -> Result<Plan, CommandError> {
    serde_json::from_str(&read(path)?).map_err(|error| {
        CommandError::new(
            format!("{}: {error}", path.display()),
            "a plan has the form that the analyzer writes: {\"policy\": .., \"placements\": [..], \"remarks\": []}",
        )
    })
}
