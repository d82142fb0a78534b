//! Tables that are opened again because the cache of open tables is full.
//!
//! Rule: ten tables a second or more are opened. In a server's first minutes the cache is still filling,
//! which is normal: so the rule also requires a nearly full cache.

use crate::look::shares::ratio;
use crate::mariadb::rules::set_global;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Takes};

/// Seconds of CPU to open a table that the cache of definitions has; assumed.
const COST_OF_OPENING: f64 = 80e-6;

pub(super) const REMEDY: Remedy = Remedy {
    id: "table-cache",
    title: "a larger cache of open tables",
    audience: Audience::Operator,
    documentation: "https://mariadb.com/kb/en/server-system-variables/#table_open_cache",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let opened = maria.count("opened_tables");
    let rate = ratio(opened, look.seconds);
    let size = maria.number("table_open_cache");
    let open = maria.status.get("open_tables").copied().unwrap_or(0.0);
    if rate < 10.0 || open < size * 0.8 {
        return None;
    }
    let advice = Advice {
        finding: format!("{rate:.0} tables a second are opened again; the cache of {size:.0} is full"),
        evidence: vec![
            Evidence::new("tables opened a second", rate, "1/s", opened as u64),
            Evidence::new("open tables", open, "", 1),
        ],
        prediction: Prediction::gain(
            look.time.with_cpu_seconds(opened * COST_OF_OPENING).min(0.8),
            "statements find their tables open",
            "80 us of CPU a table (assumed) with the run queue in proportion",
        ),
        risk: "file descriptors (open_files_limit) and memory".into(),
        ..Advice::default()
    };
    Some(advice.with_changes(vec![set_global(
        look,
        "table_open_cache",
        &format!("{:.0}", (size * 4.0).max(2000.0)),
        Takes::AtOnce,
    )]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn opened_tables_cost_time_once_the_cache_is_full() {
        let of = |opened: f64, open: f64| {
            let mut look = look(&[("opened_tables", opened)], &[("table_open_cache", "10")]);
            look.mariadb.as_mut().unwrap().status.insert("open_tables".into(), open);
            examine(&look)
        };
        // 10,000 x 80 us = 0.8 s of 10 s.
        let advice = of(1e4, 10.0).unwrap();
        assert!((advice.prediction.gain.unwrap() - 0.08).abs() < 1e-9);
        assert_eq!(advice.apply[0], "SET GLOBAL table_open_cache = 2000;");
        assert_eq!((of(50.0, 10.0), of(1e4, 3.0)), (None, None));
    }
}
