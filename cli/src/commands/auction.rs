//! `hardmeter auction`: an auction site on Apache, PHP and MariaDB under load, the workload of placement.

use super::output::Output;
use super::workload::{remark, writable, Bar};
use super::{interruption, CommandError, Globals, Outcome};
use hardmeter_auction::{
    allow_connections, report, run as visit, Arrivals, AuctionError, Mix, Order, Population, RunResult,
    Scenario, Site, SiteSetup, Split, SplitModules, Visited,
};
use hardmeter_servers::web::{Mpm, Php};
use hardmeter_servers::Setting;
use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Run an auction site on Apache, PHP and MariaDB: the load for trials of placement.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Servers are throwaway ones: made, filled, visited, stopped, deleted. With --dir they leave their folder; with start\n\
                  and --at one site is visited several times. docs/auction.md says what a visit is.\n\n\
                  Example:\n  hardmeter auction --mix bidding --rate 300 --seconds 20\n  hardmeter auction --scenario accesses\n  \
                  hardmeter auction --mix browsing --clients 8 --fpm --split collect"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: Run,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Start a site that stays, to be visited with --at.
    #[command(after_help = "Example:\n  hardmeter auction start --dir /var/tmp/site --split collect")]
    Start(Start),
    /// Stop a site that stays, and throw its folder away.
    #[command(after_help = "Example:\n  hardmeter auction stop --dir /var/tmp/site")]
    Stop {
        /// Its folder.
        #[arg(long)]
        dir: PathBuf,
    },
}

#[derive(clap::Args, Debug)]
struct Start {
    /// Its folder, new or empty.
    #[arg(long)]
    dir: PathBuf,
    #[command(flatten)]
    site: SiteOptions,
}

#[derive(clap::Args, Debug)]
struct SiteOptions {
    /// Size of the data: 1 is 100,000 members, 33,000 items, 330,000 bids, 100,000 comments.
    #[arg(long, default_value_t = 1.0, value_name = "SCALE")]
    data: f64,
    /// Seed of rows and visitors.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// PHP by PHP-FPM behind Apache's event MPM, instead of mod_php in prefork.
    #[arg(long)]
    fpm: bool,
    /// Apache's MPM, with --fpm.
    #[arg(long, value_enum, requires = "fpm")]
    mpm: Option<MpmName>,
    /// Number of requests served concurrently.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=2000))]
    workers: u32,
    /// Placement: off; collect (modules and an observing analyzer); or a policy of hardmeter split analyze.
    #[arg(long, default_value = "off", value_name = "off|collect|POLICY")]
    split: Split,
    /// The folder of placement's modules.
    #[arg(long, value_name = "DIR")]
    split_build: Option<PathBuf>,
    /// A setting of MariaDB, name=value; several times.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<Setting>,
}

#[derive(clap::Args, Debug)]
struct Run {
    /// A scenario of the paper: accesses (many short requests) or volume (much data).
    #[arg(long, value_enum, conflicts_with = "mix")]
    scenario: Option<ScenarioName>,
    /// How visitors behave: browsing (reads only) or bidding (about 15 % of pages write).
    #[arg(long, value_enum)]
    mix: Option<MixName>,
    /// For a scenario: the share of the paper's clients.
    #[arg(long, default_value_t = 1.0, requires = "scenario")]
    scale: f64,
    /// Requests per second, whether the site keeps up or not.
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    /// Arrival of requests: poisson (independent of each other) or fixed (at equal intervals).
    #[arg(long, value_enum, default_value_t = ArrivalsName::Poisson)]
    arrivals: ArrivalsName,
    /// Connections of the open loop; by default as many as the site has workers.
    #[arg(long)]
    connections: Option<usize>,
    /// Number of visitors of the open loop, who take turns; few enough that each visits several pages in a short
    /// run.
    #[arg(long, default_value_t = 40)]
    visitors: usize,
    /// A closed loop instead: this number of clients; each sends its next request after its answer.
    #[arg(long, conflicts_with_all = ["rate", "arrivals", "connections"])]
    clients: Option<usize>,
    /// Measured seconds of a mix.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seconds of a mix before the measurement.
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    warmup: f64,
    /// Time limit of an answer in seconds; by default 30 s, in a scenario an hour.
    #[arg(long, value_name = "SECONDS")]
    patience: Option<f64>,
    /// A site that stays (hardmeter auction start): its folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dir", "data", "fpm", "workers", "split", "settings"])]
    at: Option<PathBuf>,
    /// The folder of the site; it is kept, with logs. By default a temporary one.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Write the result to this file, as JSON.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    site: SiteOptions,
    #[command(flatten)]
    print: Output,
}

macro_rules! names {
    ($name:ident for $of:ty: $($variant:ident),*) => {
        #[derive(clap::ValueEnum, Clone, Copy, Debug)]
        enum $name { $($variant),* }

        impl From<$name> for $of {
            fn from(name: $name) -> $of {
                match name { $($name::$variant => <$of>::$variant),* }
            }
        }
    };
}

names!(ScenarioName for Scenario: Accesses, Volume);
names!(MixName for Mix: Browsing, Bidding);
names!(ArrivalsName for Arrivals: Poisson, Fixed);
names!(MpmName for Mpm: Worker, Event);

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    match &arguments.action {
        Some(Action::Start(start)) => start.run(globals),
        Some(Action::Stop { dir }) => {
            Site::remove(dir)?;
            Ok(Outcome::Complete)
        }
        None => arguments.run.run(globals),
    }
}

impl From<AuctionError> for CommandError {
    fn from(error: AuctionError) -> CommandError {
        CommandError::new(&error, error.remedy())
    }
}

impl Start {
    fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let bar = Bar::new(globals);
        let mut site = self.site.start(&self.dir, Scenario::Accesses.picture_bytes(), &bar)?;
        site.stay();
        drop(bar);
        crate::terminal::print(&format!(
            "http://{}/\nvisit it: hardmeter auction --at {} --mix bidding\nend it:   hardmeter auction stop --dir {}\n",
            site.address(),
            self.dir.display(),
            self.dir.display()
        ))?;
        Ok(Outcome::Complete)
    }
}

impl SiteOptions {
    fn start(&self, folder: &Path, picture_bytes: usize, bar: &Bar) -> Result<Site, CommandError> {
        if !(self.data > 0.0 && self.data <= 20.0) {
            return Err(CommandError::new(
                format!("invalid scale --data {}", self.data),
                "choose one up to 20",
            ));
        }
        let modules = match self.split.is_on() {
            true => {
                Some(SplitModules::in_folder(&self.split_build.clone().unwrap_or_else(placement_folder))?)
            }
            false => None,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let setup = SiteSetup {
            php: if self.fpm { Php::Fpm } else { Php::Module },
            mpm: self.mpm.map(Mpm::from),
            workers: self.workers,
            population: Population::of_scale(self.data, self.seed, now),
            picture_bytes,
            split: self.split.clone(),
            modules,
            database_settings: self.settings.clone(),
        };
        Ok(Site::start(folder, &setup, &|what| bar.0.set_message(what.to_owned()))?)
    }
}

impl Run {
    fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let visited = self.visited()?;
        if let Some(output) = &self.output {
            writable(output)?;
        }
        let interrupted = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&interrupted);
        interruption::watch(move || asked.store(true, Ordering::SeqCst));
        let bar = Bar::new(globals);
        // Kept until the site is stopped.
        let temporary = match (&self.at, &self.dir) {
            (None, None) => Some(temporary_folder()?),
            _ => None,
        };
        let mut site = match (&self.at, &self.dir, &temporary) {
            (Some(at), _, _) => Site::open(at)?,
            (None, Some(dir), _) => self.site.start(dir, self.picture_bytes(), &bar)?,
            (None, None, Some(folder)) => {
                self.site.start(&folder.path().join("site"), self.picture_bytes(), &bar)?
            }
            (None, None, None) => unreachable!("a temporary folder was made"),
        };
        if self.at.is_none() {
            site.analyze(&std::env::current_exe().unwrap_or_else(|_| "hardmeter".into()))?;
        }
        let result = self.visit(&mut site, visited, &bar, &interrupted);
        drop(bar);
        if self.at.is_none() {
            site.stop()?;
        }
        let result = result?;
        if let Some(output) = &self.output {
            let text = serde_json::to_string_pretty(&result).expect("plain data is always JSON") + "\n";
            std::fs::write(output, text).map_err(|error| {
                CommandError::new(format!("cannot write {}: {error}", output.display()), "name another file")
            })?;
        }
        self.print.print("auction", || report(&result), || json!(result))?;
        if result.errors > 0 {
            remark(globals, &format!("{} requests went wrong", result.errors));
            return Ok(Outcome::Partial);
        }
        Ok(Outcome::Complete)
    }

    fn visit(
        &self,
        site: &mut Site,
        visited: Visited,
        bar: &Bar,
        interrupted: &AtomicBool,
    ) -> Result<RunResult, AuctionError> {
        let fixed = matches!(visited, Visited::Scenario { .. });
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, 1e6));
        let order = Order {
            visited,
            seed: self.site.seed,
            warmup: seconds(self.warmup),
            duration: seconds(self.seconds),
            patience: seconds(self.patience.unwrap_or(if fixed { 3600.0 } else { 30.0 })),
        };
        allow_connections(match order.visited {
            Visited::Scenario { clients, .. } | Visited::ClosedMix { clients, .. } => clients,
            Visited::OpenMix { connections, .. } => connections,
        });
        let whole = order.warmup + order.duration;
        bar.0.reset();
        bar.0.set_message("visiting");
        visit(site, &order, &mut |answers, of, elapsed| {
            if interrupted.load(Ordering::SeqCst) {
                return Err(AuctionError::Interrupted { what: "the visit".into() });
            }
            bar.0.set_length(of.unwrap_or(whole.as_secs()));
            bar.0.set_position(if of.is_some() { answers } else { elapsed.as_secs() });
            Ok(())
        })
    }

    fn visited(&self) -> Result<Visited, CommandError> {
        let positive = |name: &str, value: f64| match value > 0.0 && value.is_finite() {
            true => Ok(value),
            false => {
                Err(CommandError::new(format!("--{name} {value} is not possible"), "choose more than 0"))
            }
        };
        Ok(match (self.scenario, self.mix, self.clients) {
            (Some(scenario), _, clients) => {
                let scenario = Scenario::from(scenario);
                let paper = scenario.paper().clients as f64;
                let scaled = (paper * positive("scale", self.scale)?).round().max(1.0) as usize;
                let clients = clients.unwrap_or(scaled);
                Visited::Scenario { scenario, clients, scale: clients as f64 / paper }
            }
            (None, Some(mix), Some(clients)) => {
                Visited::ClosedMix { mix: mix.into(), clients: clients.max(1) }
            }
            (None, Some(mix), None) => Visited::OpenMix {
                mix: mix.into(),
                rate: positive("rate", self.rate)?,
                arrivals: self.arrivals.into(),
                connections: self.connections.unwrap_or(self.site.workers as usize),
                visitors: self.visitors.max(1),
            },
            (None, None, _) => {
                return Err(CommandError::new(
                    "no mix or scenario is given",
                    "--mix browsing, --mix bidding, --scenario accesses or --scenario volume",
                ))
            }
        })
    }

    fn picture_bytes(&self) -> usize {
        self.scenario.map_or(20_000, |scenario| Scenario::from(scenario).picture_bytes())
    }
}

/// A folder that the servers' account can enter; removed on drop.
fn temporary_folder() -> Result<tempfile::TempDir, CommandError> {
    let folder = tempfile::Builder::new()
        .prefix("hardmeter-auction-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir();
    folder.map_err(|error| {
        CommandError::new(format!("cannot make a temporary folder: {error}"), "name a folder with --dir")
    })
}

/// The output folder of `make build-place`: in the repository of this program's build, or below the current folder.
fn placement_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let near = program.ancestors().map(|folder| folder.join("build/place"));
    let found = near.into_iter().find(|folder| folder.join("apache/mod_split.so").exists());
    found.unwrap_or_else(|| PathBuf::from("build/place"))
}
