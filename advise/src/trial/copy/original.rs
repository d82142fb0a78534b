//! The properties of the server that a copy needs (programs, account, configuration, tablespaces, size), and
//! the base backup.

use super::super::control::{literal, Control};
use super::super::load::unblock_signals;
use super::super::measure::Source;
use super::super::{TryError, Wanted};
use super::place::{unusable, CopySetting};
use hardmeter_session::{Stop, Target};
use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// User and group.
pub(super) type Ids = (u32, u32);

/// The server that is copied.
#[derive(Clone, Debug)]
pub(super) struct Original {
    /// Its first process.
    pub(super) postmaster: i32,
    /// The folder of its programs.
    pub(super) programs: PathBuf,
    /// The account of its processes, where it is another one than this program's.
    pub(super) account: Option<Ids>,
    /// Settings of its configuration files.
    pub(super) settings: Vec<(String, String)>,
    /// Settings of its command line.
    pub(super) flags: Vec<(String, String)>,
    /// The folders of its tablespaces.
    tablespaces: Vec<PathBuf>,
    /// The bytes that a copy takes at first, and the most that it may take later.
    bytes: f64,
}

/// Settings that a copy overrides or must not have: paths, connections to other servers, background jobs.
const OF_ITS_OWN: &[&str] = &[
    "archive_cleanup_command",
    "archive_command",
    "archive_library",
    "archive_mode",
    "cluster_name",
    "config_file",
    "data_directory",
    "event_source",
    "external_pid_file",
    "hba_file",
    "hot_standby",
    "ident_file",
    "listen_addresses",
    "log_destination",
    "log_directory",
    "logging_collector",
    "max_logical_replication_workers",
    "port",
    "primary_conninfo",
    "primary_slot_name",
    "promote_trigger_file",
    "restore_command",
    "ssl",
    "synchronous_standby_names",
    "unix_socket_directories",
    "unix_socket_group",
    "unix_socket_permissions",
];

/// Settings that no trial changes, not even on a copy: their gain would cost durability or correctness.
const RISKS: &[&str] = &["fsync", "full_page_writes", "ignore_checksum_failure", "zero_damaged_pages"];

/// Libraries that run background jobs or connect to other servers.
const RUN_JOBS: &[&str] = &["pg_cron", "pglogical", "bdr", "spock", "repmgr", "pg_partman_bgw", "pg_squeeze"];

impl Original {
    pub(super) fn read(control: &mut Control) -> Result<Original, TryError> {
        let elsewhere = || TryError::Copy {
            what: "the server's processes cannot be seen here, and a copy is made on the server's machine"
                .into(),
            remedy: "run this on the server's machine".into(),
        };
        let postmaster = Source::find(control)?.postmaster().ok_or_else(elsewhere)?;
        let program = fs::read_link(format!("/proc/{postmaster}/exe")).map_err(|error| TryError::Copy {
            what: format!("the program of the server's process {postmaster} cannot be read: {error}"),
            remedy: "run this as root, or as the account of the server".into(),
        })?;
        let programs = program.parent().unwrap_or(Path::new("/")).to_owned();
        if !programs.join("pg_basebackup").exists() {
            return Err(TryError::Copy {
                what: format!("{} has no pg_basebackup", programs.display()),
                remedy: "install the client programs of the server's version beside it".into(),
            });
        }
        let (settings, flags) = configuration(control)?;
        const PLACES: &str = "SELECT pg_catalog.pg_tablespace_location(oid) FROM pg_catalog.pg_tablespace \
            WHERE pg_catalog.pg_tablespace_location(oid) LIKE '/%'";
        let places = control.rows("reading tablespaces", PLACES)?;
        // The log that a copy writes, and the space for sorts, are added.
        const BYTES: &str = "SELECT (SELECT sum(pg_catalog.pg_tablespace_size(oid)) FROM pg_catalog.pg_tablespace) \
            + (SELECT coalesce(sum(size), 0) FROM pg_catalog.pg_ls_waldir()) \
            + 1.25 * 1048576 * (SELECT setting::float8 FROM pg_catalog.pg_settings WHERE name = 'max_wal_size') \
            + 268435456";
        let bytes = control.value("asking for the size of the server", BYTES)?;
        Ok(Original {
            postmaster,
            programs,
            account: account_of(postmaster),
            settings,
            flags,
            tablespaces: places.into_iter().flatten().flatten().map(PathBuf::from).collect(),
            bytes: bytes.and_then(|text| text.parse().ok()).unwrap_or(f64::INFINITY),
        })
    }

    /// # Errors
    /// If the file system of this folder has too little free space.
    pub(super) fn fits(&self, parent: &Path) -> Result<(), TryError> {
        let free = free_bytes(parent).map_err(|error| unusable(parent, &error))?;
        if free >= self.bytes {
            return Ok(());
        }
        Err(TryError::Copy {
            what: format!(
                "a copy takes up to {:.1} GB, and {} has {:.1} GB free",
                self.bytes / 1e9,
                parent.display(),
                free / 1e9
            ),
            remedy: "name a folder with room: --copy DIR".into(),
        })
    }

    /// Makes the base backup. Its log goes to the file `log` there.
    pub(super) fn back_up(&self, target: &Target, folder: &Path, stop: &Stop) -> Result<(), TryError> {
        for part in ["data", "socket", "tablespaces"] {
            let path = folder.join(part);
            let failed = |error| unusable(&path, &error);
            fs::create_dir(&path).map_err(failed)?;
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700))
                .map_err(failed)?;
            if let Some((user, group)) = self.account {
                std::os::unix::fs::chown(&path, Some(user), Some(group)).map_err(failed)?;
            }
        }
        let log = File::create(folder.join("log")).map_err(|error| unusable(folder, &error))?;
        let errors = log.try_clone().map_err(|error| unusable(folder, &error))?;
        let mut command = Command::new(self.programs.join("pg_basebackup"));
        command.arg("--pgdata").arg(folder.join("data"));
        command.args([
            "--wal-method=stream",
            "--checkpoint=fast",
            "--no-sync",
            "--no-manifest",
            "--no-password",
        ]);
        for (number, place) in self.tablespaces.iter().enumerate() {
            let mut mapping = OsString::from("--tablespace-mapping=");
            mapping.push(place.to_string_lossy().replace('=', "\\="));
            mapping.push("=");
            mapping.push(folder.join("tablespaces").join(number.to_string()));
            command.arg(mapping);
        }
        command.envs(target.environment()).env("PGAPPNAME", "hardmeter tune");
        if let Some(password) = target.config().get_password() {
            command.env("PGPASSWORD", OsString::from(std::ffi::OsStr::from_bytes(password)));
        }
        command.current_dir(folder.join("data")).stdin(Stdio::null()).stdout(log).stderr(errors);
        as_account(&mut command, self.account, libc::SIGTERM);
        let failed = |said: String| {
            TryError::Copy {
            what: format!("no base backup of the server: {said}"),
            remedy: "the role needs REPLICATION, pg_hba.conf a line for replication, and max_wal_senders two that \
                are free"
                .into(),
        }
        };
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(failed(last_line(folder).unwrap_or_else(|| status.to_string())))
                }
                Ok(None) if stop.asked() => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(TryError::Interrupted);
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => return Err(failed(error.to_string())),
            }
        }
    }
}

/// The tried values, with the server's values.
///
/// # Errors
/// If a setting does not exist or may not be tried, or the change is not a setting.
pub(super) fn settings_of(control: &mut Control, wanted: &[Wanted]) -> Result<Vec<CopySetting>, TryError> {
    let mut settings = Vec::new();
    for one in wanted {
        let Wanted::Setting { name, value } = one else {
            return Err(TryError::Copy {
                what: "a copy is for settings: an index is tried on the server".into(),
                remedy: "leave out --copy".into(),
            });
        };
        let name = name.to_lowercase();
        let refused = |reason| Err(TryError::NotAllowed { name: name.clone(), reason });
        if RISKS.contains(&name.as_str()) {
            return refused("a crash could destroy the database");
        }
        if OF_ITS_OWN.contains(&name.as_str()) {
            return refused("the copy has its own");
        }
        let sql = format!(
            "SELECT current_setting(name), context FROM pg_catalog.pg_settings WHERE name = {}",
            literal(&name)
        );
        match control.row("reading the setting", &sql)?.as_deref() {
            Some([_, Some(context)]) if context == "internal" => {
                return refused("it is fixed when the server is built or its data folder is made")
            }
            Some([Some(was), _]) => {
                settings.push(CopySetting { name, value: value.clone(), was: was.clone() });
            }
            _ => return refused("this server does not have it"),
        }
    }
    Ok(settings)
}

type Pairs = Vec<(String, String)>;

/// Settings of the configuration files, and of the command line. If the role or database of this session has
/// its own value, the file's value is read.
fn configuration(control: &mut Control) -> Result<(Pairs, Pairs), TryError> {
    const IN_FORCE: &str =
        "SELECT name, reset_val, source FROM pg_catalog.pg_settings WHERE reset_val IS NOT NULL \
        AND source IN ('configuration file', 'command line', 'environment variable')";
    const HIDDEN: &str = "SELECT DISTINCT ON (f.name) f.name, f.setting, 'configuration file' \
        FROM pg_catalog.pg_file_settings f JOIN pg_catalog.pg_settings s ON s.name = lower(f.name) \
        WHERE f.applied AND s.source IN ('database', 'user', 'database user', 'global', 'client', 'session') \
        ORDER BY f.name, f.seqno DESC";
    let may = control.holds(
        "reading rights",
        "has_table_privilege('pg_catalog.pg_file_settings', 'SELECT') \
         AND has_function_privilege('pg_catalog.pg_show_all_file_settings()', 'EXECUTE')",
    )?;
    let mut rows = control.rows("reading the configuration", IN_FORCE)?;
    if may {
        rows.extend(control.rows("reading the configuration files", HIDDEN)?);
    }
    let (mut settings, mut flags) = (Vec::new(), Vec::new());
    for row in rows {
        let [Some(name), Some(value), Some(source)] = &row[..] else { continue };
        if OF_ITS_OWN.contains(&name.as_str()) || name.starts_with("recovery_") || name.starts_with("ssl_") {
            continue;
        }
        let value = if name.ends_with("_preload_libraries") { without_jobs(value) } else { value.clone() };
        let list = if source == "configuration file" { &mut settings } else { &mut flags };
        list.push((name.clone(), value));
    }
    // The copy also has the lines of ALTER SYSTEM; the command line overrides them.
    if let Some(libraries) = settings.iter().find(|(name, _)| name == "shared_preload_libraries") {
        flags.push(libraries.clone());
    }
    Ok((settings, flags))
}

fn without_jobs(libraries: &str) -> String {
    let kept = libraries.split(',').filter(|one| !RUN_JOBS.contains(&one.trim().trim_matches('"')));
    kept.collect::<Vec<_>>().join(",")
}

/// Makes a command run as the server's account, in a separate session, and get this signal when this program
/// ends.
pub(super) fn as_account(command: &mut Command, account: Option<Ids>, at_death: libc::c_int) {
    // SAFETY: system calls alone, safe between fork and exec. The signal at death comes last: setuid clears it.
    unsafe {
        command.pre_exec(move || {
            unblock_signals();
            libc::setsid();
            if let Some((user, group)) = account {
                let done = libc::setgroups(0, std::ptr::null()) == 0
                    && libc::setgid(group) == 0
                    && libc::setuid(user) == 0;
                if !done {
                    return Err(std::io::Error::last_os_error());
                }
            }
            libc::prctl(libc::PR_SET_PDEATHSIG, at_death);
            Ok(())
        });
    }
}

/// The account of a process, if this program is root and may become it.
fn account_of(pid: i32) -> Option<Ids> {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let id = |name: &str| -> Option<u32> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some((id("Uid:")?, id("Gid:")?)).filter(|(user, _)| *user != 0)
}

fn free_bytes(folder: &Path) -> std::io::Result<f64> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: statvfs is a plain C structure, for which all zeroes is a value.
    let mut room: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a C string, and a structure that lives.
    match unsafe { libc::statvfs(path.as_ptr(), &mut room) } {
        0 => Ok(room.f_bavail as f64 * room.f_frsize as f64),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The last line of the log that is not empty.
pub(super) fn last_line(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("log")).ok()?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let severe = |line: &&&str| ["FATAL", "PANIC", "error:"].iter().any(|word| line.contains(word));
    lines.iter().rev().find(severe).or(lines.last()).map(|line| (*line).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_that_run_jobs_are_left_out() {
        assert_eq!(without_jobs("pg_stat_statements, pg_cron,\"bdr\""), "pg_stat_statements");
        assert!(OF_ITS_OWN.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
    }

    #[test]
    fn a_folder_has_room_or_not() {
        let original = |bytes| Original {
            postmaster: 1,
            programs: PathBuf::new(),
            account: None,
            settings: Vec::new(),
            flags: Vec::new(),
            tablespaces: Vec::new(),
            bytes,
        };
        let folder = tempfile::tempdir().unwrap();
        assert!(original(1.0).fits(folder.path()).is_ok());
        let error = original(1e18).fits(folder.path()).unwrap_err();
        assert!(error.to_string().starts_with("a copy takes up to 1000000000.0 GB"), "{error}");
        assert!(original(1.0).fits(Path::new("/no/such/folder")).is_err());
    }
}
