//! A throwaway server as the target of a recording: found by its folder, restarted if the software PMU needs it.

use super::CommandError;
use hardmeter_record::session::{RestartableServer, ServerTrouble, Wrapper};
use hardmeter_servers::{Cluster, ServerError, ServerFolder, StartOptions};
use std::path::{Path, PathBuf};

/// A server that `hardmeter server` made, and how it was found.
pub(super) struct ThrowawayServer {
    cluster: Cluster,
    was_running: bool,
}

impl ThrowawayServer {
    /// The server in `folder`; `None` if the folder does not belong to a throwaway server.
    pub(super) fn find(folder: &Path) -> Result<Option<ThrowawayServer>, CommandError> {
        match Cluster::open(&ServerFolder::new(folder)) {
            Ok(cluster) => {
                let was_running = cluster.is_running();
                Ok(Some(ThrowawayServer { cluster, was_running }))
            }
            Err(ServerError::NoServer { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets the environment so that the command finds the server: pgbench then needs no arguments.
    pub(super) fn lead_clients_to_it(&self) {
        for (name, value) in self.cluster.environment() {
            std::env::set_var(name, value);
        }
    }
}

fn trouble(error: ServerError) -> ServerTrouble {
    ServerTrouble { remedy: error.remedy(), cause: error.to_string() }
}

impl RestartableServer for ThrowawayServer {
    fn owner(&self) -> (u32, u32) {
        self.cluster.account().ids()
    }

    fn lend(&self, folder: &Path) -> Result<PathBuf, ServerTrouble> {
        self.cluster.lend(folder).map_err(trouble)
    }

    fn restart_under(&mut self, wrapper: Wrapper, interrupted: fn() -> bool) -> Result<(), ServerTrouble> {
        self.cluster.stop(&|_| {}).map_err(trouble)?;
        let options = StartOptions {
            wrapper: Some(wrapper),
            interrupted: Some(interrupted),
            ..StartOptions::default()
        };
        self.cluster.start(&options, &|_| {}).map(drop).map_err(trouble)
    }

    fn restore(&mut self) -> Result<(), ServerTrouble> {
        self.cluster.stop(&|_| {}).map_err(trouble)?;
        if self.was_running {
            self.cluster.start(&StartOptions::default(), &|_| {}).map_err(trouble)?;
        }
        Ok(())
    }
}
