//! The state file of a server's folder: `state.json`.

use crate::engine::Engine;
use crate::error::{io_error, ServerError};
use crate::folders::ServerFolder;
use crate::process::ProcessIdentity;
use crate::settings::Setting;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The format that this program writes. A later one that an earlier program must not touch counts up.
const FORMAT: u32 = 1;

/// The recorded state of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    format: u32,
    /// The kind of server.
    pub engine: Engine,
    /// The version that made the data, in full, for example `15.20`.
    pub version: String,
    /// The folder of the programs that made it and run it.
    pub programs: PathBuf,
    /// The account as which the server runs.
    pub account: String,
    /// The folder that holds the socket.
    pub socket_folder: PathBuf,
    /// The port in the socket's name (PostgreSQL). No network port is open.
    pub port: u16,
    /// The database user of Hardmeter's own clients.
    pub user: String,
    /// The database that workloads are loaded into.
    pub database: String,
    /// Settings other than the server's own defaults.
    pub settings: Vec<Setting>,
    /// Workloads that were loaded.
    pub loaded: Vec<Loaded>,
    /// The server's first process, from its start until it is stopped; it may have died.
    pub process: Option<ProcessIdentity>,
}

/// A workload's data in a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// The workload, for example `pgbench`.
    pub workload: String,
    /// Its scale.
    pub scale: u32,
}

impl State {
    pub(crate) fn new(engine: Engine, version: String, programs: PathBuf, account: String) -> State {
        State {
            format: FORMAT,
            engine,
            version,
            programs,
            account,
            socket_folder: PathBuf::new(),
            port: 0,
            user: String::new(),
            database: String::new(),
            settings: Vec::new(),
            loaded: Vec::new(),
            process: None,
        }
    }

    /// Reads the state of a folder.
    pub(crate) fn read(folder: &ServerFolder) -> Result<State, ServerError> {
        let path = folder.state();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(ServerError::NoServer { folder: folder.path().to_owned() })
            }
            Err(error) => return Err(io_error("read", path)(error)),
        };
        State::parse(&text)
            .map_err(|reason| ServerError::Damaged { folder: folder.path().to_owned(), reason })
    }

    fn parse(text: &str) -> Result<State, String> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let unreadable = |error| format!("state.json cannot be read ({error})");
        let version: Version = serde_json::from_str(text).map_err(unreadable)?;
        if version.format != FORMAT {
            return Err(format!("state.json is of format {}, this hardmeter knows {FORMAT}", version.format));
        }
        serde_json::from_str(text).map_err(unreadable)
    }

    /// Writes the state atomically.
    pub(crate) fn write(&self, folder: &ServerFolder) -> Result<(), ServerError> {
        let path = folder.state();
        let text = serde_json::to_string_pretty(self).expect("plain data is always JSON");
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder.path())?;
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(io_error("write", path.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> State {
        let mut state = State::new(Engine::Postgres, "15.20".into(), "/usr/bin".into(), "postgres".into());
        state.loaded.push(Loaded { workload: "pgbench".into(), scale: 1 });
        state
    }

    #[test]
    fn what_is_written_is_read_back() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = ServerFolder::new(temporary.path());
        example().write(&folder).unwrap();
        assert_eq!(State::read(&folder).unwrap(), example());
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn faults_have_their_names() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = ServerFolder::new(temporary.path());
        assert!(matches!(State::read(&folder), Err(ServerError::NoServer { .. })));
        for (text, reason) in
            [("{", "cannot be read"), ("{\"format\": 99}", "format 99"), ("{\"format\": 1}", "missing field")]
        {
            fs::write(folder.state(), text).unwrap();
            match State::read(&folder) {
                Err(error @ ServerError::Damaged { .. }) => {
                    assert!(error.to_string().contains(reason), "{error}");
                    assert!(error.remedy().contains("server remove"));
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
