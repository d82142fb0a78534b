//! Libraries of extensions whose code is marked: those mapped by processes of the server, and those in the
//! folders that the server searches.
//!
//! A library may be loaded by the first process for all, by each backend as it starts, or by a `LOAD` in the
//! middle of a session; and a backend may be gone before it is checked. So the sizes of processes are read a few
//! times a second, the mappings of one whose size has changed, and every library in the server's folders is
//! treated as one that may be loaded.

use super::attach::Server;
use super::marks::{libraries, Mark};
use super::processes::belongs;
use crate::process_memory::{children_of, Mapping, ProcessMemory};
use crate::program::is_elf;
use hardmeter_samples::model::{Pid, VirtualAddress};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The found libraries.
#[derive(Debug, Default)]
pub(crate) struct Libraries {
    /// By their paths in the processes.
    found: BTreeMap<PathBuf, Vec<Mark>>,
    /// The time at which each process was examined, and its size in pages then.
    looked: HashMap<Pid, (Instant, Option<u64>)>,
    /// Libraries that could not be marked, with the reason.
    pub remarks: Vec<String>,
}

/// The minimum interval between two examinations of a process.
const PAUSE: Duration = Duration::from_millis(300);
/// Limit of processes per pass.
const MOST_PROCESSES: usize = 256;
/// Limit of marked libraries.
const MOST_LIBRARIES: usize = 16;
/// Limit of remembered times.
const MOST_TIMES: usize = 10_000;
/// Limit of paths and lists of paths.
const MOST_TEXT: usize = 4096;

impl Libraries {
    /// Libraries that the server has loaded, and those that it would find.
    pub fn of(server: &Server) -> Libraries {
        let mut libraries = Libraries::default();
        libraries.look_around(server);
        for path in places(server) {
            libraries.add(&path, &server.memory.file(&path));
        }
        libraries
    }

    /// Examines the first process and its children.
    pub fn look_around(&mut self, server: &Server) {
        let first = server.memory.pid();
        self.look_at(server, first);
        for pid in children_of(first).into_iter().take(MOST_PROCESSES) {
            self.look_at(server, pid);
        }
    }

    /// Reads the mappings of a process if it belongs to the server, was not read just before, and has another size: a
    /// library that was loaded makes it larger.
    pub fn look_at(&mut self, server: &Server, pid: Pid) {
        let before = self.looked.get(&pid).copied();
        if self.found.len() >= MOST_LIBRARIES || before.is_some_and(|(at, _)| at.elapsed() < PAUSE) {
            return;
        }
        if self.looked.len() >= MOST_TIMES {
            self.looked.clear();
        }
        let size = pages_of(pid);
        self.looked.insert(pid, (Instant::now(), size));
        if size.is_some() && before.is_some_and(|(_, before)| before == size) {
            return;
        }
        if !belongs(pid, server.memory.pid()) {
            return;
        }
        let Ok(memory) = ProcessMemory::open(pid) else { return };
        let Ok(mappings) = memory.mappings() else { return };
        for mapping in mappings.iter().filter(|mapping| mapping.executable) {
            let Some(path) = mapping.file().filter(|path| libraries::is_known(path)) else { continue };
            if !self.found.contains_key(path) {
                self.add(path, &file_of(&memory, mapping, path));
            }
        }
    }

    /// Marks a library; `file` is the path at which it can be read.
    fn add(&mut self, path: &Path, file: &Path) {
        if self.found.contains_key(path) || !is_elf(file) {
            return;
        }
        let marks = libraries::marks_of(path, file).unwrap_or_else(|error| {
            self.remarks.push(format!("operators of {} are not known: {error}", path.display()));
            Vec::new()
        });
        if marks.is_empty() && self.remarks.is_empty() {
            self.remarks.push(format!(
                "operators of {} are not known: it has neither debug information nor names of its static functions; \
                 install it without stripping it",
                path.display()
            ));
        }
        self.found.insert(path.to_owned(), marks);
    }

    /// Each library's path and marks.
    pub fn all(self) -> impl Iterator<Item = (PathBuf, Vec<Mark>)> {
        self.found.into_iter()
    }
}

/// Pages of a process's address space.
fn pages_of(pid: Pid) -> Option<u64> {
    fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split_whitespace().next()?.parse().ok()
}

/// The path at which the file of a mapping can be read: not its own path if another file has been put there.
fn file_of(memory: &ProcessMemory, mapping: &Mapping, path: &Path) -> PathBuf {
    if !mapping.name.ends_with(" (deleted)") {
        return memory.file(path);
    }
    let (start, end) = (mapping.start.0, mapping.end.0);
    PathBuf::from(format!("/proc/{}/map_files/{start:x}-{end:x}", memory.pid()))
}

/// The paths from which libraries with operators would be loaded, by the settings of the first process.
fn places(server: &Server) -> Vec<PathBuf> {
    let text = |address: Option<VirtualAddress>| {
        address.and_then(|address| server.memory.text(address, MOST_TEXT).ok()).unwrap_or_default()
    };
    let setting = |name: &str| {
        let variable = server.program.address(name);
        text(variable.and_then(|variable| server.memory.pointer(variable).ok()).filter(|text| text.0 != 0))
    };
    // An array, not a pointer.
    let own = text(server.program.address("pkglib_path"));
    let folders = setting("Dynamic_library_path");
    let mut paths: Vec<PathBuf> = folders
        .split(':')
        .chain(["$libdir"])
        .map(|folder| PathBuf::from(folder.replacen("$libdir", &own, 1)))
        .filter(|folder| folder.is_absolute())
        .flat_map(|folder| libraries::known().map(move |name| folder.join(name)))
        .collect();
    for list in ["shared_preload_libraries_string", "session_preload_libraries_string"] {
        let list = setting(list);
        let named = list.split(',').map(|name| name.trim().trim_matches('"').replacen("$libdir", &own, 1));
        paths.extend(named.filter(|name| name.starts_with('/')).map(|name| {
            let ending = if name.ends_with(".so") { "" } else { ".so" };
            PathBuf::from(name + ending)
        }));
    }
    // Mappings have the path with links resolved.
    let root = fs::canonicalize(server.memory.file(Path::new("/"))).unwrap_or_else(|_| PathBuf::from("/"));
    let real = |path: &PathBuf| {
        let whole = fs::canonicalize(server.memory.file(path)).ok()?;
        Some(Path::new("/").join(whole.strip_prefix(&root).ok()?))
    };
    let mut paths: Vec<PathBuf> =
        paths.iter().filter(|path| libraries::is_known(path)).filter_map(real).collect();
    paths.sort();
    paths.dedup();
    paths
}
