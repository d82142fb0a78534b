//! How a change ended.

use serde::{Deserialize, Serialize};

/// The result of undoing a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undone {
    /// The change was present, and is undone.
    Restored,
    /// There was nothing to undo.
    AsBefore,
    /// Another session has changed it since; that value stays.
    Foreign(String),
}

/// How an entry was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    /// The former state is restored.
    Undone,
    /// The change stays.
    Kept,
    /// Another session changed it during the trial, and that session's value stays.
    Foreign,
}
