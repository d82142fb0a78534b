//! What an engine tells of itself, whichever it is.

use super::processes::Process;
use crate::error::TpccError;
use std::collections::BTreeMap;

/// A server under test, asked over a connection of its own.
pub trait Server: Send {
    /// Its first process, if it runs on this machine and can be seen.
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

    /// Asks for a checkpoint, and waits until it is done.
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

/// What changes while a run goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// What is another one after each checkpoint.
    pub last_checkpoint: String,
    /// Number of requested checkpoints, since the server counts.
    pub requested: u64,
    /// What is another one after each start of the server.
    pub start: String,
}

/// A setting's value as it may be shown: some hold passwords, or commands with passwords.
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
