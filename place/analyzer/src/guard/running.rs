//! An epoch while it runs. Pure.

use super::measure::{Counts, Epoch};

/// The number of sections below which an epoch is extended, up to four times its length.
pub(super) const ENOUGH: u64 = 30;
const PROLONGED: u32 = 2;

/// An epoch.
#[derive(Debug)]
pub(super) struct Running {
    /// True if placement is on.
    pub on: bool,
    /// The end of the disturbance by the switch, at which counting begins.
    pub settled: u64,
    /// The duration of counting, unless there are few requests.
    pub length: u64,
    start: Option<(Counts, u64)>,
    prolonged: u32,
}

impl Running {
    pub fn new(on: bool, now: u64, settle: u64, length: u64) -> Running {
        Running { on, settled: now + settle, length, start: None, prolonged: 0 }
    }

    pub fn due(&self) -> u64 {
        self.start.as_ref().map_or(self.settled, |(_, end)| *end)
    }

    /// The epoch, once it is over.
    pub fn step(&mut self, now: u64, counts: &Counts) -> Option<Epoch> {
        if now < self.due() {
            return None;
        }
        let Some((start, end)) = &mut self.start else {
            self.start = Some((counts.clone(), now + self.length));
            return None;
        };
        if !counts.is_willing_since(start) {
            // No application allows placement, or only since now: the epoch begins again.
            *start = counts.clone();
            *end = now + self.length;
            self.settled = now;
            return None;
        }
        let epoch = counts.since(start);
        if epoch.sections() < ENOUGH && self.prolonged < PROLONGED {
            self.prolonged += 1;
            *end = now + (self.length << (self.prolonged - 1));
            return None;
        }
        Some(epoch)
    }
}
