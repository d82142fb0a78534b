//! Why misses happen: cold, capacity, conflict, coherence, and what page walks add to them.
//!
//! ```text
//!                                    ┌─ told by the software PMU ──> exact
//!  samples ──> MissLog (per event) ──┤
//!                                    └─ Inference: bursts, sets, reuse, snoops ──> inferred, or unknown
//!                   │                                                                 │
//!                   └─> SetMap: samples per cache set, sets that stand out            └─> Score against the exact one
//!
//!  notes ──> MissRatioCurve (reuse distances), huge pages
//! ```
//!
//! What this module is *not* for: it does not simulate (that is `softpmu`), knows no database (objects come in as
//! names), and sets no breakpoints: it looks only at the samples that are there.
//!
//! # Trust
//!
//! A cause that the software PMU told is exact for the simulated machine. An inferred one is a conclusion from few
//! samples of many misses; [`infer`] says how each is drawn and how likely it is to be wrong, and it says "unknown"
//! where samples cannot tell. [`Score`] holds the two against each other on the same capture.

mod answer;
mod finding;
mod geometry;
mod infer;
mod kind;
mod log;
mod reuse;
mod score;
mod sets;
mod statistics;

pub use answer::{Why, WhyOptions};
pub use finding::{
    CauseAnswer, DataNames, EventAnswer, How, Missing, NamedCount, PagesTouched, PlaceCountNamed,
};
pub use geometry::{CacheLevel, Hierarchy, LevelGeometry, SetIndexing};
pub use kind::{Cause, EventKind};
pub use reuse::{MissRatioCurve, ReuseDistance, SizeEffect};
pub use score::Score;
pub use sets::{FightingLine, SetMap, SetsUnknown, StandingSet};
