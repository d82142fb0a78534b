//! More sessions work at once than the machine has CPUs for.
//!
//! Rule: on average more than four backends for each CPU are active, and half of their active time or more
//! goes to the run queue and to locks. Waits for I/O do not count: more sessions then do more work.
//! Throughput hardly changes by this fault; only latency and CPU time show it.

use crate::{Advice, Audience, Evidence, Kind, Look, Prediction, Remedy};

pub(super) const REMEDY: Remedy = Remedy {
    id: "connections",
    title: "let fewer sessions work at once: a connection pool",
    audience: Audience::Application,
    documentation: "https://www.postgresql.org/docs/current/runtime-config-connection.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let cpus = look.server.cpus as f64;
    let queue = look.time.of_active(&[Kind::RunQueue]);
    let locks = look.time.of_active(&[Kind::Lock, Kind::LwLock]);
    let crowded = look.server.local && look.active_backends > 4.0 * cpus;
    if !crowded || queue + locks < 0.5 {
        return None;
    }
    let pool = 2.0 * cpus + 1.0;
    let left = pool / look.active_backends;
    Some(Advice {
        finding: format!(
            "{:.0} backends are active on {cpus:.0} CPUs: {:.0} % of their time is run queue, {:.0} % locks",
            look.active_backends,
            queue * 100.0,
            locks * 100.0
        ),
        evidence: vec![
            Evidence::new("active backends", look.active_backends, "", look.samples),
            Evidence::new("run queue, of active time", queue * 100.0, "%", look.time.busy),
            Evidence::new("locks, of active time", locks * 100.0, "%", look.time.samples),
            Evidence::new("transactions", look.transactions_per_second(), "1/s", look.database.commits as u64),
        ],
        prediction: Prediction::gain(
            1.0 - left,
            format!("latency in the server -{:.0} % at equal throughput", (1.0 - left) * 100.0),
            format!(
                "Little's law: {pool:.0} instead of {:.0} sessions in the server at the same throughput; the others \
                 wait in the pool, so that only what they waste is gained",
                look.active_backends
            ),
        ),
        apply: vec![
            format!("-- a pool of {pool:.0} server connections (2 x CPUs + 1): a first size, to be tried"),
            format!("-- pgbouncer: pool_mode = transaction, default_pool_size = {pool:.0}; or the driver's pool"),
        ],
        undo: vec!["-- connect directly to the server again".into()],
        risk: "too small a pool leaves CPUs idle while sessions wait for I/O or for their client; in transaction mode \
               session state (SET, LISTEN, advisory locks) does not last"
            .into(),
        ..Advice::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Server, Share, TimeShares};

    fn look(active_backends: f64, kind: Kind) -> Look {
        let share = |kind, seconds| Share { kind, event: String::new(), seconds, n: 1 };
        let shares = vec![share(kind, 60.0), share(Kind::RunningUser, 40.0)];
        Look {
            server: Server { cpus: 2, local: true, ..Server::default() },
            time: TimeShares { total: 100.0, shares, ..TimeShares::default() },
            active_backends,
            ..Look::default()
        }
    }

    #[test]
    fn a_crowd_in_the_run_queue_is_named() {
        let advice = examine(&look(50.0, Kind::RunQueue)).unwrap();
        // 2 x 2 + 1 = 5 of 50.
        assert_eq!(advice.prediction.gain, Some(0.9));
        assert!(advice.apply[0].contains("pool of 5"), "{:?}", advice.apply);
    }

    #[test]
    fn few_sessions_and_waits_for_io_are_none() {
        assert_eq!(examine(&look(4.0, Kind::Lock)), None);
        assert_eq!(examine(&look(50.0, Kind::Io)), None);
    }
}
