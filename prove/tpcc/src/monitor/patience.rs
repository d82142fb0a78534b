//! Time limits of a run.

use crate::time::Micros;

/// Time limits of a run for expected events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Without any connection, or with nothing but failures, before the run is given up.
    pub without_success: Micros,
    /// At the end of the interval, for what is under way.
    pub winding_up: Micros,
}

impl Default for Patience {
    /// Half a minute each.
    fn default() -> Patience {
        Patience { without_success: Micros::seconds(30), winding_up: Micros::seconds(30) }
    }
}
