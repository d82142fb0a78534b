//! Conditions that end a trial even if it gains: a machine short of memory, and standbys that fall behind.
//!
//! Memory is checked once a second, standbys at each end of a block. An unattended trial is ended and undone
//! before the kernel kills processes of the server, or a standby is too far behind to take over.

use super::control::Control;
use super::TryError;
use std::fs;

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guards {
    /// The least part of the machine's memory that must be available, 0 to 1. Known only on the server's
    /// machine.
    pub least_memory: f64,
    /// The longest that a standby may be behind, in seconds.
    pub most_lag: f64,
}

impl Default for Guards {
    fn default() -> Guards {
        Guards { least_memory: 0.05, most_lag: 10.0 }
    }
}

impl Guards {
    /// # Errors
    /// [`TryError::Guard`] if less memory is available than required.
    pub(super) fn memory(&self) -> Result<(), TryError> {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        self.of_memory(available(&text))
    }

    fn of_memory(&self, available: Option<f64>) -> Result<(), TryError> {
        match available {
            Some(share) if share < self.least_memory => Err(TryError::Guard {
                what: format!(
                    "{:.1} % of the machine's memory is available, less than {:.1} %",
                    share * 100.0,
                    self.least_memory * 100.0
                ),
            }),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// [`TryError::Guard`] if a standby is farther behind than allowed.
    pub(super) fn lag(&self, control: &mut Control) -> Result<(), TryError> {
        const LAG: &str = "SELECT coalesce(max(extract(epoch FROM replay_lag)), 0)::float8 \
            FROM pg_catalog.pg_stat_replication";
        let lag = control.value("asking how far standbys are behind", LAG)?;
        self.of_lag(lag.and_then(|text| text.parse().ok()).unwrap_or(0.0))
    }

    fn of_lag(&self, seconds: f64) -> Result<(), TryError> {
        match seconds > self.most_lag {
            true => Err(TryError::Guard {
                what: format!("a standby is {seconds:.1} s behind, more than {:.1} s", self.most_lag),
            }),
            false => Ok(()),
        }
    }
}

/// The available part of the memory, from the text of `/proc/meminfo`.
fn available(meminfo: &str) -> Option<f64> {
    let kilobytes = |name: &str| -> Option<f64> {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let total = kilobytes("MemTotal:").filter(|total| *total > 0.0)?;
    Some(kilobytes("MemAvailable:")? / total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_and_too_much_lag_end_a_trial() {
        let meminfo = "MemTotal:       1000 kB\nMemFree: 5 kB\nMemAvailable:     40 kB\n";
        let share = available(meminfo);
        assert_eq!((share, available("MemTotal: 5 kB")), (Some(0.04), None));
        let guards = Guards { least_memory: 0.05, most_lag: 10.0 };
        let error = guards.of_memory(share).unwrap_err().to_string();
        assert_eq!(error, "4.0 % of the machine's memory is available, less than 5.0 %");
        assert!(guards.of_memory(Some(0.06)).is_ok() && guards.of_memory(None).is_ok());
        let error = guards.of_lag(12.0).unwrap_err().to_string();
        assert_eq!(error, "a standby is 12.0 s behind, more than 10.0 s");
        assert!(guards.of_lag(10.0).is_ok());
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available(&fs::read_to_string("/proc/meminfo").unwrap()).is_some_and(|share| share <= 1.0));
    }
}
