//! The place of the data: a server of Hardmeter, any server by a connection string, or a throwaway one.

use super::workload::remark;
use super::{CommandError, Globals};
use hardmeter_servers::{
    servers_folder, Cluster, Engine, Programs, ProgramsWanted, ServerError, ServerFolder, Setting,
    StartOptions, Status,
};
use hardmeter_session::{holds_password, Target};
use std::path::PathBuf;

#[derive(clap::Args, Debug)]
pub(super) struct Place {
    /// The folder of a server made by `hardmeter server` [default: a throwaway one for this workload].
    #[arg(long, value_name = "DIR", help_heading = "Where")]
    pub(super) server: Option<PathBuf>,
    /// Any server, by a connection string: 'host=/run/postgresql user=postgres dbname=NAME'.
    #[arg(long, value_name = "STRING", conflicts_with = "server", help_heading = "Where")]
    pub(super) connection: Option<String>,
    /// The database [default: that of the connection string, or the workload's name].
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    pub(super) database: Option<String>,
}

/// The workload of the data.
pub(super) struct Workload {
    /// Its name: of the command, the throwaway server, and the database.
    pub(super) name: &'static str,
    /// For messages.
    pub(super) title: &'static str,
}

impl Workload {
    /// The application name of its sessions.
    fn application(&self) -> String {
        format!("hardmeter {}", self.name)
    }
}

impl Place {
    /// Finds loaded data. A stopped server of Hardmeter is started.
    pub(super) fn find(&self, workload: &Workload, globals: &Globals) -> Result<Target, CommandError> {
        match self.connected(workload)? {
            Some(target) => Ok(target),
            None => {
                let folder = self.folder(workload);
                let cluster = opened(&folder, self.server.is_some(), || {
                    CommandError::new(
                        format!(
                            "there is no throwaway server for {} yet (looked in {})",
                            workload.title,
                            folder.path().display()
                        ),
                        format!(
                            "make one with data in it (hardmeter {} load), or name yours: --server DIR, \
                             --connection STRING",
                            workload.name
                        ),
                    )
                })?;
                self.serving(cluster, workload, globals)
            }
        }
    }

    /// The folder of a throwaway server; `None` for another server, by a connection string.
    pub(super) fn ours(&self, workload: &Workload) -> Option<ServerFolder> {
        self.connection.is_none().then(|| self.folder(workload))
    }

    /// Finds the place for data. A missing throwaway server is created with these settings.
    pub(super) fn find_or_make(
        &self,
        workload: &Workload,
        settings: &[(&str, String)],
        globals: &Globals,
    ) -> Result<Target, CommandError> {
        if let Some(target) = self.connected(workload)? {
            return Ok(target);
        }
        let folder = self.folder(workload);
        let cluster = match Cluster::open(&folder) {
            Err(ServerError::NoServer { .. }) if self.server.is_none() => {
                let programs = Programs::find(Engine::Postgres, &ProgramsWanted::default())?;
                remark(globals, &format!("making a throwaway server in {}", folder.path().display()));
                let mut cluster = Cluster::create(&folder, &programs, &|_| {})?;
                let settings = settings
                    .iter()
                    .map(|(name, value)| Setting { name: (*name).into(), value: value.clone() })
                    .collect();
                let options = StartOptions { settings, ..StartOptions::default() };
                cluster.start(&options, &|_| {})?;
                cluster
            }
            other => other?,
        };
        self.serving(cluster, workload, globals)
    }

    fn connected(&self, workload: &Workload) -> Result<Option<Target>, CommandError> {
        let Some(text) = &self.connection else { return Ok(None) };
        let target = Target::parse(text)?.named(&workload.application());
        refuse_password(text, "give it in PGPASSWORD or in ~/.pgpass (which only you may read)")?;
        Ok(Some(match &self.database {
            Some(name) => target.with_database(name),
            None => target,
        }))
    }

    fn folder(&self, workload: &Workload) -> ServerFolder {
        match &self.server {
            Some(folder) => ServerFolder::new(folder),
            None => ServerFolder::new(servers_folder().join(workload.name)),
        }
    }

    fn serving(
        &self,
        mut cluster: Cluster,
        workload: &Workload,
        globals: &Globals,
    ) -> Result<Target, CommandError> {
        if cluster.state().engine != Engine::Postgres {
            return Err(CommandError::new(
                format!(
                    "{} holds a {} server",
                    cluster.folder().path().display(),
                    cluster.state().engine.title()
                ),
                format!("{} is for PostgreSQL so far: name a server of that kind", workload.title),
            ));
        }
        if !matches!(cluster.status(), Status::Running(_)) {
            remark(globals, &format!("starting the server in {}", cluster.folder().path().display()));
            cluster.start(&StartOptions::default(), &|_| {})?;
        }
        let state = cluster.state();
        let database = self.database.as_deref().unwrap_or(workload.name);
        let target = Target::socket(&state.socket_folder, state.port, &state.user, database);
        Ok(target.named(&workload.application()))
    }
}

/// The server in a folder; `missing` is the error if there is none and the user did not name the folder.
pub(super) fn opened(
    folder: &ServerFolder,
    named: bool,
    missing: impl FnOnce() -> CommandError,
) -> Result<Cluster, CommandError> {
    match Cluster::open(folder) {
        Err(ServerError::NoServer { .. }) if !named => Err(missing()),
        other => Ok(other?),
    }
}

/// A password on a command line is not a secret.
pub(super) fn refuse_password(connection: &str, remedy: &str) -> Result<(), CommandError> {
    match holds_password(connection) {
        false => Ok(()),
        true => Err(CommandError::new(
            "--connection contains a password, which all users of this machine can read in the list of processes",
            remedy,
        )),
    }
}

/// The machine's memory.
pub(super) fn memory_mb() -> u64 {
    // SAFETY: sysconf has no preconditions; unknown values are negative.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    (pages.max(0) as u64).saturating_mul(size.max(0) as u64) >> 20
}
