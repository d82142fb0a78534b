//! PostgreSQL, looked into from outside.

pub(crate) mod found;
pub mod layout;
pub(crate) mod private;
