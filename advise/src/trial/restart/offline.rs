//! The file of ALTER SYSTEM, `postgresql.auto.conf`, while its server does not run.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{fchown, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Replaces the line that sets `name` to `value` by one of `prior`, or removes it. Other lines stay as they are, in any
/// encoding.
///
/// The server's account can write to the folder, and this may run as root: the folder stays the same one, and no link
/// in it is followed.
pub(super) fn write_back(data: &Path, name: &str, value: &str, prior: Option<&str>) -> io::Result<()> {
    let folder = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(data)?;
    let data = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    let (path, beside) = (data.join("postgresql.auto.conf"), data.join("postgresql.auto.conf.hardmeter"));
    // A pipe in its place does not block.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = match File::options().read(true).custom_flags(flags).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let (found, mut text) = (file.metadata()?, Vec::new());
    file.read_to_end(&mut text)?;
    let before = without(&text, name, value, prior);
    if before == text {
        return Ok(());
    }
    match fs::remove_file(&beside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    let mut create = File::options();
    create.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = create.open(&beside)?;
    file.write_all(&before)?;
    fchown(&file, Some(found.uid()), Some(found.gid()))?;
    file.set_permissions(Permissions::from_mode(found.mode() & 0o777))?;
    file.sync_all()?;
    fs::rename(&beside, &path)?;
    folder.sync_all()
}

fn without(text: &[u8], name: &str, value: &str, prior: Option<&str>) -> Vec<u8> {
    let line = |value: &str| format!("{name} = '{}'", value.replace('\'', "''"));
    let (ours, before) = (line(value), prior.map_or_else(String::new, |prior| line(prior) + "\n"));
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let kept = lines.map(|one| if one.trim_ascii() == ours.as_bytes() { before.as_bytes() } else { one });
    kept.collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_the_line_of_the_trial_is_written_back() {
        let text = b"# by ALTER SYSTEM\ncluster_name = 'Z\xfcrich'\nshared_buffers = '9TB'\n";
        let rest = b"# by ALTER SYSTEM\ncluster_name = 'Z\xfcrich'\n";
        assert_eq!(without(text, "shared_buffers", "9TB", None), rest, "bytes that are not UTF-8 stay");
        let prior = without(text, "shared_buffers", "9TB", Some("64MB"));
        assert_eq!(prior, [&rest[..], b"shared_buffers = '64MB'\n"].concat());
        assert_eq!(without(text, "shared_buffers", "1GB", None), text, "a line of another session");
    }

    #[test]
    fn the_file_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        write_back(folder.path(), "wal_buffers", "1MB", None).unwrap();
        let path = folder.path().join("postgresql.auto.conf");
        fs::write(&path, "wal_buffers = '1MB'\njit = 'it''s'\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        write_back(folder.path(), "wal_buffers", "1MB", None).unwrap();
        write_back(folder.path(), "jit", "it's", Some("on")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "jit = 'on'\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn links_in_the_folder_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (data, other) = (folder.path().join("data"), folder.path().join("other"));
        fs::create_dir(&data).unwrap();
        fs::write(&other, "wal_buffers = '1MB'\n").unwrap();
        let path = data.join("postgresql.auto.conf");
        symlink(&other, data.join("postgresql.auto.conf.hardmeter")).unwrap();
        fs::write(&path, "wal_buffers = '1MB'\n").unwrap();
        write_back(&data, "wal_buffers", "1MB", None).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        assert_eq!(fs::read_to_string(&other).unwrap(), "wal_buffers = '1MB'\n");
        fs::remove_file(&path).unwrap();
        symlink(&other, &path).unwrap();
        let refused = write_back(&data, "wal_buffers", "1MB", None).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ELOOP));
        assert_eq!(fs::read_to_string(&other).unwrap(), "wal_buffers = '1MB'\n");
    }
}
