//! Default folders of servers and builds.

use crate::engine::Engine;
use std::path::{Path, PathBuf};

/// The folder of one throwaway server: see the crate's picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFolder(PathBuf);

impl ServerFolder {
    /// The folder at `path`, existing or not. A relative path is made absolute at once, because the server's
    /// programs run elsewhere.
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        ServerFolder(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    /// The file with the server's output.
    pub fn log(&self) -> PathBuf {
        self.0.join("server.log")
    }

    /// The clients' options file, for engines that need one.
    pub(crate) fn client_options(&self) -> PathBuf {
        self.0.join("my.cnf")
    }

    /// The state file.
    pub(crate) fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    /// Exists while the folder is being created: a folder with this mark and without state is incomplete.
    pub(crate) fn unfinished(&self) -> PathBuf {
        self.0.join("unfinished")
    }

    /// The socket's folder, unless this path is too long for a socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }
}

/// The parent folder of throwaway servers: `$XDG_STATE_HOME/hardmeter/servers`.
///
/// The account of root's servers cannot enter root's own state folder, so their folder is below `/var/lib`.
pub fn servers_folder() -> PathBuf {
    base("XDG_STATE_HOME", "/var/lib", ".local/state").join("hardmeter/servers")
}

/// The default folder of an engine's server.
pub fn default_server_folder(engine: Engine) -> ServerFolder {
    ServerFolder(servers_folder().join(engine.name()))
}

/// The parent folder of built servers: `$XDG_CACHE_HOME/hardmeter`, and `/var/cache/hardmeter` for root.
pub fn cache_folder() -> PathBuf {
    base("XDG_CACHE_HOME", "/var/cache", ".cache").join("hardmeter")
}

/// The base folder of a kind, by the XDG rules: an absolute `variable`, else root's folder, else the one below
/// home.
fn base(variable: &str, of_root: &str, below_home: &str) -> PathBuf {
    match std::env::var_os(variable).map(PathBuf::from) {
        Some(path) if path.is_absolute() => path,
        _ if crate::account::is_root() => PathBuf::from(of_root),
        _ => std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from).join(below_home),
    }
}
