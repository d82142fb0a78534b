//! Temporary tables that go to disk since they outgrow their memory.
//!
//! Rule: five such tables a second or more, a twentieth of all temporary tables or more. Tables with long
//! columns (TEXT, BLOB) go to disk whatever their size. The rule does not distinguish them: a trial shows
//! the effect.

use crate::look::shares::ratio;
use crate::mariadb::rules::set_global;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Takes};

/// Seconds of CPU to make and drop a temporary table on disk; assumed.
const COST_OF_TABLE: f64 = 1.5e-4;

pub(super) const REMEDY: Remedy = Remedy {
    id: "temporary-tables",
    title: "more memory for temporary tables",
    audience: Audience::Operator,
    documentation: "https://mariadb.com/kb/en/server-system-variables/#tmp_memory_table_size",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let (disk, all) = (maria.count("created_tmp_disk_tables"), maria.count("created_tmp_tables"));
    let rate = ratio(disk, look.seconds);
    let size = maria.number("tmp_memory_table_size").min(maria.number("max_heap_table_size"));
    if rate < 5.0 || disk < all / 20.0 || size > 256e6 {
        return None;
    }
    let value = format!("{:.0}", (size * 8.0).max(67_108_864.0));
    let advice = Advice {
        finding: format!(
            "{rate:.0} temporary tables a second go to disk; {:.1} MB are kept in memory",
            size / 1e6
        ),
        evidence: vec![
            Evidence::new("temporary tables on disk a second", rate, "1/s", disk as u64),
            Evidence::new("of all temporary tables", ratio(disk, all) * 100.0, "%", all as u64),
        ],
        prediction: Prediction::gain(
            look.time.with_cpu_seconds(disk * COST_OF_TABLE),
            "temporary tables stay in memory",
            "150 us of CPU a table (assumed), without its rows: a lower bound",
        ),
        risk: "each temporary table of each connection may take that much memory".into(),
        ..Advice::default()
    };
    Some(advice.with_changes(vec![
        set_global(look, "tmp_memory_table_size", &value, Takes::NewSessions),
        set_global(look, "max_heap_table_size", &value, Takes::NewSessions),
    ]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn tables_on_disk_cost_time() {
        let of = |disk: f64, all: f64| {
            let counted = [("created_tmp_disk_tables", disk), ("created_tmp_tables", all)];
            let variables = [("tmp_memory_table_size", "16384"), ("max_heap_table_size", "16777216")];
            examine(&look(&counted, &variables))
        };
        // 10,000 x 150 us = 1.5 s of 10 s.
        let advice = of(1e4, 1e4).unwrap();
        assert!((advice.prediction.gain.unwrap() - 0.15).abs() < 1e-9);
        assert_eq!(
            advice.undo,
            ["SET GLOBAL max_heap_table_size = 16777216;", "SET GLOBAL tmp_memory_table_size = 16384;"]
        );
        assert_eq!((of(10.0, 10.0), of(1e4, 1e6)), (None, None));
    }
}
