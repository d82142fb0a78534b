//! How a MariaDB server is reached, and one session with it.

use crate::AdviseError;
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, Value};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The server and its database.
#[derive(Clone, Debug)]
pub struct MariaTarget {
    options: Opts,
    socket: Option<PathBuf>,
}

impl MariaTarget {
    /// The server behind a unix socket.
    pub fn socket(socket: &Path, user: &str, database: &str) -> MariaTarget {
        let text = socket.to_string_lossy().into_owned();
        let builder = OptsBuilder::new().socket(Some(text)).user(Some(user)).db_name(Some(database));
        MariaTarget { options: builder.into(), socket: Some(socket.to_owned()) }
    }

    /// The server of a URL: `mysql://user@host:port/database`, or `mariadb://...`.
    ///
    /// # Errors
    /// If the text is not such a URL.
    pub fn parse(url: &str) -> Result<MariaTarget, AdviseError> {
        let text = match url.strip_prefix("mariadb://") {
            Some(rest) => format!("mysql://{rest}"),
            None => url.to_owned(),
        };
        let options = Opts::from_url(&text).map_err(|error| AdviseError::Maria {
            what: "reading the URL".into(),
            reason: error.to_string(),
            remedy: "write it as mysql://user@host:port/database".into(),
        })?;
        let password = options.get_pass().map(String::from).or_else(|| std::env::var("MYSQL_PWD").ok());
        let builder = OptsBuilder::from_opts(options).prefer_socket(false).pass(password);
        Ok(MariaTarget { options: builder.into(), socket: None })
    }

    /// The same server, another database.
    pub fn with_database(&self, database: &str) -> MariaTarget {
        let builder = OptsBuilder::from_opts(self.options.clone()).db_name(Some(database));
        MariaTarget { options: builder.into(), socket: self.socket.clone() }
    }

    /// The database's name; empty: none.
    pub fn database(&self) -> &str {
        self.options.get_db_name().unwrap_or_default()
    }

    /// The database and the server, as text.
    pub fn description(&self) -> String {
        let server = match &self.socket {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", self.options.get_ip_or_hostname(), self.options.get_tcp_port()),
        };
        format!("{} at {server}", self.database())
    }

    /// The same for programs with MariaDB's client library: environment variables, without the password.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        match &self.socket {
            Some(socket) => vec![("MYSQL_UNIX_PORT".into(), socket.into())],
            None => vec![
                ("MYSQL_HOST".into(), self.options.get_ip_or_hostname().to_string().into()),
                ("MYSQL_TCP_PORT".into(), self.options.get_tcp_port().to_string().into()),
            ],
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// If the server does not accept the connection.
    pub fn open(&self) -> Result<MariaSession, AdviseError> {
        let builder = OptsBuilder::from_opts(self.options.clone())
            .prefer_socket(false)
            .tcp_connect_timeout(Some(Duration::from_secs(20)));
        let connection = Conn::new(builder).map_err(|error| AdviseError::Maria {
            what: format!("connecting to {}", self.description()),
            reason: error.to_string(),
            remedy: "check that the server runs, and the user's rights (the password is read from MYSQL_PWD)"
                .into(),
        })?;
        Ok(MariaSession { connection })
    }
}

/// One connection.
pub struct MariaSession {
    connection: Conn,
}

impl MariaSession {
    /// Rows of texts; `None` is NULL.
    ///
    /// # Errors
    /// If the server refuses the statement.
    pub fn rows(&mut self, what: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, AdviseError> {
        let rows = self.connection.query::<mysql::Row, _>(sql);
        let rows = rows.map_err(|error| failed(what, &error))?;
        Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect())
    }

    /// The one value of the one row; `None` for NULL and for no row.
    ///
    /// # Errors
    /// As [`MariaSession::rows`].
    pub fn value(&mut self, what: &str, sql: &str) -> Result<Option<String>, AdviseError> {
        Ok(self.rows(what, sql)?.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// As [`MariaSession::rows`].
    pub fn run(&mut self, what: &str, sql: &str) -> Result<(), AdviseError> {
        self.connection.query_drop(sql).map_err(|error| failed(what, &error))
    }
}

fn failed(what: &str, error: &mysql::Error) -> AdviseError {
    AdviseError::Maria {
        what: what.to_owned(),
        reason: error.to_string(),
        remedy: "grant the user PROCESS and SELECT; for trials SUPER or SYSTEM_VARIABLES_ADMIN, of an index INDEX and ALTER".into(),
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Value::Int(number) => Some(number.to_string()),
        Value::UInt(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Double(number) => Some(number.to_string()),
        other => Some(other.as_sql(true)),
    }
}

/// A text as SQL takes it.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A name as SQL takes it.
pub(crate) fn name(text: &str) -> String {
    format!("`{}`", text.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_described() {
        let socket = MariaTarget::socket(Path::new("/run/my.sock"), "root", "shop");
        assert_eq!((socket.description().as_str(), socket.database()), ("shop at /run/my.sock", "shop"));
        assert_eq!(socket.environment(), [("MYSQL_UNIX_PORT".to_owned(), OsString::from("/run/my.sock"))]);
        let url = MariaTarget::parse("mariadb://bob@db.example:3307/shop").unwrap();
        assert_eq!(url.description(), "shop at db.example:3307");
        assert!(MariaTarget::parse("no url").is_err());
        assert_eq!((literal("it's\\"), name("a`b")), ("'it''s\\\\'".into(), "`a``b`".into()));
    }
}
