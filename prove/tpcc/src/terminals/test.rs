//! Shared by the tests of sources: a run without a real clock.

use super::Source;
use crate::measure::{testing, Recorder};
use crate::order::{Mode, RunOrder};
use crate::time::Micros;
use crate::work::Work;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The order of a driver whose warehouses begin at 11, of 100.
pub fn order(mode: Mode, warehouses: u32, threads: u32) -> RunOrder {
    RunOrder {
        all_warehouses: 100,
        first_warehouse: 11,
        warehouses,
        mode,
        threads,
        ..testing::order(0.0, 1.0)
    }
}

/// The first `count` pieces of work in the order of entry, with a server of constant answer time. Virtual time
/// advances from event to event.
pub fn played(source: &mut dyn Source, count: usize, service: Micros) -> Vec<Work> {
    let mut recorder = Recorder::new(Micros::ZERO..Micros::seconds(1));
    let mut answers = BinaryHeap::new();
    let (mut played, mut work) = (Vec::new(), Vec::new());
    let mut now = Micros::ZERO;
    while played.len() < count {
        source.due(now, &mut recorder, &mut work);
        for work in work.drain(..) {
            assert_eq!(work.entered, now);
            assert!(work.due <= now, "{work:?} is early");
            answers.push(Reverse((now + service, played.len())));
            played.push(work);
        }
        let answer = answers.peek().map(|&Reverse((at, _))| at);
        let next = [source.next_due(), answer].into_iter().flatten().min().expect("somebody will ask");
        now = now.max(next);
        while let Some(&Reverse((at, index))) = answers.peek().filter(|Reverse((at, _))| *at <= now) {
            answers.pop();
            source.answered(played[index].terminal, played[index].input.kind(), at);
        }
    }
    played.truncate(count);
    played
}
