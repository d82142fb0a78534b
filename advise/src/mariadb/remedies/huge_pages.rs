//! A large buffer pool on pages of 4 kB.
//!
//! Rule: the pool has 1 GB or more, large pages are off, and the server works for half of its active time.

use crate::mariadb::rules::on_cpu;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy};

pub(super) const REMEDY: Remedy = Remedy {
    id: "huge-pages",
    title: "huge pages for the buffer pool",
    audience: Audience::Operator,
    documentation: "https://mariadb.com/kb/en/system-variables/#large_pages",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let pool = maria.number("innodb_buffer_pool_size");
    if maria.variable("large_pages") != "OFF" || pool < 1e9 || on_cpu(look) < 0.5 {
        return None;
    }
    let pages = (pool * 1.05 / 2_097_152.0).ceil();
    let advice = Advice {
        finding: format!("a pool of {:.1} GB on pages of 4 kB", pool / 1e9),
        evidence: vec![
            Evidence::new("buffer pool", pool / 1e9, "GB", 1),
            Evidence::new("huge pages of the machine", look.server.huge_pages_total as f64, "", 1),
        ],
        prediction: Prediction::unknown(
            "fewer page walks",
            "hardmeter record counts page walks: a capture of this server shows their share",
        ),
        apply: vec![
            format!(
                "-- as root: sysctl vm.nr_hugepages={pages:.0}; then only the buffer pool uses this memory"
            ),
            "-- in the configuration: large_pages = ON; then restart the server".into(),
        ],
        undo: vec!["-- large_pages = OFF, restart, and sysctl vm.nr_hugepages back to its value".into()],
        risk: "memory that no other program can use; the server falls back to small pages if it is short"
            .into(),
        ..Advice::default()
    };
    Some(advice)
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn only_large_pools_are_named() {
        let of = |pool: &str, on: &str| {
            examine(&look(&[], &[("innodb_buffer_pool_size", pool), ("large_pages", on)]))
        };
        assert!(of("2147483648", "OFF").unwrap().apply[0].contains("vm.nr_hugepages=1076"));
        assert_eq!((of("134217728", "OFF"), of("2147483648", "ON")), (None, None));
    }
}
