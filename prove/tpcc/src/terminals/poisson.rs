//! Transactions that arrive as a Poisson process, independent of earlier ones: no terminal waits for answers.
//!
//! Each thread has its own process with a rate by its share of the warehouses; together they form one process of
//! the whole rate.

use super::deck::Deck;
use super::entry::Entries;
use super::homes::{Homes, TERMINALS_OF_A_WAREHOUSE};
use super::Source;
use crate::measure::Recorder;
use crate::order::RunOrder;
use crate::random::{Part, Stream};
use crate::time::Micros;
use crate::work::{Kind, TerminalId, Work};

/// The arrivals of a thread.
pub(super) struct Poisson {
    homes: Homes,
    entries: Entries,
    stream: Stream,
    deck: Deck,
    /// Microseconds between two on average.
    mean_gap: f64,
    /// The next arrival, not rounded, so that errors do not accumulate. `None`: never.
    next: Option<f64>,
}

impl Poisson {
    pub fn new(order: &RunOrder, rate: f64, homes: Homes) -> Poisson {
        let share = f64::from(homes.count()) / f64::from(homes.all().max(1));
        // Named by the thread's first warehouse, which no other thread of any driver has.
        let name = u64::from(homes.home(homes.terminal(0)).0);
        let stream = Stream::of_transaction(order.seed, Part::Arrival, name, 0);
        let mean_gap = 1e6 / (rate * share);
        let mut poisson =
            Poisson { homes, entries: Entries::of(order), stream, deck: Deck::full(), mean_gap, next: None };
        if mean_gap.is_finite() && mean_gap > 0.0 {
            poisson.next = Some(poisson.stream.exponential() * mean_gap);
        }
        poisson
    }
}

impl Source for Poisson {
    fn due(&mut self, now: Micros, _recorder: &mut Recorder, work: &mut Vec<Work>) {
        while let Some(at) = self.next.filter(|&at| at.ceil() <= now.0 as f64) {
            let all = self.homes.count() * TERMINALS_OF_A_WAREHOUSE;
            let terminal = self.homes.terminal(self.stream.uniform(0..=all - 1));
            let (warehouse, district) = self.homes.home(terminal);
            let kind = self.deck.deal(&mut self.stream);
            let input = self.entries.draw(kind, warehouse, district, &mut self.stream);
            work.push(Work { terminal, input, due: Micros(at.ceil() as u64), entered: now });
            self.next = Some(at + self.stream.exponential() * self.mean_gap);
        }
    }

    fn next_due(&self) -> Option<Micros> {
        self.next.map(|at| Micros(at.ceil() as u64))
    }

    fn answered(&mut self, _terminal: TerminalId, _kind: Kind, _answered: Micros) {}

    fn terminals(&self) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Mode;
    use crate::terminals::test::{order, played};

    const RATE: f64 = 500.0;

    fn arrivals(threads: u32, service: Micros) -> Vec<Work> {
        let order = order(Mode::Open { rate: RATE }, 5, threads);
        let of = |thread| {
            let mut source = Poisson::new(&order, RATE, Homes::of(&order, thread));
            assert_eq!(source.terminals(), 0);
            let count = 20_000 * source.homes.count() as usize / 5;
            played(&mut source, count, service)
        };
        (0..threads).flat_map(of).collect()
    }

    #[test]
    fn gaps_are_exponential_and_terminals_as_likely() {
        let works = arrivals(1, Micros(1000));
        let mut gaps: Vec<f64> =
            works.windows(2).map(|pair| (pair[1].due - pair[0].due).as_seconds() * RATE).collect();
        gaps.sort_by(f64::total_cmp);
        let count = gaps.len() as f64;
        let distances = gaps.iter().enumerate().map(|(at, gap)| {
            let theory = 1.0 - (-gap).exp();
            (theory - at as f64 / count).abs().max((theory - (at + 1) as f64 / count).abs())
        });
        // Kolmogorov's limit: 1.63 is p = 0.01. Rounding to microseconds adds at most 0.0005 at a mean of 2000.
        assert!(distances.fold(0.0, f64::max) < 1.63 / count.sqrt() + 0.0005);
        let mut counts = [0u32; 50];
        for work in &works {
            counts[work.terminal.0 as usize] += 1;
        }
        // 49 degrees of freedom: 85.4 is p = 0.001.
        let chi: f64 = counts.iter().map(|&count| (f64::from(count) - 400.0).powi(2) / 400.0).sum();
        assert!(chi < 85.4, "{counts:?}");
        let kinds = Kind::ALL.map(|kind| works.iter().filter(|work| work.input.kind() == kind).count());
        // 869 decks and 13 cards.
        assert!((8690..=8700).contains(&kinds[0]) && (869..=870).contains(&kinds[4]), "{kinds:?}");
    }

    #[test]
    fn nothing_waits_for_answers_and_threads_share_the_rate() {
        assert_eq!(arrivals(1, Micros(1000)), arrivals(1, Micros::seconds(100)));
        let threads = arrivals(2, Micros(1000));
        let seconds = threads.last().unwrap().due.as_seconds();
        assert!((20_000.0 / seconds / RATE - 1.0).abs() < 0.05, "{seconds}");
        let order = order(Mode::Open { rate: RATE }, 1, 2);
        assert_eq!(Poisson::new(&order, RATE, Homes::of(&order, 1)).next_due(), None);
    }
}
