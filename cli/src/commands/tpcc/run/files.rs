//! The files of a run: errors in writing them are reported before the run.

use crate::commands::times::stamp;
use crate::commands::workload::writable;
use crate::commands::CommandError;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The files that a run writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    /// The result, to be read by programs.
    pub(super) json: PathBuf,
    /// The report.
    pub(super) html: PathBuf,
}

impl Files {
    /// Files of this name, or of a name with the time. Nothing is overwritten, unless allowed.
    pub(super) fn named(name: Option<&Path>, overwrite: bool) -> Result<Files, CommandError> {
        let name = match name {
            None => PathBuf::from(format!("tpcc-{}", stamp(SystemTime::now()))),
            // NAME.json stands for this pair of files.
            Some(path) if path.extension().is_some_and(|end| end == "json" || end == "html") => {
                path.with_extension("")
            }
            Some(path) => path.to_owned(),
        };
        let with = |end: &str| {
            let mut path = name.clone().into_os_string();
            path.push(end);
            PathBuf::from(path)
        };
        let files = Files { json: with(".json"), html: with(".html") };
        for path in [&files.json, &files.html] {
            may_be_written(path, overwrite)?;
        }
        Ok(files)
    }
}

/// Checks that a file can be created and does not exist yet: an error is better before an hour of measuring than
/// after it.
pub(super) fn may_be_written(path: &Path, overwrite: bool) -> Result<(), CommandError> {
    if path.exists() && !overwrite {
        return Err(CommandError::new(
            format!("{} is there already", path.display()),
            "name another file, or allow to overwrite it: --overwrite",
        ));
    }
    writable(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_of_files_is_named_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("first");
        let files = Files::named(Some(&name), false).unwrap();
        assert_eq!(files.json, folder.path().join("first.json"));
        assert_eq!(Files::named(Some(&files.html), false).unwrap(), files);
        std::fs::write(&files.html, "a report").unwrap();
        let error = Files::named(Some(&name), false).unwrap_err().to_string();
        assert!(error.contains("first.html is there already") && error.contains("--overwrite"), "{error}");
        assert_eq!(Files::named(Some(&name), true).unwrap(), files);
        let nowhere = folder.path().join("nowhere").join("name");
        let error = Files::named(Some(&nowhere), false).unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("nowhere/name.json"), "{error}");
        // A name with a point in it is a name.
        let files = Files::named(Some(&folder.path().join("v1.5")), false).unwrap();
        assert_eq!(files.json, folder.path().join("v1.5.json"));
    }
}
