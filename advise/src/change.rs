//! Changes of remedies as data: statements that apply them, and statements that restore the former state.
//!
//! 1. An undo restores values: a setting that was set in the same scope is set to that value again. It is
//!    reset only if the scope had no value.
//! 2. Names and values are quoted here: callers pass them unquoted.
//! 3. Each statement is sent separately and outside of a transaction, as ALTER SYSTEM and CREATE INDEX
//!    CONCURRENTLY need.

use crate::look::views::quoted;
use crate::mariadb::name as maria;
use crate::Server;
use serde::{Deserialize, Serialize};

/// Where a setting is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The server: postgresql.auto.conf.
    System,
    /// A database.
    Database(String),
    /// A role, in each database.
    Role(String),
    /// A role in one database.
    #[allow(missing_docs)]
    RoleInDatabase { role: String, database: String },
}

impl Scope {
    /// The beginning of the command that sets or resets a setting there.
    fn command(&self) -> String {
        match self {
            Scope::System => "ALTER SYSTEM".into(),
            Scope::Database(name) => format!("ALTER DATABASE {}", quoted(name)),
            Scope::Role(name) => format!("ALTER ROLE {}", quoted(name)),
            Scope::RoleInDatabase { role, database } => {
                format!("ALTER ROLE {} IN DATABASE {}", quoted(role), quoted(database))
            }
        }
    }
}

/// When a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Takes {
    /// When its statement ends.
    AtOnce,
    /// In sessions that begin later.
    NewSessions,
    /// When the server rereads its configuration, which `apply` and `undo` request.
    Reload,
    /// When the server is restarted, which no statement does.
    Restart,
}

/// The kind of a change. Names are unquoted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs)] // names describe themselves
pub enum ChangeKind {
    /// A setting. `before` is the value that the same scope had when the server was examined.
    Setting { scope: Scope, name: String, value: String, before: Option<String> },
    /// `definition` is in the form of `pg_get_indexdef`.
    CreateIndex { schema: String, name: String, definition: String },
    /// `definition` is in the form of `pg_get_indexdef`.
    DropIndex { schema: String, name: String, definition: String },
    /// A storage parameter of a table.
    TableOption { schema: String, table: String, name: String, value: String, before: Option<String> },
    /// A variable of MariaDB, until the server is restarted. `before` is the value that SET GLOBAL takes back.
    GlobalVariable { name: String, value: String, before: String },
    /// An index of MariaDB; `columns` are as CREATE INDEX takes them.
    CreateOnlineIndex { table: String, index: String, columns: String },
    /// An index of MariaDB that nothing needs.
    DropOnlineIndex { table: String, index: String, columns: String },
    /// A setting that the server's command line gives, and a person must change. `before` is its value there.
    CommandLine { name: String, value: String, before: String },
    /// New statistics for the planner.
    Analyze { schema: String, table: String },
}

/// One change of a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What is changed.
    #[serde(flatten)]
    pub kind: ChangeKind,
    /// When it takes effect.
    pub takes: Takes,
}

impl Change {
    /// A change that takes effect at once: of an index, a table or its statistics.
    pub fn at_once(kind: ChangeKind) -> Change {
        Change { kind, takes: Takes::AtOnce }
    }

    /// Statements that apply it, in this order.
    pub fn apply(&self) -> Vec<String> {
        match &self.kind {
            ChangeKind::Setting { scope, name, value, .. } => self.setting(scope, name, Some(value)),
            ChangeKind::CreateIndex { definition, .. } => vec![concurrently(definition)],
            ChangeKind::DropIndex { schema, name, .. } => vec![dropping(schema, name)],
            ChangeKind::TableOption { schema, table, name, value, .. } => {
                vec![option(schema, table, name, Some(value))]
            }
            ChangeKind::GlobalVariable { name, value, .. } => vec![set_global(name, value)],
            ChangeKind::CreateOnlineIndex { table, index, columns } => {
                vec![create_online(&maria(table), &maria(index), columns)]
            }
            ChangeKind::DropOnlineIndex { table, index, .. } => {
                vec![drop_online(&maria(table), &maria(index))]
            }
            ChangeKind::CommandLine { name, value, before } => vec![format!(
                "-- the server's command line sets {name} (now {before}): set {value} there, and restart"
            )],
            ChangeKind::Analyze { schema, table } => vec![format!("ANALYZE {};", full_name(schema, table))],
        }
    }

    /// Statements that undo it, in this order; none if it cannot be undone.
    pub fn undo(&self) -> Vec<String> {
        match &self.kind {
            ChangeKind::Setting { scope, name, before, .. } => self.setting(scope, name, before.as_deref()),
            ChangeKind::CreateIndex { schema, name, .. } => vec![dropping(schema, name)],
            ChangeKind::DropIndex { definition, .. } => vec![concurrently(definition)],
            ChangeKind::TableOption { schema, table, name, before, .. } => {
                vec![option(schema, table, name, before.as_deref())]
            }
            ChangeKind::GlobalVariable { name, before, .. } => vec![set_global(name, before)],
            ChangeKind::CreateOnlineIndex { table, index, .. } => {
                vec![drop_online(&maria(table), &maria(index))]
            }
            ChangeKind::DropOnlineIndex { table, index, columns } => {
                vec![create_online(&maria(table), &maria(index), columns)]
            }
            ChangeKind::CommandLine { name, .. } => {
                vec![format!("-- the former {name} on the server's command line")]
            }
            ChangeKind::Analyze { .. } => Vec::new(),
        }
    }

    fn setting(&self, scope: &Scope, name: &str, value: Option<&str>) -> Vec<String> {
        let command = scope.command();
        let statement = match value {
            Some(value) => format!("{command} SET {} = {};", name_of_setting(name), literal(value)),
            None => format!("{command} RESET {};", name_of_setting(name)),
        };
        match self.takes {
            Takes::Reload => vec![statement, "SELECT pg_reload_conf();".into()],
            _ => vec![statement],
        }
    }
}

/// All statements that apply these changes.
pub fn applying(changes: &[Change]) -> Vec<String> {
    changes.iter().flat_map(Change::apply).collect()
}

/// All statements that undo these changes: the last one first.
pub fn undoing(changes: &[Change]) -> Vec<String> {
    changes.iter().rev().flat_map(Change::undo).collect()
}

impl Server {
    /// The value that is set in this scope, if any.
    pub fn configured(&self, scope: &Scope, name: &str) -> Option<&str> {
        let found = self.configured.iter().find(|one| one.scope == *scope && one.name == name)?;
        Some(&found.value)
    }

    /// A change of a setting; its former value, and when the change takes effect, come from the look.
    pub fn change(&self, scope: Scope, name: &str, value: &str) -> Change {
        let takes = match scope {
            _ if self.fixed.iter().any(|fixed| fixed == name) => Takes::Restart,
            Scope::System => Takes::Reload,
            _ => Takes::NewSessions,
        };
        let before = self.configured(&scope, name).map(str::to_owned);
        Change { kind: ChangeKind::Setting { scope, name: name.into(), value: value.into(), before }, takes }
    }
}

/// Sets a variable of MariaDB for the server. Names of variables need no quotes.
pub(crate) fn set_global(name: &str, value: &str) -> String {
    let plain = value.parse::<f64>().is_ok_and(f64::is_finite) || matches!(value, "ON" | "OFF" | "DEFAULT");
    match plain {
        true => format!("SET GLOBAL {name} = {value};"),
        false => format!("SET GLOBAL {name} = '{}';", value.replace('\\', "\\\\").replace('\'', "''")),
    }
}

/// Builds an index of MariaDB while writers work. Names are quoted.
pub(crate) fn create_online(table: &str, index: &str, columns: &str) -> String {
    format!("CREATE INDEX {index} ON {table} ({columns}) ALGORITHM=INPLACE LOCK=NONE;")
}

/// Drops an index of MariaDB while writers work: DROP INDEX takes no such clauses. Names are quoted.
pub(crate) fn drop_online(table: &str, index: &str) -> String {
    format!("ALTER TABLE {table} DROP INDEX {index}, ALGORITHM=INPLACE, LOCK=NONE;")
}

fn full_name(schema: &str, name: &str) -> String {
    format!("{}.{}", quoted(schema), quoted(name))
}

fn dropping(schema: &str, name: &str) -> String {
    format!("DROP INDEX CONCURRENTLY {};", full_name(schema, name))
}

/// An index's definition as a command that does not block writers.
fn concurrently(definition: &str) -> String {
    let definition = definition.trim_end_matches(';');
    for begin in ["CREATE UNIQUE INDEX ", "CREATE INDEX "] {
        if let Some(rest) = definition.strip_prefix(begin) {
            return format!("{begin}CONCURRENTLY {rest};");
        }
    }
    format!("{definition};")
}

fn option(schema: &str, table: &str, name: &str, value: Option<&str>) -> String {
    let table = full_name(schema, table);
    match value {
        Some(value) => format!("ALTER TABLE {table} SET ({name} = {});", literal(value)),
        None => format!("ALTER TABLE {table} RESET ({name});"),
    }
}

/// A setting's name, each part quoted if SQL needs it: settings of extensions have two parts.
fn name_of_setting(name: &str) -> String {
    name.split('.').map(quoted).collect::<Vec<_>>().join(".")
}

/// A value: numbers and on/off unquoted, all others as a literal.
fn literal(value: &str) -> String {
    let number = value.parse::<f64>().is_ok_and(f64::is_finite) && !value.starts_with('+');
    match number || matches!(value, "on" | "off") {
        true => value.to_owned(),
        false if value.contains('\\') => {
            format!("E'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
        }
        false => format!("'{}'", value.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Configured;

    fn server() -> Server {
        let set =
            |scope, name: &str, value: &str| Configured { scope, name: name.into(), value: value.into() };
        Server {
            fixed: vec!["shared_buffers".into()],
            configured: vec![
                set(Scope::Database("shop".into()), "jit", "on"),
                set(Scope::System, "shared_buffers", "1GB"),
            ],
            ..Server::default()
        }
    }

    #[test]
    fn an_undo_sets_what_was_set() {
        let change = server().change(Scope::Database("shop".into()), "jit", "off");
        assert_eq!(change.apply(), ["ALTER DATABASE shop SET jit = off;"]);
        assert_eq!(change.undo(), ["ALTER DATABASE shop SET jit = on;"]);
        assert_eq!(change.takes, Takes::NewSessions);
        // Another scope had no value.
        let change = server().change(Scope::Role("Bob".into()), "jit", "off");
        assert_eq!(change.undo(), ["ALTER ROLE \"Bob\" RESET jit;"]);
        let both = Scope::RoleInDatabase { role: "a".into(), database: "b".into() };
        let change = server().change(both, "work_mem", "16MB");
        assert_eq!(change.apply(), ["ALTER ROLE a IN DATABASE b SET work_mem = '16MB';"]);
    }

    #[test]
    fn a_setting_of_the_server_takes_a_reload_or_a_restart() {
        let change = server().change(Scope::System, "shared_buffers", "2GB");
        assert_eq!((change.takes, change.apply().len()), (Takes::Restart, 1));
        assert_eq!(change.undo(), ["ALTER SYSTEM SET shared_buffers = '1GB';"]);
        let change = server().change(Scope::System, "wal_compression", "on");
        assert_eq!(change.apply(), ["ALTER SYSTEM SET wal_compression = on;", "SELECT pg_reload_conf();"]);
        assert_eq!(change.undo(), ["ALTER SYSTEM RESET wal_compression;", "SELECT pg_reload_conf();"]);
    }

    #[test]
    fn indexes_are_built_and_dropped_without_blocking() {
        let definition = "CREATE UNIQUE INDEX \"I\" ON public.t USING btree (a)".to_owned();
        let (schema, name) = ("public".to_owned(), "I".to_owned());
        let drop = Change::at_once(ChangeKind::DropIndex { schema, name, definition });
        assert_eq!(drop.apply(), ["DROP INDEX CONCURRENTLY public.\"I\";"]);
        assert_eq!(drop.undo(), ["CREATE UNIQUE INDEX CONCURRENTLY \"I\" ON public.t USING btree (a);"]);
    }

    #[test]
    fn changes_are_undone_in_reverse_and_values_are_quoted() {
        let table = |name: &str, before: Option<&str>| {
            let (schema, table) = ("s".to_owned(), "t".to_owned());
            let (name, before) = (name.to_owned(), before.map(str::to_owned));
            Change::at_once(ChangeKind::TableOption { schema, table, name, value: "80".into(), before })
        };
        let analyze = Change::at_once(ChangeKind::Analyze { schema: "s".into(), table: "t".into() });
        let changes = [analyze, table("fillfactor", Some("90")), table("n_distinct", None)];
        assert_eq!(applying(&changes)[0], "ANALYZE s.t;");
        assert_eq!(
            undoing(&changes),
            ["ALTER TABLE s.t RESET (n_distinct);", "ALTER TABLE s.t SET (fillfactor = 90);"]
        );
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("a\\'b"), "E'a\\\\''b'");
        assert_eq!(name_of_setting("pg_stat_statements.track"), "pg_stat_statements.track");
    }

    #[test]
    fn programs_read_what_was_written() {
        let change = server().change(Scope::Database("shop".into()), "jit", "off");
        let json = serde_json::to_value(&change).unwrap();
        let expected = serde_json::json!({"kind": "setting", "scope": {"database": "shop"}, "name": "jit",
            "value": "off", "before": "on", "takes": "new_sessions"});
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<Change>(json).unwrap(), change);
    }
}
