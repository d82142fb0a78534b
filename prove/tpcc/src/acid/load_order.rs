//! The load that consistency and durability are tried under.

use crate::backend::Style;
use crate::load::Mark;
use crate::order::{Mix, Mode, Queueing, RunOrder};
use crate::random::Constants;

/// Connections of the load: more than processors, so that commits are always in progress.
pub(super) const CONNECTIONS: u32 = 8;

/// The load for consistency and durability: all five transactions, without pauses.
pub(super) fn load_order(mark: &Mark, style: Style, seed: u64, seconds: f64) -> RunOrder {
    RunOrder {
        all_warehouses: mark.warehouses,
        first_warehouse: 1,
        warehouses: mark.warehouses,
        mode: Mode::Closed { clients: CONNECTIONS },
        mix: Mix::Deck,
        style,
        connections: CONNECTIONS,
        threads: 1,
        queueing: Queueing::Fifo,
        affinity: false,
        retries: 10,
        ramp_seconds: 0.0,
        interval_seconds: seconds,
        seed,
        constants: Constants::for_run(mark.c_last, seed),
        load_last: Some(mark.c_last),
        checkpoint_seconds: None,
        start_at: None,
    }
}
