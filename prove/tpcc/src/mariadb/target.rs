//! The MariaDB server and its database.

use super::fault;
use crate::error::TpccError;
use mysql::{Conn, Opts, OptsBuilder};
use std::path::Path;
use std::time::Duration;

/// The default socket of MariaDB's clients.
const USUAL_SOCKET: &str = "/run/mysqld/mysqld.sock";

/// A server and a database. It holds the password: print only [`Target::description`].
#[derive(Clone)]
pub struct Target {
    options: Opts,
    described: String,
}

impl Target {
    /// Whether a text is a MariaDB connection URL.
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with("mysql://") || text.starts_with("mariadb://")
    }

    /// The target of a URL: `mysql://USER:PASSWORD@HOST:PORT/DATABASE?socket=PATH`, all parts except the host
    /// optional. MYSQL_PWD may hold the password instead, which `ps` does not show.
    ///
    /// # Errors
    ///
    /// [`TpccError::BadConnection`] if the text is not such a URL.
    pub fn parse(text: &str) -> Result<Target, TpccError> {
        let url = match text.strip_prefix("mariadb://") {
            Some(rest) => format!("mysql://{rest}"),
            None => text.to_owned(),
        };
        let options = Opts::from_url(&url).map_err(|error| TpccError::BadConnection {
            connection: without_password(text),
            reason: error.to_string(),
        })?;
        let mut builder = OptsBuilder::from_opts(options.clone());
        if options.get_user().is_none() {
            builder = builder.user(std::env::var("USER").ok());
        }
        if options.get_pass().is_none_or(str::is_empty) {
            builder = builder.pass(std::env::var("MYSQL_PWD").ok());
        }
        // For MariaDB's clients "localhost" means the socket, unless another port is given.
        let local = options.get_ip_or_hostname() == "localhost" && options.get_tcp_port() == 3306;
        if local && options.get_socket().is_none() {
            let usual = std::env::var("MYSQL_UNIX_PORT").unwrap_or_else(|_| USUAL_SOCKET.into());
            if Path::new(&usual).exists() {
                builder = builder.socket(Some(usual));
            }
        }
        Ok(Target::of(builder))
    }

    /// The target behind a unix socket, without a password.
    pub fn socket(socket: &Path, user: &str, database: &str) -> Target {
        let socket = socket.to_string_lossy().into_owned();
        Target::of(OptsBuilder::new().socket(Some(socket)).user(Some(user)).db_name(Some(database)))
    }

    /// A data node of another server: a row of `mysql.servers`.
    pub(super) fn foreign(
        host: &str,
        port: u16,
        socket: &str,
        user: &str,
        password: &str,
        database: &str,
    ) -> Target {
        let mut builder = OptsBuilder::new().user(Some(user)).db_name(Some(database));
        if !password.is_empty() {
            builder = builder.pass(Some(password));
        }
        builder = match socket {
            "" => builder.ip_or_hostname(Some(host)).tcp_port(if port == 0 { 3306 } else { port }),
            path => builder.socket(Some(path)),
        };
        Target::of(builder)
    }

    fn of(builder: OptsBuilder) -> Target {
        // Keep a prepared statement for each order length; keep TCP if it was requested.
        let builder = builder
            .stmt_cache_size(Some(256))
            .prefer_socket(false)
            .tcp_connect_timeout(Some(Duration::from_secs(20)));
        let options = Opts::from(builder);
        let place = match options.get_socket() {
            Some(socket) => socket.to_owned(),
            None => format!("{}:{}", options.get_ip_or_hostname(), options.get_tcp_port()),
        };
        let described = format!("{} at {place}", options.get_db_name().unwrap_or("no database"));
        Target { options, described }
    }

    /// The same server, another database.
    pub fn with_database(&self, database: &str) -> Target {
        Target::of(OptsBuilder::from_opts(self.options.clone()).db_name(Some(database)))
    }

    /// The database's name; empty if none was given.
    pub fn database(&self) -> &str {
        self.options.get_db_name().unwrap_or("")
    }

    /// Database and server in words, without the password.
    pub fn description(&self) -> &str {
        &self.described
    }

    /// A connection with the settings of all of Hardmeter's connections.
    pub(super) fn connect(&self) -> Result<Conn, TpccError> {
        self.connect_as(&self.options)
    }

    /// A connection to the server, whether the database is there or not.
    pub(super) fn connect_without_database(&self) -> Result<Conn, TpccError> {
        let options = OptsBuilder::from_opts(self.options.clone()).db_name(None::<String>);
        self.connect_as(&options.into())
    }

    fn connect_as(&self, options: &Opts) -> Result<Conn, TpccError> {
        use mysql::prelude::Queryable;
        let mut connection =
            Conn::new(options.clone()).map_err(|error| fault::connecting(&self.described, &error))?;
        // Answers are compared as texts, and sums must not be truncated silently: override the server's defaults.
        connection
            .query_drop(
                "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', \
                 SESSION tx_isolation = 'REPEATABLE-READ', NAMES latin1",
            )
            .map_err(|error| fault::connecting(&self.described, &error))?;
        Ok(connection)
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Target").field(&self.described).finish()
    }
}

/// A URL for printing: everything between the user's name and the last @ is left out.
fn without_password(url: &str) -> String {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(begin);
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    match authority.rfind('@').and_then(|at| Some((at, authority[..at].find(':')?))) {
        Some((at, colon)) => format!("{scheme}{}:***{}", &rest[..colon], &rest[at..]),
        // A malformed URL may have its password anywhere: print none of it.
        None if rest.contains('@') && !authority.contains('@') => format!("{scheme}***"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_socket_or_the_host() {
        let target = Target::parse("mysql://bench@localhost/tpcc?socket=/run/x/my.sock").unwrap();
        assert_eq!(target.description(), "tpcc at /run/x/my.sock");
        assert_eq!(target.database(), "tpcc");
        let target = Target::parse("mariadb://bench:secret@db.example:3307/tpcc").unwrap();
        assert_eq!(target.description(), "tpcc at db.example:3307");
        assert_eq!(target.with_database("other").description(), "other at db.example:3307");
        assert_eq!(target.options.get_pass(), Some("secret"));
        assert!(!format!("{target:?}").contains("secret"));
    }

    #[test]
    fn a_password_is_printed_nowhere() {
        assert_eq!(without_password("mysql://u:pass@h/d"), "mysql://u:***@h/d");
        assert_eq!(without_password("mysql://u:p:a@s@h/d"), "mysql://u:***@h/d");
        assert_eq!(without_password("mysql://u@h/d"), "mysql://u@h/d");
        assert_eq!(without_password("mysql://u:pa/ss@h/d"), "mysql://***");
        let error = Target::parse("mysql://u:secret@h:not-a-port/d").unwrap_err();
        assert!(!error.to_string().contains("secret") && error.remedy().contains("mysql://"), "{error}");
    }
}
