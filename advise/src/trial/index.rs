//! Creates and drops an index for a trial.
//!
//! PostgreSQL has no supported way to hide an index from the planner, so each switch builds or drops it: a
//! trial can alternate only if building takes seconds. Both are done CONCURRENTLY, with a lock_timeout; a
//! failed build leaves an invalid index, which is dropped.
//!
//! Invariants:
//! 1. No index of this name existed when the switch was planned: a later index of the name belongs to the
//!    trial.
//! 2. A session that builds or drops holds `Lock::Build`.

use super::control::{literal, Control};
use super::outcome::Undone;
use super::TryError;
use crate::look::views::quoted;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// An index and its definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexSwitch {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// `CREATE INDEX ... ON ...`, without CONCURRENTLY.
    pub definition: String,
}

impl IndexSwitch {
    pub(super) fn plan(
        control: &mut Control,
        schema: &str,
        name: &str,
        definition: &str,
    ) -> Result<IndexSwitch, TryError> {
        let switch = IndexSwitch { schema: schema.into(), name: name.into(), definition: definition.into() };
        if switch.exists(control)? {
            return Err(TryError::Already { what: format!("{} exists", switch.sql_name()) });
        }
        let table = table_of(definition).unwrap_or_default();
        let rights = format!(
            "(SELECT pg_has_role(c.relowner, 'USAGE') AND has_schema_privilege(c.relnamespace, 'CREATE') \
             FROM pg_catalog.pg_class c WHERE c.oid = to_regclass({}))",
            literal(table)
        );
        if !control.holds("checking the rights", &rights)? {
            let role = control.value("asking for the role", "SELECT current_user")?.unwrap_or_default();
            return Err(TryError::NoRights {
                role,
                what: format!("create an index on {table}"),
                grant: "connect as the table's owner or as a superuser".into(),
            });
        }
        Ok(switch)
    }

    fn sql_name(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    fn exists(&self, control: &mut Control) -> Result<bool, TryError> {
        let condition = format!("to_regclass({}) IS NOT NULL", literal(&self.sql_name()));
        control.holds("searching the index", &condition)
    }

    pub(super) fn create(&self) -> String {
        let definition = self.definition.trim_end_matches(';');
        format!("{};", definition.replacen("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1))
    }

    pub(super) fn drop(&self) -> String {
        format!("DROP INDEX CONCURRENTLY IF EXISTS {};", self.sql_name())
    }

    /// Builds or drops it; returns the time it took.
    pub(super) fn to(&self, on: bool, control: &mut Control) -> Result<Duration, TryError> {
        // Two blocks of one kind may follow each other.
        if self.exists(control)? == on {
            return Ok(Duration::ZERO);
        }
        let begin = Instant::now();
        if on {
            control.run("creating the index", &self.create())?;
        } else {
            control.run("dropping the index", &self.drop())?;
        }
        Ok(begin.elapsed())
    }

    pub(super) fn restore(&self, control: &mut Control) -> Result<Undone, TryError> {
        if !self.exists(control)? {
            return Ok(Undone::AsBefore);
        }
        control.run("dropping the index", &self.drop())?;
        Ok(Undone::Restored)
    }
}

/// The table in the definition of an index: the text between ON and USING or the columns.
fn table_of(definition: &str) -> Option<&str> {
    let rest = definition.split_once(" ON ")?.1.trim_start();
    let rest = rest.strip_prefix("ONLY ").unwrap_or(rest);
    let end = rest.find(" USING ").or_else(|| rest.find('('))?;
    Some(rest[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_built_and_dropped_concurrently() {
        let index = IndexSwitch {
            schema: "public".into(),
            name: "ox_cust_idx".into(),
            definition: "CREATE INDEX ox_cust_idx ON public.ox USING btree (cust)".into(),
        };
        let create = "CREATE INDEX CONCURRENTLY ox_cust_idx ON public.ox USING btree (cust);";
        assert_eq!(
            (index.create(), index.drop()),
            (create.into(), "DROP INDEX CONCURRENTLY IF EXISTS public.ox_cust_idx;".into())
        );
    }

    #[test]
    fn the_table_of_a_definition() {
        assert_eq!(table_of("CREATE INDEX i ON public.ox (cust)"), Some("public.ox"));
        assert_eq!(table_of("CREATE INDEX i ON ONLY \"A b\".t USING btree (c)"), Some("\"A b\".t"));
        assert_eq!(table_of("CREATE TABLE t"), None);
    }
}
