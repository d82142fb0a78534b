//! Counts call stacks. Stacks share their outer frames in one tree, so that memory grows with the distinct call
//! paths, not with the samples.

use crate::code::{CodeMap, ImageId, Place};
use crate::key_table::KeyTable;
use crate::pass::{Located, Pass, ProcessNameId};
use hardmeter_samples::model::{CpuMode, EventIndex, FileOffset, Frame, Period, Sample, VirtualAddress};

/// A call path, by index: its innermost frame, and the caller's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(u32);

impl StackId {
    /// The empty path.
    pub const ROOT: StackId = StackId(u32::MAX);

    /// The path with an index from [`Self::number`].
    pub(crate) fn of_number(number: u32) -> StackId {
        StackId(number)
    }

    /// Its number.
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// The samples of one event, process name and call path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackCount {
    /// The event.
    pub event: EventIndex,
    /// The process or thread by name.
    pub process: Option<ProcessNameId>,
    /// The call path.
    pub stack: StackId,
    /// Samples.
    pub samples: u64,
    /// Events that the samples stand for (sum of periods).
    pub events: Period,
    /// Sum of their latencies.
    pub latency: u64,
}

/// Counts call paths.
pub struct Stacks {
    /// (caller, image, address)
    nodes: KeyTable,
    /// (event, process, path)
    keys: KeyTable,
    counts: Vec<(u64, u64, u64)>,
    scratch: Vec<Frame>,
}

const NO_PROCESS: u64 = u64::MAX;

impl Default for Stacks {
    fn default() -> Self {
        Stacks { nodes: KeyTable::new(3), keys: KeyTable::new(3), counts: Vec::new(), scratch: Vec::new() }
    }
}

impl Stacks {
    /// Counts one sample under its call path. A sample without a chain is a path of one frame.
    pub fn add<M: CodeMap>(&mut self, sample: &Sample<'_>, located: Located, pass: &mut Pass<M>) -> StackId {
        let stack = self.path(sample, located, pass);
        let process = located.process.map_or(NO_PROCESS, |id| u64::from(id.0));
        let row = self.keys.number(&[sample.event.0 as u64, process, u64::from(stack.0)]);
        if row == self.counts.len() {
            self.counts.push((0, 0, 0));
        }
        let count = &mut self.counts[row];
        count.0 += 1;
        count.1 = count.1.saturating_add(sample.period.0);
        count.2 = count.2.saturating_add(sample.weight.map_or(0, |weight| weight.latency.0));
        stack
    }

    /// The call path of a sample, without counting it.
    pub fn path<M: CodeMap>(&mut self, sample: &Sample<'_>, located: Located, pass: &mut Pass<M>) -> StackId {
        let mut frames = std::mem::take(&mut self.scratch);
        frames.clear();
        frames.extend(callers(sample));
        let mut stack = StackId::ROOT;
        for frame in frames.iter().rev() {
            // A return address follows the call, perhaps on the next line or in the next routine: one byte before
            // it lies inside the call.
            let call = VirtualAddress(frame.address.0.saturating_sub(1));
            let place = pass.place(sample.pid, call, frame.mode);
            stack = self.node(stack, place);
        }
        self.scratch = frames;
        match located.place {
            Some(place) => self.node(stack, place),
            None => stack,
        }
    }

    fn node(&mut self, caller: StackId, place: Place) -> StackId {
        let key = [u64::from(caller.0), u64::from(place.image.0), place.offset.0];
        StackId(self.nodes.number(&key) as u32)
    }

    /// The counts, in order of first appearance.
    pub fn counts(&self) -> impl Iterator<Item = StackCount> + '_ {
        self.counts.iter().enumerate().map(|(row, (samples, events, latency))| {
            let key = self.keys.key(row);
            StackCount {
                event: EventIndex(key[0] as usize),
                process: (key[1] != NO_PROCESS).then_some(ProcessNameId(key[1] as u32)),
                stack: StackId(key[2] as u32),
                samples: *samples,
                events: Period(*events),
                latency: *latency,
            }
        })
    }

    /// The frames of a path, innermost first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = Place> + '_ {
        let mut next = stack;
        std::iter::from_fn(move || {
            if next == StackId::ROOT {
                return None;
            }
            let (caller, place) = self.split(next);
            next = caller;
            Some(place)
        })
    }

    /// A path's caller and its innermost frame. The caller's number is always the lower one.
    pub fn split(&self, stack: StackId) -> (StackId, Place) {
        let key = self.nodes.key(stack.0 as usize);
        (StackId(key[0] as u32), Place { image: ImageId(key[1] as u32), offset: FileOffset(key[2]) })
    }
}

/// The frames that called the sampled instruction, innermost first.
///
/// The chain's first entry is the interrupted instruction as the kernel saw it; the sample's own address may be
/// more exact (PEBS), so it replaces that entry. A chain without the sample's mode (a kernel sample with only its
/// user chain) has no such entry.
pub(crate) fn callers<'a>(sample: &Sample<'a>) -> impl Iterator<Item = Frame> + 'a {
    let mut frames = sample.callchain.frames(sample.mode).peekable();
    let mode: CpuMode = sample.mode;
    if frames.peek().is_some_and(|first| first.mode == mode) {
        frames.next();
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::testing::{sample, FakeMap, BASE};
    use hardmeter_samples::model::{Callchain, Record};

    const USER: u64 = -512i64 as u64;

    fn words(words: &[u64]) -> Vec<[u8; 8]> {
        words.iter().map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn paths_share_frames_and_count_apart() {
        let mut pass = Pass::new(FakeMap::default(), Filter::default());
        let mut stacks = Stacks::default();
        // LWLockAcquire called from hash_search (return address 0x311), twice; then a sample without a chain.
        let chain = words(&[USER, BASE + 0x12, BASE + 0x311]);
        for entries in [&chain[..], &chain[..], &[]] {
            let mut sample = sample(0, 1, BASE + 0x10);
            sample.callchain = Callchain { entries };
            let located = pass.see(&Record::Sample(sample.clone())).unwrap();
            stacks.add(&sample, located, &mut pass);
        }
        let counts: Vec<StackCount> = stacks.counts().collect();
        assert_eq!(counts.iter().map(|count| count.samples).collect::<Vec<_>>(), [2, 1]);
        let addresses = |stack| stacks.frames(stack).map(|place| place.offset.0).collect::<Vec<_>>();
        assert_eq!(addresses(counts[0].stack), [0x10, 0x310], "exact address first, then the call");
        assert_eq!(addresses(counts[1].stack), [0x10]);
    }

    #[test]
    fn a_kernel_sample_keeps_the_whole_user_chain() {
        let mut pass = Pass::new(FakeMap::default(), Filter::default());
        let mut stacks = Stacks::default();
        let chain = words(&[USER, BASE + 0x101]);
        let mut sample = sample(0, 1, BASE + 0x10);
        sample.mode = CpuMode::Kernel;
        sample.callchain = Callchain { entries: &chain };
        let located = pass.see(&Record::Sample(sample.clone())).unwrap();
        let stack = stacks.add(&sample, located, &mut pass);
        assert_eq!(stacks.frames(stack).map(|place| place.offset.0).collect::<Vec<_>>(), [0x10, 0x100]);
    }
}
