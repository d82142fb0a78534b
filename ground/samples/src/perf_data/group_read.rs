//! Samples that read counters (`PERF_SAMPLE_READ`).
//!
//! Only the leader of a group interrupts, and its sample holds the values of all members. Readers return one sample
//! for each member that has counted since the last time, with the increment as its period, as `perf script` does.

use super::abi::{attr_flag, read_format, sample_type, PerfEventAttr};
use crate::model::{Period, Sample};
use std::collections::HashMap;

/// The counter values at each event's last sample. For inherited events, per thread.
#[derive(Default)]
pub(super) struct GroupReads {
    last: HashMap<(u64, i32), u64>,
}

/// Whether the samples of an event name the counters that they read.
pub(super) fn reads_named_counters(attr: &PerfEventAttr) -> bool {
    attr.sample_type & sample_type::READ != 0 && attr.read_format & read_format::ID != 0
}

impl GroupReads {
    /// The members of a sample's group that have counted since their last sample: id and increment.
    pub(super) fn counted(&mut self, attr: &PerfEventAttr, sample: &Sample<'_>) -> Vec<(u64, Period)> {
        let thread = match attr.flags & attr_flag::INHERIT {
            0 => 0,
            _ => sample.tid.map_or(0, |tid| tid.0),
        };
        let mut counted = Vec::new();
        for reading in &sample.read {
            let Some(id) = reading.id else { continue };
            let last = self.last.insert((id, thread), reading.value).unwrap_or(0);
            let since = reading.value.saturating_sub(last);
            if since > 0 {
                counted.push((id, Period(since)));
            }
        }
        counted
    }
}
