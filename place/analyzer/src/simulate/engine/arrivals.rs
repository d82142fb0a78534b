//! The arrival of requests.

use super::parts::Asked;
use super::Engine;
use crate::simulate::scenario::Load;

impl Engine<'_> {
    pub(super) fn arrival_ns(&self) -> f64 {
        match &self.scenario.load {
            Load::Recorded(arrivals) => {
                arrivals.get(self.next_arrival).map_or(f64::INFINITY, |(at_us, _)| self.laps + at_us * 1e3)
            }
            Load::Closed(_) => f64::INFINITY,
        }
    }

    pub(super) fn arrive(&mut self) {
        let Load::Recorded(arrivals) = &self.scenario.load else { return };
        let (at_us, request) = arrivals[self.next_arrival];
        self.next_arrival += 1;
        if self.next_arrival == arrivals.len() {
            self.next_arrival = 0;
            // The gap between two rounds is the mean gap, and time must advance.
            let gap_us = (at_us / (arrivals.len() as f64 - 1.0).max(1.0)).max(1.0);
            self.laps += (at_us + gap_us) * 1e3;
        }
        self.ask(request);
    }

    pub(super) fn ask_any(&mut self) {
        let scenario = self.scenario;
        let mut point = self.random.uniform() * scenario.requests.iter().map(|one| one.weight).sum::<f64>();
        let mut chosen = 0;
        for (i, request) in scenario.requests.iter().enumerate() {
            chosen = i;
            point -= request.weight;
            if point < 0.0 {
                break;
            }
        }
        self.ask(chosen);
    }

    fn ask(&mut self, request: usize) {
        let asked = Asked { request, step: 0, put_ns: self.now_ns, caller: None };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.asked[slot] = asked;
                slot
            }
            None => {
                self.asked.push(asked);
                self.asked.len() - 1
            }
        };
        self.put(slot);
    }
}
