//! Questions on the rows, as all engines understand them.

use crate::error::TpccError;
use hardmeter_session::Session;

/// Whoever answers questions on the rows: an engine's session.
pub(crate) trait Questions {
    /// The rows of a statement that is written so that all engines understand it. `what` is for messages.
    fn rows(&mut self, what: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, TpccError>;
}

impl Questions for Session {
    fn rows(&mut self, what: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, TpccError> {
        Ok(self.query(what, sql)?.rows)
    }
}
