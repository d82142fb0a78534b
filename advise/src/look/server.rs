//! The server's properties, and the cost of the look.

use super::activity::Task;
use super::ask::ask;
use crate::{AdviseError, Scope};
use hardmeter_session::Session;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;

/// A setting that was set for a scope, as ALTER SYSTEM, ALTER DATABASE and ALTER ROLE do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Configured {
    pub scope: Scope,
    pub name: String,
    pub value: String,
}

/// The server and its machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// In the form of `server_version_num`: 150020.
    pub version_num: u32,
    /// In the form of `server_version`: "15.20 (Debian ...)".
    pub version: String,
    /// The examined database.
    pub database: String,
    /// Standbys that are connected now.
    pub standbys: u64,
    /// All settings, in the units of pg_settings.
    #[serde(skip_serializing)]
    pub settings: BTreeMap<String, String>,
    /// Settings that only a restart changes.
    #[serde(skip_serializing)]
    pub fixed: Vec<String>,
    /// Settings of the server's command line: ALTER SYSTEM cannot change them.
    #[serde(skip_serializing)]
    pub on_command_line: Vec<String>,
    /// Values set by ALTER SYSTEM, ALTER DATABASE and ALTER ROLE.
    #[serde(skip_deserializing)]
    pub configured: Vec<Configured>,
    /// The server's processes are visible: it runs on this machine.
    #[serde(skip_deserializing)]
    pub local: bool,
    /// CPUs of this machine.
    #[serde(skip_deserializing)]
    pub cpus: u64,
    /// Memory of this machine, in bytes.
    #[serde(skip_deserializing)]
    pub memory: f64,
    /// Explicit huge pages of this machine: the kernel's pool.
    #[serde(skip_deserializing)]
    pub huge_pages_total: u64,
    /// Seconds of CPU to copy a block of 8 kB from the kernel's cache on this machine, as measured; 0: not
    /// known.
    #[serde(skip_deserializing)]
    pub block_copy: f64,
}

impl Server {
    /// Reads the server's properties.
    pub(super) fn read(session: &mut Session) -> Result<Server, AdviseError> {
        #[derive(Deserialize)]
        struct Rights {
            role: String,
            version_num: u32,
            version: String,
            may_look: bool,
        }
        const RIGHTS: &str = "SELECT current_user AS role, current_setting('server_version') AS version, \
            current_setting('server_version_num')::int AS version_num, \
            pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS may_look";
        let rights: Vec<Rights> = ask(session, "reading the version", RIGHTS)?;
        let Some(rights) = rights.into_iter().next() else {
            let what = "reading the version".into();
            return Err(AdviseError::Answer { what, reason: "no row".into() });
        };
        if rights.version_num < 150_000 {
            return Err(AdviseError::OldServer { version: rights.version });
        }
        if !rights.may_look {
            return Err(AdviseError::NoRights { role: rights.role });
        }
        const SERVER: &str = "SELECT current_setting('server_version_num')::int AS version_num, \
            current_setting('server_version') AS version, current_database() AS database, \
            (SELECT count(*) FROM pg_catalog.pg_stat_replication) AS standbys, \
            (SELECT json_object_agg(name, setting) FROM pg_catalog.pg_settings WHERE setting IS NOT NULL) AS settings, \
            (SELECT json_agg(name) FROM pg_catalog.pg_settings WHERE context = 'postmaster') AS fixed, \
            (SELECT coalesce(json_agg(name), '[]') FROM pg_catalog.pg_settings WHERE source = 'command line') \
            AS on_command_line";
        let servers: Vec<Server> = ask(session, "reading the settings", SERVER)?;
        let mut server = servers.into_iter().next().unwrap_or_default();
        server.configured = configured(session)?;
        server.local = Task::read(session.backend()).is_some();
        let local = server.local;
        server.of_machine(local);
        Ok(server)
    }

    /// The hardware of this machine; for a remote server it is not the server's.
    pub(crate) fn of_machine(&mut self, local: bool) {
        self.local = local;
        // SAFETY: sysconf has no preconditions; unknown values are negative.
        let (cpus, pages, size) = unsafe {
            (
                libc::sysconf(libc::_SC_NPROCESSORS_ONLN),
                libc::sysconf(libc::_SC_PHYS_PAGES),
                libc::sysconf(libc::_SC_PAGESIZE),
            )
        };
        self.cpus = u64::try_from(cpus).unwrap_or(1).max(1);
        self.memory = pages.max(0) as f64 * size.max(0) as f64;
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        self.huge_pages_total = huge_pages(&memory);
        self.block_copy = if local { block_copy() } else { 0.0 };
    }

    /// A setting's text; empty if the server has no such setting.
    pub fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    /// A setting's number, in the unit of pg_settings.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.setting(name).parse().ok()
    }

    /// The buffer pool, in bytes.
    pub fn shared_buffers(&self) -> f64 {
        self.number("shared_buffers").unwrap_or(0.0) * self.number("block_size").unwrap_or(8192.0)
    }
}

/// Values set for the server, its databases and its roles. Only some roles may read the server's file: if
/// this role may not, a value in the file that another scope overrides for this session is unknown.
fn configured(session: &mut Session) -> Result<Vec<Configured>, AdviseError> {
    #[derive(Deserialize)]
    struct Row {
        database: Option<String>,
        role: Option<String>,
        name: String,
        value: String,
    }
    #[derive(Deserialize)]
    struct Rights {
        file: bool,
    }
    const MAY_READ: &str = "SELECT has_table_privilege('pg_catalog.pg_file_settings', 'SELECT') \
        AND has_function_privilege('pg_catalog.pg_show_all_file_settings()', 'EXECUTE') AS file";
    const FILE: &str = "SELECT name, setting AS value FROM pg_catalog.pg_file_settings \
        WHERE sourcefile LIKE '%/postgresql.auto.conf' AND name IS NOT NULL AND setting IS NOT NULL";
    const IN_FORCE: &str = "SELECT name, reset_val AS value FROM pg_catalog.pg_settings \
        WHERE sourcefile LIKE '%/postgresql.auto.conf' AND reset_val IS NOT NULL";
    const SCOPES: &str = "SELECT d.datname AS database, r.rolname AS role, split_part(one, '=', 1) AS name, \
        substr(one, strpos(one, '=') + 1) AS value FROM pg_catalog.pg_db_role_setting s \
        LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase \
        LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) AS one";
    let rights: Vec<Rights> = ask(session, "reading rights", MAY_READ)?;
    let system = if rights.iter().any(|rights| rights.file) { FILE } else { IN_FORCE };
    let mut rows: Vec<Row> = ask(session, "reading what ALTER SYSTEM has set", system)?;
    rows.extend(ask::<Row>(session, "reading pg_db_role_setting", SCOPES)?);
    let scope = |row: &mut Row| match (row.role.take(), row.database.take()) {
        (None, None) => Scope::System,
        (None, Some(database)) => Scope::Database(database),
        (Some(role), None) => Scope::Role(role),
        (Some(role), Some(database)) => Scope::RoleInDatabase { role, database },
    };
    Ok(rows
        .into_iter()
        .map(|mut row| Configured { scope: scope(&mut row), name: row.name, value: row.value })
        .collect())
}

/// Seconds of CPU to read a block from the kernel's cache: blocks of this program's own file, the fastest of
/// three passes, since the first may read from the disk. Takes a millisecond.
fn block_copy() -> f64 {
    const BLOCKS: u64 = 256;
    let Ok(file) = fs::File::open("/proc/self/exe") else { return 0.0 };
    let mut block = [0; 8192];
    let mut pass = || {
        let before = own_cpu();
        for at in 0..BLOCKS {
            file.read_exact_at(&mut block, at * 8192).ok()?;
        }
        Some((own_cpu() - before) / BLOCKS as f64)
    };
    let passes = (0..3).filter_map(|_| pass()).filter(|seconds| *seconds > 0.0);
    passes.min_by(f64::total_cmp).unwrap_or(0.0)
}

fn huge_pages(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Total:"));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
}

/// The cost of the look, in seconds of CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// In this program.
    pub here: f64,
    /// In its backend of the server; `None` if it is not visible.
    pub backend: Option<f64>,
}

/// CPU seconds of this program so far.
pub(crate) fn own_cpu() -> f64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a living rusage; all bytes zero is a valid one.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_of_huge_pages_is_read() {
        assert_eq!(huge_pages("MemTotal: 1 kB\nHugePages_Total:     512\nHugePages_Free: 3\n"), 512);
        assert_eq!(huge_pages(""), 0);
    }

    #[test]
    fn copying_blocks_takes_time() {
        assert!(block_copy() > 0.0);
    }

    #[test]
    fn settings_are_numbers_in_units_of_the_view() {
        let settings = [("shared_buffers", "16384"), ("block_size", "8192")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let server = Server { settings, ..Server::default() };
        assert_eq!(server.shared_buffers(), 128.0 * 1024.0 * 1024.0);
        assert_eq!((server.number("jit"), server.setting("jit")), (None, ""));
    }
}
