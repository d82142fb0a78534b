//! A variable of the server, and both of its values.

use super::super::outcome::Undone;
use super::super::TryError;
use super::control::MariaControl;
use crate::change::set_global;
use crate::mariadb::literal;
use serde::{Deserialize, Serialize};

/// A variable and both of its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlobalSwitch {
    /// Its name.
    pub name: String,
    /// The value that is tried.
    pub value: String,
    /// The value before, as SET GLOBAL takes it.
    pub prior: String,
}

/// Variables that SET GLOBAL switches without harm: no data are risked, no session is ended.
const ALLOWED: &[&str] = &[
    "innodb_adaptive_flushing",
    "innodb_adaptive_flushing_lwm",
    "innodb_adaptive_hash_index",
    "innodb_buffer_pool_size",
    "innodb_change_buffering",
    "innodb_flush_neighbors",
    "innodb_io_capacity",
    "innodb_io_capacity_max",
    "innodb_log_file_size",
    "innodb_lru_scan_depth",
    "innodb_max_dirty_pages_pct",
    "innodb_max_dirty_pages_pct_lwm",
    "innodb_old_blocks_time",
    "innodb_random_read_ahead",
    "innodb_read_ahead_threshold",
    "innodb_spin_wait_delay",
    "innodb_sync_spin_loops",
    "innodb_thread_concurrency",
    "join_buffer_size",
    "join_cache_level",
    "max_heap_table_size",
    "mrr_buffer_size",
    "optimizer_switch",
    "optimizer_use_condition_selectivity",
    "query_cache_size",
    "read_rnd_buffer_size",
    "sort_buffer_size",
    "table_definition_cache",
    "table_open_cache",
    "thread_cache_size",
    "tmp_memory_table_size",
    "tmp_table_size",
];

/// Variables that users name, and the reasons why no trial changes them.
const REFUSED: &[(&str, &str)] = &[
    (
        "innodb_flush_log_at_trx_commit",
        "a crash of the machine during the trial could lose transactions that were confirmed",
    ),
    ("sync_binlog", "a crash of the machine during the trial could lose transactions that were confirmed"),
    ("innodb_doublewrite", "a crash of the machine during the trial could destroy tables"),
    ("max_connections", "it would refuse clients"),
    ("wait_timeout", "it ends sessions of the load"),
    ("large_pages", "it needs a restart of the server, and MariaDB is not copied"),
    ("thread_handling", "it needs a restart of the server, and MariaDB is not copied"),
    ("performance_schema", "it needs a restart of the server, and MariaDB is not copied"),
];

impl GlobalSwitch {
    /// `fresh`: the load opens new sessions in each block.
    pub(super) fn plan(
        control: &mut MariaControl,
        name: &str,
        value: &str,
        fresh: bool,
    ) -> Result<GlobalSwitch, TryError> {
        let name = name.to_lowercase();
        if !ALLOWED.contains(&name.as_str()) {
            let known = REFUSED.iter().find(|(refused, _)| *refused == name);
            let reason =
                known.map_or("it is not in the list of variables that a trial switches", |(_, why)| why);
            return Err(TryError::NotAllowed { name, reason });
        }
        let sql = format!(
            "SELECT VARIABLE_SCOPE, READ_ONLY FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME = {}",
            literal(&name)
        );
        let rows = control.rows("reading the variable", &sql)?;
        let (scope, read_only) = match rows.first().map(Vec::as_slice) {
            Some([Some(scope), Some(read_only)]) => (scope.as_str(), read_only.as_str()),
            _ => {
                let reason = "this version of the server does not have it";
                return Err(TryError::NotAllowed { name, reason });
            }
        };
        if read_only == "YES" {
            let reason = "it needs a restart of the server, and MariaDB is not copied";
            return Err(TryError::NotAllowed { name, reason });
        }
        if scope.starts_with("SESSION") && !fresh {
            return Err(TryError::Overridden {
                name,
                by: "sessions keep the value that they began with".into(),
                remedy: "give a load, whose sessions are opened again in each block: -- LOAD".into(),
            });
        }
        let mut switch = GlobalSwitch { name, value: in_units(value), prior: String::new() };
        switch.prior = switch.now(control)?;
        if switch.is(&switch.prior, &switch.value) {
            return Err(TryError::Already { what: format!("{} is {}", switch.name, switch.prior) });
        }
        Ok(switch)
    }

    /// The statement that applies it.
    pub(in super::super) fn apply(&self) -> String {
        set_global(&self.name, &self.value)
    }

    /// The statement that undoes it.
    pub(in super::super) fn undo(&self) -> String {
        set_global(&self.name, &self.prior)
    }

    fn now(&self, control: &mut MariaControl) -> Result<String, TryError> {
        let sql = format!("SELECT @@GLOBAL.{}", self.name);
        control.value("reading the variable", &sql)?.ok_or(TryError::Answer { what: sql })
    }

    /// Whether a value equals another one after the server's rounding: sizes are rounded to multiples.
    fn is(&self, now: &str, value: &str) -> bool {
        let number = |text: &str| match text {
            "ON" => Some(1.0),
            "OFF" => Some(0.0),
            text => text.parse::<f64>().ok(),
        };
        match (number(now), number(value)) {
            (Some(now), Some(value)) => (now - value).abs() <= 0.01 * value.abs(),
            _ => now.eq_ignore_ascii_case(value),
        }
    }

    /// Switches it on or off.
    pub(super) fn to(&self, on: bool, control: &mut MariaControl) -> Result<(), TryError> {
        let now = self.now(control)?;
        if !self.is(&now, &self.prior) && !self.is(&now, &self.value) {
            return Err(TryError::ChangedByOthers { name: self.name.clone() });
        }
        let sql = if on { self.apply() } else { self.undo() };
        control.run("setting the variable", sql.trim_end_matches(';'))?;
        let now = self.now(control)?;
        let wanted = if on { &self.value } else { &self.prior };
        match self.is(&now, wanted) {
            true => Ok(()),
            false => Err(TryError::NoEffect { name: self.name.clone(), value: now }),
        }
    }

    /// Restores the former value, unless it is restored already or another session has changed it since. May
    /// be repeated.
    pub(super) fn restore(&self, control: &mut MariaControl) -> Result<Undone, TryError> {
        let now = self.now(control)?;
        if now == self.prior {
            return Ok(Undone::AsBefore);
        }
        // The value may be the trial's, rounded more than `is` accepts. It cannot be distinguished from
        // another session's change, so it stays and is reported.
        if !self.is(&now, &self.value) && !self.is(&now, &self.prior) {
            return Ok(Undone::Foreign(format!("another session has set {} to {now} since", self.name)));
        }
        control.run("setting the variable back", self.undo().trim_end_matches(';'))?;
        Ok(Undone::Restored)
    }
}

/// A size with a unit as its number of bytes: `2G`, `64MB`. Other values stay as they are.
fn in_units(value: &str) -> String {
    let text = value.trim().trim_end_matches(['b', 'B']);
    let factor = match text.chars().last().map(|unit| unit.to_ascii_uppercase()) {
        Some('K') => 1u64 << 10,
        Some('M') => 1 << 20,
        Some('G') => 1 << 30,
        _ => return value.trim().to_owned(),
    };
    match text[..text.len() - 1].trim().parse::<u64>().ok().and_then(|number| number.checked_mul(factor)) {
        Some(bytes) => bytes.to_string(),
        None => value.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            (in_units("2G"), in_units("64MB"), in_units("16k")),
            ("2147483648".into(), "67108864".into(), "16384".into())
        );
        assert_eq!(
            (in_units("ON"), in_units("0.5"), in_units("mrr=on")),
            ("ON".into(), "0.5".into(), "mrr=on".into())
        );
        assert!(ALLOWED.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
        assert!(REFUSED.iter().all(|(name, _)| !ALLOWED.contains(name)));
    }

    #[test]
    fn an_undo_sets_what_was_set() {
        let (name, value, prior) = ("table_open_cache".into(), "2000".into(), "10".into());
        let switch = GlobalSwitch { name, value, prior };
        assert_eq!(switch.apply(), "SET GLOBAL table_open_cache = 2000;");
        assert_eq!(switch.undo(), "SET GLOBAL table_open_cache = 10;");
        assert!(switch.is("1", "ON") && switch.is("2000", "1999") && !switch.is("10", "2000"));
    }
}
