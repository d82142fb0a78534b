//! How many connections: the article's rule of effective multiplicity, and a sweep around what it says.
//!
//! A server process that has work uses its CPU for a part of the time and waits for the rest, for locks, for the disk, for the
//! next message. Kuroki et al. call cpu / (cpu + wait) its effective multiplicity: at 0.2 a CPU needs five such processes to
//! be kept busy, and in practice twice as many. So P = 2 x CPUs / m. More than that find nothing to do but stand in each
//! other's way, and each New-Order costs more CPU (docs/design/prove.md, 4: 1.2 s per 1000 at 1 connection, 4.8 s at 64).
//!
//! ```text
//! gauge    CPU time of the backends against the time that they had work    m
//! leg      one short run without think times
//! choice   the rule; the smallest P as good as the best
//! sweep    legs in rounds, so that drift does not decide                   [`Sweep`]
//! text     a table; plot   an SVG file
//! ```
//!
//! The rule gives where to look, the sweep decides. Waiting for a CPU is left out of m's waits: it is what too many
//! processes do, and would ask for still more of them. Where the backends are no processes of this machine there is no m,
//! and the sweep alone decides.

mod choice;
mod gauge;
mod leg;
mod plot;
mod sweep;
#[cfg(test)]
mod tests;
mod text;

pub use choice::Rule;
pub use leg::Leg;
pub use sweep::{find, sweep, Point, Settings, Sweep};
