//! A buffer pool so small that pages are read repeatedly.
//!
//! Rule: one page request in a hundred or more misses the pool, 500 a second or more; the tables are larger than the pool, and
//! the pool is below half of the machine's memory. A high hit rate needs no larger pool.

use crate::look::shares::ratio;
use crate::mariadb::rules::set_global;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Takes};

/// Seconds of CPU to read a page of 16 kB from the kernel's cache, checksum and free page included; assumed.
const COST_OF_PAGE: f64 = 12e-6;

pub(super) const REMEDY: Remedy = Remedy {
    id: "buffer-pool",
    title: "a larger buffer pool",
    audience: Audience::Operator,
    documentation: "https://mariadb.com/kb/en/innodb-buffer-pool/",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let (reads, requests) =
        (maria.count("innodb_buffer_pool_reads"), maria.count("innodb_buffer_pool_read_requests"));
    let pool = maria.number("innodb_buffer_pool_size");
    let (misses, rate) = (ratio(reads, requests), ratio(reads, look.seconds));
    let small = look.server.local && pool > 0.0 && pool < look.server.memory / 2.0 && maria.bytes > pool;
    if !small || misses < 0.01 || rate < 500.0 {
        return None;
    }
    let (waits, n) = look.time.waits(&["device"]);
    let wanted = (maria.bytes * 1.2).min(look.server.memory / 2.0);
    let held = ratio(wanted - pool, maria.bytes - pool).clamp(0.0, 1.0);
    let cpu = look.time.with_cpu_seconds(reads * COST_OF_PAGE);
    // The size is a multiple of 128 MB, the default of a chunk.
    let value = format!("{:.0}", (wanted / 134_217_728.0).ceil() * 134_217_728.0);
    let advice = Advice {
        finding: format!(
            "{rate:.0} pages a second miss a buffer pool of {:.0} MB; the tables have {:.0} MB, the machine {:.0} MB",
            pool / 1e6,
            maria.bytes / 1e6,
            look.server.memory / 1e6
        ),
        evidence: vec![
            Evidence::new("page requests that miss", misses * 100.0, "%", requests as u64),
            Evidence::new("pages read a second", rate, "1/s", reads as u64),
            Evidence::new("waits for the device, of active time", waits * 100.0, "%", n),
        ],
        prediction: Prediction::gain(
            (cpu + waits) * held,
            format!("{:.0} % fewer pages read", held * 100.0),
            "12 us of CPU a page (assumed) with the run queue in proportion, and the waits for the device, for the part \
             that would fit",
        ),
        risk: "memory that the kernel's cache and connections then lack".into(),
        ..Advice::default()
    };
    Some(advice.with_changes(vec![set_global(look, "innodb_buffer_pool_size", &value, Takes::AtOnce)]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn misses_count_only_where_the_pool_is_small() {
        let of = |reads: f64, pool: &str| {
            let counted = [("innodb_buffer_pool_reads", reads), ("innodb_buffer_pool_read_requests", 1e6)];
            let mut look = look(&counted, &[("innodb_buffer_pool_size", pool)]);
            look.mariadb.as_mut().unwrap().bytes = 1e9;
            examine(&look)
        };
        // 100,000 pages x 12 us = 1.2 s of 10 s; all tables would fit.
        let advice = of(1e5, "20000000").unwrap();
        assert!((advice.prediction.gain.unwrap() - 0.12).abs() < 1e-9);
        assert_eq!(advice.apply[0], "SET GLOBAL innodb_buffer_pool_size = 1207959552;");
        assert_eq!(advice.undo[0], "SET GLOBAL innodb_buffer_pool_size = 20000000;");
        assert_eq!((of(1e3, "20000000"), of(1e5, "2000000000")), (None, None));
    }
}
