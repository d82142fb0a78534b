//! The causes of misses: cold, capacity, conflict, coherence; and the page walks.
//!
//! ```text
//!                                    ┌─ from the software PMU ────> exact
//!  samples ──> MissLog (per event) ──┤
//!                                    └─ Inference: bursts, sets, reuse, snoops ──> inferred, or unknown
//!                   │                                                                 │
//!                   └─> SetMap: samples per cache set, sets that stand out            └─> Score against the exact one
//!
//!  notes ──> MissRatioCurve (reuse distances), huge pages
//! ```
//!
//! What this module is *not* for: it does not simulate (`measure/simulate` does), is independent of the database
//! (objects are names), and needs only the samples.
//!
//! # Trust
//!
//! A cause that the software PMU recorded is exact for the simulated machine. An inferred one is a conclusion from
//! few samples of many misses; [`infer`] documents each rule and its error probability, and returns "unknown" if
//! samples do not decide. [`Score`] compares the two on the same capture.

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
    CauseAnswer, ColdStart, DataNames, EventAnswer, How, Missing, NamedCount, PagesTouched, PatternCount,
    PlaceCountNamed,
};
pub use geometry::{CacheLevel, Hierarchy, LevelGeometry, SetIndexing};
pub use kind::{Cause, EventKind};
pub use reuse::{MissRatioCurve, ReuseDistance, SizeEffect};
pub use score::Score;
pub use sets::{FightingLine, SetMap, SetsUnknown, StandingSet};
