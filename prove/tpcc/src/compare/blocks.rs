//! Blocks of two sides that take turns on one database.
//!
//! ```text
//!   toss: A or B first ──> block: new connections ── ramp, not counted ── measured ──> the other side's block
//!        ^                                                                                      │
//!        └──────── no verdict yet, pairs left ──────── pair judged <────────────────────────────┘
//!                                                          │ verdict, last pair, Ctrl-C
//!                                                          v
//!                                                        Answer
//! ```
//!
//! Who runs first in a pair is drawn, so what changes with time (the database grows, neighbours come and go) favours
//! neither side ([`hardmeter_evidence::Trial`]). A block is a short run as in a sweep of connections; its connections
//! are new, and their first seconds, in which the servers' processes fill their caches, do not count.

use super::contest::{Answer, Contest, Figures, Side};
use crate::backend::Backends;
use crate::error::TpccError;
use crate::monitor::auto::{block, Block};
use crate::observe::Process;
use crate::order::RunOrder;
use hardmeter_session::{Progress, Stop};
use serde::Serialize;

/// The lengths of blocks and trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pace {
    /// Number of blocks, of both sides together, after which there is no verdict any more.
    pub most_blocks: u32,
    /// Measured seconds of a block.
    pub block_seconds: f64,
    /// Seconds before, which do not count: the other side's transactions and caches are still there.
    pub warm_up_seconds: f64,
    /// The smallest relative change that matters.
    pub minimum_effect: f64,
}

/// Two sides, each a server by a way of its own.
#[derive(Clone, Copy)]
pub struct Sides<'a> {
    /// The baseline.
    pub a: &'a dyn Backends,
    /// What is compared with it.
    pub b: &'a dyn Backends,
    /// The server's first process, if it can be seen.
    pub server: Option<Process>,
}

/// The comparison of two sides by blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockComparison {
    /// What the pairs say.
    pub answer: Answer,
    /// Whether it ended on a request to stop.
    pub interrupted: bool,
    /// The parameters of the blocks. Each draws its own transactions.
    pub order: RunOrder,
    /// The lengths.
    pub pace: Pace,
    /// Block by block, in their order.
    pub blocks: Vec<Measured>,
    /// Transactions that were given up: A's, B's.
    pub failed: [u64; 2],
}

/// A measured block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Whose.
    pub side: Side,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Compares two sides by blocks that take turns. It runs transactions: the database grows. A request to stop ends
/// it with what is known.
///
/// # Errors
///
/// [`TpccError`] if a block cannot begin, or nothing is done in it.
pub fn of_blocks(
    order: &RunOrder,
    sides: Sides,
    pace: Pace,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<BlockComparison, TpccError> {
    let pairs = (pace.most_blocks / 2).max(1);
    let order = RunOrder {
        ramp_seconds: pace.warm_up_seconds,
        interval_seconds: pace.block_seconds,
        checkpoint_seconds: None,
        start_at: None,
        ..order.clone()
    };
    let mut contest = Contest::new(sides.server.is_some(), pairs, pace.minimum_effect, order.seed);
    let mut comparison = BlockComparison {
        answer: contest.answer(),
        interrupted: false,
        order: order.clone(),
        pace,
        blocks: Vec::new(),
        failed: [0; 2],
    };
    progress.phase("blocks of A and B in turn", u64::from(pairs) * 2);
    while let Some(side) = contest.next() {
        let backends = match side {
            Side::A => sides.a,
            Side::B => sides.b,
        };
        let number = comparison.blocks.len() as u64 + 1;
        let order = RunOrder { seed: order.seed.wrapping_add(number << 32), ..order.clone() };
        let Some(block) = block(&order, backends, &crate::terminals::source, sides.server, stop)? else {
            comparison.interrupted = true;
            break;
        };
        comparison.failed[side.number()] += block.failed;
        let figures = figures(&block);
        contest.observe(side, figures);
        comparison.blocks.push(Measured { side, figures });
        progress.advance(1);
    }
    comparison.answer = contest.answer();
    Ok(comparison)
}

fn figures(block: &Block) -> Figures {
    Figures {
        new_orders_a_minute: block.throughput,
        response_p90_seconds: block.response.quantile(0.9).map(|time| time.as_seconds()),
        server_cpu_per_1000: block.server_cpu.map(|seconds| seconds / block.new_orders as f64 * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::Stub;
    use crate::time::Micros;
    use hardmeter_evidence::Verdict;

    /// Requests to stop after this many blocks.
    struct Until<'a>(&'a Stop, std::sync::atomic::AtomicU32);

    impl Progress for Until<'_> {
        fn phase(&self, _what: &str, _units: u64) {}
        fn advance(&self, _units: u64) {
            if self.1.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) == 1 {
                self.0.ask();
            }
        }
    }

    /// Two servers that answer after these microseconds; A's side, then B's. Ends after `blocks`.
    fn compared(micros: [u64; 2], most_blocks: u32, blocks: u32) -> BlockComparison {
        let [a, b] = micros.map(|micros| Stub { service: Micros(micros) });
        let sides = Sides { a: &a, b: &b, server: None };
        let pace = Pace { most_blocks, block_seconds: 0.15, warm_up_seconds: 0.05, minimum_effect: 0.02 };
        let stop = Stop::new();
        let progress = Until(&stop, blocks.into());
        of_blocks(&RunOrder::closed(2, None, 4, 1), sides, pace, &stop, &progress).unwrap()
    }

    #[test]
    fn a_server_that_answers_later_is_worse() {
        let comparison = compared([2_000, 20_000], 40, 40);
        assert_eq!(comparison.answer.verdict, Verdict::Worse, "{comparison:?}");
        // Found in seven pairs at the earliest; a tenth of the throughput.
        assert!(comparison.answer.pairs >= 7 && !comparison.interrupted);
        assert!(comparison.answer.rows[0].change.unwrap() < -0.7, "{comparison:?}");
        assert_eq!(comparison.blocks.len() as u32, 2 * comparison.answer.pairs);
        let text = comparison.in_words("2 ms", "20 ms");
        assert!(text.starts_with("B is worse: "), "{text}");
        assert!(
            text.contains("\nA: 2 ms\nB: 20 ms\n") && text.contains("2 warehouses, closed loop"),
            "{text}"
        );
        // Both sides are the first of a pair now and then: the order is drawn.
        let firsts: Vec<Side> = comparison.blocks.chunks(2).map(|pair| pair[0].side).collect();
        assert!(firsts.contains(&Side::A) && firsts.contains(&Side::B), "{firsts:?}");
    }

    #[test]
    fn few_blocks_of_one_server_decide_nothing() {
        let comparison = compared([2_000, 2_000], 12, 12);
        assert_eq!((comparison.answer.verdict, comparison.answer.pairs), (Verdict::Undecided, 6));
        let text = comparison.in_words("a", "b");
        assert!(text.starts_with("undecided: 6 pairs of blocks of 0.2 s, and a verdict needs 7"), "{text}");
        assert!(text.contains("--blocks 28 --seconds 0.3"), "{text}");
    }

    #[test]
    fn a_request_to_stop_ends_it_with_what_is_known() {
        let comparison = compared([2_000, 20_000], 40, 5);
        assert!(comparison.interrupted);
        assert_eq!((comparison.blocks.len(), comparison.answer.pairs), (5, 2));
        assert_eq!(comparison.answer.rows[0].pairs, 2);
        assert!(comparison.in_words("a", "b").starts_with("interrupted; so far undecided: 2 pairs"));
    }
}
