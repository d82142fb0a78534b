//! The kinds of servers with their differences: programs, arguments, readiness, stop signals.

mod kind;
mod mariadb;
mod postgres;
mod ways;
mod words;

pub use kind::Engine;
pub use ways::StopOutcome;
pub(crate) use ways::{Site, StopStep, Ways};
pub(crate) use words::{joined, words};

use crate::settings::Setting;
use crate::state::State;

impl Engine {
    /// The name that its makers write.
    pub fn title(self) -> &'static str {
        self.ways().title()
    }

    pub(crate) fn ways(self) -> &'static dyn Ways {
        match self {
            Engine::Postgres => &postgres::Postgres,
            Engine::Mariadb => &mariadb::Mariadb,
        }
    }
}

/// Settings of a new server: the servers' defaults, reduced to fit any machine.
pub(crate) fn default_settings(engine: Engine) -> Vec<Setting> {
    match engine {
        Engine::Postgres => vec![
            Setting::new("shared_buffers", "128MB"),
            Setting::new("fsync", "on"),
            Setting::new("max_connections", "100"),
        ],
        Engine::Mariadb => vec![
            Setting::new("innodb_buffer_pool_size", "128M"),
            Setting::new("innodb_flush_log_at_trx_commit", "1"),
            Setting::new("max_connections", "100"),
        ],
    }
}

/// Whether a server's account is one that only root gives to servers.
pub(crate) fn is_usual_account(state: &State) -> bool {
    state.engine.ways().accounts().contains(&state.account.as_str())
}
