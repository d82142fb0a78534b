//! Writing a result file: complete under its final name, or not there at all.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a file through `write`. The bytes go to a temporary name beside it, which is renamed at the end; on any
/// error it is removed, and an older file of the final name stays as it was.
pub fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // A device or pipe (/dev/stdout, a named pipe) is not replaced but written to.
    if path.exists() && !path.is_file() {
        let mut writer = BufWriter::new(File::options().write(true).open(path)?);
        write(&mut writer)?;
        return writer.flush();
    }
    let temporary = temporary_name(path);
    let result = write_and_sync(&temporary, write).and_then(|()| std::fs::rename(&temporary, path));
    if result.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

fn write_and_sync(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut writer = BufWriter::new(File::create(path)?);
    write(&mut writer)?;
    writer.into_inner().map_err(|error| error.into_error())?.sync_data()
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        write_file(&path, |writer| writer.write_all(b"old")).unwrap();
        let failed = write_file(&path, |writer| {
            writer.write_all(b"half")?;
            Err(io::Error::other("disk full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "disk full");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
