//! The settings that a trial may change: all of them take effect at a reload, lose no data, end no session,
//! and can be undone by a reload.

/// Planner, memory of a statement, compilation, parallel workers, log writing and checkpoints.
const ALLOWED: &[&str] = &[
    "backend_flush_after",
    "bgwriter_delay",
    "bgwriter_flush_after",
    "bgwriter_lru_maxpages",
    "bgwriter_lru_multiplier",
    "checkpoint_completion_target",
    "checkpoint_flush_after",
    "checkpoint_timeout",
    "commit_delay",
    "commit_siblings",
    "cpu_index_tuple_cost",
    "cpu_operator_cost",
    "cpu_tuple_cost",
    "cursor_tuple_fraction",
    "effective_cache_size",
    "effective_io_concurrency",
    "enable_bitmapscan",
    "enable_hashagg",
    "enable_hashjoin",
    "enable_incremental_sort",
    "enable_indexonlyscan",
    "enable_indexscan",
    "enable_material",
    "enable_memoize",
    "enable_mergejoin",
    "enable_nestloop",
    "enable_parallel_append",
    "enable_parallel_hash",
    "enable_partitionwise_aggregate",
    "enable_partitionwise_join",
    "enable_seqscan",
    "enable_sort",
    "from_collapse_limit",
    "geqo",
    "geqo_threshold",
    "hash_mem_multiplier",
    "jit",
    "jit_above_cost",
    "jit_inline_above_cost",
    "jit_optimize_above_cost",
    "join_collapse_limit",
    "max_parallel_workers",
    "max_parallel_workers_per_gather",
    "max_wal_size",
    "min_parallel_index_scan_size",
    "min_parallel_table_scan_size",
    "parallel_leader_participation",
    "parallel_setup_cost",
    "parallel_tuple_cost",
    "plan_cache_mode",
    "random_page_cost",
    "seq_page_cost",
    "wal_compression",
    "wal_writer_delay",
    "wal_writer_flush_after",
    "work_mem",
];

/// The reason why a setting is tried only on a copy, or with restarts of the server.
pub(super) const RESTART: &str = "it needs a restart of the server";

/// Settings that users name, and the reasons why no trial changes them.
const REFUSED: &[(&str, &str)] = &[
    (
        "synchronous_commit",
        "a crash of the server during the trial could lose transactions that were confirmed",
    ),
    ("fsync", "a crash of the machine during the trial could destroy the database"),
    ("full_page_writes", "a crash of the machine during the trial could destroy the database"),
    ("idle_in_transaction_session_timeout", "it ends sessions of the load"),
    ("idle_session_timeout", "it ends sessions of the load"),
    ("statement_timeout", "it ends statements of the load"),
    ("shared_buffers", RESTART),
    ("autovacuum_max_workers", RESTART),
    ("huge_pages", RESTART),
    ("min_dynamic_shared_memory", RESTART),
    ("wal_buffers", RESTART),
    ("max_connections", "a restart with fewer refuses sessions, and a standby needs as many"),
    ("shared_preload_libraries", "a restart without a library could lose what the load needs"),
];

/// The reason why a setting may not be tried; `None`: it may.
pub(super) fn refusal(name: &str) -> Option<&'static str> {
    if ALLOWED.contains(&name) {
        return None;
    }
    let known = REFUSED.iter().find(|(refused, _)| *refused == name);
    Some(
        known.map_or("it is not in the list of settings that a reload switches without harm", |(_, why)| why),
    )
}

/// True if plans depend on the setting, so that a session must discard its cached plans.
pub(super) fn shapes_plans(name: &str) -> bool {
    let of_writing = ["backend_", "bgwriter_", "checkpoint_", "commit_", "max_wal_", "wal_"];
    !of_writing.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_settings_are_tried() {
        assert_eq!(refusal("jit"), None);
        assert!(refusal("fsync").unwrap().contains("destroy"));
        assert!(refusal("shared_buffers").unwrap().contains("restart"));
        assert!(refusal("archive_command").unwrap().contains("not in the list"));
        assert!(shapes_plans("jit") && shapes_plans("work_mem") && !shapes_plans("commit_delay"));
        assert!(ALLOWED.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
        assert!(REFUSED.iter().all(|(name, _)| !ALLOWED.contains(name)));
    }
}
