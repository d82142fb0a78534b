//! Putting records into time order, in bounded memory.
//!
//! perf writes the buffers of all CPUs in rounds. A record of round *n + 1* cannot be older than the newest record
//! of round *n - 1*, since that buffer had been read before. So at the end of round *n* everything up to the newest
//! time of round *n - 1* is final and is delivered:
//!
//! ```text
//!   round 1: times  3  5 | 4  6    newest 6
//!   round 2: times  7 10 | 6  8    newest 10   -> 3 4 5 6 6 go out, 7 8 10 stay
//!   round 3: times 11    | 9       ...         -> 7 8 9 10 go out
//! ```
//! A file without rounds is sorted inside a sliding window of [`WINDOW_LIMIT`] bytes: whenever it is full, its
//! older half is delivered. A record that comes later than that is counted as out of order and delivered with the
//! next flush. Rounds have a larger limit of the same kind, so that no file can demand unlimited memory.

use super::stream::RawRecord;
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Maximum bytes of waiting records in a file without rounds.
const WINDOW_LIMIT: usize = 64 << 20;

/// The same with rounds: two of them, with perf's default buffers (512 KiB per processor), on a machine of 512
/// processors.
const ROUND_LIMIT: usize = 512 << 20;

/// Bodies are stored in blocks of this size, which are reused when their last record has been delivered. Waiting
/// records are never moved.
const BLOCK_SIZE: usize = 1 << 20;

/// One waiting record.
#[derive(Clone, Copy)]
struct Waiting {
    time: u64,
    /// Number of the block with its body, counted from the first one.
    block: usize,
    /// Its offset in the block, and its length.
    start: u32,
    length: u32,
    kind: u32,
    misc: u16,
}

/// Records waiting to be delivered in order.
#[derive(Default)]
pub(super) struct TimeQueue {
    waiting: Vec<Waiting>,
    /// The blocks in use, oldest first, and the number of the oldest.
    blocks: VecDeque<Vec<u8>>,
    oldest_block: usize,
    /// Blocks to use again.
    spare: Vec<Vec<u8>>,
    /// The newest time so far.
    newest: u64,
    /// The newest time at the end of the previous round: the limit of the next flush.
    previous_round: u64,
    /// All records up to this time have been delivered.
    delivered: u64,
    limit: usize,
}

/// The receiver of records that are due.
pub(super) type Outlet<'o> = &'o mut dyn FnMut(RawRecord<'_>) -> ControlFlow<()>;

impl TimeQueue {
    pub(super) fn new() -> TimeQueue {
        TimeQueue { limit: WINDOW_LIMIT, ..TimeQueue::default() }
    }

    /// Adds a record. Returns whether it came too late to be delivered in order.
    pub(super) fn push(&mut self, time: u64, record: RawRecord<'_>) -> bool {
        let length = record.body.len();
        if self.blocks.back().is_none_or(|block| block.len() + length > BLOCK_SIZE) {
            self.blocks.push_back(self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK_SIZE)));
        }
        let number = self.oldest_block + self.blocks.len() - 1;
        let block = self.blocks.back_mut().expect("pushed above if there was none");
        // A record is shorter than 64 KiB: its size field has 16 bits.
        let (start, length) = (block.len() as u32, length as u32);
        block.extend_from_slice(record.body);
        let (kind, misc) = (record.kind, record.misc);
        self.waiting.push(Waiting { time, block: number, start, length, kind, misc });
        self.newest = self.newest.max(time);
        time < self.delivered
    }

    /// Whether the queue has used up its memory and must give some back.
    pub(super) fn is_full(&self) -> bool {
        self.blocks.len() * BLOCK_SIZE + self.waiting.len() * std::mem::size_of::<Waiting>() > self.limit
    }

    /// The recorder finished a round.
    pub(super) fn finish_round(&mut self, outlet: Outlet<'_>) -> ControlFlow<()> {
        self.limit = ROUND_LIMIT;
        let limit = std::mem::replace(&mut self.previous_round, self.newest);
        self.sort();
        let due = self.waiting.partition_point(|waiting| waiting.time <= limit);
        self.deliver(due, outlet)
    }

    /// Delivers the older half.
    pub(super) fn flush_half(&mut self, outlet: Outlet<'_>) -> ControlFlow<()> {
        self.sort();
        self.deliver(self.waiting.len().div_ceil(2), outlet)
    }

    /// Delivers everything.
    pub(super) fn flush_all(&mut self, outlet: Outlet<'_>) -> ControlFlow<()> {
        self.sort();
        self.deliver(self.waiting.len(), outlet)
    }

    /// Stable, so that records of equal time keep the file's order; cheap, since the input consists of few sorted
    /// runs.
    fn sort(&mut self) {
        self.waiting.sort_by_key(|waiting| waiting.time);
    }

    fn deliver(&mut self, count: usize, outlet: Outlet<'_>) -> ControlFlow<()> {
        for waiting in &self.waiting[..count] {
            let block = &self.blocks[waiting.block - self.oldest_block];
            let body = &block[waiting.start as usize..(waiting.start + waiting.length) as usize];
            outlet(RawRecord { kind: waiting.kind, misc: waiting.misc, body })?;
        }
        if let Some(last) = count.checked_sub(1) {
            self.delivered = self.delivered.max(self.waiting[last].time);
        }
        self.waiting.drain(..count);
        self.recycle();
        ControlFlow::Continue(())
    }

    /// Reclaims the blocks without waiting records.
    fn recycle(&mut self) {
        let end = self.oldest_block + self.blocks.len();
        let needed = self.waiting.iter().map(|waiting| waiting.block).min().unwrap_or(end);
        for _ in self.oldest_block..needed {
            if let Some(mut block) = self.blocks.pop_front() {
                block.clear();
                self.spare.push(block);
            }
        }
        self.oldest_block = needed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push_all(queue: &mut TimeQueue, times: &[u64]) -> usize {
        times
            .iter()
            .filter(|time| {
                let body = time.to_le_bytes();
                queue.push(**time, RawRecord { kind: 9, misc: 0, body: &body })
            })
            .count()
    }

    fn times(collect: impl FnOnce(Outlet<'_>) -> ControlFlow<()>) -> Vec<u64> {
        let mut times = Vec::new();
        let _ = collect(&mut |record| {
            times.push(u64::from_le_bytes(record.body.try_into().expect("eight bytes")));
            ControlFlow::Continue(())
        });
        times
    }

    /// The picture above, number by number.
    #[test]
    fn a_round_releases_what_the_round_before_had_seen() {
        let mut queue = TimeQueue::new();
        push_all(&mut queue, &[3, 5, 4, 6]);
        assert!(times(|outlet| queue.finish_round(outlet)).is_empty());
        push_all(&mut queue, &[7, 10, 6, 8]);
        assert_eq!(times(|outlet| queue.finish_round(outlet)), [3, 4, 5, 6, 6]);
        push_all(&mut queue, &[11, 9]);
        assert_eq!(times(|outlet| queue.finish_round(outlet)), [7, 8, 9, 10]);
        assert_eq!(times(|outlet| queue.flush_all(outlet)), [11]);
    }

    #[test]
    fn a_full_queue_lets_its_older_half_go_and_reports_late_comers() {
        let mut queue = TimeQueue { limit: 100, ..TimeQueue::default() };
        push_all(&mut queue, &[4, 2, 3, 1]);
        assert!(queue.is_full());
        assert_eq!(times(|outlet| queue.flush_half(outlet)), [1, 2]);
        assert_eq!(push_all(&mut queue, &[1, 5]), 1);
        assert_eq!(times(|outlet| queue.flush_all(outlet)), [1, 3, 4, 5]);
    }
}
