//! What became of a change.

use serde::{Deserialize, Serialize};

/// What undoing a change did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undone {
    /// It was there, and is gone.
    Restored,
    /// All was as before.
    AsBefore,
    /// Another session has changed it since; that stays.
    Foreign(String),
}

/// How an entry was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    /// All is as it was before.
    Undone,
    /// The change stays.
    Kept,
    /// Another session changed it during the trial, and what that session wrote stays.
    Foreign,
}
