//! Logs of servers and compilers, quoted in errors.

use crate::error::{io_error, ServerError};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Maximum number of quoted lines.
const QUOTED_LINES: usize = 8;
/// Maximum distance from the end in which they are searched.
const QUOTED_BYTES: u64 = 16 * 1024;

/// The log of one run: the part that is appended from now on.
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    before: u64,
}

impl Log {
    /// Opens the log for appending; existing contents belong to earlier runs.
    pub fn open(path: PathBuf) -> Result<Log, ServerError> {
        let mut options = OpenOptions::new();
        // The folder is Hardmeter's, but root must not follow a link placed there.
        options.create(true).append(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
        let open = || options.open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (before, file) = open().map_err(io_error("open", &path))?;
        Ok(Log { path, file, before })
    }

    /// An end for a child to write into.
    pub fn writer(&self) -> Result<Stdio, ServerError> {
        self.file.try_clone().map(Stdio::from).map_err(io_error("open", &self.path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length before this run.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// The last lines of this run.
    pub fn tail(&self) -> String {
        tail(&self.path, self.before)
    }
}

/// The last lines of a log after byte `from`. An unreadable log has none.
pub(crate) fn tail(path: &Path, from: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(length.saturating_sub(QUOTED_BYTES))))?;
        let mut bytes = Vec::new();
        file.take(QUOTED_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    last_lines(&String::from_utf8_lossy(&read().unwrap_or_default()))
}

/// The last non-empty lines of a text.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_of_this_run_and_short() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("log");
        std::fs::write(&path, "earlier\nearlier\nnow\n\nlast\n").unwrap();
        assert_eq!(tail(&path, 16), "now\nlast");
        let many: String = (0..5000).map(|number| format!("line {number}\n")).collect();
        std::fs::write(&path, many).unwrap();
        let lines = tail(&path, 0);
        assert_eq!(lines.lines().count(), QUOTED_LINES);
        assert!(lines.ends_with("line 4999"));
        assert_eq!(tail(&temporary.path().join("none"), 0), "");
    }
}
