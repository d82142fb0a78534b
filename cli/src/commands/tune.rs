//! `hardmeter tune`: where a live server's time goes, and which remedies would help most.

use super::output::Output;
use super::place::refuse_password;
use super::workload::{cancelled_by_signals, Bar};
use super::{CommandError, Globals, Outcome};
use crate::terminal;
use hardmeter_advise::{advise, look, AdviseError, Audience, Page, REMEDIES};
use hardmeter_servers::{Cluster, Engine, ServerError, ServerFolder, Status};
use hardmeter_session::{SessionError, Target};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Show where a live server's time goes and which remedies would help most.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
It looks for some seconds at a PostgreSQL server (version 15 or newer) that works, and changes nothing: remedies are
printed as commands, with their undo. It needs a role that may see other sessions (pg_monitor); the plans of statements
need the right to read their tables. Run queue and kernel time need to be on the server's machine. What is known of
statements is richer with pg_stat_statements.

Exit status: 0 when the server was looked at, whatever was found; 1 when it could not be; 2 for wrong arguments.

Examples:
  hardmeter tune --server /var/tmp/pg
  hardmeter tune --url 'host=/run/postgresql user=postgres dbname=shop' --seconds 60 --full
  hardmeter tune --url postgresql:///shop?host=/run/postgresql --for schema")]
pub struct Arguments {
    /// The server's folder: one that `hardmeter server` made, or a data folder.
    #[arg(long, value_name = "DIR", required_unless_present = "url", conflicts_with = "url")]
    server: Option<PathBuf>,
    /// Any server, by a connection string or a URL.
    #[arg(long, value_name = "STRING", alias = "connection")]
    url: Option<String>,
    /// The database [default: that of the connection string, else postgres].
    #[arg(long, value_name = "NAME")]
    database: Option<String>,
    /// How long to look.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Only remedies that this reader can apply.
    #[arg(long = "for", value_enum, value_name = "READER")]
    reader: Option<Reader>,
    /// All shares, all remedies with evidence, commands, undo and risk.
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// Runs the server.
    Operator,
    /// Writes the programs that use it.
    Application,
    /// Owns tables and indexes.
    Schema,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let target = arguments.target()?;
    let stop = cancelled_by_signals();
    let bar = Bar::new(globals);
    let progress = |share: f64| bar.stands_at((share * 1000.0) as usize, 1000, "looking at the server");
    let look = look(&target, Duration::from_secs(arguments.seconds), &stop, &progress)?;
    drop(bar);
    let mut findings = advise(&look, REMEDIES);
    if let Some(reader) = arguments.reader {
        findings.retain(|finding| finding.audience == reader.audience());
    }
    let page = Page { look, findings };
    let style = terminal::style(globals);
    let text = || match arguments.full {
        true => page.full(style),
        false => page.first_screen(style, &arguments.again()),
    };
    arguments.output.print(text, || page.json())?;
    Ok(Outcome::Complete)
}

impl Reader {
    fn audience(self) -> Audience {
        match self {
            Reader::Operator => Audience::Operator,
            Reader::Application => Audience::Application,
            Reader::Schema => Audience::Schema,
        }
    }
}

impl Arguments {
    /// The command without what it printed, for what to type next.
    fn again(&self) -> String {
        match (&self.server, &self.url) {
            (Some(folder), _) => format!("hardmeter tune --server {}", folder.display()),
            _ => "hardmeter tune --url ...".into(),
        }
    }

    fn target(&self) -> Result<Target, CommandError> {
        let target = match (&self.server, &self.url) {
            (Some(folder), _) => of_folder(folder)?,
            (None, Some(text)) => {
                let target = Target::parse(text)?;
                refuse_password(text, "give it in PGPASSWORD or in ~/.pgpass (which only you may read)")?;
                target
            }
            (None, None) => unreachable!("clap requires one of them"),
        };
        Ok(match &self.database {
            Some(name) => target.with_database(name),
            None => target,
        })
    }
}

/// The server in a folder: of `hardmeter server`, or a data folder of any server that runs.
fn of_folder(folder: &Path) -> Result<Target, CommandError> {
    match Cluster::open(&ServerFolder::new(folder)) {
        Ok(cluster) if cluster.state().engine != Engine::Postgres => Err(CommandError::new(
            format!("{} holds a {} server", folder.display(), cluster.state().engine.title()),
            "name a PostgreSQL server: others are not looked at yet",
        )),
        Ok(cluster) => {
            if !matches!(cluster.status(), Status::Running(_)) {
                return Err(CommandError::new(
                    format!("the server in {} does not run", folder.display()),
                    format!("hardmeter server start --dir {}, then give it its load", folder.display()),
                ));
            }
            let state = cluster.state();
            Ok(Target::socket(&state.socket_folder, state.port, &state.user, "postgres"))
        }
        Err(ServerError::NoServer { .. }) => of_data_folder(folder),
        Err(error) => Err(error.into()),
    }
}

/// A running server writes into its data folder how it is reached: lines four and five of postmaster.pid.
fn of_data_folder(folder: &Path) -> Result<Target, CommandError> {
    let file = folder.join("postmaster.pid");
    let text = fs::read_to_string(&file).map_err(|error| {
        CommandError::new(
            format!("no running server in {}: {} cannot be read ({error})", folder.display(), file.display()),
            "start the server, name its data folder, or say how it is reached: --url STRING",
        )
    })?;
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let (port, socket) = match (lines.get(3).and_then(|port| port.parse().ok()), lines.get(4)) {
        (Some(port), Some(socket)) if !socket.is_empty() => (port, Path::new(socket)),
        _ => {
            return Err(CommandError::new(
                format!("{} names no unix socket", file.display()),
                "say how the server is reached: --url STRING",
            ))
        }
    };
    let user = std::env::var("PGUSER").unwrap_or_else(|_| "postgres".into());
    Ok(Target::socket(socket, port, &user, "postgres"))
}

impl From<AdviseError> for CommandError {
    fn from(error: AdviseError) -> CommandError {
        match error {
            AdviseError::Session(error @ SessionError::Interrupted { .. }) => CommandError::new(error, ""),
            error => CommandError::new(&error, error.remedy()),
        }
    }
}
