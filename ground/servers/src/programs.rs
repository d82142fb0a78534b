//! Locates a server's programs and determines their version.

use crate::engine::Engine;
use crate::error::ServerError;
use crate::folders::cache_folder;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs of one installed or built server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// The kind of server.
    pub engine: Engine,
    /// The folder of the server's own program.
    pub folder: PathBuf,
    /// The version in full, for example `15.20`.
    pub version: String,
}

/// Which programs to use; by default the newest found.
#[derive(Clone, Debug, Default)]
pub struct ProgramsWanted {
    /// A version or a prefix of one: `15` is any 15.
    pub version: Option<String>,
    /// Only what `hardmeter server build --debug` made.
    pub debug: bool,
    /// Only this folder.
    pub folder: Option<PathBuf>,
}

impl Programs {
    /// Finds the requested programs: in the given folder, or the distribution's, those on PATH and those built by
    /// Hardmeter.
    ///
    /// # Errors
    ///
    /// [`ServerError::ProgramsMissing`] or [`ServerError::VersionMissing`], with the package to install.
    pub fn find(engine: Engine, wanted: &ProgramsWanted) -> Result<Programs, ServerError> {
        let folders = folders(engine, wanted);
        let found = found_in(engine, &folders);
        if let Some(programs) = choose(&found, wanted.version.as_deref()) {
            return Ok(programs.clone());
        }
        let version = wanted.version.as_deref();
        let build = format!(
            "hardmeter server build {} --version {} --debug",
            engine.name(),
            version.and_then(|version| version.split('.').next()).unwrap_or("15")
        );
        if found.is_empty() && !wanted.debug {
            return Err(ServerError::ProgramsMissing {
                engine: engine.title(),
                searched: folders
                    .iter()
                    .map(|folder| folder.display().to_string())
                    .collect::<Vec<_>>()
                    .join(", "),
                package: engine.ways().package(version),
            });
        }
        let debug = if wanted.debug { " built with --debug" } else { "" };
        Err(ServerError::VersionMissing {
            engine: engine.title(),
            wanted: format!("{}{debug}", version.unwrap_or("of any version")),
            found: match found.is_empty() {
                true => "none".into(),
                false => found.iter().map(|programs| programs.version.clone()).collect::<Vec<_>>().join(", "),
            },
            remedy: match wanted.debug {
                true => build,
                false if engine == Engine::Postgres => {
                    format!("apt-get install {}, or: {build}", engine.ways().package(version))
                }
                false => format!("apt-get install {}", engine.ways().package(version)),
            },
        })
    }

    /// All programs of an engine that are on this machine.
    pub fn list(engine: Engine) -> Vec<Programs> {
        let mut folders = folders(engine, &ProgramsWanted::default());
        folders.extend(self::folders(engine, &ProgramsWanted { debug: true, ..ProgramsWanted::default() }));
        found_in(engine, &folders)
    }

    /// The programs in a folder that has the server's own, with its version.
    pub(crate) fn at(engine: Engine, folder: &Path) -> Option<Programs> {
        let program = folder.join(engine.ways().server_program());
        if !is_executable(&program) {
            return None;
        }
        let output = Command::new(&program).arg("--version").output().ok()?;
        let version = version_in(&String::from_utf8_lossy(&output.stdout))?;
        Some(Programs { engine, folder: folder.to_owned(), version })
    }

    /// The path of a program: in the server's folder, or in `bin` if that is `sbin`.
    pub fn path(&self, program: &str) -> PathBuf {
        let beside = self.folder.join(program);
        let in_bin = self.folder.with_file_name("bin").join(program);
        if !beside.exists() && in_bin.exists() {
            return in_bin;
        }
        beside
    }

    /// The server's plugin folder, by its own report; for MariaDB. `None` if it reports none.
    pub fn plugin_folder(&self) -> Option<PathBuf> {
        let program = self.folder.join(self.engine.ways().server_program());
        let output = Command::new(program).args(["--no-defaults", "--verbose", "--help"]).output().ok()?;
        plugin_folder_in(&String::from_utf8_lossy(&output.stdout))
    }

    /// The part of the version that determines compatibility of data folders: `15` of PostgreSQL 15.20.
    pub fn data_version(&self) -> String {
        let parts = if self.engine == Engine::Postgres { 1 } else { 2 };
        self.version.split('.').take(parts).collect::<Vec<_>>().join(".")
    }
}

/// The value of `plugin-dir` in the list of variables that ends the server's help.
fn plugin_folder_in(help: &str) -> Option<PathBuf> {
    let value = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        (name == "plugin-dir").then(|| PathBuf::from(value.trim()))
    };
    help.lines().rev().find_map(value)
}

/// Folders to look into, best first.
fn folders(engine: Engine, wanted: &ProgramsWanted) -> Vec<PathBuf> {
    if let Some(folder) = &wanted.folder {
        return vec![folder.clone()];
    }
    let builds = || {
        let entries = fs::read_dir(cache_folder().join("builds")).into_iter().flatten().flatten();
        let mut names: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        names.retain(|path| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or("");
            name.starts_with(&format!("{}-", engine.name()))
                && !name.ends_with(".unfinished")
                && name.ends_with("-debug") == wanted.debug
        });
        names.sort();
        names.into_iter().map(|name| name.join("bin"))
    };
    if wanted.debug {
        return builds().collect();
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    engine.ways().usual_folders().into_iter().chain(std::env::split_paths(&on_path)).chain(builds()).collect()
}

/// The programs in these folders, each once, however many names it has.
fn found_in(engine: Engine, folders: &[PathBuf]) -> Vec<Programs> {
    let mut seen = HashSet::new();
    let program = engine.ways().server_program();
    let fresh = folders.iter().filter(|folder| match fs::canonicalize(folder.join(program)) {
        Ok(path) => seen.insert(path),
        Err(_) => false,
    });
    fresh.filter_map(|folder| Programs::at(engine, folder)).collect()
}

/// The newest of the requested version; among equals the first.
fn choose<'a>(found: &'a [Programs], version: Option<&str>) -> Option<&'a Programs> {
    let fits = |programs: &&Programs| version.is_none_or(|wanted| is_of_version(&programs.version, wanted));
    found.iter().filter(fits).min_by_key(|programs| Reverse(numbers(&programs.version)))
}

/// Whether `version` begins with the numbers of `wanted`.
fn is_of_version(version: &str, wanted: &str) -> bool {
    let mut parts = version.split('.');
    wanted.split('.').all(|part| parts.next() == Some(part))
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// The leading version number of the first word that begins with a digit: "10.11.19-MariaDB" is 10.11.19.
fn version_in(text: &str) -> Option<String> {
    let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    Some(word[..end].trim_end_matches('.').to_owned())
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(version: &str) -> Programs {
        Programs {
            engine: Engine::Postgres,
            folder: format!("/opt/{version}/bin").into(),
            version: version.into(),
        }
    }

    #[test]
    fn versions_are_read_from_what_servers_print() {
        let cases = [
            ("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)\n", "15.20"),
            ("postgres (PostgreSQL) 19devel\n", "19"),
            (
                "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)\n",
                "10.11.19",
            ),
        ];
        for (text, version) in cases {
            assert_eq!(version_in(text).as_deref(), Some(version));
        }
        assert_eq!(version_in("Segmentation fault"), None);
    }

    #[test]
    fn the_newest_of_the_version_wanted_is_chosen() {
        let found = [programs("9.6.1"), programs("15.3"), programs("15.20"), programs("14.9")];
        assert_eq!(choose(&found, None).unwrap().version, "15.20");
        assert_eq!(choose(&found, Some("14")).unwrap().version, "14.9");
        assert_eq!(choose(&found, Some("15.3")).unwrap().version, "15.3");
        assert!(choose(&found, Some("1")).is_none(), "1 is not the beginning of 15");
        assert!(choose(&[], None).is_none());
    }

    #[test]
    fn missing_programs_say_which_package_brings_them() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = ProgramsWanted { folder: Some(folder.path().into()), ..ProgramsWanted::default() };
        let error = Programs::find(Engine::Postgres, &wanted).unwrap_err();
        assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
        assert_eq!(error.remedy(), "apt-get install postgresql-15");
    }
}
