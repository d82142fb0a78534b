//! Queries of the rows, in SQL that all engines accept.

use crate::error::TpccError;
use hardmeter_session::Session;

/// A session of an engine that answers questions on the rows.
pub(crate) trait Questions {
    /// The rows of a statement that is written so that all engines understand it. `what` is for messages.
    fn rows(&mut self, what: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, TpccError>;

    /// The statement that selects name and type of each column of a table, in the engine's catalog.
    fn types_of(&self, table: &str) -> String;
}

impl Questions for Session {
    fn rows(&mut self, what: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, TpccError> {
        Ok(self.query(what, sql)?.rows)
    }

    fn types_of(&self, table: &str) -> String {
        format!(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute \
             WHERE attrelid = to_regclass('{table}') AND attnum > 0 AND NOT attisdropped"
        )
    }
}
