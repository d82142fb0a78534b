//! Resource use of the servers: CPU time of their processes, and the database's counters.

use crate::error::AuctionError;
use crate::load::database;
use mysql::prelude::Queryable;
use mysql::Conn;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::time::Duration;

/// CPU time of a process with all its threads, including ended ones; `None` if it has ended. In nanoseconds: the
/// ticks of 10 ms in /proc are too coarse for effects of half a percent.
pub fn process_cpu(pid: i32) -> Option<Duration> {
    // A clock's number holds 29 bits of a process id, which suffices.
    if !(1..1 << 26).contains(&pid) {
        return None;
    }
    let mut clock = 0;
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: both pointers are to live variables; the second call writes all of `time` when it succeeds.
    let time = unsafe {
        if libc::clock_getcpuclockid(pid, &mut clock) != 0
            || libc::clock_gettime(clock, time.as_mut_ptr()) != 0
        {
            return None;
        }
        time.assume_init()
    };
    Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// CPU time of processes; ended ones count as 0.
pub fn cpu_of(pids: impl IntoIterator<Item = i32>) -> Duration {
    pids.into_iter().filter_map(process_cpu).sum()
}

/// MariaDB's counters since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Statements that read, write, or set, except those of the observer.
    pub statements: u64,
    /// Statements that change rows.
    pub writes: u64,
    /// Rows that were read, of tables that are not temporary.
    pub rows: u64,
}

const READING: [&str; 5] = ["Com_select", "Com_set_option", "Com_begin", "Com_commit", "Com_rollback"];
const WRITING: [&str; 3] = ["Com_insert", "Com_update", "Com_delete"];

impl Counted {
    /// Reads the server's counters.
    ///
    /// # Errors
    ///
    /// [`AuctionError`] if the statement fails.
    pub fn now(connection: &mut Conn) -> Result<Counted, AuctionError> {
        let rows: Vec<(String, String)> =
            connection.query("SHOW GLOBAL STATUS").map_err(database("reading what MariaDB counted"))?;
        let values: HashMap<&str, u64> =
            rows.iter().filter_map(|(name, value)| Some((name.as_str(), value.parse().ok()?))).collect();
        let sum = |names: &[&str]| names.iter().filter_map(|name| values.get(name)).sum::<u64>();
        let writes = sum(&WRITING);
        Ok(Counted { statements: sum(&READING) + writes, writes, rows: sum(&["Rows_read"]) })
    }

    /// The difference to earlier counters.
    pub fn since(self, before: Counted) -> Counted {
        Counted {
            statements: self.statements.saturating_sub(before.statements),
            writes: self.writes.saturating_sub(before.writes),
            rows: self.rows.saturating_sub(before.rows),
        }
    }
}

/// CPU time of each part of the site, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CpuSeconds {
    /// Apache, and PHP where it is its module.
    pub apache: f64,
    /// PHP-FPM.
    pub fpm: f64,
    /// MariaDB.
    pub mariadb: f64,
    /// The analyzer, if there is one.
    pub analyzer: f64,
}

impl CpuSeconds {
    /// The servers, without the analyzer.
    pub fn servers(&self) -> f64 {
        self.apache + self.fpm + self.mariadb
    }

    /// The difference to earlier times.
    pub fn since(&self, before: &CpuSeconds) -> CpuSeconds {
        CpuSeconds {
            apache: self.apache - before.apache,
            fpm: self.fpm - before.fpm,
            mariadb: self.mariadb - before.mariadb,
            analyzer: self.analyzer - before.analyzer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_time_grows_and_that_of_nobody_is_none() {
        let own = std::process::id() as i32;
        let before = process_cpu(own).unwrap();
        let mut sum = 0u64;
        while process_cpu(own).unwrap() <= before {
            sum = sum.wrapping_add(1);
        }
        assert!(cpu_of([own, own]) >= before * 2);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        child.wait().unwrap();
        for nobody in [pid, i32::MAX, 0, -1] {
            assert_eq!(process_cpu(nobody), None, "{nobody}");
            assert_eq!(cpu_of([nobody]), Duration::ZERO);
        }
    }

    #[test]
    fn what_came_since_is_a_difference() {
        let before = Counted { statements: 10, writes: 2, rows: 100 };
        let after = Counted { statements: 15, writes: 3, rows: 1100 };
        assert_eq!(after.since(before), Counted { statements: 5, writes: 1, rows: 1000 });
    }
}
