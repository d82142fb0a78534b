//! The reason why a connection could not be opened, with the remedy.

use super::refusal::Refusal;
use crate::error::TpccError;
use hardmeter_session::SessionError;

const LISTENS: &str =
    "see that the server runs and listens there (hardmeter server list, or pg_lsclusters), and that it is a PostgreSQL";

/// The remedy when the kernel opens no more files.
pub(super) const MORE_FILES: &str =
    "let this process open more files (ulimit -n), or give the run fewer --connections";

/// The connection could not be made, or the peer is not a PostgreSQL server.
pub(super) fn cannot_connect(target: &str, reason: impl ToString) -> TpccError {
    connect(target, reason.to_string(), LISTENS)
}

/// The same, with a specific remedy.
pub(super) fn connect(target: &str, reason: String, remedy: &str) -> TpccError {
    SessionError::Connect { target: target.to_owned(), reason, remedy: remedy.to_owned() }.into()
}

/// The server refused the authentication.
pub(super) fn refused(target: &str, refusal: &Refusal) -> TpccError {
    let remedy = match refusal.code.as_str() {
        "53300" => {
            "give the run fewer --connections (all drivers and threads together), or the server more: max_connections, \
             and a restart; a role's or a database's own limit is changed by ALTER ROLE or ALTER DATABASE ... CONNECTION LIMIT"
        }
        "28P01" => "give the right password in PGPASSWORD or in ~/.pgpass",
        "28000" => "name a user whom the server lets in from here (user=NAME; see its pg_hba.conf)",
        "3D000" => "load the data (hardmeter tpcc load), or name another database with --database",
        "57P03" => "the server is starting, or shutting down: see its log, and try again when it is up",
        _ => LISTENS,
    };
    connect(target, refusal.message.clone(), remedy)
}

/// The server accepted the connection but refused a statement that every connection starts with.
pub(super) fn not_prepared(what: String, refusal: &Refusal) -> TpccError {
    let remedy = match refusal.code.as_str() {
        "42P01" => {
            "load the data (hardmeter tpcc load), or name the database that holds them with --database"
        }
        "42883" => "the stored procedures are not there: load the data again, or run with client SQL",
        "42703" | "42804" | "42P13" => {
            "the tables are not those that hardmeter tpcc load makes: name another database with --database"
        }
        "42501" => "connect as a user who may do this, or GRANT it",
        _ => "",
    };
    let (reason, code) = (refusal.message.clone(), refusal.code.clone());
    SessionError::Statement { what, reason, code, remedy: remedy.to_owned() }.into()
}
