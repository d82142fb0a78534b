//! Look-ups by key that walk the same B-trees repeatedly.
//!
//! Rule: 20,000 look-ups by key a second or more, of which nearly all hit the pool, on a server that works
//! for half of its active time, and the adaptive hash index is off. The gain depends on the load and can be
//! negative: only a trial shows it.

use crate::look::shares::ratio;
use crate::mariadb::rules::{on_cpu, set_global};
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Takes};

pub(super) const REMEDY: Remedy = Remedy {
    id: "adaptive-hash",
    title: "try the adaptive hash index",
    audience: Audience::Operator,
    documentation: "https://mariadb.com/kb/en/innodb-system-variables/#innodb_adaptive_hash_index",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let lookups = maria.count("handler_read_key");
    let rate = ratio(lookups, look.seconds);
    let misses =
        ratio(maria.count("innodb_buffer_pool_reads"), maria.count("innodb_buffer_pool_read_requests"));
    let writes = ["handler_write", "handler_update", "handler_delete"]
        .iter()
        .map(|name| maria.count(name))
        .sum::<f64>();
    let off = maria.variable("innodb_adaptive_hash_index") == "OFF";
    if !off || rate < 20_000.0 || misses > 0.001 || on_cpu(look) < 0.5 || writes > lookups / 10.0 {
        return None;
    }
    let advice = Advice {
        finding: format!("{rate:.0} look-ups by key a second walk B-trees whose pages are in the pool"),
        evidence: vec![
            Evidence::new("look-ups by key a second", rate, "1/s", lookups as u64),
            Evidence::new("page requests that miss", misses * 100.0, "%", 1),
        ],
        prediction: Prediction::unknown(
            "a look-up finds its row by a hash instead of a walk",
            "how often the same pages are walked the same way is not counted: a trial shows it",
        ),
        risk: "its latches are contended where many threads write; memory of the pool".into(),
        ..Advice::default()
    };
    Some(advice.with_changes(vec![set_global(look, "innodb_adaptive_hash_index", "ON", Takes::AtOnce)]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn only_look_ups_that_hit_the_pool_profit() {
        let of = |lookups: f64, writes: f64, on: &str| {
            let counted = [("handler_read_key", lookups), ("handler_write", writes)];
            examine(&look(&counted, &[("innodb_adaptive_hash_index", on)]))
        };
        assert_eq!(of(3e5, 0.0, "OFF").unwrap().apply[0], "SET GLOBAL innodb_adaptive_hash_index = ON;");
        assert_eq!((of(3e5, 0.0, "ON"), of(1e5, 0.0, "OFF"), of(3e5, 1e5, "OFF")), (None, None, None));
    }
}
