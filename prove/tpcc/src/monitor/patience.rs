//! Time limits of a run.

use crate::time::Micros;

/// Time limits of a run for expected events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Time without any connection, or with failures only, after which the run is given up.
    pub without_success: Micros,
    /// Time at the end of the interval for transactions in progress.
    pub winding_up: Micros,
}

impl Default for Patience {
    /// Half a minute each.
    fn default() -> Patience {
        Patience { without_success: Micros::seconds(30), winding_up: Micros::seconds(30) }
    }
}
