//! A setting that is switched by ALTER SYSTEM and a reload, which reaches running sessions; or for the
//! database, if the load starts new sessions in each block.
//!
//! ```text
//!                    set, reload                         SET to the value before,
//!   as it was found ────────────> our line: `value`    ─────────────────────────> as it was found
//!   (line `prior` or none)         │                      RESET if there was none
//!                                  └─> another session writes another line ──> kept (Foreign)
//! ```
//!
//! Sessions that cache plans (prepared statements, PL/pgSQL) do not replan when a setting changes: a session
//! that began in a block with the change would use that plan in the next block, too. So each switch of a
//! setting that affects plans is followed by a transaction that creates a schema and drops it: nothing
//! remains of it, and the server makes all sessions of the database replan.
//!
//! Invariants:
//! 1. `prior` is the line that was in postgresql.auto.conf (or the database's settings) before anything was
//!    changed; `None`: there was none.
//! 2. A line that is neither `prior` nor `value` belongs to another session and is never overwritten by an
//!    undo.

use super::allowed::{refusal, shapes_plans};
use super::control::{literal, Control};
use super::outcome::Undone;
use super::TryError;
use crate::look::views::quoted;
use hardmeter_session::SessionError;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The longest time for a reload to reach a session.
const RELOAD: Duration = Duration::from_secs(5);

/// A setting and its two values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingSwitch {
    /// Its name.
    pub name: String,
    /// The tried value.
    pub value: String,
    /// The database for which it is set; `None`: the whole server.
    pub database: Option<String>,
    /// The line that set it there before.
    pub prior: Option<String>,
    /// The former value in sessions, in the format of SHOW.
    pub was: String,
    /// The new value in sessions; `None` if the server does not show it in advance.
    pub becomes: Option<String>,
    /// Sessions must plan again at each switch.
    #[serde(default)]
    pub replans: bool,
}

/// The advice for a setting on the server's command line.
pub(super) const STARTED_WITH: &str = "start the server without it, or try it on a copy: --copy DIR";

/// Makes all sessions of the database plan again.
const REPLAN: &str = "BEGIN; CREATE SCHEMA hardmeter_replan; DROP SCHEMA hardmeter_replan; COMMIT;";

impl SettingSwitch {
    pub(super) fn plan(
        control: &mut Control,
        name: &str,
        value: &str,
        fresh_sessions: bool,
    ) -> Result<SettingSwitch, TryError> {
        let name = name.to_lowercase();
        match refusal(&name) {
            Some(reason) => Err(TryError::NotAllowed { name, reason }),
            None => SettingSwitch::read(control, name, value, fresh_sessions),
        }
    }

    /// Reads the values and the line before, and checks the rights.
    pub(super) fn read(
        control: &mut Control,
        name: String,
        value: &str,
        fresh_sessions: bool,
    ) -> Result<SettingSwitch, TryError> {
        let was = control
            .value("reading the setting", &format!("SELECT current_setting({}, true)", literal(&name)))?;
        let Some(was) = was else {
            let reason = "this version of the server does not have it";
            return Err(TryError::NotAllowed { name, reason });
        };
        let becomes = value_in_session(control, &name, value)?;
        let database = scope(control, &name, fresh_sessions)?;
        may_change(control, &name, database.as_deref())?;
        let replans = database.is_none()
            && shapes_plans(&name)
            && control.holds(
                "checking the rights",
                "has_database_privilege(current_database(), 'CREATE') AND to_regnamespace('hardmeter_replan') IS NULL",
            )?;
        let (value, prior) = (value.to_owned(), None);
        let mut switch = SettingSwitch { name, value, database, prior, was, becomes, replans };
        switch.prior = switch.line(control)?;
        if switch.becomes.as_ref() == Some(&switch.was) {
            return Err(TryError::Already { what: format!("{} is {}", switch.name, switch.was) });
        }
        Ok(switch)
    }

    fn scope_sql(&self) -> String {
        match &self.database {
            Some(database) => format!("ALTER DATABASE {}", quoted(database)),
            None => "ALTER SYSTEM".into(),
        }
    }

    fn statements(&self, line: Option<&str>) -> Vec<String> {
        let (scope, name) = (self.scope_sql(), &self.name);
        let change = match line {
            Some(value) => format!("{scope} SET {name} = {};", literal(value)),
            None => format!("{scope} RESET {name};"),
        };
        match self.database {
            Some(_) => vec![change],
            None => vec![change, "SELECT pg_reload_conf();".into()],
        }
    }

    pub(super) fn apply(&self) -> Vec<String> {
        self.statements(Some(&self.value))
    }

    pub(super) fn undo(&self) -> Vec<String> {
        self.statements(self.prior.as_deref())
    }

    /// The line that sets it now.
    fn line(&self, control: &mut Control) -> Result<Option<String>, TryError> {
        let name = literal(&self.name);
        let sql = match &self.database {
            None => format!(
                "SELECT setting FROM pg_catalog.pg_file_settings WHERE lower(name) = {name} \
                 AND sourcefile LIKE '%/postgresql.auto.conf' ORDER BY seqno DESC LIMIT 1"
            ),
            Some(database) => format!(
                "SELECT substr(line, strpos(line, '=') + 1) FROM pg_catalog.pg_db_role_setting s \
                 JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase, unnest(s.setconfig) AS line \
                 WHERE d.datname = {} AND s.setrole = 0 AND lower(split_part(line, '=', 1)) = {name}",
                literal(database)
            ),
        };
        control.value("reading the source of the setting", &sql)
    }

    fn write(&self, line: Option<&str>, control: &mut Control) -> Result<(), TryError> {
        self.statements(line).iter().try_for_each(|sql| control.run("changing the setting", sql))
    }

    /// Writes the line of B or of A.
    ///
    /// # Errors
    /// If another session has written another line.
    pub(super) fn write_line(&self, on: bool, control: &mut Control) -> Result<(), TryError> {
        let line = self.line(control)?;
        if line != self.prior && line.as_ref() != Some(&self.value) {
            return Err(TryError::ChangedByOthers { name: self.name.clone() });
        }
        self.write(if on { Some(&self.value) } else { self.prior.as_deref() }, control)
    }

    /// Writes the line of B or of A, and waits until a session has its value.
    pub(super) fn to(&self, on: bool, control: &mut Control) -> Result<(), TryError> {
        self.write_line(on, control)?;
        if self.database.is_some() {
            return Ok(());
        }
        let end = Instant::now() + RELOAD;
        let show = format!("SELECT current_setting({})", literal(&self.name));
        loop {
            let value = control.value("reading the setting", &show)?.unwrap_or_default();
            let arrived = match (on, &self.becomes) {
                (true, Some(expected)) => value == *expected,
                (true, None) => value != self.was,
                (false, _) => value == self.was,
            };
            if arrived {
                return self.replan(control);
            }
            if Instant::now() >= end {
                return Err(TryError::NoEffect { name: self.name.clone(), value });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn replan(&self, control: &mut Control) -> Result<(), TryError> {
        match self.replans {
            true => control.run("making sessions replan", REPLAN),
            false => Ok(()),
        }
    }

    /// The last replanning: sessions must have read the former value first. An undo does not fail because of
    /// it.
    fn replan_at_end(&self, control: &mut Control) {
        if self.replans {
            std::thread::sleep(Duration::from_millis(200));
            let _ = self.replan(control);
        }
    }

    /// The sentence on cached plans: whether they are replanned.
    pub(super) fn plans_in_words(&self) -> Option<String> {
        if self.database.is_some() || !shapes_plans(&self.name) {
            return None;
        }
        Some(match self.replans {
            true => format!("at each switch sessions are made to plan again: {REPLAN}"),
            false => "sessions continue with cached plans: the role may not CREATE in this database".into(),
        })
    }

    pub(super) fn restore(&self, control: &mut Control) -> Result<Undone, TryError> {
        let line = self.line(control)?;
        if line == self.prior {
            // The line may have been written, and the reload missed.
            if self.database.is_none() {
                control.run("reloading", "SELECT pg_reload_conf()")?;
                self.replan_at_end(control);
            }
            return Ok(Undone::AsBefore);
        }
        match line {
            Some(line) if line == self.value => {
                self.write(self.prior.as_deref(), control)?;
                self.replan_at_end(control);
                Ok(Undone::Restored)
            }
            line => Ok(Undone::Foreign(match line {
                Some(line) => format!("another session has set {} to '{line}' since", self.name),
                None => format!("another session has reset {} since", self.name),
            })),
        }
    }
}

/// The value in the format in which a session shows it. It is set for that single statement.
fn value_in_session(control: &mut Control, name: &str, value: &str) -> Result<Option<String>, TryError> {
    let sql = format!("SELECT set_config({}, {}, true)", literal(name), literal(value));
    match control.value("checking the value", &sql) {
        Ok(shown) => Ok(shown),
        Err(TryError::Session(SessionError::Statement { code, reason, .. })) if code.starts_with("22") => {
            Err(TryError::BadValue { name: name.into(), value: value.into(), reason })
        }
        // A setting that only a reload sets, or that this role may not set for itself.
        Err(TryError::Session(SessionError::Statement { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The scope in which the load uses the setting: `None` for the whole server, otherwise the database.
fn scope(control: &mut Control, name: &str, fresh_sessions: bool) -> Result<Option<String>, TryError> {
    let overridden = |by: String, remedy: &str| {
        Err(TryError::Overridden { name: name.to_owned(), by, remedy: remedy.to_owned() })
    };
    let source = format!("SELECT source FROM pg_catalog.pg_settings WHERE name = {}", literal(name));
    let source = control.value("reading the setting's source", &source)?.unwrap_or_default();
    if ["command line", "environment variable", "override"].contains(&source.as_str()) {
        return overridden(format!("the server was started with it ({source})"), STARTED_WITH);
    }
    let stored = format!(
        "SELECT r.rolname, d.datname FROM pg_catalog.pg_db_role_setting s \
         LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole \
         LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase, unnest(s.setconfig) AS line \
         WHERE lower(split_part(line, '=', 1)) = {} AND (s.setdatabase = 0 OR d.datname = current_database()) \
         AND (s.setrole = 0 OR EXISTS (SELECT FROM pg_catalog.pg_stat_activity a \
              WHERE a.usesysid = s.setrole AND a.datname = current_database() AND a.pid <> pg_backend_pid()))",
        literal(name)
    );
    let mut of_database = None;
    for row in control.rows("looking for settings of roles", &stored)? {
        let mut row = row.into_iter();
        match (row.next().flatten(), row.next().flatten()) {
            (Some(role), _) => {
                return overridden(
                    format!("the role {role} has its own value, and works now"),
                    "try it with a load of another role, or change the role's value by hand",
                )
            }
            (None, Some(database)) => of_database = Some(database),
            (None, None) => {}
        }
    }
    match of_database {
        Some(database) if !fresh_sessions => overridden(
            format!("the database {database} has its own value"),
            "give a load whose sessions are opened again in each block: --per-block -- LOAD",
        ),
        other => Ok(other),
    }
}

/// # Errors
/// If the role may not change the setting there, with the privilege that a superuser would have to grant.
fn may_change(control: &mut Control, name: &str, database: Option<&str>) -> Result<(), TryError> {
    let role = control.value("asking for the role", "SELECT current_user")?.unwrap_or_default();
    let grantee = format!("\"{}\"", role.replace('"', "\"\""));
    let (may, what, grant) = match database {
        Some(database) => (
            format!(
                "(SELECT pg_has_role(datdba, 'USAGE') FROM pg_catalog.pg_database WHERE datname = {})",
                literal(database)
            ),
            format!("change settings of the database {database}"),
            "connect as the database's owner or as a superuser".to_owned(),
        ),
        None => (
            format!(
                "has_parameter_privilege({}, 'ALTER SYSTEM') AND has_function_privilege('pg_reload_conf()', 'EXECUTE') \
                 AND has_function_privilege('pg_show_all_file_settings()', 'EXECUTE') \
                 AND has_table_privilege('pg_catalog.pg_file_settings', 'SELECT')",
                literal(name)
            ),
            format!("change {name} for the server"),
            format!(
                "connect as a superuser, or let one run: GRANT ALTER SYSTEM ON PARAMETER {name} TO {grantee}; \
                 GRANT EXECUTE ON FUNCTION pg_reload_conf(), pg_show_all_file_settings() TO {grantee}; \
                 GRANT SELECT ON pg_file_settings TO {grantee}"
            ),
        ),
    };
    match control.holds("checking the rights", &may)? {
        true => Ok(()),
        false => Err(TryError::NoRights { role, what, grant }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work_mem(database: Option<&str>, prior: Option<&str>) -> SettingSwitch {
        SettingSwitch {
            name: "work_mem".into(),
            value: "64MB".into(),
            database: database.map(String::from),
            prior: prior.map(String::from),
            was: "4MB".into(),
            becomes: Some("64MB".into()),
            replans: true,
        }
    }

    #[test]
    fn an_undo_sets_what_was_set_and_resets_what_was_not() {
        let none = work_mem(None, None);
        assert_eq!(none.apply(), ["ALTER SYSTEM SET work_mem = '64MB';", "SELECT pg_reload_conf();"]);
        assert_eq!(none.undo(), ["ALTER SYSTEM RESET work_mem;", "SELECT pg_reload_conf();"]);
        let own = work_mem(None, Some("9MB"));
        assert_eq!(own.undo()[0], "ALTER SYSTEM SET work_mem = '9MB';");
        let database = work_mem(Some("Shop"), Some("it's"));
        assert_eq!(database.undo(), ["ALTER DATABASE \"Shop\" SET work_mem = 'it''s';"]);
    }
}
