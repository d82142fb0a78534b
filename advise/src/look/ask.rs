//! A query and its rows as structures.

use crate::AdviseError;
use hardmeter_session::{Answer, Session};
use serde::de::DeserializeOwned;

/// Rows of a query, each as a structure whose fields are the columns.
pub(super) fn ask<T: DeserializeOwned>(
    session: &mut Session,
    what: &str,
    sql: &str,
) -> Result<Vec<T>, AdviseError> {
    let sql = format!("SELECT coalesce(json_agg(hardmeter_look), '[]') FROM ({sql}) hardmeter_look");
    rows(what, &session.query(what, &sql)?)
}

/// The rows of an answer that is one JSON list.
pub(super) fn rows<T: DeserializeOwned>(what: &str, answer: &Answer) -> Result<Vec<T>, AdviseError> {
    serde_json::from_str(answer.single().unwrap_or("[]"))
        .map_err(|error| AdviseError::Answer { what: what.to_owned(), reason: error.to_string() })
}
