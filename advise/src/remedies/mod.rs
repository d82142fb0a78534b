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
mod other_programs;
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
pub const REMEDIES: &[Remedy] = &[
    cast_hides_index::REMEDY,
    checkpoints::REMEDY,
    connections::REMEDY,
    dead_rows::REMEDY,
    duplicate_indexes::REMEDY,
    fillfactor::REMEDY,
    hot_row::REMEDY,
    huge_pages::REMEDY,
    idle_in_transaction::REMEDY,
    jit::REMEDY,
    many_small_queries::REMEDY,
    missing_index::REMEDY,
    other_programs::REMEDY,
    prepared_statements::REMEDY,
    random_page_cost::REMEDY,
    shared_buffers::REMEDY,
    sleeping_holder::REMEDY,
    slow_sync::REMEDY,
    spill::REMEDY,
    stale_statistics::REMEDY,
    unused_indexes::REMEDY,
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
        let mut ids: Vec<&str> = REMEDIES.iter().map(|remedy| remedy.id).collect();
        files.sort_unstable();
        ids.sort_unstable();
        assert_eq!(ids, files);
        assert!(REMEDIES.iter().all(|remedy| remedy.documentation.contains('/')));
    }

    #[test]
    fn a_look_that_saw_nothing_advises_nothing() {
        assert_eq!(advise(&Look::default(), REMEDIES), []);
    }
}
