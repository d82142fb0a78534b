//! The server of a copy: it is started for each block, with the settings of the block.

use super::super::TryError;
use super::original::{as_account, last_line, Ids, Original};
use super::place::{unusable, CopySetting};
use hardmeter_session::{Stop, Target};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The port in the name of its socket.
const PORT: u16 = 5432;
/// Time limit of the start, which includes recovery from the backup.
const START: Duration = Duration::from_secs(300);

/// The server of a copy.
pub(super) struct CopyServer {
    folder: PathBuf,
    program: PathBuf,
    account: Option<Ids>,
    flags: Vec<(String, String)>,
    running: Option<Child>,
}

/// Activities that are switched off on every copy.
const ALONE: [(&str, &str); 9] = [
    ("listen_addresses", ""),
    ("unix_socket_permissions", "0700"),
    ("archive_mode", "off"),
    ("cluster_name", "hardmeter copy"),
    ("logging_collector", "off"),
    ("log_destination", "stderr"),
    ("max_logical_replication_workers", "0"),
    ("ssl", "off"),
    ("synchronous_standby_names", ""),
];

impl CopyServer {
    /// Writes the configuration of a copy whose data are there.
    pub(super) fn prepare(original: &Original, folder: &Path) -> Result<CopyServer, TryError> {
        let failed = |error| unusable(folder, &error);
        let lines: String = original.settings.iter().map(|(name, value)| line(name, value)).collect();
        fs::write(folder.join("copy.conf"), lines).map_err(failed)?;
        // Only its account and root can enter the socket's folder.
        fs::write(folder.join("hba.conf"), "local all all trust\n").map_err(failed)?;
        // A copy of a standby is promoted to an independent server.
        for signal in ["standby.signal", "recovery.signal"] {
            let _ = fs::remove_file(folder.join("data").join(signal));
        }
        Ok(CopyServer {
            folder: folder.to_owned(),
            program: original.programs.join("postgres"),
            account: original.account,
            flags: original.flags.clone(),
            running: None,
        })
    }

    /// Opens a session, with the same role and database as on the server.
    pub(super) fn target(&self, original: &Target) -> Target {
        let user = original.config().get_user().unwrap_or("postgres");
        Target::socket(&self.folder.join("socket"), PORT, user, original.database())
    }

    /// Starts it with these settings besides those that the server has.
    pub(super) fn start(&mut self, settings: &[CopySetting], stop: &Stop) -> Result<(), TryError> {
        let log = OpenOptions::new().append(true).create(true).open(self.folder.join("log"));
        let log = log.map_err(|error| unusable(&self.folder, &error))?;
        let errors = log.try_clone().map_err(|error| unusable(&self.folder, &error))?;
        let mut command = Command::new(&self.program);
        command.arg("-D").arg(self.folder.join("data"));
        let mut flag = |name: &str, value: &str| {
            command.arg("-c").arg(format!("{name}={value}"));
        };
        for (name, value) in &self.flags {
            flag(name, value);
        }
        for (name, value) in ALONE {
            flag(name, value);
        }
        flag("port", &PORT.to_string());
        flag("config_file", &self.folder.join("copy.conf").to_string_lossy());
        flag("hba_file", &self.folder.join("hba.conf").to_string_lossy());
        flag("unix_socket_directories", &self.folder.join("socket").to_string_lossy());
        for setting in settings {
            flag(&setting.name, &setting.value);
        }
        // The parts of a copy's folder that its account may enter are data and socket.
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(log).stderr(errors);
        as_account(&mut command, self.account, libc::SIGQUIT);
        let child = command.spawn().map_err(|error| unusable(&self.program, &error))?;
        let pid = child.id().to_string();
        self.running = Some(child);
        let end = Instant::now() + START;
        loop {
            let exited = match &mut self.running {
                Some(child) => child.try_wait().map_or(true, |status| status.is_some()),
                None => true,
            };
            if exited || Instant::now() >= end {
                return Err(TryError::Copy {
                    what: format!(
                        "the copy does not start: {}",
                        last_line(&self.folder).unwrap_or_else(|| "it said nothing".into())
                    ),
                    remedy: "name a value with which the server starts".into(),
                });
            }
            if stop.asked() {
                return Err(TryError::Interrupted);
            }
            let text = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap_or_default();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            if lines.first() == Some(&pid.as_str()) && lines.get(7) == Some(&"ready") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops it cleanly: its data remain consistent.
    pub(super) fn stop(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        let Ok(pid) = i32::try_from(child.id()) else { return };
        for (signal, patience) in [(libc::SIGINT, 120), (libc::SIGQUIT, 20), (libc::SIGKILL, 5)] {
            // SAFETY: a signal to a child that is not reaped yet.
            unsafe { libc::kill(pid, signal) };
            let end = Instant::now() + Duration::from_secs(patience);
            while Instant::now() < end {
                if !matches!(child.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

impl Drop for CopyServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A line of a configuration file.
fn line(name: &str, value: &str) -> String {
    format!("{name} = '{}'\n", value.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted() {
        assert_eq!(line("search_path", "\"$user\", it's"), "search_path = '\"$user\", it''s'\n");
        assert_eq!(line("log_line_prefix", "a\\b"), "log_line_prefix = 'a\\\\b'\n");
    }
}
