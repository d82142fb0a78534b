//! The observation interface that every engine implements.

use super::processes::Process;
use crate::error::TpccError;
use std::collections::BTreeMap;

/// A server under test, observed over a connection of its own.
pub trait Server: Send {
    /// Its first process; `None` if it runs on another machine or is not visible.
    fn first_process(&self) -> Option<Process>;

    /// Settings that are not its defaults, without secrets.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if the statement fails.
    fn settings(&mut self) -> Result<BTreeMap<String, String>, TpccError>;

    /// Bytes of the database.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if the statement fails.
    fn database_bytes(&mut self) -> Result<u64, TpccError>;

    /// Reads what changes during a run.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if the statement fails.
    fn look(&mut self) -> Result<Look, TpccError>;

    /// Requests a checkpoint, and waits until it is done.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if the statement fails.
    fn checkpoint(&mut self) -> Result<(), TpccError>;

    /// Connects again, to the same server or its replacement.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if the server does not accept the connection.
    fn reconnect(&mut self) -> Result<(), TpccError>;
}

/// Observed values that change during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// A text that changes with each checkpoint.
    pub last_checkpoint: String,
    /// Number of requested checkpoints, by the server's counter.
    pub requested: u64,
    /// A text that changes with each start of the server.
    pub start: String,
}

/// A setting's value for display: settings with passwords, or with commands that may contain them, are masked.
pub fn shown(name: &str, value: &str) -> String {
    const SECRET: [&str; 10] = [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "conninfo",
        "token",
        "credential",
        "_command",
        "apikey",
        "license",
    ];
    // No secret, though its name sounds so.
    const HARMLESS: [&str; 1] = ["password_encryption"];
    let name = name.to_lowercase();
    if SECRET.iter().any(|word| name.contains(word))
        && !HARMLESS.contains(&name.as_str())
        && !value.is_empty()
    {
        "(not shown)".into()
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(shown("primary_conninfo", "host=a password=b"), "(not shown)");
        assert_eq!(shown("archive_command", "curl -u me:secret"), "(not shown)");
        assert_eq!(shown("my.Secret_Key", "x"), "(not shown)");
        assert_eq!(shown("archive_command", ""), "");
        assert_eq!(shown("password_encryption", "md5"), "md5");
        assert_eq!(shown("shared_buffers", "1GB"), "1GB");
    }
}
