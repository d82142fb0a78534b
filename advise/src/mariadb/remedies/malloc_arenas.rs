//! Memory that glibc's arenas hold for connections that come and go.
//!
//! Rule: the process has 1 GB or more besides the buffer pool, at 64 connections or more, its allocator is glibc's, and nothing
//! limits its arenas. Memory that large caches of the configuration explain is subtracted.

use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy};

pub(super) const REMEDY: Remedy = Remedy {
    id: "malloc-arenas",
    title: "fewer arenas of the allocator, or another one",
    audience: Audience::Operator,
    documentation: "https://mariadb.com/kb/en/using-mariadb-with-tcmalloc-or-jemalloc/",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let explained =
        ["innodb_buffer_pool_size", "innodb_log_buffer_size", "key_buffer_size", "query_cache_size"];
    let besides = maria.resident - explained.iter().map(|name| maria.number(name)).sum::<f64>();
    let connections = maria.status.get("threads_connected").copied().unwrap_or(0.0);
    if maria.allocator != "glibc" || maria.arenas_limited || besides < 1e9 || connections < 64.0 {
        return None;
    }
    let advice = Advice {
        finding: format!(
            "{:.1} GB besides the buffer pool, at {connections:.0} connections, in arenas of glibc",
            besides / 1e9
        ),
        evidence: vec![
            Evidence::new("memory besides the caches of the configuration", besides / 1e9, "GB", 1),
            Evidence::new("connections", connections, "", 1),
        ],
        prediction: Prediction::unknown(
            "memory for the buffer pool and the kernel's cache",
            "the part that is free within arenas is not known from outside",
        ),
        apply: vec![
            "-- in the service's environment: MALLOC_ARENA_MAX=4 (or LD_PRELOAD=libjemalloc.so.2); then restart".into(),
        ],
        undo: vec!["-- without it, and restart".into()],
        risk: "threads that allocate at once wait for an arena: compare the CPU time of a transaction".into(),
        ..Advice::default()
    };
    Some(advice)
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn only_unexplained_memory_of_many_connections_is_named() {
        let of = |resident, limited, connections| {
            let mut look = look(&[], &[("innodb_buffer_pool_size", "1000000000")]);
            let maria = look.mariadb.as_mut().unwrap();
            (maria.resident, maria.arenas_limited, maria.allocator) = (resident, limited, "glibc".into());
            maria.status.insert("threads_connected".into(), connections);
            examine(&look)
        };
        assert!(of(2.5e9, false, 100.0).unwrap().finding.starts_with("1.5 GB"));
        assert_eq!(
            (of(2.5e9, true, 100.0), of(1.5e9, false, 100.0), of(2.5e9, false, 8.0)),
            (None, None, None)
        );
    }
}
