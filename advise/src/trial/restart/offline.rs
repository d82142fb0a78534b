//! The file of ALTER SYSTEM, `postgresql.auto.conf`, while its server does not run.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{fchown, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Replaces the line that sets `name` to `value` by one of `prior`, or removes it. Other lines stay as they are.
pub(super) fn write_back(data: &Path, name: &str, value: &str, prior: Option<&str>) -> io::Result<()> {
    let path = data.join("postgresql.auto.conf");
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text?,
    };
    let before = without(&text, name, value, prior);
    if before == text {
        return Ok(());
    }
    let (beside, owner) = (data.join("postgresql.auto.conf.hardmeter"), fs::metadata(&path)?);
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(owner.mode() & 0o777).open(&beside)?;
    fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    file.write_all(before.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, &path)?;
    File::open(data)?.sync_all()
}

fn without(text: &str, name: &str, value: &str, prior: Option<&str>) -> String {
    let line = |value: &str| format!("{name} = '{}'", value.replace('\'', "''"));
    let (ours, before) = (line(value), prior.map(line));
    let mut lines = Vec::new();
    for one in text.lines() {
        match (one.trim() == ours, &before) {
            (true, Some(before)) => lines.push(before.as_str()),
            (true, None) => {}
            (false, _) => lines.push(one),
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_line_of_the_trial_is_written_back() {
        let text = "# by ALTER SYSTEM\nwork_mem = '5MB'\nshared_buffers = '9TB'\n";
        assert_eq!(without(text, "shared_buffers", "9TB", None), "# by ALTER SYSTEM\nwork_mem = '5MB'\n");
        let prior = without(text, "shared_buffers", "9TB", Some("64MB"));
        assert_eq!(prior, "# by ALTER SYSTEM\nwork_mem = '5MB'\nshared_buffers = '64MB'\n");
        assert_eq!(without(text, "shared_buffers", "1GB", None), text, "a line of another session");
    }

    #[test]
    fn the_file_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        write_back(folder.path(), "wal_buffers", "1MB", None).unwrap();
        let path = folder.path().join("postgresql.auto.conf");
        fs::write(&path, "wal_buffers = '1MB'\njit = 'it''s'\n").unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        write_back(folder.path(), "wal_buffers", "1MB", None).unwrap();
        write_back(folder.path(), "jit", "it's", Some("on")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "jit = 'on'\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}
