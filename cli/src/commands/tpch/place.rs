//! Where the data are, or shall be: a server of Hardmeter, anybody's server by a connection string, or a throwaway one.

use super::remark;
use crate::commands::{CommandError, Globals};
use hardmeter_servers::{
    servers_folder, Cluster, Engine, Programs, ProgramsWanted, ServerError, ServerFolder, Setting,
    StartOptions, Status,
};
use hardmeter_session::Target;
use hardmeter_tpch::Scale;
use std::path::PathBuf;

#[derive(clap::Args, Debug)]
pub(super) struct Place {
    /// The folder of a server that `hardmeter server` made [default: a throwaway one of its own].
    #[arg(long, value_name = "DIR", help_heading = "Where")]
    server: Option<PathBuf>,
    /// Any PostgreSQL, by a connection string: 'host=/run/postgresql user=postgres dbname=tpch'.
    #[arg(long, value_name = "STRING", conflicts_with = "server", help_heading = "Where")]
    connection: Option<String>,
    /// The database [default: that of the connection string, or tpch].
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    database: Option<String>,
}

const DATABASE: &str = "tpch";

impl Place {
    /// Where data are that were loaded before. A server of Hardmeter that stands still is started.
    pub(super) fn find(&self, globals: &Globals) -> Result<Target, CommandError> {
        match self.connected()? {
            Some(target) => Ok(target),
            None => {
                let folder = self.folder();
                let cluster = match Cluster::open(&folder) {
                    Err(ServerError::NoServer { .. }) if self.server.is_none() => {
                        return Err(CommandError::new(
                            format!(
                                "there is no throwaway server for TPC-H yet (looked in {})",
                                folder.path().display()
                            ),
                            "make one with data in it (hardmeter tpch load), or name yours: --server DIR, \
                             --connection STRING",
                        ))
                    }
                    other => other?,
                };
                self.serving(cluster, globals)
            }
        }
    }

    /// Where data of a scale shall be loaded. A throwaway server that is not there yet is made for them.
    pub(super) fn find_or_make(&self, scale: Scale, globals: &Globals) -> Result<Target, CommandError> {
        if let Some(target) = self.connected()? {
            return Ok(target);
        }
        let folder = self.folder();
        let cluster = match Cluster::open(&folder) {
            Err(ServerError::NoServer { .. }) if self.server.is_none() => {
                let programs = Programs::find(Engine::Postgres, &ProgramsWanted::default())?;
                remark(globals, &format!("making a throwaway server in {}", folder.path().display()));
                let mut cluster = Cluster::create(&folder, &programs, &|_| {})?;
                let options = StartOptions { settings: settings_for(scale), ..StartOptions::default() };
                cluster.start(&options, &|_| {})?;
                cluster
            }
            other => other?,
        };
        self.serving(cluster, globals)
    }

    fn connected(&self) -> Result<Option<Target>, CommandError> {
        let Some(text) = &self.connection else { return Ok(None) };
        let target = Target::parse(text)?;
        Ok(Some(match &self.database {
            Some(name) => target.with_database(name),
            None => target,
        }))
    }

    fn folder(&self) -> ServerFolder {
        match &self.server {
            Some(folder) => ServerFolder::new(folder),
            None => ServerFolder::new(servers_folder().join("tpch")),
        }
    }

    fn serving(&self, mut cluster: Cluster, globals: &Globals) -> Result<Target, CommandError> {
        if cluster.state().engine != Engine::Postgres {
            return Err(CommandError::new(
                format!(
                    "{} holds a {} server",
                    cluster.folder().path().display(),
                    cluster.state().engine.title()
                ),
                "TPC-H is for PostgreSQL so far: name a server of that kind",
            ));
        }
        if !matches!(cluster.status(), Status::Running(_)) {
            remark(globals, &format!("starting the server in {}", cluster.folder().path().display()));
            cluster.start(&StartOptions::default(), &|_| {})?;
        }
        let state = cluster.state();
        let database = self.database.as_deref().unwrap_or(DATABASE);
        Ok(Target::socket(&state.socket_folder, state.port, &state.user, database))
    }
}

/// Settings of a throwaway server for data of a scale: all of them fit into its buffers where the machine has memory
/// for that, a load writes no log, and nothing runs beside the queries. It is made to be thrown away: should the machine
/// stop all at once, its data are to be loaded anew (`fsync` is off).
fn settings_for(scale: Scale) -> Vec<Setting> {
    let wanted = 256 + (2000.0 * scale.factor()) as u64;
    let buffers = wanted.min(memory_mb() / 3).max(128);
    let pairs = [
        ("shared_buffers", format!("{buffers}MB")),
        ("wal_level", "minimal".into()),
        ("max_wal_senders", "0".into()),
        ("max_wal_size", "8GB".into()),
        ("checkpoint_timeout", "30min".into()),
        ("fsync", "off".into()),
        ("autovacuum", "off".into()),
    ];
    pairs.into_iter().map(|(name, value)| Setting { name: name.into(), value }).collect()
}

fn memory_mb() -> u64 {
    // SAFETY: sysconf has no preconditions; unknown values are negative.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    (pages.max(0) as u64).saturating_mul(size.max(0) as u64) >> 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_hold_the_data_or_a_third_of_the_memory() {
        let megabytes = |factor| -> u64 {
            let settings = settings_for(Scale::new(factor).unwrap());
            settings[0].value.trim_end_matches("MB").parse().unwrap()
        };
        assert_eq!(megabytes(0.01), 276.min(memory_mb() / 3).max(128));
        assert!(megabytes(300.0) <= (memory_mb() / 3).max(128));
    }
}
