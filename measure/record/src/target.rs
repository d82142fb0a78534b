//! The target of a recording: processes and threads.

use crate::cgroup::{Cgroup, CgroupError};
use hardmeter_samples::model::{Pid, Tid};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// The user's target. Each kind can be combined with a command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The command itself, and all its children.
    Command,
    /// Running processes with all their threads, their children and those forked later.
    Processes(Vec<Pid>),
    /// All processes on every CPU.
    System,
    /// All processes of a cgroup.
    Cgroup(Cgroup),
    /// A PostgreSQL cluster, by its data folder: the postmaster and all its processes.
    Server(PathBuf),
}

/// The reason why a target cannot be profiled.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The process does not exist.
    #[error("there is no process {0}")]
    NoProcess(Pid),
    /// The folder has no running server.
    #[error("no server runs in {folder}: {source}")]
    NoServer {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The folder may have a server, but cannot be read.
    #[error("cannot read {file}, which names the server's process: {source}")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The server is not running any more.
    #[error("the server in {folder} has died: its pid file names process {pid}, which does not exist")]
    DeadServer {
        /// The folder.
        folder: PathBuf,
        /// The process it had.
        pid: Pid,
    },
    /// The cgroup.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}

impl TargetError {
    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            TargetError::Cgroup(error) => error.remedy(),
            TargetError::NoProcess(_) => "look for its number with `pgrep -a NAME`",
            TargetError::Unreadable { .. } => {
                "run as root or as the server's account, or name its process with -p"
            }
            TargetError::NoServer { .. } | TargetError::DeadServer { .. } => {
                "start one with `hardmeter server start`, give the data folder that holds postmaster.pid (PostgreSQL), \
                 or name its process with -p"
            }
        }
    }
}

/// The threads of a process.
///
/// # Errors
///
/// [`TargetError::NoProcess`] if it does not exist.
pub fn threads(pid: Pid) -> Result<Vec<Tid>, TargetError> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| TargetError::NoProcess(pid))?;
    let threads: Vec<Tid> =
        tasks.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Tid).collect();
    match threads.is_empty() {
        true => Err(TargetError::NoProcess(pid)),
        false => Ok(threads),
    }
}

/// All processes of the machine.
pub fn all_processes() -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid).collect()
}

/// A process and its descendants, the process first.
pub fn family(root: Pid) -> Vec<Pid> {
    families([root])
}

/// These processes and their descendants without duplicates; the processes first.
pub fn families(roots: impl IntoIterator<Item = Pid>) -> Vec<Pid> {
    let parents = all_processes().into_iter().filter_map(|pid| Some((pid, parent(pid)?)));
    descendants(roots, parents)
}

/// The parent of a running process.
pub fn parent(pid: Pid) -> Option<Pid> {
    parent_in_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether a process exists and is not a zombie.
pub fn runs(pid: Pid) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z')))
}

/// The fourth field of `/proc/PID/stat`. The second, the name, may hold anything, brackets and blanks included.
fn parent_in_stat(stat: &str) -> Option<Pid> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().map(Pid)
}

fn descendants(roots: impl IntoIterator<Item = Pid>, parents: impl Iterator<Item = (Pid, Pid)>) -> Vec<Pid> {
    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    for (pid, parent) in parents {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    found.extend(roots.into_iter().filter(|pid| seen.insert(*pid)));
    let mut next = 0;
    while next < found.len() {
        let below = children.remove(&found[next]).unwrap_or_default();
        found.extend(below.into_iter().filter(|pid| seen.insert(*pid)));
        next += 1;
    }
    found
}

/// The first process of a server: PostgreSQL's postmaster by its data folder, any server of `hardmeter server` by
/// its own folder. (Other MariaDB servers may keep their pid file anywhere: use `-p`.)
///
/// # Errors
///
/// [`TargetError`] if the folder holds no pid file, it may not be read, or it holds no process id.
pub fn server_process(folder: &Path) -> Result<Pid, TargetError> {
    let no_server = |source| TargetError::NoServer { folder: folder.to_path_buf(), source };
    // `hardmeter server` has a data folder inside the server's folder.
    let mut missing = None;
    let mut text = None;
    for name in ["postmaster.pid", "data/postmaster.pid", "data/hardmeter.pid"] {
        let file = folder.join(name);
        match std::fs::read_to_string(&file) {
            Ok(read) => {
                text = Some(read);
                break;
            }
            // Only its owner can enter a data folder; other users cannot even see whether it exists.
            Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                return Err(TargetError::Unreadable { file, source });
            }
            Err(source) => missing = missing.or(Some(source)),
        }
    }
    let text = text.ok_or_else(|| no_server(missing.unwrap_or_else(|| io::ErrorKind::NotFound.into())))?;
    let pid = text.lines().next().and_then(|line| line.trim().parse().ok()).map(Pid).ok_or_else(|| {
        no_server(io::Error::new(io::ErrorKind::InvalidData, "its pid file holds no number"))
    })?;
    match Path::new(&format!("/proc/{pid}")).exists() {
        true => Ok(pid),
        false => Err(TargetError::DeadServer { folder: folder.to_path_buf(), pid }),
    }
}

/// The first process of the server in a cgroup: one whose parent runs another program.
pub fn server_in(cgroup: &Cgroup) -> Option<Pid> {
    let program = |pid: Pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let is_server = |pid: &Pid| {
        let own = program(*pid);
        let name = own.as_ref().and_then(|path| path.file_name()?.to_str());
        let known = name.is_some_and(|name| ["postgres", "mariadbd", "mysqld"].contains(&name));
        known && own != parent(*pid).and_then(program)
    };
    cgroup.processes().ok()?.into_iter().find(is_server)
}

/// Whether a target consists of PostgreSQL processes: by the program's name, which a process cannot change.
pub fn is_postgres(target: &Target) -> bool {
    let runs_it = |pid: Pid| {
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        program.file_name().is_some_and(|name| name == "postgres")
    };
    match target {
        Target::Server(folder) => server_process(folder).is_ok_and(runs_it),
        Target::Processes(processes) => processes.iter().any(|pid| runs_it(*pid)),
        Target::Cgroup(cgroup) => cgroup.processes().is_ok_and(|pids| pids.into_iter().any(runs_it)),
        Target::Command | Target::System => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_of_a_process_is_found_through_generations() {
        let parents = [(2, 1), (3, 2), (4, 2), (5, 4), (6, 1)].map(|(pid, parent)| (Pid(pid), Pid(parent)));
        let mut family = descendants([Pid(2)], parents.into_iter());
        assert_eq!(family.remove(0), Pid(2));
        family.sort();
        assert_eq!(family, [Pid(3), Pid(4), Pid(5)]);
        // One that is below another is listed once.
        let both = descendants([Pid(4), Pid(2)], parents.into_iter());
        assert_eq!(both, [Pid(4), Pid(2), Pid(5), Pid(3)]);
    }

    #[test]
    fn a_name_with_brackets_does_not_hide_the_parent() {
        assert_eq!(parent_in_stat("17 (a) b) (c) S 4 17 17 0"), Some(Pid(4)));
        assert_eq!(parent_in_stat("17 (a"), None);
    }

    #[test]
    fn this_process_has_this_thread_and_a_dead_one_none() {
        let own = Pid(std::process::id() as i32);
        assert!(threads(own).expect("runs").contains(&Tid(own.0)));
        let mut child = std::process::Command::new("true").spawn().expect("runs");
        let dead = Pid(child.id() as i32);
        child.wait().expect("ends");
        assert!(matches!(threads(dead), Err(TargetError::NoProcess(pid)) if pid == dead));
    }

    #[test]
    fn folders_without_a_live_server_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(server_process(folder.path()), Err(TargetError::NoServer { .. })));
        std::fs::write(folder.path().join("postmaster.pid"), "rubbish\n").expect("written");
        assert!(matches!(server_process(folder.path()), Err(TargetError::NoServer { .. })));
        let own = std::process::id();
        std::fs::write(folder.path().join("postmaster.pid"), format!("{own}\n/somewhere\n"))
            .expect("written");
        assert_eq!(server_process(folder.path()).expect("alive"), Pid(own as i32));
        std::fs::write(folder.path().join("postmaster.pid"), "2147483646\n").expect("written");
        assert!(matches!(server_process(folder.path()), Err(TargetError::DeadServer { .. })));
    }
}
