//! Settings of a server, with the command that restarts it. The invariants are those of the module.

use super::super::allowed::{refusal, RESTART};
use super::super::control::{literal, Control};
use super::super::outcome::Undone;
use super::super::setting::SettingSwitch;
use super::super::TryError;
use super::offline::write_back;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Settings that only a restart changes, and the restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartSwitch {
    /// The settings, by ALTER SYSTEM.
    pub settings: Vec<SettingSwitch>,
    /// The server's data folder.
    pub data: PathBuf,
    /// The shell's command that restarts the server, or starts it if it does not run.
    pub command: String,
    /// Where that command writes.
    pub log: PathBuf,
}

impl RestartSwitch {
    pub(in super::super) fn apply(&self) -> Vec<String> {
        self.around(self.settings.iter().flat_map(SettingSwitch::apply))
    }

    pub(in super::super) fn undo(&self) -> Vec<String> {
        self.around(self.settings.iter().flat_map(SettingSwitch::undo))
    }

    /// The statements, and the restart instead of the reload.
    fn around(&self, statements: impl Iterator<Item = String>) -> Vec<String> {
        let lines = statements.filter(|sql| !sql.contains("pg_reload_conf"));
        lines.chain([format!("restart: {}", self.command)]).collect()
    }

    /// Writes the lines of B or of A, restarts the server, and checks the values.
    pub(super) fn to(&self, on: bool, control: &mut Control) -> Result<(), TryError> {
        self.settings.iter().try_for_each(|setting| setting.write_line(on, control))?;
        self.restart()?;
        control.reopen()?;
        for setting in &self.settings {
            let value = value(&setting.name, control)?;
            if (value == setting.was) == on {
                return Err(TryError::NoEffect { name: setting.name.clone(), value });
            }
        }
        Ok(())
    }

    /// Restores the lines, and restarts the server if it has other values. What then differs still is left to a person:
    /// more restarts would not change it.
    pub(in super::super) fn restore(&self, control: &mut Control) -> Result<Undone, TryError> {
        let mut worst = Undone::AsBefore;
        for setting in &self.settings {
            match (setting.restore(control)?, &worst) {
                (Undone::AsBefore, _) | (_, Undone::Foreign(_)) => {}
                (undone, _) => worst = undone,
            }
        }
        // With a line of another session a restart could bring that session's value: it is left to a person.
        if self.differing(control)?.is_none() || matches!(worst, Undone::Foreign(_)) {
            return Ok(worst);
        }
        self.restart()?;
        control.reopen()?;
        Ok(match self.differing(control)? {
            Some(what) => Undone::Foreign(format!("restarted with the lines of before, but {what}")),
            None => Undone::Restored,
        })
    }

    /// A setting whose value is not as before, in words.
    fn differing(&self, control: &mut Control) -> Result<Option<String>, TryError> {
        for SettingSwitch { name, was, .. } in &self.settings {
            let value = value(name, control)?;
            if value != *was {
                return Ok(Some(format!("{name} is {value} and was {was}")));
            }
        }
        Ok(None)
    }

    /// True if the server's data folder was deleted.
    pub(super) fn is_gone(&self) -> bool {
        fs::symlink_metadata(&self.data).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    }

    /// If the server does not run: writes the lines of before into its file, and starts it. Only for a server that
    /// accepts no connection.
    pub(super) fn revive(&self) -> Result<(), TryError> {
        if runs(&self.data) {
            return Ok(());
        }
        for setting in &self.settings {
            write_back(&self.data, &setting.name, &setting.value, setting.prior.as_deref()).map_err(
                |error| TryError::Restart {
                    what: format!("the settings in {} cannot be written back: {error}", self.data.display()),
                    remedy: "run hardmeter tune undo as root, or as the server's account".into(),
                },
            )?;
        }
        self.restart()
    }

    fn restart(&self) -> Result<(), TryError> {
        let failed = |said: String| TryError::Restart {
            what: format!("the server was not restarted by `{}`: {said}", self.command),
            remedy: format!("{} has its words", self.log.display()),
        };
        let log = File::create(&self.log).map_err(|error| failed(error.to_string()))?;
        let errors = log.try_clone().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new("sh");
        // The server outlives this program, and a session of the terminal.
        command.args(["-c", &self.command]).current_dir("/").stdin(Stdio::null()).stdout(log).stderr(errors);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let text = fs::read_to_string(&self.log).unwrap_or_default();
                let last = text.lines().rev().find(|line| !line.trim().is_empty());
                Err(failed(last.map_or_else(|| status.to_string(), str::to_owned)))
            }
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

fn value(name: &str, control: &mut Control) -> Result<String, TryError> {
    let sql = format!("SELECT current_setting({})", literal(name));
    Ok(control.value("reading the setting", &sql)?.unwrap_or_default())
}

impl SettingSwitch {
    /// A setting that only a restart changes.
    ///
    /// # Errors
    /// If it needs none, may not be tried, or this role may not change it.
    pub(super) fn of_restart(
        control: &mut Control,
        name: &str,
        value: &str,
    ) -> Result<SettingSwitch, TryError> {
        let name = name.to_lowercase();
        match refusal(&name) {
            Some(RESTART) => {}
            Some(reason) => return Err(TryError::NotAllowed { name, reason }),
            None => {
                return Err(TryError::Restart {
                    what: format!("{name} needs no restart"),
                    remedy: "leave out --restart".into(),
                })
            }
        }
        Ok(SettingSwitch { replans: false, ..SettingSwitch::read(control, name, value, false)? })
    }
}

/// The command that restarts a server whose first process is `postmaster`: its unit of systemd, else pg_ctl.
pub(super) fn restart_command(postmaster: i32, data: &Path, programs: &Path) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/{postmaster}/{name}")).unwrap_or_default();
    if let Some(unit) = unit_of(&read("cgroup")) {
        return format!("systemctl restart {}", quoted(&unit));
    }
    let log = fs::read_link(format!("/proc/{postmaster}/fd/2")).ok().filter(|path| path.is_file());
    let log = log.unwrap_or_else(|| "/dev/null".into());
    let word = |path: &Path| quoted(&path.display().to_string());
    let pg_ctl = format!(
        "{} restart -s -w -t 300 -m fast -D {} -l {}",
        word(&programs.join("pg_ctl")),
        word(data),
        word(&log)
    );
    let owner = fs::metadata(data).ok().map(|folder| std::os::unix::fs::MetadataExt::uid(&folder));
    match owner {
        // SAFETY: no preconditions.
        Some(owner) if owner != unsafe { libc::geteuid() } => {
            format!("setpriv --reuid={owner} --regid=$(id -g {owner}) --init-groups {pg_ctl}")
        }
        _ => pg_ctl,
    }
}

/// The unit of systemd that a line of /proc/PID/cgroup names, if it is one of PostgreSQL.
fn unit_of(cgroup: &str) -> Option<String> {
    let last = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?.rsplit('/').next()?;
    (last.starts_with("postgres") && last.ends_with(".service")).then(|| last.to_owned())
}

/// A word of the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// True if a server runs in this data folder.
fn runs(data: &Path) -> bool {
    let Ok(text) = fs::read_to_string(data.join("postmaster.pid")) else { return false };
    let Some(pid) = text.lines().next().and_then(|line| line.trim().parse::<i32>().ok()) else {
        return false;
    };
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| is_server(&stat))
}

/// True if a line of /proc/PID/stat is of a server: after a crash another process may have its number.
fn is_server(stat: &str) -> bool {
    ["(postgres)", "(postmaster)"].iter().any(|name| stat.contains(name)) && !stat.contains(") Z ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_of_postgresql_restarts_its_server() {
        let unit = "0::/system.slice/system-postgresql.slice/postgresql@15-main.service\n";
        assert_eq!(unit_of(unit).as_deref(), Some("postgresql@15-main.service"));
        assert_eq!(unit_of("0::/user.slice/session-3.scope\n"), None);
        assert_eq!(unit_of("0::/system.slice/runner.service\n"), None, "of another program that started it");
        assert_eq!(unit_of(""), None);
    }

    #[test]
    fn words_of_the_shell_are_quoted() {
        assert_eq!(quoted("/srv/it's here"), "'/srv/it'\\''s here'");
    }

    #[test]
    fn a_server_has_one_of_two_names() {
        assert!(is_server("7 (postgres) S 1 7") && is_server("7 (postmaster) S 1 7"));
        assert!(!is_server("7 (postgres) Z 1 7") && !is_server("7 (pgbench) S 1 7"));
    }

    #[test]
    fn this_process_is_no_server() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!runs(folder.path()));
        fs::write(folder.path().join("postmaster.pid"), format!("{}\n", std::process::id())).unwrap();
        assert!(!runs(folder.path()));
    }
}
