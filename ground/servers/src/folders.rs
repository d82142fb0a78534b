//! Where servers and builds live when the user names no folder.

use crate::engine::Engine;
use std::path::{Path, PathBuf};

/// The folder of one throwaway server: see the crate's picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFolder(PathBuf);

impl ServerFolder {
    /// The folder at `path`, existing or not. A relative path is taken from the current folder, once and for all,
    /// because the server's own programs run elsewhere.
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        ServerFolder(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What the server keeps its data in.
    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    /// What the server printed.
    pub fn log(&self) -> PathBuf {
        self.0.join("server.log")
    }

    /// How clients find the server, where their environment cannot tell them.
    pub(crate) fn client_options(&self) -> PathBuf {
        self.0.join("my.cnf")
    }

    /// What the folder says of itself.
    pub(crate) fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    /// Present while the folder is being made: a folder with this mark and no state was left half-made.
    pub(crate) fn unfinished(&self) -> PathBuf {
        self.0.join("unfinished")
    }

    /// Where the socket lives, unless this path is too long for one.
    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }
}

/// The folder below which throwaway servers live: `$XDG_STATE_HOME/hardmeter/servers`.
///
/// Root's own state folder is closed to the account of root's servers, so their folder is below `/var/lib`.
pub fn servers_folder() -> PathBuf {
    base("XDG_STATE_HOME", "/var/lib", ".local/state").join("hardmeter/servers")
}

/// The folder of the server that is meant when the user names none.
pub fn default_server_folder(engine: Engine) -> ServerFolder {
    ServerFolder(servers_folder().join(engine.name()))
}

/// The folder below which built servers live: `$XDG_CACHE_HOME/hardmeter`, and `/var/cache/hardmeter` for root.
pub fn cache_folder() -> PathBuf {
    base("XDG_CACHE_HOME", "/var/cache", ".cache").join("hardmeter")
}

/// The base folder of a kind, by the XDG rules: an absolute `variable`, else root's, else the one below home.
fn base(variable: &str, of_root: &str, below_home: &str) -> PathBuf {
    match std::env::var_os(variable).map(PathBuf::from) {
        Some(path) if path.is_absolute() => path,
        _ if crate::account::is_root() => PathBuf::from(of_root),
        _ => std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from).join(below_home),
    }
}
