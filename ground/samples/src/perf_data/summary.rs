//! Accounts for all bytes of a capture: no loss is silent.

use super::abi::AUXTRACE_ARM_SPE;
use crate::model::ByteCount;
use std::collections::BTreeMap;
use std::fmt;

/// The reason why bytes of a capture could not be read as records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// The file ends within a record: the recorder was killed, or the copy is incomplete.
    TruncatedTail,
    /// The header claims more data than the file has.
    MissingData,
    /// A record's length is impossible; later records cannot be located.
    DamagedRecord,
    /// The compressed stream is damaged; the rest of it cannot be read.
    DamagedCompression,
    /// Descriptions of tracepoints (tracing data): not samples, passed over on purpose.
    TracepointFormats,
    /// The payload of a trace (`AUXTRACE`) of a kind that is not decoded.
    UndecodedTrace(TraceKind),
    /// Bytes of an Arm SPE trace that form no complete record: damaged, truncated, or beyond the supported number
    /// of pieces.
    DamagedTrace,
}

impl SkipReason {
    /// Whether it is damage: the bytes should have been readable.
    pub fn is_damage(&self) -> bool {
        !matches!(self, SkipReason::TracepointFormats | SkipReason::UndecodedTrace(_))
    }
}

/// The kind of a trace, by the number in its `AUXTRACE_INFO` record (`enum auxtrace_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceKind(pub u32);

impl fmt::Display for TraceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            1 => "Intel PT",
            2 => "Intel BTS",
            3 => "Arm CoreSight",
            AUXTRACE_ARM_SPE => "Arm SPE",
            5 => "IBM z/Architecture sampling",
            6 => "HiSilicon PTT",
            other => return write!(f, "an unknown kind ({other})"),
        })
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SkipReason::TruncatedTail => {
                "the file ends inside a record (recorder killed, or copy incomplete)"
            }
            SkipReason::MissingData => "the file is shorter than its header says",
            SkipReason::DamagedRecord => "a record's length is impossible, so nothing behind it can be found",
            SkipReason::DamagedCompression => "the compressed data is damaged",
            SkipReason::TracepointFormats => "descriptions of tracepoints, not samples",
            SkipReason::UndecodedTrace(kind) => {
                return write!(
                    f,
                    "a trace of {kind}, which Hardmeter does not decode; samples in it are not shown"
                )
            }
            SkipReason::DamagedTrace => "they are not whole records of the Arm SPE trace",
        })
    }
}

/// The account of one pass over a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSummary {
    /// Number of records, samples included.
    pub records: u64,
    /// Samples, by event in the order of [`CaptureReader::events`](super::CaptureReader::events).
    pub samples: Vec<u64>,
    /// Records of any kind that the kernel or recorder dropped (`LOST`).
    pub lost_records: u64,
    /// Samples that the kernel dropped (`LOST_SAMPLES`).
    pub lost_samples: u64,
    /// The number of times that the kernel throttled an event.
    pub throttled: u64,
    /// How often the buffer of a decoded trace was full, which lost an unknown number of samples.
    pub traces_cut: u64,
    /// How often a sample of a decoded trace was dropped because another was in progress.
    pub collisions: u64,
    /// Records of types newer than this program, by type number.
    pub unknown_records: BTreeMap<u32, u64>,
    /// Bits of `sample_type` that this version does not know, over all events: fields that were not read.
    pub unknown_fields: u64,
    /// Samples and records too short for their fields, or of an event the file does not describe.
    pub unparsable: u64,
    /// Bytes that are not records, and why.
    pub skipped: BTreeMap<SkipReason, ByteCount>,
    /// Records that came later than their window allows and were delivered out of time order.
    pub out_of_order: u64,
    /// Whether the receiver stopped before the end.
    pub stopped: bool,
}

impl ReadSummary {
    /// Samples of all events.
    pub fn total_samples(&self) -> u64 {
        self.samples.iter().sum()
    }

    /// Whether anything is missing that the recording once had, or that could not be read.
    pub fn is_complete(&self) -> bool {
        !self.skipped.keys().any(SkipReason::is_damage)
            && self.unparsable == 0
            && self.lost_records == 0
            && self.lost_samples == 0
            && self.traces_cut == 0
            && !self.stopped
    }

    /// The skipped traces with their sizes: one sentence each.
    pub fn undecoded_traces(&self) -> Vec<String> {
        let traces =
            self.skipped.iter().filter(|(reason, _)| matches!(reason, SkipReason::UndecodedTrace(_)));
        traces.map(|(reason, bytes)| format!("{bytes} bytes are {reason}")).collect()
    }

    pub(super) fn skip(&mut self, reason: SkipReason, bytes: u64) {
        if bytes > 0 {
            let total = self.skipped.entry(reason).or_default();
            total.0 = total.0.saturating_add(bytes);
        }
    }

    /// One sentence per loss, for the user; empty without losses.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (reason, bytes) in &self.skipped {
            if *reason != SkipReason::TracepointFormats {
                warnings.push(format!("{bytes} bytes not read: {reason}"));
            }
        }
        let mut count = |number: u64, what: &str| {
            if number > 0 {
                warnings.push(format!("{number} {what}"));
            }
        };
        count(self.lost_samples, "samples lost while recording: the kernel's buffer was full");
        count(self.lost_records, "records lost while recording: the recorder could not keep up");
        count(self.throttled, "times an event was throttled: it interrupted too often; take a longer period");
        count(
            self.traces_cut,
            "times the trace's buffer was full: samples were lost; take a larger one (-m ,16M)",
        );
        count(self.collisions, "pieces of the trace with samples in each other's way; take a longer period");
        count(
            self.unparsable,
            "records not understood: too short, or of an event the file does not describe",
        );
        count(self.unknown_records.values().sum(), "records of a kind newer than this program");
        count(self.out_of_order, "records delivered out of time order");
        if self.unknown_fields != 0 {
            warnings.push(format!(
                "samples have fields newer than this program (bits {:#x})",
                self.unknown_fields
            ));
        }
        warnings
    }
}
