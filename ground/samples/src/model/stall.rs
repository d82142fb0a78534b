//! Timer samples at loads (source `live`): self-test and counts of the recorder.

use serde::{Deserialize, Serialize};

/// The event of samples that waited for a load: CPU time at the instruction after it.
pub const STALL_EVENT: &str = "stall";
/// The event of all other samples of a live recording.
pub const OTHER_CPU_EVENT: &str = "other-cpu";

/// Position of a timer sample's instruction pointer relative to the load that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Landing {
    /// At the instruction behind the load.
    Behind,
    /// At the load itself.
    At,
}

/// Samples of the self-test at one distance from the load that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkidCount {
    /// Bytes from the load's first to the sampled instruction.
    pub offset: i64,
    /// Samples there.
    pub samples: u64,
}

/// Counts of a live recording's samples by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallCounts {
    /// In the kernel.
    pub kernel: u64,
    /// After a load whose address was computed.
    pub with_address: u64,
    /// After a load whose address register was overwritten.
    pub overwritten: u64,
    /// Samples after a load relative to `%fs` or `%gs`.
    pub segment: u64,
    /// Samples after a load of several addresses.
    pub several: u64,
    /// After an instruction that is not a load.
    pub no_load: u64,
    /// In code whose image is missing.
    pub no_code: u64,
    /// Outside all functions, or not at an instruction.
    pub no_function: u64,
    /// At the start of a function, after a return, or at the target of a jump table.
    pub entry: u64,
    /// At a place with several possible preceding loads.
    pub join: u64,
}

impl StallCounts {
    /// Samples behind a load.
    pub fn stalls(&self) -> u64 {
        self.with_address + self.overwritten + self.segment + self.several
    }

    /// Samples of programs behind which it is not known what ran.
    pub fn unknown(&self) -> u64 {
        self.no_code + self.no_function + self.entry + self.join
    }

    /// Samples in programs.
    pub fn user(&self) -> u64 {
        self.stalls() + self.no_load + self.unknown()
    }

    /// All samples.
    pub fn total(&self) -> u64 {
        self.user() + self.kernel
    }
}

/// The parameters and the quality of a live recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallNotes {
    /// CPU time per sample in nanoseconds.
    pub period_ns: u64,
    /// Cost of a sample to the sampled process in nanoseconds, measured at the start.
    pub sample_cost_ns: u64,
    /// The position of samples relative to the load.
    pub landing: Landing,
    /// The self-test at the start: samples by distance from the load, nearest first.
    pub skid: Vec<SkidCount>,
    /// Counts of samples by result.
    pub counts: StallCounts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_counted_once() {
        let counts = StallCounts {
            kernel: 1,
            with_address: 2,
            overwritten: 4,
            segment: 8,
            several: 16,
            no_load: 32,
            no_code: 64,
            no_function: 128,
            entry: 256,
            join: 512,
        };
        assert_eq!((counts.stalls(), counts.unknown()), (30, 960));
        assert_eq!((counts.user(), counts.total()), (1022, 1023));
    }
}
