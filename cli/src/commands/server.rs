//! `hardmeter server`: start, load and stop throwaway database servers.

use super::output::Output;
use super::{CommandError, Globals, Outcome};
use hardmeter_evidence::table::{Column, Style, TextTable};
use hardmeter_servers::{
    build, default_server_folder, servers_folder, Cluster, Engine, Programs, ProgramsWanted, ServerError,
    ServerFolder, Setting, StartOptions, Status, StopOutcome,
};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::{json, Value};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Start, load and stop throwaway database servers.
#[derive(clap::Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "A server has a folder and a unix socket of its own, opens no network port, and does not run as root.\n\n\
                  Example:\n  hardmeter server start postgres\n  hardmeter server load postgres --scale 1\n  \
                  hardmeter server stop postgres"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Start a server; create it if there is none.
    #[command(disable_version_flag = true)] // its --version is the server's
    #[command(after_help = "Example:\n  hardmeter server start postgres --set shared_buffers=64MB")]
    Start(Start),
    /// Stop a server and keep its data.
    #[command(after_help = "Example:\n  hardmeter server stop postgres")]
    Stop(Which),
    /// Load pgbench's tables into a running server.
    #[command(after_help = "Example:\n  hardmeter server load postgres --scale 10")]
    Load(Load),
    /// Show whether a server runs, how to reach it and what it contains.
    #[command(after_help = "Example:\n  hardmeter server status postgres --format json")]
    Status(Which),
    /// Stop a server and delete its data.
    #[command(after_help = "Example:\n  hardmeter server remove postgres")]
    Remove(Which),
    /// Compile a server with line numbers and frame pointers from Debian's source package.
    #[command(disable_version_flag = true)]
    #[command(after_help = "Example:\n  hardmeter server build postgres --version 15 --debug")]
    Build(Build),
    /// List the servers made and the programs found.
    #[command(after_help = "Example:\n  hardmeter server list")]
    List(Output),
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum EngineName {
    Postgres,
    Mariadb,
}

#[derive(clap::Args, Debug)]
struct Which {
    /// The kind of server [default: the one in --dir, else postgres].
    #[arg(value_enum)]
    engine: Option<EngineName>,
    /// The server's folder [default: below $XDG_STATE_HOME/hardmeter/servers; for root /var/lib/hardmeter/servers].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(clap::Args, Debug)]
struct Start {
    #[command(flatten)]
    which: Which,
    /// The version of the programs, or a prefix of one [default: the newest found].
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Use the programs that `hardmeter server build --debug` made.
    #[arg(long)]
    debug: bool,
    /// Use the programs in this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "debug")]
    programs: Option<PathBuf>,
    /// Change a setting of the server; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<Setting>,
    /// Seconds that the server may take until it accepts connections.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

#[derive(clap::Args, Debug)]
struct Load {
    #[command(flatten)]
    which: Which,
    /// pgbench's scale: each step is 100,000 accounts, about 15 MB.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    scale: u32,
}

#[derive(clap::Args, Debug)]
struct Build {
    /// The kind of server; only PostgreSQL so far.
    #[arg(value_enum)]
    engine: EngineName,
    /// The major version, for which Debian has a source package.
    #[arg(long, value_name = "VERSION", default_value = "15")]
    version: String,
    /// Keep line numbers, types and frame pointers (-O2 -g -fno-omit-frame-pointer).
    #[arg(long)]
    debug: bool,
    /// Number of parallel compilers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    jobs: Option<u32>,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let spinner = Spinner::new(globals);
    match &arguments.action {
        Action::Start(start) => run_start(start, &spinner),
        Action::Stop(which) => run_stop(which, &spinner),
        Action::Load(load) => run_load(load, &spinner),
        Action::Status(which) => run_status(which),
        Action::Remove(which) => run_remove(which, &spinner),
        Action::Build(wanted) => run_build(wanted, &spinner),
        Action::List(output) => run_list(output),
    }
}

impl From<ServerError> for CommandError {
    fn from(error: ServerError) -> CommandError {
        CommandError::new(&error, error.remedy())
    }
}

fn run_start(start: &Start, spinner: &Spinner) -> Result<Outcome, CommandError> {
    let (folder, engine) = start.which.resolve()?;
    let wanted =
        ProgramsWanted { version: start.version.clone(), debug: start.debug, folder: start.programs.clone() };
    let progress = |what: &str| spinner.say(what);
    let find = || Programs::find(engine, &wanted);
    let mut cluster = Cluster::open_or_create(&folder, find, &progress)?;
    // Select programs again only on request; otherwise a server keeps those that created it.
    let asked = wanted.version.is_some() || wanted.debug || wanted.folder.is_some();
    let options = StartOptions {
        patience: Some(Duration::from_secs(start.timeout)),
        settings: start.set.clone(),
        programs: if asked { Some(find()?) } else { None },
        ..StartOptions::default()
    };
    cluster.start(&options, &progress)?;
    spinner.done();
    show(&cluster, &start.which.output)
}

fn run_stop(which: &Which, spinner: &Spinner) -> Result<Outcome, CommandError> {
    let (folder, _) = which.resolve()?;
    let mut cluster = Cluster::open(&folder)?;
    let outcome = cluster.stop(&|what| spinner.say(what))?;
    spinner.done();
    let (word, sentence) = match outcome {
        StopOutcome::Clean => ("clean", "stopped"),
        StopOutcome::Immediate => ("immediate", "stopped at once; the next start recovers"),
        StopOutcome::Killed => ("killed", "killed, since it did not stop; the next start recovers"),
        StopOutcome::NotRunning => ("not-running", "was not running"),
    };
    which.output.print(
        "server-action",
        || format!("{} in {} {sentence}\n", title(&cluster), shown(&folder)),
        || json!({ "folder": folder.path(), "outcome": word }),
    )?;
    Ok(Outcome::Complete)
}

fn run_load(load: &Load, spinner: &Spinner) -> Result<Outcome, CommandError> {
    let (folder, _) = load.which.resolve()?;
    let mut cluster = Cluster::open(&folder)?;
    cluster.load_pgbench(load.scale, &|what| spinner.say(what))?;
    spinner.done();
    show(&cluster, &load.which.output)
}

fn run_status(which: &Which) -> Result<Outcome, CommandError> {
    let (folder, _) = which.resolve()?;
    let cluster = Cluster::open(&folder)?;
    show(&cluster, &which.output)
}

fn run_remove(which: &Which, spinner: &Spinner) -> Result<Outcome, CommandError> {
    let (folder, _) = which.resolve()?;
    match Cluster::open(&folder) {
        Ok(mut cluster) => {
            cluster.stop(&|what| spinner.say(what))?;
        }
        Err(ServerError::Damaged { .. }) => {} // there is no process to stop; the data are removed nevertheless
        Err(error) => return Err(error.into()),
    }
    Cluster::remove(&folder)?;
    spinner.done();
    which.output.print(
        "server-removed",
        || format!("{} is gone\n", shown(&folder)),
        || json!({ "removed": folder.path() }),
    )?;
    Ok(Outcome::Complete)
}

fn run_build(wanted: &Build, spinner: &Spinner) -> Result<Outcome, CommandError> {
    let order = build::Order {
        engine: wanted.engine.engine(),
        version: wanted.version.clone(),
        debug: wanted.debug,
        jobs: wanted.jobs,
    };
    let built = build::build(&order, &|what| spinner.say(what))?;
    spinner.done();
    let start = format!(
        "hardmeter server start {} --version {}{}",
        order.engine.name(),
        wanted.version,
        if wanted.debug { " --debug" } else { "" }
    );
    wanted.output.print(
        "server-build",
        || {
            format!(
                "{} {} is in {}\n  start it: {start}\n",
                order.engine.title(),
                built.version,
                built.folder.display()
            )
        },
        || json!({ "engine": order.engine.name(), "version": built.version, "programs": built.folder }),
    )?;
    Ok(Outcome::Complete)
}

fn run_list(output: &Output) -> Result<Outcome, CommandError> {
    let entries = std::fs::read_dir(servers_folder()).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort();
    let servers: Vec<Cluster> =
        folders.iter().filter_map(|path| Cluster::open(&ServerFolder::new(path)).ok()).collect();
    let programs: Vec<Programs> = Engine::ALL.into_iter().flat_map(Programs::list).collect();
    let text = || {
        let mut text = format!("servers below {}\n", servers_folder().display());
        let mut table = TextTable::new(["server", "state", "folder"].map(Column::left)).untitled();
        for cluster in &servers {
            table.plain([title(cluster), state_in_words(cluster), shown(cluster.folder())]);
        }
        text += &table.render(Style::default(), 2);
        if servers.is_empty() {
            text += "  none\n";
        }
        text += "programs\n";
        let mut table = TextTable::new(["program", "folder"].map(Column::left)).untitled();
        for found in &programs {
            let name = format!("{} {}", found.engine.title(), found.version);
            table.plain([name, found.folder.display().to_string()]);
        }
        text += &table.render(Style::default(), 2);
        if programs.is_empty() {
            text += "  none\n";
        }
        text
    };
    output.print("server-list", text, || {
        let programs = programs.iter().map(|found| {
            json!({ "engine": found.engine.name(), "version": found.version, "folder": found.folder })
        });
        json!({
            "servers": servers.iter().map(describe).collect::<Vec<_>>(),
            "programs": programs.collect::<Vec<_>>(),
        })
    })?;
    Ok(Outcome::Complete)
}

impl EngineName {
    fn engine(self) -> Engine {
        match self {
            EngineName::Postgres => Engine::Postgres,
            EngineName::Mariadb => Engine::Mariadb,
        }
    }
}

impl Which {
    /// The folder, and the kind of its server or of the one to be created.
    fn resolve(&self) -> Result<(ServerFolder, Engine), ServerError> {
        let named = self.engine.map(EngineName::engine);
        let folder = match &self.dir {
            Some(dir) => ServerFolder::new(dir),
            None => default_server_folder(named.unwrap_or(Engine::Postgres)),
        };
        let found = Cluster::open(&folder).ok().map(|cluster| cluster.state().engine);
        match (named, found) {
            (Some(wanted), Some(found)) if wanted != found => Err(ServerError::OtherEngine {
                folder: folder.path().to_owned(),
                found: found.title(),
                wanted: wanted.title(),
            }),
            _ => Ok((folder, named.or(found).unwrap_or(Engine::Postgres))),
        }
    }
}

fn title(cluster: &Cluster) -> String {
    format!("{} {}", cluster.state().engine.title(), cluster.state().version)
}

fn shown(folder: &ServerFolder) -> String {
    folder.path().display().to_string()
}

fn state_in_words(cluster: &Cluster) -> String {
    match cluster.status() {
        Status::Running(pid) => format!("running, process {pid}"),
        Status::Stopped => "stopped".into(),
        Status::Died(pid) => format!("died (was process {pid})"),
    }
}

/// Prints a server: kind, connection, next commands.
fn show(cluster: &Cluster, output: &Output) -> Result<Outcome, CommandError> {
    output.print("server", || describe_in_words(cluster), || describe(cluster))?;
    Ok(Outcome::Complete)
}

fn describe_in_words(cluster: &Cluster) -> String {
    let state = cluster.state();
    let folder = shown(cluster.folder());
    let mut text = format!("{}: {}\n", title(cluster), state_in_words(cluster));
    let mut line = |name: &str, value: String| text += &format!("  {name:<9} {value}\n");
    line("folder", folder.clone());
    line("socket", format!("{} (no network port)", state.socket_folder.display()));
    line("programs", state.programs.display().to_string());
    line("account", state.account.clone());
    let settings = state.settings.iter().map(|setting| format!("{}={}", setting.name, setting.value));
    line("settings", settings.collect::<Vec<_>>().join(" "));
    let loaded = state.loaded.iter().map(|loaded| format!("{}, scale {}", loaded.workload, loaded.scale));
    let loaded = loaded.collect::<Vec<_>>().join("; ");
    line("loaded", if loaded.is_empty() { "nothing".into() } else { loaded });
    if cluster.is_running() {
        line("connect", connect(cluster));
    }
    match cluster.status() {
        Status::Running(_) => line("stop", format!("hardmeter server stop --dir {folder}")),
        Status::Stopped => line("start", format!("hardmeter server start --dir {folder}")),
        Status::Died(_) => {
            line("start", format!("hardmeter server start --dir {folder} (it recovers)"));
            for said in cluster.log_tail().lines() {
                line("log", said.to_owned());
            }
        }
    }
    text
}

fn connect(cluster: &Cluster) -> String {
    let state = cluster.state();
    let socket = state.socket_folder.display();
    match state.engine {
        Engine::Postgres => {
            format!("psql -h {socket} -p {} -U {} {}", state.port, state.user, state.database)
        }
        Engine::Mariadb => {
            format!("mariadb --socket={socket}/mariadb.sock -u {} {}", state.user, state.database)
        }
    }
}

fn describe(cluster: &Cluster) -> Value {
    let state = cluster.state();
    let (word, pid) = match cluster.status() {
        Status::Running(pid) => ("running", Some(pid)),
        Status::Stopped => ("stopped", None),
        Status::Died(pid) => ("died", Some(pid)),
    };
    let settings = state.settings.iter().map(|setting| (setting.name.clone(), json!(setting.value)));
    json!({
        "engine": state.engine.name(),
        "version": state.version,
        "folder": cluster.folder().path(),
        "data": cluster.folder().data(),
        "log": cluster.folder().log(),
        "programs": state.programs,
        "account": state.account,
        "status": word,
        "pid": pid,
        "socket_folder": state.socket_folder,
        "port": state.port,
        "user": state.user,
        "database": state.database,
        "settings": settings.collect::<serde_json::Map<_, _>>(),
        "loaded": state.loaded.iter().map(|loaded| json!({ "workload": loaded.workload, "scale": loaded.scale })).collect::<Vec<_>>(),
    })
}

/// Shows the current step on a terminal, once it has taken two seconds.
struct Spinner {
    bar: ProgressBar,
    since: Instant,
    wanted: bool,
}

impl Spinner {
    fn new(globals: &Globals) -> Spinner {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Spinner { bar, since: Instant::now(), wanted: !globals.quiet && std::io::stderr().is_terminal() }
    }

    fn say(&self, what: &str) {
        if self.wanted && self.bar.is_hidden() && self.since.elapsed() >= Duration::from_secs(2) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(Duration::from_millis(100));
        }
        self.bar.set_message(what.to_owned());
    }

    fn done(&self) {
        self.bar.finish_and_clear();
    }
}
