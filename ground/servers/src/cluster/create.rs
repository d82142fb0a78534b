//! Making a server, lending it files, and throwing it away.

use super::{Cluster, Progress, Status};
use crate::account::Account;
use crate::diagnose::diagnose;
use crate::engine::default_settings;
use crate::error::{io_error, ServerError};
use crate::folders::ServerFolder;
use crate::lock::FolderLock;
use crate::log::last_lines;
use crate::programs::Programs;
use crate::state::State;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

impl Cluster {
    /// Creates a server in a new or empty folder and leaves it stopped. A folder left by an interrupted attempt is
    /// created again; if this attempt fails, its files are removed.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the folder holds something else, another process has the lock, or the engine's own
    /// program fails.
    pub fn create(
        folder: &ServerFolder,
        programs: &Programs,
        progress: Progress,
    ) -> Result<Cluster, ServerError> {
        let path = folder.path();
        let account = Account::for_server(programs.engine.ways().accounts())?;
        let was_there = path.exists();
        fs::create_dir_all(path).map_err(io_error("make", path))?;
        let lock = FolderLock::take(folder)?;
        if folder.unfinished().exists() && !folder.state().exists() {
            remove_contents(folder)?;
        }
        if fs::read_dir(path).map_err(io_error("read", path))?.next().is_some() {
            return Err(ServerError::Foreign { folder: path.to_owned() });
        }
        progress(&format!("making a {} {} server", programs.engine.title(), programs.version));
        let made = fill(folder, programs, account);
        if made.is_err() {
            // Report the first error; files that remain are removed by the next attempt.
            let _ = remove_contents(folder);
            if !was_there {
                let _ = fs::remove_dir(path);
            }
        }
        drop(lock);
        made
    }

    /// Opens the server in a folder, or makes one there.
    ///
    /// # Errors
    ///
    /// [`ServerError`] as [`Cluster::open`] and [`Cluster::create`].
    pub fn open_or_create(
        folder: &ServerFolder,
        programs: impl FnOnce() -> Result<Programs, ServerError>,
        progress: Progress,
    ) -> Result<Cluster, ServerError> {
        match Cluster::open(folder) {
            Err(ServerError::NoServer { .. }) => Cluster::create(folder, &programs()?, progress),
            other => other,
        }
    }

    /// Returns a path at which the server's account can read `file` (or the folder `file` with its contents): the
    /// path itself, or that of a copy in the server's folder. For tools that a [wrapper](super::Wrapper) needs
    /// and that lie below a closed home folder.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if `file` does not exist or cannot be copied.
    pub fn lend(&self, file: &Path) -> Result<PathBuf, ServerError> {
        let file = std::path::absolute(file).map_err(io_error("find", file))?;
        if self.reaches_all(&file) {
            return Ok(file);
        }
        let name = file.file_name().ok_or_else(|| ServerError::Unsupported {
            what: format!("{} cannot be lent to the server's account", file.display()),
            remedy: "name a file or a folder below the root".into(),
        })?;
        let lent = self.folder().path().join("lent");
        fs::create_dir_all(&lent).map_err(io_error("make", &lent))?;
        open_to_all(&lent)?;
        let fresh =
            tempfile::Builder::new().prefix(".new-").tempdir_in(&lent).map_err(io_error("make", &lent))?;
        open_to_all(fresh.path())?;
        copy(&file, &fresh.path().join(name))?;
        let target = lent.join(name);
        // A running server may still have the earlier copy open; unlinking it does no harm.
        remove(&target)?;
        fs::rename(fresh.path().join(name), &target).map_err(io_error("write", &target))?;
        self.account.require_reach(&target)?;
        Ok(target)
    }

    fn reaches_all(&self, path: &Path) -> bool {
        let below = || fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        self.account.can_reach(path) && (!path.is_dir() || below().all(|path| self.reaches_all(&path)))
    }

    /// Removes a stopped server, also a damaged one: data, log, state, and the folder when nothing else is in it.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the server runs, another process has the lock, or a file cannot be removed.
    pub fn remove(folder: &ServerFolder) -> Result<(), ServerError> {
        let socket_folder = match Cluster::open(folder) {
            Ok(mut cluster) => {
                let _lock = cluster.lock()?;
                if let Status::Running(pid) = cluster.status() {
                    return Err(ServerError::AlreadyRunning { folder: folder.path().to_owned(), pid });
                }
                Some(cluster.state.socket_folder)
            }
            Err(ServerError::Damaged { .. }) => None,
            Err(error) => return Err(error),
        };
        if let Some(elsewhere) = socket_folder.filter(|path| *path != folder.socket()) {
            remove(&elsewhere)?;
        }
        remove_contents(folder)?;
        match fs::remove_dir(folder.path()) {
            Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => {
                Err(io_error("remove", folder.path())(error))
            }
            _ => Ok(()),
        }
    }
}

fn fill(folder: &ServerFolder, programs: &Programs, account: Account) -> Result<Cluster, ServerError> {
    fs::write(folder.unfinished(), "").map_err(io_error("write", folder.unfinished()))?;
    open_to_all(folder.path())?;
    account.require_reach(folder.path())?;
    account.require_reach(&programs.path(programs.engine.ways().server_program()))?;
    for inner in [folder.data(), folder.socket()] {
        fs::create_dir(&inner).map_err(io_error("make", &inner))?;
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o700)).map_err(io_error("close", &inner))?;
        account.own(&inner)?;
    }
    let mut state = State::new(
        programs.engine,
        programs.version.clone(),
        programs.folder.clone(),
        account.name().to_owned(),
    );
    programs.engine.ways().describe(&mut state);
    state.settings = default_settings(programs.engine);
    let mut cluster = Cluster { folder: folder.clone(), state, programs: programs.clone(), account };

    let mut command = cluster.command(programs.engine.ways().initialize(&cluster.site()));
    let output = command.output().map_err(io_error("run", command.get_program()))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        let log = last_lines(&String::from_utf8_lossy(&said));
        let remedy = diagnose(&log).unwrap_or_else(|| "fix what it reports, then try again".into());
        return Err(ServerError::Failed {
            what: format!("making a {} server", programs.engine.title()),
            status: super::in_words(output.status),
            log,
            remedy,
        });
    }
    cluster.ensure_socket_folder()?;
    cluster.state.write(folder)?;
    remove(&folder.unfinished())?;
    Ok(cluster)
}

/// Removes Hardmeter's files, the state last: until then the folder is recognised.
fn remove_contents(folder: &ServerFolder) -> Result<(), ServerError> {
    let lent = folder.path().join("lent");
    let written = [folder.log(), folder.client_options(), folder.unfinished(), folder.state()];
    for path in [folder.data(), folder.socket(), lent].into_iter().chain(written) {
        remove(&path)?;
    }
    Ok(())
}

/// Removes a file or folder recursively; a missing one is not an error.
fn remove(path: &Path) -> Result<(), ServerError> {
    let kind = match fs::symlink_metadata(path) {
        Ok(data) => data.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error("remove", path)(error)),
    };
    if kind.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
        .map_err(io_error("remove", path))
}

fn copy(from: &Path, to: &Path) -> Result<(), ServerError> {
    if !from.is_dir() {
        fs::copy(from, to).map_err(io_error("copy", from))?;
        return open_to_all(to);
    }
    fs::create_dir(to).map_err(io_error("make", to))?;
    open_to_all(to)?;
    for entry in fs::read_dir(from).map_err(io_error("read", from))? {
        let entry = entry.map_err(io_error("read", from))?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Makes a file readable, and a folder enterable, for all users; executable files become executable for all.
fn open_to_all(path: &Path) -> Result<(), ServerError> {
    let change = || {
        let data = fs::metadata(path)?;
        let mode = data.permissions().mode();
        let run = if data.is_dir() || mode & 0o100 != 0 { 0o111 } else { 0 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o444 | run))
    };
    change().map_err(io_error("open", path))
}
