//! The programs of `prove/oo1`: where they are, which modes they are.

use crate::error::{io_error, Oo1Error};
use crate::modes::{self, MODES};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The environment variable that names their folder.
pub const FOLDER_VARIABLE: &str = "HARDMETER_OO1";
const PREFIX: &str = "oo1-";
const GENERATOR: &str = "generate";

/// The folder of the programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
    modes: Vec<String>,
}

impl Programs {
    /// Finds the programs: those that the environment names, those installed beside this program, or those in the
    /// source tree.
    ///
    /// # Errors
    ///
    /// [`Oo1Error::NoPrograms`] with the folders that were searched.
    pub fn find() -> Result<Programs, Oo1Error> {
        let mut searched = Vec::new();
        if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
            searched.push(PathBuf::from(folder));
        } else if let Ok(own) = std::env::current_exe() {
            for ancestor in own.ancestors().skip(1).take(4) {
                searched.push(ancestor.join("libexec/hardmeter/oo1"));
                searched.push(ancestor.join("build/oo1"));
            }
        }
        let found = searched.iter().find(|folder| folder.join(PREFIX.to_owned() + GENERATOR).is_file());
        match found {
            Some(folder) => Programs::in_folder(folder),
            None => Err(Oo1Error::NoPrograms { searched }),
        }
    }

    /// Finds the programs in a folder: the modes of the table in its order, then others.
    ///
    /// # Errors
    ///
    /// [`Oo1Error`] if the folder cannot be listed.
    pub fn in_folder(folder: &Path) -> Result<Programs, Oo1Error> {
        let entries = std::fs::read_dir(folder).map_err(io_error("list", folder))?;
        let built: BTreeSet<String> = entries
            .flatten()
            .filter(|entry| is_program(&entry.path()))
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(PREFIX).map(str::to_owned))
            .filter(|name| name != GENERATOR)
            .collect();
        let known = MODES.iter().map(|mode| mode.name.to_owned()).filter(|name| built.contains(name));
        let others = built.iter().filter(|name| modes::find(name).is_none()).cloned();
        Ok(Programs { folder: folder.to_owned(), modes: known.chain(others).collect() })
    }

    /// Their folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The modes that are built.
    pub fn modes(&self) -> &[String] {
        &self.modes
    }

    /// The modes that are not, and why.
    pub fn missing(&self) -> Vec<(&'static str, String)> {
        let missing = MODES.iter().filter(|mode| !self.modes.iter().any(|name| name == mode.name));
        missing.map(|mode| (mode.name, self.why_not(mode.name, mode.needs))).collect()
    }

    /// CMake's reason for leaving out the mode (a line "MODE: reason" in not-built.txt); else its requirements.
    fn why_not(&self, mode: &str, needs: &str) -> String {
        let notes = std::fs::read_to_string(self.folder.join("not-built.txt")).unwrap_or_default();
        let noted = notes.lines().find_map(|line| line.strip_prefix(mode)?.strip_prefix(": "));
        noted.unwrap_or(needs).to_owned()
    }

    /// Checks that a mode has a program.
    ///
    /// # Errors
    ///
    /// [`Oo1Error::NotBuilt`] with the reason, or [`Oo1Error::UnknownMode`] with the modes that there are.
    pub fn require(&self, mode: &str) -> Result<(), Oo1Error> {
        if self.modes.iter().any(|built| built == mode) {
            return Ok(());
        }
        let mode = mode.to_owned();
        match modes::find(&mode) {
            Some(known) => Err(Oo1Error::NotBuilt { reason: self.why_not(known.name, known.needs), mode }),
            None => {
                let mut known = modes::names();
                for other in self.modes.iter().filter(|name| modes::find(name).is_none()) {
                    known += &format!(", {other}");
                }
                Err(Oo1Error::UnknownMode { mode, known })
            }
        }
    }

    /// The program of a mode.
    pub fn of_mode(&self, mode: &str) -> PathBuf {
        self.folder.join(format!("{PREFIX}{mode}"))
    }

    pub(crate) fn generator(&self) -> PathBuf {
        self.of_mode(GENERATOR)
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder_with(programs: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in programs {
            let path = folder.path().join(name);
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        folder
    }

    #[test]
    fn modes_come_in_the_order_of_the_table_and_others_behind() {
        let folder = folder_with(&["oo1-offset", "oo1-another", "oo1-generate", "oo1-plain"]);
        std::fs::write(folder.path().join("oo1-texas"), "not executable").unwrap();
        let programs = Programs::in_folder(folder.path()).unwrap();
        assert_eq!(programs.modes(), ["plain", "offset", "another"]);
        programs.require("another").unwrap();
        let error = programs.require("lmdb").unwrap_err().to_string();
        assert!(
            error.starts_with("the mode lmdb is not built here: ") && error.contains("liblmdb-dev"),
            "{error}"
        );
        let error = programs.require("odbms").unwrap_err().to_string();
        assert!(error.contains("unknown mode 'odbms'") && error.ends_with("pmemobj, another"), "{error}");
        assert_eq!(programs.missing().len(), MODES.len() - 2);
    }

    #[test]
    fn what_cmake_noted_comes_first() {
        let folder = folder_with(&["oo1-generate"]);
        std::fs::write(folder.path().join("not-built.txt"), "e-clang: x\ne: no compiler\n").unwrap();
        let programs = Programs::in_folder(folder.path()).unwrap();
        let missing = programs.missing();
        let reason = |mode: &str| missing.iter().find(|(name, _)| *name == mode).unwrap().1.clone();
        assert_eq!((reason("e").as_str(), reason("e-clang").as_str()), ("no compiler", "x"));
    }
}
