//! A thread that is made for each connection, since none is kept.
//!
//! Rule: ten threads a second or more are created, and the cache of threads is smaller than the connections that come and go.

use crate::look::shares::ratio;
use crate::mariadb::rules::set_global;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Takes};

/// Seconds of CPU to create and end a thread with its memory; assumed.
const COST_OF_THREAD: f64 = 60e-6;

pub(super) const REMEDY: Remedy = Remedy {
    id: "thread-cache",
    title: "keep threads of closed connections",
    audience: Audience::Operator,
    documentation: "https://mariadb.com/kb/en/server-system-variables/#thread_cache_size",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let created = maria.count("threads_created");
    let rate = ratio(created, look.seconds);
    let size = maria.number("thread_cache_size");
    if rate < 10.0 {
        return None;
    }
    let advice = Advice {
        finding: format!("{rate:.0} threads a second are created; {size:.0} are kept"),
        evidence: vec![
            Evidence::new("threads created a second", rate, "1/s", created as u64),
            Evidence::new("connections a second", ratio(maria.count("connections"), look.seconds), "1/s", 1),
        ],
        prediction: Prediction::gain(
            look.time.with_cpu_seconds(created * COST_OF_THREAD),
            "a new connection takes a thread that is there",
            "60 us of CPU a thread (assumed); a pool of connections in the application saves more",
        ),
        risk: "memory of idle threads".into(),
        ..Advice::default()
    };
    Some(advice.with_changes(vec![set_global(
        look,
        "thread_cache_size",
        &format!("{:.0}", (size * 4.0).max(256.0)),
        Takes::AtOnce,
    )]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn created_threads_cost_time() {
        let of =
            |created: f64| examine(&look(&[("threads_created", created)], &[("thread_cache_size", "0")]));
        // 10,000 x 60 us = 0.6 s of 10 s.
        let advice = of(1e4).unwrap();
        assert!((advice.prediction.gain.unwrap() - 0.06).abs() < 1e-9);
        assert_eq!(advice.apply[0], "SET GLOBAL thread_cache_size = 256;");
        assert_eq!(of(50.0), None);
    }
}
