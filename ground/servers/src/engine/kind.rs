//! The kinds of servers, by name.

use serde::{Deserialize, Serialize};

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// PostgreSQL: one process per connection.
    Postgres,
    /// MariaDB: one thread per connection.
    Mariadb,
}

impl Engine {
    /// Every kind.
    pub const ALL: [Engine; 2] = [Engine::Postgres, Engine::Mariadb];

    /// The name on the command line and of the default folder.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Postgres => "postgres",
            Engine::Mariadb => "mariadb",
        }
    }
}
