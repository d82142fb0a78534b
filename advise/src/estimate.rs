//! Estimates the resources that a target of transactions a second needs, and which is exhausted first: from
//! one look at the load.
//!
//! Each need is proportional to what the look measured: twice the transactions take twice the CPU time. That
//! is a lower bound: queues for CPUs, locks and devices grow faster than the load. Capacities are known for
//! CPUs, memory and connections; a look cannot measure those of devices and networks.

use crate::look::shares::ratio;
use crate::{Kind, Look};
use hardmeter_evidence::number::grouped;
use hardmeter_evidence::table::{printable, wrap, Column, Style, TextTable, Tone};
use serde::Serialize;
use serde_json::{json, Value};
use std::fmt::Write;

/// The need for one resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Need {
    /// The resource.
    pub resource: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The use during the look.
    pub now: f64,
    /// The use at the target.
    pub wanted: f64,
    /// The capacity; `None` if a look cannot know it.
    pub available: Option<f64>,
    /// The transactions a second at which the capacity is exhausted.
    pub carries: Option<f64>,
    /// How it is computed, and what is not included.
    pub model: &'static str,
}

/// The needs of a target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The server's database.
    pub database: String,
    /// Transactions a second during the look.
    pub seen: f64,
    /// The target.
    pub target: f64,
    /// Its needs.
    pub needs: Vec<Need>,
}

impl Estimate {
    /// The needs of a target, from a look; `None` if it saw no transaction.
    pub fn of(look: &Look, target: f64) -> Option<Estimate> {
        let seen = look.transactions_per_second();
        if seen <= 0.0 || look.time.busy == 0 {
            return None;
        }
        let (server, time) = (&look.server, &look.time);
        let need = |resource, unit, now: f64, available: Option<f64>, model| Need {
            resource,
            unit,
            now,
            wanted: now * target / seen,
            available,
            carries: available.filter(|_| now > 0.0).map(|available| seen * available / now),
            model,
        };
        let mut needs = Vec::new();
        if time.exact {
            let running = time.seconds(&[Kind::RunningUser, Kind::RunningKernel]);
            needs.push(need(
                "CPU",
                "CPUs",
                ratio(running, look.seconds),
                Some(server.cpus as f64),
                "CPU time of the backends for each transaction; log writer, checkpoints, vacuum and other programs come on \
                 top, and near the limit waiting for a CPU grows without bound",
            ));
        }
        // The wait for a CPU depends on the load, not on the transaction.
        let working = ratio(time.active() - time.seconds(&[Kind::RunQueue]), look.seconds);
        let reserved = server.number("superuser_reserved_connections").unwrap_or(3.0);
        let connections = server.number("max_connections").map(|most| (most - reserved).max(1.0));
        needs.push(need(
            "sessions at work",
            "",
            working,
            connections,
            "Little's law: transactions a second x the time of one in the server, without the run queue; a pool needs no \
             more connections, a client that keeps its own while it thinks does",
        ));
        let block = server.number("block_size").unwrap_or(8192.0);
        let per_second = |count: f64| ratio(count, look.seconds);
        needs.push(need(
            "log written",
            "MB/s",
            per_second(look.wal.wal_bytes) / 1e6,
            None,
            "bytes for each transaction; of the device only a test knows: pg_test_fsync, fio",
        ));
        if look.wal.wal_sync > 0.0 {
            needs.push(need(
                "syncs of the log",
                "1/s",
                per_second(look.wal.wal_sync),
                None,
                "syncs for each transaction; under more sessions several commits share one, so that this is an upper bound",
            ));
        }
        needs.push(need(
            "blocks read",
            "MB/s",
            per_second(look.database.blks_read) * block / 1e6,
            None,
            "blocks that miss the buffer pool, from the kernel's cache or the device",
        ));
        needs.push(memory(look, working * target / seen, connections));
        Some(Estimate { database: server.database.clone(), seen, target, needs })
    }

    /// The resource that is exhausted first, if one is known.
    pub fn first(&self) -> Option<&Need> {
        let known = self.needs.iter().filter(|need| need.carries.is_some());
        known.min_by(|a, b| a.carries.unwrap_or(0.0).total_cmp(&b.carries.unwrap_or(0.0)))
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "format": "hardmeter-tune-estimate",
            "version": 1,
            "estimate": self,
            "first": self.first().map(|need| need.resource),
        })
    }

    /// As text.
    pub fn text(&self, style: Style) -> String {
        let rate = |value: f64| grouped(value.round().max(0.0) as u64);
        let verdict = match self.first() {
            Some(Need { resource, carries: Some(carries), .. }) => {
                let reach = if *carries >= self.target { "carries" } else { "does not carry" };
                format!(
                    "This machine {reach} {} transactions a second of this load: {resource} is the first limit, at {}",
                    rate(self.target),
                    rate(*carries)
                )
            }
            _ => format!("What {} transactions a second take", rate(self.target)),
        };
        let mut text = format!("{}\n", style.paint(Tone::Title, &verdict));
        let _ = writeln!(text, "Seen in {}: {} a second", printable(&self.database), rate(self.seen));
        let columns = [
            Column::left("resource"),
            Column::right("now"),
            Column::right("for the target"),
            Column::right("there is"),
            Column::right("carries"),
        ];
        let mut table = TextTable::new(columns);
        for need in &self.needs {
            let value = |value: f64| format!("{} {}", digits(value), need.unit).trim_end().to_owned();
            table.plain([
                need.resource.to_owned(),
                value(need.now),
                value(need.wanted),
                need.available.map_or("not known".into(), value),
                need.carries.map_or("-".into(), |carries| format!("{}/s", rate(carries))),
            ]);
        }
        text += &table.render(style, 0);
        for need in &self.needs {
            let _ = writeln!(text, "   {:<17}{}", need.resource, wrap(need.model, style, 20));
        }
        text
    }
}

/// The memory that sessions may use at most in addition to the buffer pool. It does not grow in proportion to
/// transactions.
fn memory(look: &Look, sessions: f64, connections: Option<f64>) -> Need {
    let server = &look.server;
    let kilobytes = |name: &str| server.number(name).unwrap_or(0.0) * 1024.0;
    let each = kilobytes("work_mem") * server.number("hash_mem_multiplier").unwrap_or(1.0).max(1.0);
    let vacuum = kilobytes("maintenance_work_mem") * server.number("autovacuum_max_workers").unwrap_or(0.0);
    let of = |sessions: f64| (server.shared_buffers() + vacuum + each * sessions) / 1e9;
    let most = connections.unwrap_or(f64::INFINITY);
    Need {
        resource: "memory",
        unit: "GB",
        now: of(look.active_backends.min(most)),
        wanted: of(sessions.min(most)),
        available: (server.local && server.memory > 0.0).then_some(server.memory / 1e9),
        carries: None,
        model: "the buffer pool, a hash table of work_mem for each session at work, and maintenance_work_mem for each worker \
                of autovacuum; a statement may take several of them",
    }
}

fn digits(value: f64) -> String {
    match value.abs() {
        100.0.. => grouped(value.round().max(0.0) as u64),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, Server, Share, TimeShares, Wal};

    /// 10 s, 1,000 transactions a second; 5 s of CPU, 3 s of run queue, 10 s of waiting for the log.
    fn look() -> Look {
        let share = |kind, seconds| Share { kind, event: String::new(), seconds, n: 1 };
        let shares = vec![share(Kind::RunningUser, 5.0), share(Kind::RunQueue, 3.0), share(Kind::Io, 10.0)];
        let settings = [
            ("max_connections", "103"),
            ("superuser_reserved_connections", "3"),
            ("shared_buffers", "100000"),
            ("block_size", "8192"),
            ("work_mem", "4096"),
            ("hash_mem_multiplier", "2"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Look {
            server: Server { settings, cpus: 2, memory: 8e9, local: true, ..Server::default() },
            seconds: 10.0,
            active_backends: 1.8,
            time: TimeShares { total: 18.0, shares, busy: 2, exact: true, ..TimeShares::default() },
            database: Database { commits: 10_000.0, blks_read: 5000.0, ..Database::default() },
            wal: Wal { wal_bytes: 2e7, wal_sync: 4000.0, ..Wal::default() },
            ..Look::default()
        }
    }

    #[test]
    fn needs_are_in_proportion_and_the_scarcest_gives_first() {
        let estimate = Estimate::of(&look(), 6000.0).unwrap();
        let need = |name: &str| estimate.needs.iter().find(|need| need.resource == name).unwrap();
        // Half a CPU for 1,000: three for 6,000, and two are enough for 4,000.
        let cpu = need("CPU");
        assert_eq!((cpu.now, cpu.wanted, cpu.available, cpu.carries), (0.5, 3.0, Some(2.0), Some(4000.0)));
        // 1.5 sessions work now, 9 at the target; 100 are allowed.
        let sessions = need("sessions at work");
        assert_eq!((sessions.now, sessions.wanted, sessions.available), (1.5, 9.0, Some(100.0)));
        assert_eq!((need("log written").wanted, need("syncs of the log").wanted), (12.0, 2400.0));
        assert!((need("blocks read").wanted - 24.576).abs() < 1e-9);
        // 819.2 MB of pool, and nine hash tables of 8 MiB.
        let memory = need("memory");
        assert!((memory.wanted - (0.8192 + 9.0 * 0.008_388_608)).abs() < 1e-9, "{memory:?}");
        assert_eq!(estimate.first().unwrap().resource, "CPU");
        let text = estimate.text(Style::default());
        assert!(text.starts_with("This machine does not carry 6,000 transactions a second of this load: CPU is the first limit, at 4,000"), "{text}");
        assert!(text.lines().count() <= 40, "{text}");
        let small = Estimate::of(&look(), 3000.0).unwrap().text(Style::default());
        assert!(small.starts_with("This machine carries 3,000"), "{small}");
    }

    #[test]
    fn without_a_load_nothing_is_estimated() {
        assert_eq!(Estimate::of(&Look::default(), 100.0), None);
    }
}
