//! What the rules of several remedies of MariaDB need.

use crate::{Change, ChangeKind, Kind, Look, Takes};

/// A change of a variable that SET GLOBAL changes; `takes` says whether sessions that run have it.
pub(super) fn set_global(look: &Look, name: &str, value: &str, takes: Takes) -> Change {
    let before = look.mariadb.as_ref().map(|maria| maria.variable(name).to_owned());
    let kind = ChangeKind::GlobalVariable {
        name: name.into(),
        value: value.into(),
        before: before.unwrap_or_default(),
    };
    Change { kind, takes }
}

/// The part of the active time that backends were on a CPU or waited for one.
pub(super) fn on_cpu(look: &Look) -> f64 {
    look.time.of_active(&[Kind::RunningUser, Kind::RunningKernel, Kind::Running, Kind::RunQueue])
}
