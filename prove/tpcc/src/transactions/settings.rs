//! What a session of the mix sets.

/// What each session sets: every access of the mix is by a key, and a plan made once is the best for all. Small tables would
/// else be read whole, which costs more with each dead row version in them, and a plan is kept for long.
pub(super) const SETTINGS: &str =
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; \
     SET enable_mergejoin = off; SET jit = off";
