//! One file for each remedy: its rule, its prediction, its commands, its test.
//!
//! A new remedy is a new file, its `mod` line and an entry in [`REMEDIES`]; README.md shows how.

mod cast_hides_index;
mod checkpoints;
mod connections;
mod dead_rows;
mod duplicate_indexes;
mod fillfactor;
mod hot_row;
mod huge_pages;
mod idle_in_transaction;
mod jit;
mod many_small_queries;
mod missing_index;
mod prepared_statements;
mod random_page_cost;
mod shared_buffers;
mod sleeping_holder;
mod slow_sync;
mod spill;
mod stale_statistics;
mod unused_indexes;

use crate::Remedy;

/// All remedies.
pub const REMEDIES: &[&dyn Remedy] = &[
    &cast_hides_index::CastHidesIndex,
    &checkpoints::Checkpoints,
    &connections::Connections,
    &dead_rows::DeadRows,
    &duplicate_indexes::DuplicateIndexes,
    &fillfactor::Fillfactor,
    &hot_row::HotRow,
    &huge_pages::HugePages,
    &idle_in_transaction::IdleInTransaction,
    &jit::Jit,
    &many_small_queries::ManySmallQueries,
    &missing_index::MissingIndex,
    &prepared_statements::PreparedStatements,
    &random_page_cost::RandomPageCost,
    &shared_buffers::SharedBuffers,
    &sleeping_holder::SleepingHolder,
    &slow_sync::SlowSync,
    &spill::Spill,
    &stale_statistics::StaleStatistics,
    &unused_indexes::UnusedIndexes,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{advise, Look};

    #[test]
    fn each_file_is_a_remedy_of_its_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/remedies");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<String> = names
            .filter_map(|name| Some(name.to_str()?.strip_suffix(".rs")?.replace('_', "-")))
            .filter(|name| name != "mod")
            .collect();
        let mut ids: Vec<&str> = REMEDIES.iter().map(|remedy| remedy.id()).collect();
        files.sort_unstable();
        ids.sort_unstable();
        assert_eq!(ids, files);
        assert!(REMEDIES.iter().all(|remedy| remedy.documentation().contains('/')));
    }

    #[test]
    fn a_look_that_saw_nothing_advises_nothing() {
        assert_eq!(advise(&Look::default(), REMEDIES), []);
    }
}
