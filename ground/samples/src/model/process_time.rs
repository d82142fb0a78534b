//! How a process spent its time during the recording.

use super::units::Pid;
use serde::{Deserialize, Serialize};

/// The time of one process, with all its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTime {
    /// The process.
    pub pid: Pid,
    /// Nanoseconds that it was watched.
    pub wall_ns: u64,
    /// Nanoseconds that it ran.
    pub running_ns: u64,
    /// Nanoseconds that it could have run, and had no CPU.
    pub run_queue_ns: u64,
    /// Number of polls of its state.
    pub looks: u64,
    /// Number of polls at which it waited for a disk.
    pub looks_on_disk: u64,
}

impl ProcessTime {
    /// Whether it ran at least a hundredth of the time.
    pub fn is_busy(&self) -> bool {
        self.running_ns.saturating_mul(100) >= self.wall_ns.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_of_the_time_is_busy() {
        let time = |running_ns| ProcessTime {
            pid: Pid(7),
            wall_ns: 1_000,
            running_ns,
            run_queue_ns: 0,
            looks: 2,
            looks_on_disk: 0,
        };
        assert!(time(10).is_busy() && !time(9).is_busy());
    }
}
