//! Clients without keying and think times: each sends its next transaction on its answer.
//!
//! The home warehouse of client c is the driver's warehouse c mod W. Its number is the [`TerminalId`] of its work.

use super::deck::Deck;
use super::entry::Entries;
use super::homes::{Homes, TERMINALS_OF_A_WAREHOUSE};
use super::Source;
use crate::measure::Recorder;
use crate::order::RunOrder;
use crate::random::{Part, Stream};
use crate::time::Micros;
use crate::work::{Kind, TerminalId, Work};
use std::collections::VecDeque;

struct Client {
    /// Transactions that it was dealt.
    dealt: u32,
    deck: Deck,
}

/// The clients of a thread.
pub(super) struct Clients {
    seed: u64,
    homes: Homes,
    entries: Entries,
    /// By number; includes those of other threads, which are not used.
    clients: Vec<Client>,
    count: u32,
    /// Clients without an outstanding transaction, and since when.
    idle: VecDeque<(TerminalId, Micros)>,
}

impl Clients {
    pub fn new(order: &RunOrder, clients: u32, homes: Homes) -> Clients {
        let ours = |&client: &u32| homes.all() > 0 && homes.has(client % homes.all());
        let idle: VecDeque<_> =
            (0..clients).filter(ours).map(|client| (TerminalId(client), Micros::ZERO)).collect();
        Clients {
            seed: order.seed,
            homes,
            entries: Entries::of(order),
            clients: (0..clients).map(|_| Client { dealt: 0, deck: Deck::full() }).collect(),
            count: idle.len() as u32,
            idle,
        }
    }
}

impl Source for Clients {
    fn due(&mut self, now: Micros, _recorder: &mut Recorder, work: &mut Vec<Work>) {
        while let Some((terminal, due)) = self.idle.pop_front() {
            let client = &mut self.clients[terminal.0 as usize];
            let warehouse = self.homes.warehouse(terminal.0 % self.homes.all());
            // Clients of one warehouse use its terminals in turn.
            let district = (terminal.0 / self.homes.all() % TERMINALS_OF_A_WAREHOUSE + 1) as u8;
            // The stream's name includes the home warehouse, so that drivers with one seed differ.
            let name = u64::from(self.homes.warehouse(0)) << 32 | u64::from(terminal.0);
            let kind =
                client.deck.deal(&mut Stream::of_transaction(self.seed, Part::Turn, name, client.dealt));
            let mut stream = Stream::of_transaction(self.seed, Part::Entry, name, client.dealt);
            let input = self.entries.draw(kind, warehouse, district, &mut stream);
            client.dealt = client.dealt.wrapping_add(1);
            work.push(Work { terminal, input, due, entered: now });
        }
    }

    fn next_due(&self) -> Option<Micros> {
        self.idle.front().map(|&(_, since)| since)
    }

    fn answered(&mut self, terminal: TerminalId, _kind: Kind, answered: Micros) {
        self.idle.push_back((terminal, answered));
    }

    fn terminals(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Mode;
    use crate::terminals::test::{order, played};
    use crate::work::Input;
    use std::collections::HashMap;

    #[test]
    fn clients_are_spread_over_warehouses_and_threads_and_ask_again_at_once() {
        let mut inputs: HashMap<TerminalId, Vec<Input>> = HashMap::new();
        for threads in [1, 2] {
            let order = order(Mode::Closed { clients: 7 }, 3, threads);
            let mut clients = 0;
            for thread in 0..threads {
                let mut source = Clients::new(&order, 7, Homes::of(&order, thread));
                clients += source.terminals();
                let mut answered: HashMap<TerminalId, Micros> = HashMap::new();
                for work in played(&mut source, 500, Micros(700)) {
                    let due = answered.insert(work.terminal, work.entered + Micros(700));
                    assert_eq!(work.due, due.unwrap_or(Micros::ZERO));
                    assert_eq!(work.input.warehouse(), 11 + work.terminal.0 % 3);
                    if let Input::StockLevel(level) = &work.input {
                        assert_eq!(u32::from(level.district), work.terminal.0 / 3 + 1);
                    }
                    inputs.entry(work.terminal).or_default().push(work.input);
                }
            }
            assert_eq!(clients, 7);
        }
        // Each client's inputs were recorded twice, with one thread and with two: equal up to the shorter of both.
        assert_eq!(inputs.len(), 7);
        for drawn in inputs.values() {
            let again = drawn[1..].iter().position(|input| *input == drawn[0]).unwrap() + 1;
            let both = again.min(drawn.len() - again);
            assert!(both >= 70 && drawn[..both] == drawn[again..again + both]);
        }
    }

    #[test]
    fn a_thread_without_warehouses_has_no_clients() {
        let order = order(Mode::Closed { clients: 5 }, 1, 2);
        let source = Clients::new(&order, 5, Homes::of(&order, 1));
        assert_eq!((source.terminals(), source.next_due()), (0, None));
    }
}
