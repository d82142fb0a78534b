//! The methods of [`Ways`] for MariaDB.

use super::{joined, words, Site, StopOutcome, StopStep, Ways};
use crate::error::ServerError;
use crate::state::State;
use hardmeter_samples::model::Pid;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

pub(super) struct Mariadb;

impl Ways for Mariadb {
    fn title(&self) -> &'static str {
        "MariaDB"
    }

    fn server_program(&self) -> &'static str {
        "mariadbd"
    }

    fn usual_folders(&self) -> Vec<PathBuf> {
        ["/usr/sbin", "/usr/local/mysql/bin", "/usr/local/sbin"].map(PathBuf::from).to_vec()
    }

    fn package(&self, _version: Option<&str>) -> String {
        "mariadb-server".into()
    }

    fn accounts(&self) -> &'static [&'static str] {
        &["mysql", "nobody"]
    }

    fn describe(&self, state: &mut State) {
        state.user = "root".into();
        state.database = "test".into();
    }

    fn socket_name(&self, _state: &State) -> String {
        "mariadb.sock".into()
    }

    fn reserved(&self) -> &'static [&'static str] {
        &[
            "socket",
            "port",
            "bind_address",
            "skip_networking",
            "skip_log_bin",
            "log_bin",
            "datadir",
            "tmpdir",
            "pid_file",
        ]
    }

    /// Safe without a password: only the server's account and root can enter the socket's folder.
    fn initialize(&self, site: &Site) -> Vec<OsString> {
        words![
            site.programs.path("mariadb-install-db"),
            "--no-defaults",
            joined("--datadir=", site.folder.data()),
            joined("--tmpdir=", site.folder.data()),
            "--auth-root-authentication-method=normal",
            "--skip-name-resolve",
        ]
    }

    fn data_version(&self, site: &Site) -> Result<String, String> {
        let data = site.folder.data();
        for file in ["ibdata1", "mysql"] {
            if !data.join(file).exists() {
                return Err(format!("data/{file} is missing"));
            }
        }
        // The data folder has no version for a start to check; the state recorded it.
        Ok(site.state.version.split('.').take(2).collect::<Vec<_>>().join("."))
    }

    fn serve(&self, site: &Site) -> Vec<OsString> {
        let mut command = words![
            site.programs.path("mariadbd"),
            "--no-defaults",
            joined("--datadir=", site.folder.data()),
            // At its start MariaDB deletes all temporary tables in its temporary folder, by default /tmp: also
            // those of another server that is being created.
            joined("--tmpdir=", site.folder.data()),
            joined("--pid-file=", site.folder.data().join("hardmeter.pid")),
            // By default it reserves 8 TiB of addresses for a growing pool; Valgrind has 128 GiB in total. "loose":
            // versions before 10.11.12 lack the option and do not need it.
            "--loose-innodb-buffer-pool-size-max=16G",
        ];
        let settings = site.state.settings.iter();
        command
            .extend(settings.map(|setting| OsString::from(format!("--{}={}", setting.name, setting.value))));
        command.extend(words![
            joined("--socket=", site.state.socket_folder.join(self.socket_name(site.state))),
            "--skip-networking",
            "--skip-log-bin",
        ]);
        command
    }

    /// MariaDB greets each client: the fifth byte of its first packet is the protocol version, 10.
    fn is_ready(&self, site: &Site, pid: Pid) -> bool {
        let number = fs::read_to_string(site.folder.data().join("hardmeter.pid"));
        if !number.is_ok_and(|text| text.trim() == pid.to_string()) {
            return false;
        }
        let socket = site.state.socket_folder.join(self.socket_name(site.state));
        let Ok(mut stream) = UnixStream::connect(socket) else { return false };
        let mut greeting = [0; 5];
        stream.set_read_timeout(Some(Duration::from_secs(10))).is_ok()
            && stream.read_exact(&mut greeting).is_ok()
            && greeting[4] == 10
    }

    fn stop_steps(&self) -> Vec<StopStep> {
        vec![StopStep {
            signal: libc::SIGTERM,
            patience: Duration::from_secs(60),
            outcome: StopOutcome::Clean,
        }]
    }

    fn client(&self, site: &Site, sql: &str) -> Vec<OsString> {
        words![
            site.programs.path("mariadb"),
            "--no-defaults",
            "--batch",
            "--skip-column-names",
            joined("--socket=", site.state.socket_folder.join(self.socket_name(site.state))),
            joined("--user=", &site.state.user),
            joined("--execute=", sql),
            &site.state.database,
        ]
    }

    fn backends_sql(&self) -> Option<&'static str> {
        None
    }

    fn environment(&self, site: &Site) -> Vec<(&'static str, OsString)> {
        vec![
            ("MYSQL_UNIX_PORT", site.state.socket_folder.join(self.socket_name(site.state)).into()),
            ("MYSQL_HOME", site.folder.path().into()),
        ]
    }

    /// Debian's own options file names the system's socket, and options files override environment variables; the
    /// file in `MYSQL_HOME` overrides Debian's.
    fn client_options(&self, site: &Site) -> Option<String> {
        let socket = site.state.socket_folder.join(self.socket_name(site.state));
        Some(format!("[client]\nsocket = \"{}\"\nuser = {}\n", socket.display(), site.state.user))
    }

    fn load_pgbench(&self, _site: &Site, _scale: u32) -> Result<Vec<OsString>, ServerError> {
        Err(ServerError::Unsupported {
            what: "pgbench's tables are for PostgreSQL; there is no workload for MariaDB to load yet".into(),
            remedy: "load your own data by the socket that `hardmeter server status mariadb` names".into(),
        })
    }
}
