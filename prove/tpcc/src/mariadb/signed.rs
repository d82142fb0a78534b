//! A connection that appends the sender's comment to each statement of a transaction.

use crate::origin::signed;
use mysql::prelude::{FromRow, Queryable};
use mysql::{Conn, Params, Result};

/// See the module.
pub(super) struct SignedConnection<'a> {
    pub(super) connection: &'a mut Conn,
    /// Appended to every statement; may be empty.
    pub(super) comment: &'a str,
}

/// The connection prepares each text once and reuses it.
impl SignedConnection<'_> {
    pub(super) fn exec<T: FromRow>(&mut self, sql: &str, values: impl Into<Params>) -> Result<Vec<T>> {
        self.connection.exec(signed(sql, self.comment), values)
    }

    pub(super) fn exec_first<T: FromRow>(
        &mut self,
        sql: &str,
        values: impl Into<Params>,
    ) -> Result<Option<T>> {
        self.connection.exec_first(signed(sql, self.comment), values)
    }

    pub(super) fn exec_drop(&mut self, sql: &str, values: impl Into<Params>) -> Result<()> {
        self.connection.exec_drop(signed(sql, self.comment), values)
    }

    pub(super) fn exec_batch<P: Into<Params>>(
        &mut self,
        sql: &str,
        rows: impl IntoIterator<Item = P>,
    ) -> Result<()> {
        self.connection.exec_batch(signed(sql, self.comment), rows)
    }

    pub(super) fn query_drop(&mut self, sql: &str) -> Result<()> {
        self.connection.query_drop(signed(sql, self.comment))
    }
}
