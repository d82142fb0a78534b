//! Clause 3 on a real server: atomicity, the nine isolation scenarios, durability.
