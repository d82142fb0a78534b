//! The methods of [`Ways`] for PostgreSQL.

use super::{joined, words, Site, StopOutcome, StopStep, Ways};
use crate::error::ServerError;
use crate::state::State;
use hardmeter_samples::model::Pid;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) struct Postgres;

impl Ways for Postgres {
    fn title(&self) -> &'static str {
        "PostgreSQL"
    }

    fn server_program(&self) -> &'static str {
        "postgres"
    }

    fn usual_folders(&self) -> Vec<PathBuf> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
        folders.sort();
        let output = std::process::Command::new("pg_config").arg("--bindir").output();
        if let Some(text) = output.ok().and_then(|output| String::from_utf8(output.stdout).ok()) {
            folders.push(PathBuf::from(text.trim()));
        }
        folders.push(PathBuf::from("/usr/local/pgsql/bin"));
        folders
    }

    fn package(&self, version: Option<&str>) -> String {
        format!("postgresql-{}", version.map_or("15", |version| version.split('.').next().unwrap_or(version)))
    }

    fn accounts(&self) -> &'static [&'static str] {
        &["postgres", "nobody"]
    }

    fn describe(&self, state: &mut State) {
        state.port = 5432;
        state.user = "postgres".into();
        state.database = "postgres".into();
    }

    fn socket_name(&self, state: &State) -> String {
        format!(".s.PGSQL.{}", state.port)
    }

    fn reserved(&self) -> &'static [&'static str] {
        &[
            "listen_addresses",
            "port",
            "unix_socket_directories",
            "unix_socket_permissions",
            "unix_socket_group",
            "logging_collector",
            "cluster_name",
            "data_directory",
        ]
    }

    /// Trust is safe here: only the server's account and root can enter the socket's folder.
    fn initialize(&self, site: &Site) -> Vec<OsString> {
        words![
            site.programs.path("initdb"),
            joined("--pgdata=", site.folder.data()),
            joined("--username=", &site.state.user),
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-instructions",
        ]
    }

    fn data_version(&self, site: &Site) -> Result<String, String> {
        let data = site.folder.data();
        if !data.join("global/pg_control").exists() {
            return Err("data/global/pg_control is missing".into());
        }
        match fs::read_to_string(data.join("PG_VERSION")) {
            Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            Ok(_) => Err("data/PG_VERSION is empty".into()),
            Err(error) => Err(format!("data/PG_VERSION cannot be read ({error})")),
        }
    }

    fn serve(&self, site: &Site) -> Vec<OsString> {
        let mut command = words![site.programs.path("postgres"), "-D", site.folder.data()];
        let fixed = [
            ("listen_addresses", OsString::new()),
            ("port", site.state.port.to_string().into()),
            ("unix_socket_directories", quoted_in_list(&site.state.socket_folder)),
            ("unix_socket_permissions", "0700".into()),
            ("logging_collector", "off".into()),
            ("cluster_name", "hardmeter".into()),
        ];
        let chosen =
            site.state.settings.iter().map(|setting| (setting.name.as_str(), OsString::from(&setting.value)));
        for (name, value) in chosen.chain(fixed) {
            command.extend(words!["-c", joined(&format!("{name}="), value)]);
        }
        command
    }

    /// The postmaster.pid of a dead server blocks a start if another process has its number now.
    fn leftovers(&self, site: &Site) -> Vec<PathBuf> {
        let lock = site.state.socket_folder.join(self.socket_name(site.state) + ".lock");
        vec![site.folder.data().join("postmaster.pid"), lock]
    }

    /// The eighth line of postmaster.pid, as `pg_ctl --wait` reads it. A connection would show the same, but under
    /// a simulator it forks a process that takes a second to start.
    fn is_ready(&self, site: &Site, pid: Pid) -> bool {
        let Ok(text) = fs::read_to_string(site.folder.data().join("postmaster.pid")) else { return false };
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        lines.first() == Some(&pid.to_string().as_str()) && lines.get(7) == Some(&"ready")
    }

    fn stop_steps(&self) -> Vec<StopStep> {
        vec![
            StopStep { signal: libc::SIGINT, patience: Duration::from_secs(60), outcome: StopOutcome::Clean },
            StopStep {
                signal: libc::SIGQUIT,
                patience: Duration::from_secs(20),
                outcome: StopOutcome::Immediate,
            },
        ]
    }

    fn client(&self, site: &Site, sql: &str) -> Vec<OsString> {
        words![
            site.programs.path("psql"),
            "--no-psqlrc",
            "--quiet",
            "--tuples-only",
            "--no-align",
            "--set=ON_ERROR_STOP=1",
            joined("--dbname=", &site.state.database),
            joined("--command=", sql),
        ]
        .into_iter()
        .chain(address(site))
        .collect()
    }

    fn backends_sql(&self) -> Option<&'static str> {
        Some("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
    }

    fn environment(&self, site: &Site) -> Vec<(&'static str, OsString)> {
        vec![
            ("PGHOST", site.state.socket_folder.clone().into()),
            ("PGPORT", site.state.port.to_string().into()),
            ("PGUSER", site.state.user.clone().into()),
            ("PGDATABASE", site.state.database.clone().into()),
        ]
    }

    fn load_pgbench(&self, site: &Site, scale: u32) -> Result<Vec<OsString>, ServerError> {
        let pgbench = site.programs.path("pgbench");
        if !pgbench.exists() {
            return Err(ServerError::Unsupported {
                what: format!("there is no pgbench beside {}", site.programs.path("postgres").display()),
                remedy: format!("apt-get install {}", self.package(Some(&site.state.version))),
            });
        }
        Ok(words![pgbench, "--initialize", "--quiet", joined("--scale=", scale.to_string()),]
            .into_iter()
            .chain(address(site))
            .chain(words![&site.state.database])
            .collect())
    }
}

/// The options of psql and pgbench that name the server and the user.
fn address(site: &Site) -> Vec<OsString> {
    words![
        "--host",
        &site.state.socket_folder,
        "--port",
        site.state.port.to_string(),
        "--username",
        &site.state.user,
    ]
}

/// A path in a setting with a list of paths: in double quotes because of commas and blanks.
fn quoted_in_list(path: &Path) -> OsString {
    let mut bytes = vec![b'"'];
    for &byte in path.as_os_str().as_bytes() {
        bytes.push(byte);
        if byte == b'"' {
            bytes.push(byte);
        }
    }
    bytes.push(b'"');
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_stay_one_path() {
        assert_eq!(quoted_in_list(Path::new("/a, b/\"c\"")), OsString::from("\"/a, b/\"\"c\"\"\""));
    }
}
