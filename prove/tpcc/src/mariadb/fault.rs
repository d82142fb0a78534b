//! Classifies errors of MariaDB, with remedies.

use crate::error::TpccError;
use crate::work::{Failure, FailureKind};
use hardmeter_session::SessionError;
use mysql::error::MySqlError;
use mysql::Error;

/// The error of a connection attempt as a `TpccError`.
pub(super) fn connecting(target: &str, error: &Error) -> TpccError {
    let (reason, remedy) = match error {
        Error::MySqlError(told) => (told.message.clone(), remedy_of(told)),
        other => (
            plain(other),
            "see that the server runs and listens there (hardmeter server list, or systemctl status mariadb)"
                .to_owned(),
        ),
    };
    SessionError::Connect { target: target.to_owned(), reason, remedy }.into()
}

/// Converts the error of a statement. `what` is its purpose: "loading warehouse 3".
pub(super) fn running(what: &str, error: &Error) -> TpccError {
    let what = what.to_owned();
    match error {
        Error::MySqlError(told) if is_end_of_session(told.code) => SessionError::ServerGone { what },
        Error::MySqlError(told) => SessionError::Statement {
            what,
            reason: told.message.clone(),
            code: told.code.to_string(),
            remedy: remedy_of(told),
        },
        Error::IoError(_) | Error::CodecError(_) | Error::DriverError(_) => SessionError::ServerGone { what },
        other => {
            let reason = plain(other);
            SessionError::Statement { what, reason, code: String::new(), remedy: String::new() }
        }
    }
    .into()
}

/// An error within a transaction. `committing`: COMMIT was sent, and its answer is the error.
pub(super) fn of_transaction(error: &Error, committing: bool) -> Failure {
    match error {
        Error::MySqlError(told) => Failure {
            kind: kind_of(told.code, committing),
            code: told.code.to_string(),
            message: told.message.clone(),
        },
        Error::IoError(_) | Error::CodecError(_) | Error::DriverError(_) => {
            Failure { kind: FailureKind::ConnectionLost, code: String::new(), message: plain(error) }
        }
        other => Failure { kind: FailureKind::Lasting, code: String::new(), message: plain(other) },
    }
}

fn kind_of(code: u16, committing: bool) -> FailureKind {
    match code {
        _ if is_end_of_session(code) => FailureKind::ConnectionLost,
        // After this error at COMMIT the outcome is unknown: a retry could repeat the transaction.
        _ if is_lost_shard(code) && committing => FailureKind::ConnectionLost,
        _ if is_lost_shard(code) => FailureKind::Retriable,
        // Deadlock, lock wait timeout, a row that changed since its snapshot, a branch of XA chosen as victim.
        1213 | 1205 | 1020 | 1614 | 1613 => FailureKind::Retriable,
        _ => FailureKind::Lasting,
    }
}

/// The server shuts down, or the connection was killed.
fn is_end_of_session(code: u16) -> bool {
    matches!(code, 1053 | 1077 | 1079 | 1927 | 3169)
}

/// Spider could not reach a data node: it reports its own error (12xxx, 1429) or passes the client's.
fn is_lost_shard(code: u16) -> bool {
    matches!(code, 1158..=1161 | 1429 | 2002 | 2003 | 2006 | 2013 | 2055 | 12504 | 12701 | 12719)
}

fn remedy_of(told: &MySqlError) -> String {
    match told.code {
        1045 | 1698 => {
            "give the right user (mysql://USER@HOST/DATABASE), and the password in MYSQL_PWD"
        }
        1044 | 1142 | 1227 | 1370 => "connect as a user who may do this, or GRANT it",
        1049 => "make the database (CREATE DATABASE), or name another with --database",
        1040 | 1203 => {
            "let the server have more connections (SET GLOBAL max_connections = N), or ask for fewer: --connections"
        }
        1021 | 1026 | 1114 => "free some space on the disk of the server's data",
        1148 | 4166 => "let clients send rows: SET GLOBAL local_infile = 1",
        1146 => "load the data first: hardmeter tpcc load --engine mariadb",
        1286 => "load the engine's plugin: INSTALL SONAME 'ha_spider' (Debian: mariadb-plugin-spider)",
        1477 => "name the data nodes on the head: CREATE SERVER hardmeter_tpcc_1 FOREIGN DATA WRAPPER mysql OPTIONS (...)",
        1429 | 12701 => "see that all data nodes run and that the head may connect to them",
        1205 => "try again when no transaction holds these rows; SHOW ENGINE INNODB STATUS lists those that do",
        _ => "",
    }
    .to_owned()
}

/// The error in one line; the crate adds words to the operating system's text.
pub(super) fn plain(error: &Error) -> String {
    match error {
        Error::IoError(error) => error.to_string(),
        Error::DriverError(error) => error.to_string(),
        Error::MySqlError(told) => told.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: u16) -> Error {
        Error::MySqlError(MySqlError { state: "HY000".into(), code, message: "as it said".into() })
    }

    #[test]
    fn deadlocks_may_pass_and_wrong_tables_do_not() {
        for (code, kind) in [
            (1213, FailureKind::Retriable),
            (1205, FailureKind::Retriable),
            (1146, FailureKind::Lasting),
            (1927, FailureKind::ConnectionLost),
        ] {
            let failure = of_transaction(&told(code), false);
            assert_eq!((failure.kind, failure.code), (kind, code.to_string()));
        }
    }

    #[test]
    fn a_commit_over_a_lost_shard_is_not_known() {
        assert_eq!(of_transaction(&told(12701), false).kind, FailureKind::Retriable);
        assert_eq!(of_transaction(&told(12701), true).kind, FailureKind::ConnectionLost);
    }

    #[test]
    fn a_wrong_password_is_told_without_it() {
        let error = connecting("tpcc at /run/x", &told(1045));
        assert_eq!(error.to_string(), "cannot connect to tpcc at /run/x: as it said");
        assert!(error.remedy().contains("MYSQL_PWD"));
    }
}
