//! The load that consistency and durability are tried under.

use crate::backend::Style;
use crate::load::Mark;
use crate::order::RunOrder;

/// Connections of the load: more than processors, so that commits are always in progress.
pub(super) const CONNECTIONS: u32 = 8;

/// The load for consistency and durability: all five transactions, without pauses.
pub(super) fn load_order(mark: &Mark, style: Style, seed: u64, seconds: f64) -> RunOrder {
    RunOrder {
        style,
        retries: 10,
        interval_seconds: seconds,
        ..RunOrder::closed(mark.warehouses, Some(mark.c_last), CONNECTIONS, seed)
    }
}
