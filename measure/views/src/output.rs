//! Writes a result file atomically: complete under its final name, or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a file through `write`, and returns what that returns. The bytes go to a temporary file beside it,
/// which is renamed at the end; on any error it is removed, and an older file of the final name remains
/// unchanged.
///
/// # Errors
///
/// The error of `write`, or the system's if the file cannot be created or renamed.
pub fn write_file<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, E>,
) -> Result<T, E> {
    // A device or pipe (/dev/stdout, a named pipe) is not replaced but written to.
    if path.exists() && !path.is_file() {
        let mut writer = BufWriter::new(File::options().write(true).open(path)?);
        let value = write(&mut writer)?;
        writer.flush()?;
        return Ok(value);
    }
    let temporary = temporary_name(path);
    let result = write_and_sync(&temporary, write).and_then(|value| {
        std::fs::rename(&temporary, path)?;
        Ok(value)
    });
    if result.is_err() {
        // Report the first error.
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

fn write_and_sync<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, E>,
) -> Result<T, E> {
    let mut writer = BufWriter::new(File::create(path)?);
    let value = write(&mut writer)?;
    writer.into_inner().map_err(|error| error.into_error())?.sync_data()?;
    Ok(value)
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
            Err::<(), _>(io::Error::other("disk full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "disk full");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
