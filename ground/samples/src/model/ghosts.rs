//! Ghosts (`record --ghosts`): stretches of a running server that were executed once more from copies, under a
//! simulated memory hierarchy.

use serde::{Deserialize, Serialize};

/// Stretches from one system call to the next, by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GhostStretches {
    /// Ended at the server's system call with the server's registers.
    pub same: u64,
    /// Reached the limit before any call: kept, not checked.
    pub unchecked: u64,
    /// Ended at another call: dropped, like all later ones.
    pub other_call: u64,
    /// Ended at the same call with other registers.
    pub other_registers: u64,
    /// Ended at an address that is not mapped, or by a trap.
    pub died: u64,
    /// Ended at an instruction that the emulator cannot execute.
    pub unsupported: u64,
    /// The server received a signal meanwhile.
    pub signal: u64,
    /// The server made no system call while it was followed.
    pub unfinished: u64,
}

impl GhostStretches {
    /// Stretches whose end could be compared with the server's.
    pub fn checked(&self) -> u64 {
        self.same + self.different()
    }

    /// Stretches that ended differently from the server's.
    pub fn different(&self) -> u64 {
        self.other_call + self.other_registers + self.died
    }

    /// All stretches.
    pub fn total(&self) -> u64 {
        self.checked() + self.unchecked + self.unsupported + self.signal + self.unfinished
    }
}

/// How long processes were stopped to copy their registers and pages, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GhostPauses {
    /// Pauses.
    pub n: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The sum, including the stops at the ends of stretches.
    pub sum_ns: u64,
}

/// The quality of ghosts, and how much of the server's work they stand for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GhostNotes {
    /// Stretches by verdict.
    pub stretches: GhostStretches,
    /// Windows in which a process was followed.
    pub windows: u64,
    /// Rounds of windows at the same time; 0 where an older version followed in turns.
    pub rounds: u64,
    /// How often the watchdog had to continue a stopped process.
    pub watchdog: u64,
    /// Pauses of the processes.
    pub pauses: GhostPauses,
    /// Whether the stopper had real-time priority.
    pub real_time: bool,
    /// CPU time of the stretches that are counted, in nanoseconds.
    pub kept_ns: u64,
    /// CPU time of the processes' own code that they stand for: counts are scaled to it.
    pub stood_for_ns: u64,
    /// Nanoseconds of CPU time an instruction takes between windows, by which counts are scaled; 0: not known.
    pub ns_alone: f64,
    /// Instructions of the counted stretches that passed the check.
    pub checked_instructions: u64,
    /// Instructions of the counted stretches that were not checked.
    pub unchecked_instructions: u64,
    /// Stretches that filled the simulated caches and are not counted.
    pub run_in_stretches: u64,
}

impl GhostNotes {
    /// Whether some processes were followed at the same time, so that transfers of lines between them were
    /// observed.
    pub fn at_once(&self) -> bool {
        self.rounds > 0 && self.rounds < self.windows
    }

    /// The part of the CPU time that was followed and counted.
    pub fn followed_share(&self) -> f64 {
        self.kept_ns as f64 / (self.stood_for_ns.max(1)) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stretch_is_counted_once() {
        let stretches = GhostStretches {
            same: 1,
            unchecked: 2,
            other_call: 4,
            other_registers: 8,
            died: 16,
            unsupported: 32,
            signal: 64,
            unfinished: 128,
        };
        assert_eq!((stretches.different(), stretches.checked(), stretches.total()), (28, 29, 255));
    }

    #[test]
    fn two_windows_of_a_round_are_at_once() {
        let of = |windows, rounds| GhostNotes { windows, rounds, ..GhostNotes::default() };
        assert!(of(4, 2).at_once() && of(4, 3).at_once());
        assert!(!of(4, 4).at_once() && !of(4, 0).at_once());
    }

    #[test]
    fn the_share_is_of_the_time_stood_for() {
        let notes = GhostNotes { kept_ns: 5, stood_for_ns: 1000, ..GhostNotes::default() };
        assert_eq!(notes.followed_share(), 0.005);
        assert_eq!(GhostNotes::default().followed_share(), 0.0);
    }
}
