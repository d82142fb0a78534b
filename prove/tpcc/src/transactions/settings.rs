//! Session settings for the mix.

/// Session settings: every access of the mix is by key, and a generic plan is the best one. Otherwise small tables
/// would be scanned, which costs more with each dead row version, and plans are kept for long.
pub(super) const SETTINGS: &str =
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; \
     SET enable_mergejoin = off; SET jit = off";
