//! Fills a database with a site's rows: `LOAD DATA LOCAL`, one table at a time.

use crate::error::AuctionError;
use crate::population::Population;
use crate::schema::{Table, ACCOUNT, DATABASE};
use mysql::prelude::Queryable;
use mysql::{Conn, LocalInfileHandler, OptsBuilder};
use std::io::Write;
use std::path::Path;

/// Bytes sent to the server at a time.
const CHUNK: usize = 1 << 17;

/// A connection to a throwaway MariaDB, as its superuser.
///
/// # Errors
///
/// [`AuctionError`] if the server does not accept the connection.
pub fn connect(socket: &Path) -> Result<Conn, AuctionError> {
    let options =
        OptsBuilder::new().user(Some("root")).socket(Some(socket.to_string_lossy())).prefer_socket(true);
    Conn::new(options).map_err(database("connecting to MariaDB"))
}

pub(crate) fn database(what: impl Into<String>) -> impl FnOnce(mysql::Error) -> AuctionError {
    let what = what.into();
    move |source| AuctionError::Database { what, source }
}

/// Makes the database, replaces an existing one, and fills it. `progress` receives the name of each table.
///
/// # Errors
///
/// [`AuctionError`] if a statement fails, or loading a table gives a warning.
pub fn load(socket: &Path, population: &Population, progress: &dyn Fn(&str)) -> Result<(), AuctionError> {
    let mut connection = connect(socket)?;
    for sql in [
        format!("DROP DATABASE IF EXISTS {DATABASE}"),
        format!("CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"),
        format!("USE {DATABASE}"),
        format!("CREATE USER IF NOT EXISTS {ACCOUNT}@localhost"),
        format!("GRANT SELECT, INSERT, UPDATE ON {DATABASE}.* TO {ACCOUNT}@localhost"),
        // So that FROM_UNIXTIME and the pages' NOW() use the same time zone.
        "SET GLOBAL time_zone = '+00:00'".into(),
        "SET time_zone = '+00:00', unique_checks = 0, foreign_key_checks = 0".into(),
    ] {
        connection.query_drop(sql).map_err(database("making the database"))?;
    }
    let ratings = std::sync::Arc::new(population.ratings());
    for table in Table::ALL {
        let what = format!("loading {}", table.name());
        progress(&what);
        connection.query_drop(table.create()).map_err(database(&what))?;
        let (population, ratings) = (*population, std::sync::Arc::clone(&ratings));
        let mut next = 0;
        let handler = LocalInfileHandler::new(move |_, writer| {
            let mut lines = Vec::with_capacity(CHUNK + 8192);
            while next < population.units(table) {
                lines.clear();
                while next < population.units(table) && lines.len() < CHUNK {
                    population.write(table, next, &ratings, &mut lines);
                    next += 1;
                }
                writer.write_all(&lines)?;
            }
            Ok(())
        });
        connection.set_local_infile_handler(Some(handler));
        let result = connection.query_drop(table.load());
        connection.set_local_infile_handler(None);
        result.map_err(database(&what))?;
        if connection.warnings() > 0 {
            // A row that did not fit would be cut to what does, and the load would look whole.
            let warning: Option<(String, u32, String)> =
                connection.query_first("SHOW WARNINGS LIMIT 1").map_err(database(&what))?;
            let said = warning.map_or_else(String::new, |(_, _, text)| text);
            return Err(AuctionError::Missing {
                what: format!("{what}: the server changed rows while it read them ({said})"),
                remedy: "this is a fault of the generator: please report it with the seed and the scale"
                    .into(),
            });
        }
    }
    let tables: Vec<&str> = Table::ALL.iter().map(|table| table.name()).collect();
    progress("analyzing the tables");
    let _: Vec<mysql::Row> = connection
        .query(format!("ANALYZE TABLE {}", tables.join(", ")))
        .map_err(database("analyzing the tables"))?;
    Ok(())
}
