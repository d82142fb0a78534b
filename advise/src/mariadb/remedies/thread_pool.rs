//! More connections at work than the machine has CPUs for.
//!
//! Rule: over four connections a CPU are at work, each in a thread of its own, and half of their time is the run queue or
//! latches. Connections that wait for a device need no pool.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Kind, Look, Prediction, Remedy};

pub(super) const REMEDY: Remedy = Remedy {
    id: "thread-pool",
    title: "a pool of threads, or fewer connections",
    audience: Audience::Operator,
    documentation: "https://mariadb.com/kb/en/thread-pool-in-mariadb/",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let per_cpu = ratio(look.active_backends, look.server.cpus as f64);
    let waiting = look.time.of_active(&[Kind::RunQueue, Kind::LwLock, Kind::Lock]);
    if maria.variable("thread_handling") != "one-thread-per-connection" || per_cpu < 4.0 || waiting < 0.5 {
        return None;
    }
    let advice = Advice {
        finding: format!(
            "{:.0} connections at work on {} CPUs: {:.0} % of their time is the run queue, locks and latches",
            look.active_backends,
            look.server.cpus,
            waiting * 100.0
        ),
        evidence: vec![
            Evidence::new("connections at work", look.active_backends, "", look.samples),
            Evidence::new("run queue, locks and latches, of active time", waiting * 100.0, "%", look.samples),
        ],
        prediction: Prediction::gain(
            waiting * (1.0 - 2.0 / per_cpu),
            "statements take shorter, at the same number a second",
            "the waits shrink as the threads at work do, to two a CPU",
        ),
        apply: vec![
            "-- in the configuration: thread_handling = pool-of-threads; then restart the server".into(),
            "-- or, in the application: a pool of two connections a CPU".into(),
        ],
        risk: "long statements can hold up short ones in a group of the pool (thread_pool_stall_limit)"
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
    fn threads_are_too_many_only_where_they_wait_for_each_other() {
        let of = |active: f64, queue: f64| {
            let look = look(&[], &[("thread_handling", "one-thread-per-connection")]);
            let mut look = waiting(look, Kind::RunQueue, "", queue);
            look.active_backends = active;
            examine(&look)
        };
        // 30 s of 40 s wait; 16 threads a CPU shrink to 2.
        assert!((of(32.0, 30.0).unwrap().prediction.gain.unwrap() - 0.75 * 0.875).abs() < 1e-9);
        assert_eq!((of(6.0, 30.0), of(32.0, 5.0)), (None, None));
    }
}
