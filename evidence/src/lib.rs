//! Statistics of measurements: figures with their intervals, and trials that compare contestants.
//!
//! | module | answers |
//! |---|---|
//! | [`Figure`] | a value with its unit, number of observations, 95 % interval, method and direction |
//! | [`Median`] | the median of repeated measurements, by order statistics |
//! | [`Share`], [`count_interval`] | a share of samples (Wilson), a count of events (Byar) |
//! | [`WeightedShare`] | a share of what samples weigh, such as cycles |
//! | [`Change`], [`Counted`] | the change of a rate: of two runs by their counts, of several by their variation |
//! | [`false_discovery`] | many tests at once (Benjamini-Hochberg) |
//! | [`Sample`] | means and their differences and ratios (Student, Welch) |
//! | [`Sequence`] | a difference that is tested after every pair (always-valid) |
//! | [`Trial`] | which contestant is better: random order, several metrics, one verdict |
//! | [`number`] | counts and durations as people read them |
//! | [`page`] | the frame, style sheet and tables of every HTML page |
//! | [`table`] | tables on a terminal |
//! | [`envelope`](mod@envelope) | results for programs: format, version, fields |
//! | [`boundaries`] | the verdicts of signs as a table, for programs that only count |
//!
//! The statistics are pure: no clock, no I/O, no global state. `docs/design/evidence.md` explains the choice
//! of methods; `cargo run -p hardmeter-evidence --example power` prints what a trial can find.
//!
//! ```
//! use hardmeter_evidence::{Direction, Metric, Plan, Trial, Verdict};
//!
//! let plan = Plan::of_two(vec![Metric::new("ms per request", Direction::Less, 0.02)], 7);
//! let mut trial = Trial::new(plan)?;
//! while let Some(contestant) = trial.next() {
//!     // Run the contestant here. The second one takes a tenth less time.
//!     let milliseconds = if contestant == 0 { 10.0 } else { 9.0 };
//!     trial.observe(contestant, &[milliseconds])?;
//! }
//! assert_eq!(trial.verdict(), Verdict::Better);
//! # Ok::<(), hardmeter_evidence::TrialError>(())
//! ```

pub mod boundaries;
mod change;
mod coin;
mod discovery;
pub mod envelope;
mod figure;
mod interval;
mod median;
pub mod number;
pub mod page;
mod sequence;
mod share;
mod student;
pub mod table;
mod trial;
mod verdict;
mod weights;

pub use change::{Change, Counted};
pub use coin::Coin;
pub use discovery::false_discovery;
pub use figure::{Direction, Figure, Method};
pub use interval::Interval;
pub use median::{geometric_mean, Median};
pub use sequence::{Sequence, LEANS};
pub use share::{count_interval, Share};
pub use student::{quantile_95, Difference, Sample};
pub use trial::{Design, Metric, Plan, Role, Standing, StandingOfMetric, TimedSample, Trial, TrialError};
pub use verdict::Verdict;
pub use weights::{WeightedShare, Weights};
