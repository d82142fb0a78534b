//! Chooses the number of connections: the article's rule of effective multiplicity, and a sweep around its result.
//!
//! A server process with work uses its CPU part of the time and otherwise waits for locks, disk or the next
//! message. Kuroki et al. call cpu / (cpu + wait) its effective multiplicity: at 0.2 a CPU needs five such
//! processes to be busy, and in practice twice as many. So P = 2 x CPUs / m. With more processes contention grows,
//! and each New-Order costs more CPU (docs/design/prove.md, 4: 1.2 s per 1000 at 1 connection, 4.8 s at 64).
//!
//! ```text
//! gauge    CPU time of the backends against the time that they had work    m
//! leg      one short run: a [`block`]; without think times: a leg
//! choice   the rule; the smallest P as good as the best
//! sweep    legs in rounds, so that drift does not decide                   [`Sweep`]
//! text     a table; plot   an SVG file
//! ```
//!
//! The rule selects the candidates, the sweep decides. m's waits exclude waiting for a CPU, which grows with too
//! many processes and would ask for even more. If the backends run on another machine there is no m, and the sweep
//! alone decides.

mod choice;
mod gauge;
mod leg;
mod plot;
mod sweep;
#[cfg(test)]
mod tests;
mod text;

pub use choice::Rule;
pub use leg::{block, Block};
pub use sweep::{find, sweep, Point, Settings, Sweep};
