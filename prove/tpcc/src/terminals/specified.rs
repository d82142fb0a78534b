//! The specification's terminals: keying, waiting for the answer, thinking, keying.
//!
//! ```text
//!   answered ----- think ----- keying ----- due ----- entered ------------- answered
//!                  (of the last kind)  (of the next)   lag    queue, service
//!            '--------- fixed when answered -------'-------- response time --------'
//! ```
//!
//! **Recorded pauses** are measured, not the drawn ones. The pause is the time from the answer to `entered`; its
//! last part is keying, which is constant, the rest is thinking. So the driver's lag is in the think time (a
//! lagging driver fails the test of its distribution) and in the response time, which counts from `due`. It is also
//! printed separately.
//!
//! Pauses are rounded up to whole milliseconds, the wheel's unit (0.5 ms on average, 0.004 % of a New-Order's
//! pause). The first transaction has no preceding pause: terminals begin at random over one mean cycle.

use super::deck::Deck;
use super::entry::Entries;
use super::homes::{Homes, TERMINALS_OF_A_WAREHOUSE};
use super::pause::Pauses;
use super::weights::Rounds;
use super::wheel::{Tick, Wheel};
use super::Source;
use crate::measure::Recorder;
use crate::order::{Mix, RunOrder};
use crate::random::{Part, Stream};
use crate::time::Micros;
use crate::work::{Kind, TerminalId, Work};

const MICROS_OF_A_TICK: u64 = 1000;

/// A terminal; its timer in the wheel takes another 8 bytes.
struct Terminal {
    /// The time of its last answer.
    answered: Micros,
    /// Transactions that it was dealt, the next one too.
    dealt: u32,
    /// Unused if transactions are drawn by weights.
    deck: Deck,
    next: Kind,
    last: Option<Kind>,
}

/// The terminals of a thread.
pub(super) struct Terminals {
    seed: u64,
    homes: Homes,
    entries: Entries,
    pauses: Pauses,
    /// For weights; `None`: each terminal has its deck.
    rounds: Option<Rounds>,
    terminals: Vec<Terminal>,
    wheel: Wheel,
}

impl Terminals {
    pub fn new(order: &RunOrder, time_factor: f64, homes: Homes) -> Terminals {
        let count = homes.count() * TERMINALS_OF_A_WAREHOUSE;
        let pauses = Pauses::new(time_factor);
        let mut wheel = Wheel::new(count);
        let mut rounds = (order.mix == Mix::Weights).then(|| Rounds::of(order.seed, homes.names()));
        let begin = |of_thread| {
            let name = homes.name(homes.terminal(of_thread));
            let mut stream = Stream::of_transaction(order.seed, Part::Turn, name, 0);
            let mut deck = Deck::full();
            let next = next(&mut rounds, &mut deck, name, 0, &mut stream);
            let spread = tick_of(pauses.mean_cycle());
            wheel.set(of_thread, stream.uniform(0..=spread));
            Terminal { answered: Micros::ZERO, dealt: 1, deck, next, last: None }
        };
        let terminals = (0..count).map(begin).collect();
        Terminals { seed: order.seed, homes, entries: Entries::of(order), pauses, rounds, terminals, wheel }
    }
}

impl Source for Terminals {
    fn due(&mut self, now: Micros, recorder: &mut Recorder, work: &mut Vec<Work>) {
        let Terminals { seed, homes, entries, pauses, terminals, wheel, .. } = self;
        let present = u32::try_from(now.0 / MICROS_OF_A_TICK).unwrap_or(Tick::MAX);
        wheel.advance(present, |of_thread, tick| {
            let Terminal { answered, dealt, next, last, .. } = terminals[of_thread as usize];
            if let Some(last) = last {
                let pause = now.saturating_sub(answered);
                let keying = pauses.keying(next).min(pause);
                recorder.paused(now, (next, keying), Some((last, pause - keying)));
            }
            let terminal = homes.terminal(of_thread);
            let (warehouse, district) = homes.home(terminal);
            let mut stream = Stream::of_transaction(*seed, Part::Entry, homes.name(terminal), dealt);
            let input = entries.draw(next, warehouse, district, &mut stream);
            let due = Micros(u64::from(tick) * MICROS_OF_A_TICK);
            work.push(Work { terminal, input, due, entered: now });
        });
    }

    fn next_due(&self) -> Option<Micros> {
        self.wheel.next().map(|tick| Micros(u64::from(tick) * MICROS_OF_A_TICK))
    }

    fn answered(&mut self, terminal: TerminalId, kind: Kind, answered: Micros) {
        let of_thread = self.homes.of_thread(terminal);
        let name = self.homes.name(terminal);
        let terminal = &mut self.terminals[of_thread as usize];
        debug_assert_eq!(terminal.next, kind, "the answer is to what was asked");
        let mut stream = Stream::of_transaction(self.seed, Part::Turn, name, terminal.dealt);
        let next = next(&mut self.rounds, &mut terminal.deck, name, terminal.dealt, &mut stream);
        let pause = self.pauses.think(kind, &mut stream) + self.pauses.keying(next);
        self.wheel.set(of_thread, tick_of(answered + pause));
        terminal.answered = answered;
        terminal.dealt = terminal.dealt.wrapping_add(1);
        (terminal.last, terminal.next) = (Some(kind), next);
    }

    fn terminals(&self) -> u32 {
        self.terminals.len() as u32
    }
}

/// A terminal's transaction in a round.
fn next(rounds: &mut Option<Rounds>, deck: &mut Deck, name: u64, round: u32, stream: &mut Stream) -> Kind {
    match rounds {
        Some(rounds) => rounds.draw(name, round),
        None => deck.deal(stream),
    }
}

/// The first tick at or after a time.
fn tick_of(moment: Micros) -> Tick {
    u32::try_from(moment.0.div_ceil(MICROS_OF_A_TICK)).unwrap_or(Tick::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{testing, Ending, Run, Times};
    use crate::order::Mode;
    use crate::terminals::test::{order, played};
    use crate::work::Input;
    use std::collections::HashMap;

    const SPECIFIED: Mode = Mode::Terminals { time_factor: 1.0 };

    #[test]
    fn a_terminal_is_sixteen_bytes() {
        assert_eq!(size_of::<Terminal>(), 16);
    }

    #[test]
    fn whole_decks_have_their_shares_exactly() {
        let order = order(SPECIFIED, 1, 1);
        let mut source = Terminals::new(&order, 1.0, Homes::of(&order, 0));
        let mut kinds: HashMap<TerminalId, Vec<Kind>> = HashMap::new();
        for work in played(&mut source, 23_000 * 11, Micros(2000)) {
            kinds.entry(work.terminal).or_default().push(work.input.kind());
        }
        assert_eq!(kinds.len(), 10);
        for drawn in kinds.values() {
            assert!(drawn.len() >= 23_000);
            let counts = Kind::ALL.map(|kind| drawn[..23_000].iter().filter(|&&one| one == kind).count());
            assert_eq!(counts, [10_000, 10_000, 1000, 1000, 1000]);
        }
    }

    /// Checks each terminal's pauses, using only the times of its transactions.
    #[test]
    fn a_cycle_is_think_and_keying_and_nothing_is_early() {
        let order = order(SPECIFIED, 10, 1);
        let mut source = Terminals::new(&order, 1.0, Homes::of(&order, 0));
        let service = Micros(2000);
        let works = played(&mut source, 100_000, service);
        let mut before: HashMap<TerminalId, (Kind, Micros)> = HashMap::new();
        let (mut thought, mut count) = ([0.0; 5], [0.0; 5]);
        for work in &works {
            assert!(work.entered >= work.due, "{work:?} is early");
            assert_eq!(work.due.0 % 1000, 0);
            let kind = work.input.kind();
            match before.insert(work.terminal, (kind, work.entered + service)) {
                Some((last, answered)) => {
                    let think = work.due - answered - Pauses::new(1.0).keying(kind);
                    thought[last.index()] += think.as_seconds();
                    count[last.index()] += 1.0;
                }
                None => assert!(work.due <= Micros(20_696_000), "{work:?} begins late"),
            }
        }
        for (kind, mean) in Kind::ALL.into_iter().zip(crate::terminals::THINK_SECONDS) {
            let (sum, count) = (thought[kind.index()], count[kind.index()]);
            // Four standard errors, and half a tick.
            let error = 4.0 * f64::from(mean) / f64::sqrt(count) + 0.001;
            assert!((sum / count - f64::from(mean)).abs() < error, "{kind:?}: {}", sum / count);
        }
        // The theoretical rate: one in 20.6957 s + 2 ms + half a tick for each terminal.
        let seconds = works.last().unwrap().due.as_seconds();
        let rate = works.len() as f64 / seconds / 100.0 * 20.6982;
        assert!((rate - 1.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn what_is_drawn_does_not_depend_on_the_server() {
        let order = order(SPECIFIED, 2, 1);
        let drawn = |service| {
            let mut source = Terminals::new(&order, 1.0, Homes::of(&order, 0));
            let mut inputs: HashMap<TerminalId, Vec<Input>> = HashMap::new();
            for work in played(&mut source, 4000, service) {
                inputs.entry(work.terminal).or_default().push(work.input);
            }
            inputs
        };
        let (fast, slow) = (drawn(Micros(100)), drawn(Micros::seconds(30)));
        for (terminal, inputs) in &fast {
            let shorter = inputs.len().min(slow[terminal].len());
            assert!(shorter > 50);
            assert_eq!(inputs[..shorter], slow[terminal][..shorter]);
        }
        // Terminals have different sequences.
        assert_ne!(fast[&TerminalId(0)][..10], fast[&TerminalId(1)][..10]);
    }

    /// The verdict of clause 5.2.3 over 40 runs of the specification with 100 warehouses: ten minutes after two of
    /// ramp, 5 ms per answer. A thousand such runs of a model passed.
    #[test]
    fn weights_hold_the_least_shares_and_leave_the_rest_to_new_orders() {
        let (mut held, mut new_orders) = (0, 0);
        for seed in 0..40 {
            let order = RunOrder { seed, mix: Mix::Weights, ..order(SPECIFIED, 100, 1) };
            let mut source = Terminals::new(&order, 1.0, Homes::of(&order, 0));
            let interval = Micros::seconds(120)..Micros::seconds(720);
            let mut counts = [0u64; 5];
            for work in played(&mut source, 38_000, Micros(5000)) {
                counts[work.input.kind().index()] += u64::from(interval.contains(&work.entered));
            }
            let all: u64 = counts.iter().sum();
            assert!((28_000..29_500).contains(&all), "{all}");
            held += u32::from(
                counts[1] * 100 >= all * 43 && counts[2..].iter().all(|&count| count * 100 >= all * 4),
            );
            new_orders += counts[0];
        }
        assert!(held >= 39, "{held}");
        let of_a_warehouse = new_orders as f64 / 40.0 / 100.0 / 10.0;
        assert!((12.67..12.72).contains(&of_a_warehouse), "{of_a_warehouse}");
    }

    #[test]
    fn threads_share_the_warehouses_and_draw_what_one_would() {
        for mix in [Mix::Deck, Mix::Weights] {
            threads_draw_alike(mix);
        }
    }

    fn threads_draw_alike(mix: Mix) {
        let of = |threads| {
            let order = RunOrder { mix, ..order(SPECIFIED, 5, threads) };
            let mut inputs: HashMap<TerminalId, Vec<(u64, Input)>> = HashMap::new();
            for thread in 0..threads {
                let mut source = Terminals::new(&order, 1.0, Homes::of(&order, thread));
                let all = source.terminals();
                for work in played(&mut source, (all * 20) as usize, Micros(1000)) {
                    assert_eq!(work.terminal.0 / 10 % threads, thread);
                    inputs.entry(work.terminal).or_default().push((work.due.0, work.input));
                }
            }
            inputs
        };
        let (one, three) = (of(1), of(3));
        assert_eq!((one.len(), three.len()), (50, 50));
        for (terminal, inputs) in &one {
            let shorter = inputs.len().min(three[terminal].len());
            assert!(shorter > 5 && inputs[..shorter] == three[terminal][..shorter]);
        }
        // The driver's warehouses begin at 11 here.
        let warehouses = |terminal| one[&TerminalId(terminal)].iter().map(|(_, input)| input.warehouse());
        assert!(
            warehouses(0).all(|warehouse| warehouse == 11) && warehouses(49).all(|warehouse| warehouse == 15)
        );
        let levels = |terminal| {
            one[&TerminalId(terminal)].iter().filter_map(|(_, input)| match input {
                Input::StockLevel(level) => Some(level.district),
                _ => None,
            })
        };
        assert!(
            levels(37).all(|district| district == 8) && (30..40).any(|terminal| levels(terminal).count() > 0)
        );
    }

    #[test]
    fn pauses_are_recorded_as_they_were() {
        let order = order(SPECIFIED, 1, 1);
        let mut source = Terminals::new(&order, 1.0, Homes::of(&order, 0));
        let mut recorder = Recorder::new(Micros::ZERO..Micros::seconds(1000));
        let mut work = Vec::new();
        source.due(Micros::seconds(21), &mut recorder, &mut work);
        assert_eq!(work.len(), 10, "all have begun after one mean cycle");
        assert_eq!(pauses(&order, &recorder), ([0.0; 5], [0.0; 5]), "nothing came before");
        let (terminal, last) = (work[0].terminal, work[0].input.kind());
        work.clear();
        source.answered(terminal, last, Micros(21_000_100));
        // Not polled for five minutes: 300 s of waiting, independent of the draw.
        let late = Micros(321_000_100);
        source.due(late, &mut recorder, &mut work);
        let next = work[0].input.kind();
        assert!(work.len() == 1 && work[0].due < late && work[0].entered == late);
        let keying = f64::from(crate::terminals::KEYING_SECONDS[next.index()]);
        let (keyings, thinks) = pauses(&order, &recorder);
        for kind in Kind::ALL {
            let expected = |seconds: f64, of: Kind| if kind == of { seconds } else { 0.0 };
            // Within the precision of a histogram with three digits.
            assert!((keyings[kind.index()] - expected(keying, next)).abs() < 0.02, "{kind:?} {keyings:?}");
            assert!(
                (thinks[kind.index()] - expected(300.0 - keying, last)).abs() < 0.3,
                "{kind:?} {thinks:?}"
            );
        }
    }

    /// Sums of keying and think times, in seconds.
    fn pauses(order: &RunOrder, recorder: &Recorder) -> ([f64; 5], [f64; 5]) {
        let (ending, driver) = (Ending::Complete, testing::driver(1, 1));
        let run = Run { order, started_at: 0, ended: Micros::seconds(1000), ending, driver };
        let result = run.result([recorder.clone()]);
        let sum = |times: &Times| times.mean_seconds().unwrap_or(0.0) * times.count() as f64;
        (
            Kind::ALL.map(|kind| sum(&result.of(kind).keying)),
            Kind::ALL.map(|kind| sum(&result.of(kind).think)),
        )
    }
}
