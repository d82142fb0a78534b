//! A timer wheel: one timer for each terminal, by number.
//!
//! Setting and expiring a timer are O(1) without allocation: a slot is a list linked through the timers. Three
//! wheels, each relative to the present tick: the next 64 ticks one by one, 4096 blocks of 64 ticks (262 s ahead:
//! every pause of the specification), 16384 blocks of 2^18 ticks. A timer moves to a finer wheel at most twice.
//! Blocks are small, since all timers of a block move at once: about 1,200 of 390,000 terminals, in less than a
//! tick.

/// Milliseconds since the start of a run: the wheel's unit. 32 bits are 49 days.
pub(super) type Tick = u32;

/// Ticks of a slot of each wheel, as a power of two.
const SHIFT: [u32; 3] = [0, 6, 18];
/// Slots of each wheel.
const SLOTS: [usize; 3] = [64, 4096, 16384];
/// No timer.
const NONE: u32 = u32::MAX;
/// The last tick that can ring.
const LAST: Tick = Tick::MAX - 1;

#[derive(Clone, Copy)]
struct Timer {
    /// The next timer of its slot; for the last one, the first.
    next: u32,
    due: Tick,
}

/// Timers `0..count`, each set or not.
pub(super) struct Wheel {
    timers: Vec<Timer>,
    /// The next tick to process: all earlier timers have expired.
    at: Tick,
    wheels: [Slots; 3],
    /// Set for a tick that was handled already.
    overdue: u32,
}

impl Wheel {
    /// This number of timers, none of them set.
    pub fn new(count: u32) -> Wheel {
        Wheel::starting_at(count, 0)
    }

    fn starting_at(count: u32, at: Tick) -> Wheel {
        let timers = vec![Timer { next: NONE, due: 0 }; count as usize];
        Wheel { timers, at, wheels: SLOTS.map(Slots::new), overdue: NONE }
    }

    /// Sets a timer that is not set. One that is due before the tick of the last [`Wheel::advance`] rings at the next.
    pub fn set(&mut self, timer: u32, due: Tick) {
        debug_assert_eq!(self.timers[timer as usize].next, NONE, "timer {timer} is set already");
        self.timers[timer as usize].due = due.min(LAST);
        match self.level_of(due.min(LAST)) {
            Some((level, slot)) => {
                let last = self.wheels[level].last[slot];
                self.wheels[level].put(slot, append(&mut self.timers, last, timer));
            }
            None => self.overdue = append(&mut self.timers, self.overdue, timer),
        }
    }

    /// Expires all timers up to a tick, in order of their ticks; within a tick in the order in which they were set.
    pub fn advance(&mut self, to: Tick, mut ring: impl FnMut(u32, Tick)) {
        let overdue = std::mem::replace(&mut self.overdue, NONE);
        self.ring(overdue, &mut ring);
        while self.at <= to.min(LAST) {
            for level in 1..SHIFT.len() {
                if self.at.trailing_zeros() >= SHIFT[level] {
                    self.move_down(level, (self.at >> SHIFT[level]) as usize % SLOTS[level]);
                }
            }
            let list = self.wheels[0].take(self.at as usize % SLOTS[0]);
            self.at += 1;
            self.ring(list, &mut ring);
        }
    }

    /// No timer expires before this tick; `None` if no timer is set.
    pub fn next(&self) -> Option<Tick> {
        if self.overdue != NONE {
            return Some(self.timers[self.timers[self.overdue as usize].next as usize].due);
        }
        let starts = (0..SHIFT.len()).filter_map(|level| {
            let present = self.at >> SHIFT[level];
            let slots = self.wheels[level].next_occupied(present as usize % SLOTS[level])?;
            // The slot of the present tick begins earlier, but has no earlier timers.
            Some(((present + slots) << SHIFT[level]).max(self.at))
        });
        starts.min()
    }

    /// The wheel and the slot of a future tick.
    fn level_of(&self, due: Tick) -> Option<(usize, usize)> {
        if due < self.at {
            return None;
        }
        let level = (0..SHIFT.len())
            .find(|&level| (((due >> SHIFT[level]) - (self.at >> SHIFT[level])) as usize) < SLOTS[level])
            .expect("the last wheel goes to the end of all ticks");
        Some((level, (due >> SHIFT[level]) as usize % SLOTS[level]))
    }

    /// Moves a slot's timers to finer wheels. They were set before those already there, so they are prepended.
    fn move_down(&mut self, level: usize, slot: usize) {
        let last = self.wheels[level].take(slot);
        if last == NONE {
            return;
        }
        // In reverse order, since each is prepended.
        let mut timer = backwards(&mut self.timers, last);
        while timer != NONE {
            let Timer { next, due } = self.timers[timer as usize];
            let (level, slot) = self.level_of(due).expect("a slot has nothing from before it");
            let last = self.wheels[level].last[slot];
            self.wheels[level].put(slot, prepend(&mut self.timers, last, timer));
            timer = next;
        }
    }

    fn ring(&mut self, last: u32, ring: &mut impl FnMut(u32, Tick)) {
        if last == NONE {
            return;
        }
        let mut timer = self.timers[last as usize].next;
        loop {
            let Timer { next, due } = self.timers[timer as usize];
            self.timers[timer as usize].next = NONE;
            ring(timer, due);
            if timer == last {
                return;
            }
            timer = next;
        }
    }
}

/// Appends a timer to a list; returns the new last one.
fn append(timers: &mut [Timer], last: u32, timer: u32) -> u32 {
    prepend(timers, last, timer);
    timer
}

/// Prepends a timer to a list; returns the last one.
fn prepend(timers: &mut [Timer], last: u32, timer: u32) -> u32 {
    if last == NONE {
        timers[timer as usize].next = timer;
        return timer;
    }
    timers[timer as usize].next = timers[last as usize].next;
    timers[last as usize].next = timer;
    last
}

/// Reverses a list; returns its former last timer, from which `next` leads back to the first.
fn backwards(timers: &mut [Timer], last: u32) -> u32 {
    let (mut before, mut timer) = (NONE, timers[last as usize].next);
    loop {
        let next = std::mem::replace(&mut timers[timer as usize].next, before);
        if timer == last {
            return timer;
        }
        (before, timer) = (timer, next);
    }
}

/// One wheel: for each slot the last timer of its list, and a bit for a non-empty list.
struct Slots {
    last: Vec<u32>,
    occupied: Vec<u64>,
}

impl Slots {
    fn new(count: usize) -> Slots {
        Slots { last: vec![NONE; count], occupied: vec![0; count / 64] }
    }

    fn put(&mut self, slot: usize, last: u32) {
        self.last[slot] = last;
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    fn take(&mut self, slot: usize) -> u32 {
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        std::mem::replace(&mut self.last[slot], NONE)
    }

    /// Distance to the next occupied slot, cyclically.
    fn next_occupied(&self, from: usize) -> Option<u32> {
        let words = self.occupied.len();
        // The word of `from` is examined twice: its upper bits first, its lower bits last.
        let masks = [u64::MAX << (from % 64), !(u64::MAX << (from % 64))];
        (0..=words).find_map(|step| {
            let at = (from / 64 + step) % words;
            let mask =
                if step == 0 { masks[0] } else { u64::MAX } & if step == words { masks[1] } else { u64::MAX };
            let word = self.occupied[at] & mask;
            (word != 0).then(|| {
                let slot = at * 64 + word.trailing_zeros() as usize;
                ((slot + words * 64 - from) % (words * 64)) as u32
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Part, Stream};
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    fn rung(wheel: &mut Wheel, to: Tick) -> Vec<(u32, Tick)> {
        let mut rung = Vec::new();
        wheel.advance(to, |timer, due| rung.push((timer, due)));
        rung
    }

    #[test]
    fn timers_ring_at_their_tick_in_the_order_in_which_they_were_set() {
        let mut wheel = Wheel::new(6);
        for (timer, due) in [(3, 5), (0, 100_000), (1, 5), (5, 100_000), (2, 4), (4, 300_000)] {
            wheel.set(timer, due);
        }
        assert_eq!(wheel.next(), Some(4));
        assert_eq!(rung(&mut wheel, 3), []);
        assert_eq!(rung(&mut wheel, 5), [(2, 4), (3, 5), (1, 5)]);
        // Set later, when it was nearer: it still expires after the others of its tick.
        assert_eq!(rung(&mut wheel, 99_990), []);
        wheel.set(3, 100_000);
        assert_eq!(wheel.next(), Some(100_000));
        assert_eq!(rung(&mut wheel, 100_000), [(0, 100_000), (5, 100_000), (3, 100_000)]);
        assert!(wheel.next().is_some_and(|tick| (100_001..=300_000).contains(&tick)));
        assert_eq!(rung(&mut wheel, 300_000), [(4, 300_000)]);
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn what_is_due_already_rings_at_once() {
        let mut wheel = Wheel::new(2);
        rung(&mut wheel, 1000);
        wheel.set(1, 1000);
        wheel.set(0, 3);
        assert_eq!(wheel.next(), Some(1000));
        assert_eq!(rung(&mut wheel, 1000), [(1, 1000), (0, 3)]);
    }

    #[test]
    fn the_last_tick_of_all_rings() {
        let begin = LAST - 200_000;
        let mut wheel = Wheel::starting_at(2, begin);
        wheel.set(0, Tick::MAX);
        wheel.set(1, begin + 70);
        assert_eq!(rung(&mut wheel, begin + 70), [(1, begin + 70)]);
        assert_eq!(rung(&mut wheel, LAST - 1), []);
        assert_eq!(rung(&mut wheel, Tick::MAX), [(0, LAST)]);
        // The start of the last wheel's last slot: never later than its expiry.
        let mut far = Wheel::new(1);
        far.set(0, Tick::MAX);
        assert_eq!(far.next(), Some(LAST >> 18 << 18));
    }

    /// Compared with a heap: random timers near and far, random steps.
    #[test]
    fn it_rings_as_a_heap_of_all_timers_says() {
        const TIMERS: u32 = 500;
        for seed in 0..8 {
            let mut stream = Stream::of(seed, Part::Item, 0);
            let begin = if seed % 2 == 0 { 0 } else { stream.uniform(0..=u32::MAX / 2) };
            let mut wheel = Wheel::starting_at(TIMERS, begin);
            let mut heap = BinaryHeap::new();
            let mut free: Vec<u32> = (0..TIMERS).collect();
            let (mut now, mut set) = (begin, 0u32);
            for _ in 0..4000 {
                for _ in 0..stream.uniform(0..=8).min(free.len() as u32) {
                    let timer = free.swap_remove(stream.uniform(0..=free.len() as u32 - 1) as usize);
                    let far = [2, 70, 5_000, 262_144, 1_000_000][stream.uniform(0..=4) as usize];
                    // Coarse, so that many share a tick; some in the past.
                    let due = (now + stream.uniform(0..=far) / 4 * 4).saturating_sub(stream.uniform(0..=2));
                    wheel.set(timer, due);
                    // Overdue timers expire first, in the order in which they were set.
                    let key = if due < wheel.at { (0, set) } else { (due, set) };
                    heap.push(Reverse((key, timer, due)));
                    set += 1;
                }
                let first = heap.iter().map(|Reverse((_, _, due))| *due).min();
                match (wheel.next(), first) {
                    (None, None) => {}
                    (Some(next), Some(first)) => assert!(next <= first.max(wheel.at) || next < wheel.at),
                    other => panic!("{other:?}"),
                }
                now += [0, 1, 20, 3_000][stream.uniform(0..=3) as usize];
                let mut expected = Vec::new();
                while heap.peek().is_some_and(|Reverse((key, _, _))| key.0 <= now) {
                    let Reverse((_, timer, due)) = heap.pop().unwrap();
                    expected.push((timer, due));
                    free.push(timer);
                }
                assert_eq!(rung(&mut wheel, now), expected, "seed {seed} at {now}");
            }
        }
    }

    #[test]
    fn next_leads_to_every_timer_in_few_steps() {
        // A caller that sleeps until `next` wakes at most twice without an expired timer.
        for due in [1, 63, 64, 65, 4_095, 262_143, 262_144, 262_145, 30_000_000] {
            let mut wheel = Wheel::new(1);
            wheel.set(0, due);
            let mut steps = 0;
            while let Some(next) = wheel.next() {
                assert!(next <= due);
                let rung = rung(&mut wheel, next);
                assert!(rung.is_empty() || next == due);
                steps += 1;
            }
            assert!(steps <= 3, "{due}: {steps}");
        }
    }

    #[test]
    fn a_timer_is_eight_bytes() {
        assert_eq!(size_of::<Timer>(), 8);
    }
}
