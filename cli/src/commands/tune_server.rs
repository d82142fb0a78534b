//! The server to tune, and the connection to it.

use super::place::refuse_password;
use super::CommandError;
use hardmeter_advise::trial::Tuned;
use hardmeter_advise::MariaTarget;
use hardmeter_servers::{Cluster, Engine, ServerError, ServerFolder, Status};
use hardmeter_session::Target;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(clap::Args, Debug)]
pub(super) struct TunedServer {
    /// The server's folder: one made by `hardmeter server`, or a data folder.
    #[arg(long, value_name = "DIR", required_unless_present = "url", conflicts_with = "url")]
    server: Option<PathBuf>,
    /// Any server, by a connection string or a URL.
    #[arg(long, value_name = "STRING", alias = "connection")]
    url: Option<String>,
    /// The database [default: that of the connection string, else postgres].
    #[arg(long, value_name = "NAME")]
    database: Option<String>,
}

impl TunedServer {
    /// The options that name the server, without secrets, for the next command that is printed.
    pub(super) fn again(&self) -> String {
        let database = self.database.as_ref().map_or(String::new(), |name| format!(" --database {name}"));
        match &self.server {
            Some(folder) => format!("--server {}{database}", folder.display()),
            None => format!("--url ...{database}"),
        }
    }

    /// True if the options name a folder.
    pub(super) fn is_folder(&self) -> bool {
        self.server.is_some()
    }

    /// True if the named folder holds this data folder, or is it. Both may be gone.
    pub(super) fn has_folder(&self, data: &Path) -> bool {
        let named = self.server.as_ref().map(|folder| (folder.canonicalize(), std::path::absolute(folder)));
        named.is_some_and(|(real, written)| {
            [real, written].iter().flatten().any(|folder| data.starts_with(folder))
        })
    }

    /// The shell's command that restarts a server of `hardmeter server`; `None` for others.
    pub(super) fn restart_command(&self) -> Option<String> {
        let folder = self.server.as_ref()?.canonicalize().ok()?;
        Cluster::open(&ServerFolder::new(&folder)).ok()?;
        let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
        let server = |action: &str| {
            Some(format!(
                "{} --quiet server {action} --dir {}",
                quoted(&std::env::current_exe().ok()?),
                quoted(&folder)
            ))
        };
        Some(format!("{} && {}", server("stop")?, server("start")?))
    }

    /// The same options for another process of this program.
    pub(super) fn words(&self) -> Vec<std::ffi::OsString> {
        let mut words = Vec::new();
        if let Some(folder) = &self.server {
            words.extend(["--server".into(), folder.as_os_str().to_owned()]);
        }
        if let Some(url) = &self.url {
            words.extend(["--url".into(), url.into()]);
        }
        if let Some(database) = &self.database {
            words.extend(["--database".into(), database.into()]);
        }
        words
    }

    /// The named MariaDB server; `None`: the options name a PostgreSQL server.
    pub(super) fn mariadb(&self) -> Result<Option<MariaTarget>, CommandError> {
        let target = match (&self.server, &self.url) {
            (Some(folder), _) => match Cluster::open(&ServerFolder::new(folder)) {
                Ok(cluster) if cluster.state().engine == Engine::Mariadb => {
                    running(folder, &cluster)?;
                    MariaTarget::socket(&cluster.socket(), &cluster.state().user, &cluster.state().database)
                }
                _ => return Ok(None),
            },
            (None, Some(url)) if url.starts_with("mysql://") || url.starts_with("mariadb://") => {
                let user = url.split_once("://").and_then(|(_, rest)| Some(rest.split_once('@')?.0));
                if user.is_some_and(|user| user.contains(':')) {
                    return Err(CommandError::new(
                        "a password on the command line can be read by every user of this machine",
                        "give it in MYSQL_PWD",
                    ));
                }
                MariaTarget::parse(url)?
            }
            _ => return Ok(None),
        };
        Ok(Some(match &self.database {
            Some(name) => target.with_database(name),
            None => target,
        }))
    }

    /// The named server, PostgreSQL or MariaDB.
    pub(super) fn tuned(&self) -> Result<Tuned, CommandError> {
        Ok(match self.mariadb()? {
            Some(target) => Tuned::Mariadb(target),
            None => Tuned::Postgres(Box::new(self.target()?)),
        })
    }

    pub(super) fn target(&self) -> Result<Target, CommandError> {
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

/// The server in a folder, either of `hardmeter server`, or the data folder of any running server.
fn of_folder(folder: &Path) -> Result<Target, CommandError> {
    match Cluster::open(&ServerFolder::new(folder)) {
        Ok(cluster) if cluster.state().engine != Engine::Postgres => Err(CommandError::new(
            format!("{} holds a {} server", folder.display(), cluster.state().engine.title()),
            "name a PostgreSQL server: this command knows no other yet",
        )),
        Ok(cluster) => {
            running(folder, &cluster)?;
            let state = cluster.state();
            Ok(Target::socket(&state.socket_folder, state.port, &state.user, "postgres"))
        }
        Err(ServerError::NoServer { .. }) => of_data_folder(folder),
        Err(error) => Err(error.into()),
    }
}

fn running(folder: &Path, cluster: &Cluster) -> Result<(), CommandError> {
    match cluster.status() {
        Status::Running(_) => Ok(()),
        _ => Err(CommandError::new(
            format!("the server in {} does not run", folder.display()),
            format!("hardmeter server start --dir {}, then give it its load", folder.display()),
        )),
    }
}

/// A running server records its address in its data folder: lines four and five of postmaster.pid.
fn of_data_folder(folder: &Path) -> Result<Target, CommandError> {
    let file = folder.join("postmaster.pid");
    let text = fs::read_to_string(&file).map_err(|error| {
        CommandError::new(
            format!("no running server in {}: {} cannot be read ({error})", folder.display(), file.display()),
            "start the server, name its data folder, or give its connection: --url STRING",
        )
    })?;
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let (port, socket) = match (lines.get(3).and_then(|port| port.parse().ok()), lines.get(4)) {
        (Some(port), Some(socket)) if !socket.is_empty() => (port, Path::new(socket)),
        _ => {
            return Err(CommandError::new(
                format!("{} names no unix socket", file.display()),
                "give its connection: --url STRING",
            ))
        }
    };
    let user = std::env::var("PGUSER").unwrap_or_else(|_| "postgres".into());
    Ok(Target::socket(socket, port, &user, "postgres"))
}
