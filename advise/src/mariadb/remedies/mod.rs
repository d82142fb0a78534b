//! Remedies of MariaDB: one file each, as of PostgreSQL. Rules read the same `Look`; its field `mariadb` has
//! the data that only MariaDB provides.

mod adaptive_hash;
mod buffer_pool;
mod duplicate_indexes;
mod huge_pages;
mod join_buffer;
mod log_size;
mod malloc_arenas;
mod missing_index;
mod prepared_statements;
mod row_locks;
mod slow_sync;
mod sort_buffer;
mod table_cache;
mod temporary_tables;
mod thread_cache;
mod thread_pool;
mod unused_indexes;

use crate::Remedy;

/// All remedies of MariaDB.
pub const MARIADB_REMEDIES: &[Remedy] = &[
    adaptive_hash::REMEDY,
    buffer_pool::REMEDY,
    duplicate_indexes::REMEDY,
    huge_pages::REMEDY,
    join_buffer::REMEDY,
    log_size::REMEDY,
    malloc_arenas::REMEDY,
    missing_index::REMEDY,
    prepared_statements::REMEDY,
    row_locks::REMEDY,
    slow_sync::REMEDY,
    sort_buffer::REMEDY,
    table_cache::REMEDY,
    temporary_tables::REMEDY,
    thread_cache::REMEDY,
    thread_pool::REMEDY,
    unused_indexes::REMEDY,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mariadb::Maria;
    use crate::{advise, Kind, Look, Share, TimeShares};

    /// A look of 10 s at a server that ran for 10 s on a CPU, with these counts and variables.
    pub(super) fn look(counted: &[(&str, f64)], variables: &[(&str, &str)]) -> Look {
        let run = Share { kind: Kind::RunningUser, event: String::new(), seconds: 10.0, n: 1 };
        let mut look = Look {
            seconds: 10.0,
            time: TimeShares {
                total: 10.0,
                shares: vec![run],
                busy: 1,
                exact: true,
                ..TimeShares::default()
            },
            mariadb: Some(Maria {
                counted: counted.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
                variables: variables
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                ..Maria::default()
            }),
            ..Look::default()
        };
        (look.server.cpus, look.server.memory, look.server.local) = (2, 8e9, true);
        look
    }

    /// The same with this part of the time in waits of an event.
    pub(super) fn waiting(mut look: Look, kind: Kind, event: &str, seconds: f64) -> Look {
        look.time.shares.push(Share { kind, event: event.into(), seconds, n: 50 });
        look.time.total += seconds;
        look
    }

    #[test]
    fn each_file_is_a_remedy_of_its_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mariadb/remedies");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<String> = names
            .filter_map(|name| Some(name.to_str()?.strip_suffix(".rs")?.replace('_', "-")))
            .filter(|name| name != "mod")
            .collect();
        let mut ids: Vec<&str> = MARIADB_REMEDIES.iter().map(|remedy| remedy.id).collect();
        files.sort_unstable();
        ids.sort_unstable();
        assert_eq!(ids, files);
        assert!(MARIADB_REMEDIES.iter().all(|remedy| remedy.documentation.contains('/')));
    }

    #[test]
    fn a_look_that_saw_nothing_advises_nothing() {
        assert_eq!(advise(&Look::default(), MARIADB_REMEDIES), []);
        assert_eq!(advise(&look(&[], &[]), MARIADB_REMEDIES), []);
    }
}
