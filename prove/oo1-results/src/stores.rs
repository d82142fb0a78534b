//! Graphs and stores, created once and kept: recreated if their program has changed.
//!
//! ```text
//! FOLDER/lock
//! FOLDER/20000-local-1/graph, graph.made                  the graph, and by which program
//! FOLDER/20000-local-1/oo1/texas/store/, made             a mode's store, with its program and graph
//! ```
//!
//! Unfinished stores have another name: an interrupted run leaves no seemingly finished store.

use crate::error::{io_error, Oo1Error};
use crate::order::{Graph, Layout};
use crate::process::Runner;
use crate::programs::Programs;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum size of a part on disk in bytes, in the graph and in one mode's store: SQLite's four rows and three
/// indexes.
const GRAPH_BYTES: u64 = 100;
const STORE_BYTES: u64 = 500;

/// The folder of graphs and stores; locked against other processes.
#[derive(Debug)]
pub struct Stores {
    folder: PathBuf,
    lock: File,
}

impl Stores {
    /// Opens the folder, and makes it if there is none.
    ///
    /// # Errors
    ///
    /// [`Oo1Error::Busy`] if another process uses the folder; [`Oo1Error`] if it cannot be made.
    pub fn open(folder: &Path) -> Result<Stores, Oo1Error> {
        fs::create_dir_all(folder).map_err(io_error("make the folder", folder))?;
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(io_error("write", &path))?;
        // SAFETY: the descriptor is open as long as `lock` lives.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(Oo1Error::Busy { folder: folder.into() });
        }
        Ok(Stores { folder: folder.into(), lock })
    }

    /// Removes all stores; returns how many bytes that freed.
    ///
    /// # Errors
    ///
    /// [`Oo1Error`] if a file cannot be removed.
    pub fn clear(&self) -> Result<u64, Oo1Error> {
        let mut bytes = 0;
        for entry in fs::read_dir(&self.folder).map_err(io_error("list", &self.folder))?.flatten() {
            if entry.path().is_dir() {
                bytes += size(&entry.path());
                remove(&entry.path())?;
            }
        }
        Ok(bytes)
    }

    /// Checks that the stores of these graphs and modes fit on the disk.
    ///
    /// # Errors
    ///
    /// [`Oo1Error::NoRoom`] with the space needed and the space left.
    pub fn check_room(&self, stores: &[(Graph, Layout, String)]) -> Result<(), Oo1Error> {
        let missing = stores
            .iter()
            .filter(|(graph, layout, mode)| !self.store_folder(graph, *layout, mode).join("store").exists());
        let mut needed = missing.map(|(graph, ..)| graph.parts * STORE_BYTES).sum::<u64>();
        let mut graphs: Vec<&Graph> = stores.iter().map(|(graph, ..)| graph).collect();
        graphs.dedup();
        let absent = graphs.iter().filter(|graph| !self.graph_folder(graph).join("graph").exists());
        needed += absent.map(|graph| graph.parts * GRAPH_BYTES).sum::<u64>();
        let free = free_bytes(&self.folder).map_err(io_error("look for room in", &self.folder))?;
        if needed > free {
            let folder = self.folder.clone();
            return Err(Oo1Error::NoRoom { folder, needed: needed >> 20, free: free >> 20 });
        }
        Ok(())
    }

    /// The file of a graph; created if it is missing.
    pub(crate) fn graph(
        &self,
        graph: &Graph,
        programs: &Programs,
        runner: &Runner,
    ) -> Result<PathBuf, Oo1Error> {
        let folder = self.graph_folder(graph);
        let (path, stamp) = (folder.join("graph"), folder.join("graph.made"));
        let made = identity(&programs.generator(), None)?;
        if path.exists() && holds(&stamp, &made) {
            return Ok(path);
        }
        remove(&folder)?;
        fs::create_dir_all(&folder).map_err(io_error("make the folder", &folder))?;
        let new = folder.join("graph.new");
        let locality = if graph.locality { "yes" } else { "no" };
        let mut arguments: Vec<OsString> = vec!["--parts".into(), graph.parts.to_string().into()];
        arguments.extend([
            "--locality".into(),
            locality.into(),
            "--seed".into(),
            graph.seed.to_string().into(),
        ]);
        arguments.push(new.clone().into());
        runner.run(&programs.generator(), &arguments, "making the graph")?;
        fs::rename(&new, &path).map_err(io_error("rename", &new))?;
        fs::write(&stamp, made).map_err(io_error("write", &stamp))?;
        Ok(path)
    }

    /// The store of a mode; loaded if it is missing.
    pub(crate) fn store(
        &self,
        graph: &Graph,
        layout: Layout,
        mode: &str,
        programs: &Programs,
        runner: &Runner,
    ) -> Result<PathBuf, Oo1Error> {
        let file = self.graph(graph, programs, runner)?;
        let folder = self.store_folder(graph, layout, mode);
        let (path, stamp) = (folder.join("store"), folder.join("made"));
        let program = programs.of_mode(mode);
        let made = identity(&program, Some(&file))?;
        if path.exists() && holds(&stamp, &made) {
            self.tidy(&folder)?;
            return Ok(path);
        }
        remove(&folder)?;
        fs::create_dir_all(&folder).map_err(io_error("make the folder", &folder))?;
        let new = folder.join("store.new");
        let arguments =
            ["load".into(), file.into(), new.clone().into(), "--layout".into(), layout.name().into()];
        let loaded = runner.run(&program, &arguments, &format!("loading the store of {mode}"));
        if let Err(error) = loaded {
            remove(&folder)?;
            return Err(error);
        }
        fs::rename(&new, &path).map_err(io_error("rename", &new))?;
        fs::write(&stamp, made).map_err(io_error("write", &stamp))?;
        Ok(path)
    }

    /// Removes the remains of a killed program.
    fn tidy(&self, folder: &Path) -> Result<(), Oo1Error> {
        for entry in fs::read_dir(folder).map_err(io_error("list", folder))?.flatten() {
            if entry.file_name() != "store" && entry.file_name() != "made" {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn graph_folder(&self, graph: &Graph) -> PathBuf {
        let locality = if graph.locality { "local" } else { "random" };
        self.folder.join(format!("{}-{locality}-{}", graph.parts, graph.seed))
    }

    fn store_folder(&self, graph: &Graph, layout: Layout, mode: &str) -> PathBuf {
        self.graph_folder(graph).join(layout.name()).join(mode)
    }
}

/// A hash of a program and its graph, which changes when they are rebuilt.
fn identity(program: &Path, graph: Option<&Path>) -> Result<String, Oo1Error> {
    let mut text = String::new();
    for path in [Some(program), graph].into_iter().flatten() {
        let metadata = fs::metadata(path).map_err(io_error("look at", path))?;
        let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
        text += &format!("{} {} {seconds}.{nanoseconds:09}\n", path.display(), metadata.len());
    }
    Ok(text)
}

fn holds(stamp: &Path, text: &str) -> bool {
    fs::read_to_string(stamp).is_ok_and(|found| found == text)
}

fn remove(path: &Path) -> Result<(), Oo1Error> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Bytes of all files below a folder.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

fn free_bytes(folder: &Path) -> std::io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).map_err(std::io::Error::other)?;
    // SAFETY: the structure is the kernel's to fill; zeros are a valid one.
    unsafe {
        let mut told: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(path.as_ptr(), &mut told) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(told.f_bavail as u64 * told.f_frsize as u64)
    }
}

/// Unlocked explicitly, not by closing: a child that another thread has just forked shares the open file until its
/// `exec`, and would keep the lock.
impl Drop for Stores {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open for as long as `self` lives.
        unsafe { libc::flock(self.lock.as_raw_fd(), libc::LOCK_UN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Stop;
    use std::process::Command;
    use std::time::Duration;

    const GRAPH: Graph = Graph { parts: 100, locality: true, seed: 1 };

    /// A shell writes it: a file that this process has open for writing is open in a child that another test has just
    /// forked, too, and cannot be executed until that child's `exec`.
    fn program(folder: &Path, name: &str, script: &str) {
        let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod 755 "$2""#;
        let mut shell = Command::new("sh");
        shell.args(["-c", write, "sh", script]).arg(folder.join(name));
        assert!(shell.status().unwrap().success());
    }

    fn counted(folder: &Path) -> usize {
        fs::read_to_string(folder.join("log")).unwrap_or_default().lines().count()
    }

    #[test]
    fn a_store_is_made_once_and_anew_by_another_program() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log").display().to_string();
        program(
            folder.path(),
            "oo1-generate",
            &format!("for last; do :; done; echo g >> {log}; echo 1 > \"$last\"; echo '{{}}'"),
        );
        program(folder.path(), "oo1-plain", &format!("echo l >> {log}; mkdir \"$3\"; echo '{{}}'"));
        let programs = Programs::in_folder(folder.path()).unwrap();
        let runner = Runner { stop: Stop::new(), timeout: Duration::from_secs(60) };
        let stores = Stores::open(&folder.path().join("stores")).unwrap();
        let make = || stores.store(&GRAPH, Layout::Oo1, "plain", &programs, &runner);
        let path = make().unwrap();
        assert!(path.ends_with("100-local-1/oo1/plain/store"), "{}", path.display());
        assert_eq!((counted(folder.path()), path.is_dir()), (2, true), "one graph, one load");
        fs::create_dir(path.with_file_name("store.copy")).unwrap();
        make().unwrap();
        assert_eq!(counted(folder.path()), 2, "both are kept");
        assert!(!path.with_file_name("store.copy").exists(), "what was left beside is gone");
        program(folder.path(), "oo1-plain", &format!("echo another >> {log}; mkdir \"$3\"; echo '{{}}'"));
        make().unwrap();
        assert_eq!(counted(folder.path()), 3, "another program, another store");
        program(folder.path(), "oo1-plain", "mkdir \"$3\"; echo 'disk full' >&2; exit 1");
        let error = make().unwrap_err();
        assert_eq!(error.to_string(), "loading the store of plain failed: disk full");
        assert!(!path.exists() && !path.with_file_name("store.new").exists(), "nothing half made");
        assert!(stores.clear().unwrap() > 0);
        assert!(!folder.path().join("stores/100-local-1").exists());
    }

    #[test]
    fn a_folder_has_one_user_and_room() {
        let folder = tempfile::tempdir().unwrap();
        let stores = Stores::open(folder.path()).unwrap();
        assert!(matches!(Stores::open(folder.path()), Err(Oo1Error::Busy { .. })));
        stores.check_room(&[(GRAPH, Layout::Oo1, "plain".into())]).unwrap();
        let huge = Graph { parts: 1 << 50, ..GRAPH };
        let error = stores.check_room(&[(huge, Layout::Oo1, "plain".into())]).unwrap_err();
        assert!(matches!(error, Oo1Error::NoRoom { .. }), "{error}");
        let forked = stores.lock.try_clone().unwrap();
        drop(stores);
        Stores::open(folder.path()).unwrap();
        drop(forked);
    }
}
