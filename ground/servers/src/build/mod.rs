//! Servers compiled from Debian's own source package, with line numbers, types and frame pointers.
//!
//! Distribution binaries are stripped: a profile of them has routines but no lines. This module compiles the same
//! source with the same patches as Debian does (`-O2`), plus `-g -fno-omit-frame-pointer`.
//!
//! ```text
//! CACHE/builds/postgres-15-debug/{bin,lib,share}   what was installed
//! CACHE/builds/postgres-15-debug/source            the source, where the line tables say it is
//! CACHE/builds/postgres-15-debug.log               what the tools printed
//! CACHE/builds/postgres-15-debug.unfinished/       while it is being made
//! ```
//!
//! apt works in a private folder: the machine's package lists and sources are not changed.

mod sources;

use crate::cluster::{in_words, Progress};
use crate::diagnose::diagnose;
use crate::engine::Engine;
use crate::error::{io_error, ServerError};
use crate::folders::{cache_folder, ServerFolder};
use crate::lock::FolderLock;
use crate::log::Log;
use crate::programs::Programs;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The programs to build and their options.
#[derive(Clone, Debug)]
pub struct Order {
    /// The kind of server.
    pub engine: Engine,
    /// Its major version.
    pub version: String,
    /// With line numbers, types and frame pointers.
    pub debug: bool,
    /// Number of parallel compilers; by default one per processor.
    pub jobs: Option<u32>,
}

/// Programs that a build needs, with their packages.
const TOOLS: [(&str, &str); 6] = [
    ("apt-get", "apt"),
    ("dpkg-source", "dpkg-dev"),
    ("gcc", "gcc"),
    ("make", "make"),
    ("perl", "perl"),
    ("patch", "patch"),
];

/// Builds the ordered programs, unless an earlier build exists; returns them. Takes some minutes.
///
/// # Errors
///
/// [`ServerError`] if a tool is missing, another process builds in the same folder, a download or a build step
/// fails.
pub fn build(order: &Order, progress: Progress) -> Result<Programs, ServerError> {
    let name = name(order)?;
    let builds = cache_folder().join("builds");
    let target = builds.join(&name);
    if let Some(programs) = Programs::at(order.engine, &target.join("bin")) {
        return Ok(programs);
    }
    require_tools(&std::env::var_os("PATH").unwrap_or_default())?;
    let work = builds.join(name.clone() + ".unfinished");
    fs::create_dir_all(&work).map_err(io_error("make", &work))?;
    let _lock = FolderLock::take(&ServerFolder::new(&work))?;
    empty(&work)?;
    let steps = Steps { log: Log::open(builds.join(name + ".log"))?, work: &work, progress };

    fetch(&steps, &order.version)?;
    let source = work.join("source");
    let jobs = order
        .jobs
        .map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |n| n as usize);
    let mut configure = Command::new("./configure");
    configure.arg(joined("--prefix=", &target)).args([
        "--without-readline",
        "--without-zlib",
        "--without-icu",
    ]);
    configure.env("CFLAGS", flags(order, &work, &target)).current_dir(&source);
    steps.run("configuring", &mut configure)?;
    let make = |what: &str, arguments: &[&OsStr]| {
        let mut make = Command::new("make");
        make.arg("--silent").arg(format!("--jobs={jobs}")).args(arguments).current_dir(&source);
        // The caller's make would pass on its flags and job slots.
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("MFLAGS");
        steps.run(what, &mut make)
    };
    // contrib too: pg_buffercache and pageinspect identify addresses in the buffer pool.
    for folder in [".", "contrib"].map(OsStr::new) {
        make("compiling", &[OsStr::new("-C"), folder, OsStr::new("all")])?;
    }
    let stage = work.join("stage");
    for folder in [".", "contrib"].map(OsStr::new) {
        make("installing", &[OsStr::new("-C"), folder, &joined("DESTDIR=", &stage), OsStr::new("install")])?;
    }
    progress("tidying up");
    let installed = stage.join(target.strip_prefix("/").unwrap_or(&target));
    for entry in fs::read_dir(&installed).map_err(io_error("read", &installed))?.flatten() {
        let to = work.join(entry.file_name());
        fs::rename(entry.path(), &to).map_err(io_error("write", &to))?;
    }
    for folder in [stage, work.join("apt")] {
        fs::remove_dir_all(&folder).map_err(io_error("remove", &folder))?;
    }
    remove_objects(&source);
    fs::rename(&work, &target).map_err(io_error("write", &target))?;
    Programs::at(order.engine, &target.join("bin")).ok_or_else(|| ServerError::Unsupported {
        what: format!("{} was built but does not report its version", target.display()),
        remedy: "remove that folder and build again".into(),
    })
}

/// The folder's name of an order, if it is one that can be built.
fn name(order: &Order) -> Result<String, ServerError> {
    if order.engine != Engine::Postgres {
        return Err(ServerError::Unsupported {
            what: format!("{} cannot be built yet", order.engine.title()),
            remedy: format!("apt-get install {}", order.engine.ways().package(None)),
        });
    }
    if order.version.is_empty() || !order.version.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ServerError::Unsupported {
            what: format!("'{}' is not a major version of {}", order.version, order.engine.title()),
            remedy: "name one that Debian has, for example --version 15".into(),
        });
    }
    let suffix = if order.debug { "-debug" } else { "" };
    Ok(format!("{}-{}{suffix}", order.engine.name(), order.version))
}

/// Flags of the compiler. Line tables name the final folder, not the one in which the build happens to run.
fn flags(order: &Order, work: &Path, target: &Path) -> String {
    let mut flags = "-O2".to_owned();
    if order.debug {
        flags += " -g -fno-omit-frame-pointer";
    }
    flags + &format!(" -ffile-prefix-map={}={}", work.display(), target.display())
}

/// Gets Debian's source package, checked by its signature, and unpacks it with its patches into `source`.
fn fetch(steps: &Steps, version: &str) -> Result<(), ServerError> {
    let apt = steps.work.join("apt");
    let parts = apt.join("sources.list.d");
    for folder in ["sources.list.d", "state/lists/partial", "cache/archives/partial"] {
        let folder = apt.join(folder);
        fs::create_dir_all(&folder).map_err(io_error("make", &folder))?;
    }
    if write_source_lists(&parts)? == 0 {
        return Err(ServerError::Unsupported {
            what: "no package list of Debian was found in /etc/apt".into(),
            remedy:
                "building works on Debian; elsewhere compile the server yourself and name it with --programs"
                    .into(),
        });
    }
    let apt_tool = |tool: &str| {
        let mut command = Command::new(tool);
        for (name, value) in [
            ("Dir::Etc::SourceParts", parts.as_path()),
            ("Dir::Etc::SourceList", Path::new("/dev/null")),
            ("Dir::State", &apt.join("state")),
            ("Dir::State::status", Path::new("/var/lib/dpkg/status")),
            ("Dir::Cache", &apt.join("cache")),
        ] {
            command.arg("-o").arg(joined(&format!("{name}="), value));
        }
        // apt's sandbox account cannot enter this folder.
        command.args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "-q"]);
        command.current_dir(steps.work);
        command
    };
    steps.run("reading the source lists", apt_tool("apt-get").arg("update"))?;
    let package = format!("postgresql-{version}");
    let listed = apt_tool("apt-cache").args(["showsrc", &package]).output();
    let listed = listed.map_err(io_error("run", "apt-cache"))?;
    let versions = sources::versions(&String::from_utf8_lossy(&listed.stdout));
    if versions.is_empty() {
        return Err(ServerError::Unsupported {
            what: format!("Debian has no source package {package} for this release"),
            remedy: "name a version that it has (15 for Debian 12)".into(),
        });
    }
    // Newest first. A mirror may list a version without having its files.
    first_success(versions.iter().map(|version| {
        let wanted = format!("{package}={version}");
        let what = format!("fetching the source of {wanted}");
        steps.run(&what, apt_tool("apt-get").args(["source", "--only-source", &wanted]))
    }))?;
    let unpacked =
        fs::read_dir(steps.work).map_err(io_error("read", steps.work))?.flatten().map(|entry| entry.path());
    let source = unpacked
        .filter(|path| {
            path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&package))
        })
        .max();
    let target = steps.work.join("source");
    let source = source.ok_or_else(|| ServerError::Unsupported {
        what: format!("apt-get brought no source of {package}"),
        remedy: "see the log beside the build".into(),
    })?;
    fs::rename(&source, &target).map_err(io_error("write", &target))?;
    for entry in fs::read_dir(steps.work).map_err(io_error("read", steps.work))?.flatten() {
        if entry.path().is_file() {
            let _ = fs::remove_file(entry.path()); // an archive; a remaining one is harmless
        }
    }
    Ok(())
}

/// The first successful attempt; if all fail, the first error. There is at least one attempt.
fn first_success<T, E>(mut attempts: impl Iterator<Item = Result<T, E>>) -> Result<T, E> {
    let first = attempts.next().expect("at least one attempt");
    first.or_else(|error| attempts.find_map(Result::ok).ok_or(error))
}

/// Writes source lists derived from the machine's own into `parts`; returns their number.
fn write_source_lists(parts: &Path) -> Result<usize, ServerError> {
    let dropped_in =
        fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut written = 0;
    for path in dropped_in.chain([PathBuf::from("/etc/apt/sources.list")]) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let (text, extension) = match path.extension().and_then(OsStr::to_str) {
            Some("list") => (sources::of_lines(&text), "list"),
            Some("sources") => (sources::of_stanzas(&text), "sources"),
            _ => continue,
        };
        if text.is_empty() {
            continue;
        }
        written += 1;
        let copy = parts.join(format!("{written}.{extension}"));
        fs::write(&copy, text).map_err(io_error("write", &copy))?;
    }
    Ok(written)
}

fn require_tools(path: &OsStr) -> Result<(), ServerError> {
    let is_there = |tool: &str| std::env::split_paths(path).any(|folder| folder.join(tool).is_file());
    let missing: Vec<_> = TOOLS.iter().filter(|(tool, _)| !is_there(tool)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = |pick: fn(&(&'static str, &'static str)) -> &'static str| {
        missing.iter().map(|tool| pick(tool)).collect::<Vec<_>>()
    };
    Err(ServerError::Unsupported {
        what: format!("building a server needs {}", list(|tool| tool.0).join(", ")),
        remedy: format!("apt-get install {}", list(|tool| tool.1).join(" ")),
    })
}

/// The steps of a build: they share its log and report their duration.
struct Steps<'a> {
    log: Log,
    work: &'a Path,
    progress: Progress<'a>,
}

impl Steps<'_> {
    fn run(&self, what: &str, command: &mut Command) -> Result<(), ServerError> {
        command.env("LC_ALL", "C.UTF-8").env("DEBIAN_FRONTEND", "noninteractive");
        command.stdin(Stdio::null()).stdout(self.log.writer()?).stderr(self.log.writer()?);
        let mut child = command.spawn().map_err(io_error("run", command.get_program()))?;
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(io_error("wait for", command.get_program()))? {
                break status;
            }
            (self.progress)(&format!("{what}, {} s", started.elapsed().as_secs()));
            std::thread::sleep(Duration::from_millis(200));
        };
        if status.success() {
            return Ok(());
        }
        let log = self.log.tail();
        let remedy = diagnose(&log).unwrap_or_else(|| match what.contains("source") {
            true => "check the network, and Debian's mirror in /etc/apt".into(),
            false => format!("the whole log is {}", self.log.path().display()),
        });
        Err(ServerError::Failed { what: what.to_owned(), status: in_words(status), log, remedy })
    }
}

fn empty(folder: &Path) -> Result<(), ServerError> {
    for entry in fs::read_dir(folder).map_err(io_error("read", folder))?.flatten() {
        let path = entry.path();
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
            .map_err(io_error("remove", &path))?;
    }
    Ok(())
}

/// Removes object files after the build: half a gigabyte.
fn remove_objects(folder: &Path) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.is_symlink() {
            remove_objects(&path);
        } else if path.extension().is_some_and(|end| end == "o" || end == "a") {
            let _ = fs::remove_file(path); // a remaining file is harmless
        }
    }
}

fn joined(before: &str, path: &Path) -> std::ffi::OsString {
    crate::engine::joined(before, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(version: &str) -> Order {
        Order { engine: Engine::Postgres, version: version.into(), debug: true, jobs: None }
    }

    #[test]
    fn a_build_is_named_by_what_it_is() {
        assert_eq!(name(&order("15")).unwrap(), "postgres-15-debug");
        for bad in ["", "15.20", "../15", "15 -o x"] {
            assert!(name(&order(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn line_tables_name_the_final_folder() {
        assert_eq!(
            flags(&order("15"), Path::new("/c/x.unfinished"), Path::new("/c/x")),
            "-O2 -g -fno-omit-frame-pointer -ffile-prefix-map=/c/x.unfinished=/c/x"
        );
    }

    #[test]
    fn attempts_go_on_until_one_succeeds() {
        assert_eq!(first_success([Err("newest"), Ok(2), Ok(1)].into_iter()), Ok(2));
        assert_eq!(first_success::<(), _>([Err("newest"), Err("older")].into_iter()), Err("newest"));
    }

    #[test]
    fn missing_tools_are_listed_with_their_packages() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("make"), "").unwrap();
        let error = require_tools(folder.path().as_os_str()).unwrap_err();
        assert!(!error.to_string().contains("make"), "{error}");
        assert_eq!(error.remedy(), "apt-get install apt dpkg-dev gcc perl patch");
    }
}
