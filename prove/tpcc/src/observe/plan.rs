//! Assigns processes to CPUs: the article's distributions (Kuroki et al. 2001, section 5).
//!
//! *Vertical*: the server's daemons, its backends and the driver are on different CPUs. *Horizontal*: backends are
//! divided over groups of CPUs; with affinity, so are warehouses, since each has its own connection: a warehouse's
//! data stay in the caches of one group.

use super::cpus::Cpus;
use std::fmt;
use std::str::FromStr;

/// A CPU plan: "daemons=0 backends=1-3/4-7 driver=0". Processes not named keep their CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuPlan {
    /// The server's own processes: WAL writer, checkpointer, autovacuum.
    pub daemons: Option<Cpus>,
    /// Groups of CPUs; connection k of the run belongs to group k mod their number. Empty: backends keep their
    /// CPUs.
    pub backends: Vec<Cpus>,
    /// The driver.
    pub driver: Option<Cpus>,
}

impl CpuPlan {
    /// The default plan for these CPUs. Two or three: daemons and driver share the first with one group of
    /// backends, since neither needs a whole CPU. From four on, an eighth of them, at least one, is for daemons and
    /// driver alone, and each of the others is a group. `None` with a single CPU.
    pub fn usual(cpus: &Cpus) -> Option<CpuPlan> {
        let numbers: Vec<u32> = cpus.numbers().collect();
        let (apart, groups) = match numbers.len() {
            0 | 1 => return None,
            2 | 3 => (&numbers[..1], &numbers[..]),
            many => numbers.split_at((many / 8).max(1)),
        };
        let apart = Cpus::of(apart.iter().copied());
        Some(CpuPlan {
            daemons: Some(apart.clone()),
            backends: groups.iter().map(|&cpu| Cpus::of([cpu])).collect(),
            driver: Some(apart),
        })
    }

    /// The CPUs of a connection of the run.
    pub fn backend(&self, connection: usize) -> Option<&Cpus> {
        self.backends.get(connection.checked_rem(self.backends.len())?)
    }

    /// All sets that it names.
    pub fn sets(&self) -> impl Iterator<Item = &Cpus> {
        self.daemons.iter().chain(&self.backends).chain(&self.driver)
    }

    /// Whether it is about processes of the server.
    pub fn needs_server(&self) -> bool {
        self.daemons.is_some() || !self.backends.is_empty()
    }
}

impl FromStr for CpuPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuPlan, String> {
        let mut plan = CpuPlan::default();
        for word in text.split_whitespace() {
            let (who, cpus) = word.split_once('=').ok_or_else(|| {
                format!(
                    "'{word}' is not a part of a plan: write 'daemons=0 backends=1-3/4-7 driver=0', or auto"
                )
            })?;
            match who {
                "daemons" => plan.daemons = Some(cpus.parse()?),
                "backends" => plan.backends = cpus.split('/').map(str::parse).collect::<Result<_, _>>()?,
                "driver" => plan.driver = Some(cpus.parse()?),
                _ => return Err(format!("unknown group '{who}': valid are daemons, backends and driver")),
            }
        }
        if plan == CpuPlan::default() {
            return Err("an empty plan: write 'daemons=0 backends=1-3/4-7 driver=0', or auto".into());
        }
        Ok(plan)
    }
}

impl fmt::Display for CpuPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.daemons.as_ref().map(|cpus| format!("daemons={cpus}")));
        if !self.backends.is_empty() {
            let groups: Vec<String> = self.backends.iter().map(Cpus::to_string).collect();
            parts.push(format!("backends={}", groups.join("/")));
        }
        parts.extend(self.driver.as_ref().map(|cpus| format!("driver={cpus}")));
        write!(f, "{}", parts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_and_written() {
        let plan: CpuPlan = "daemons=0 backends=1-3/4,6 driver=0".parse().unwrap();
        assert_eq!(plan.to_string(), "daemons=0 backends=1-3/4,6 driver=0");
        let of: Vec<String> =
            (0..3).map(|connection| plan.backend(connection).unwrap().to_string()).collect();
        assert_eq!(of, ["1-3", "4,6", "1-3"]);
        let driver_only: CpuPlan = "driver=1".parse().unwrap();
        assert!(!driver_only.needs_server() && plan.needs_server());
        assert_eq!(driver_only.backend(0), None);
        for wrong in ["", "0-3", "wizards=1", "backends=1//2", "driver=x"] {
            assert!(wrong.parse::<CpuPlan>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_usual_plan_depends_on_how_many_there_are() {
        let usual = |count| CpuPlan::usual(&Cpus::of(0..count)).map(|plan| plan.to_string());
        assert_eq!(usual(1), None);
        assert_eq!(usual(2).unwrap(), "daemons=0 backends=0/1 driver=0");
        assert_eq!(usual(4).unwrap(), "daemons=0 backends=1/2/3 driver=0");
        assert_eq!(usual(16).unwrap().split(' ').next(), Some("daemons=0-1"));
    }
}
