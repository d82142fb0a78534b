//! Sets of CPUs, and which of them a process may use.

use rustix::io::Errno;
use rustix::thread::Pid;
use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A set of CPUs, by the kernel's numbers: "0,2-5".
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpus(BTreeSet<u32>);

impl Cpus {
    /// The set of these CPUs.
    pub fn of(numbers: impl IntoIterator<Item = u32>) -> Cpus {
        Cpus(numbers.into_iter().collect())
    }

    /// The CPUs that this program may use.
    pub fn available() -> Cpus {
        Cpus::of_thread(0).unwrap_or_default()
    }

    /// The processors that a thread may use; 0 is the caller.
    ///
    /// # Errors
    ///
    /// The system's error number, `ESRCH` if there is no such thread.
    pub fn of_thread(thread: u32) -> Result<Cpus, Errno> {
        let set = sched_getaffinity(Pid::from_raw(thread as i32))?;
        Ok(Cpus((0..CpuSet::MAX_CPU as u32).filter(|&cpu| set.is_set(cpu as usize)).collect()))
    }

    /// Restricts a thread to these processors; 0 is the caller.
    ///
    /// # Errors
    ///
    /// The system's error number, `ESRCH` if there is no such thread.
    pub fn bind_thread(&self, thread: u32) -> Result<(), Errno> {
        let mut set = CpuSet::new();
        for &cpu in &self.0 {
            set.set(cpu as usize);
        }
        sched_setaffinity(Pid::from_raw(thread as i32), &set)
    }

    /// Their numbers, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Number of CPUs.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The first that is not among others.
    pub fn first_not_in(&self, others: &Cpus) -> Option<u32> {
        self.0.difference(&others.0).next().copied()
    }
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Cpus, String> {
        let number = |word: &str| match word.parse::<u32>() {
            Ok(number) if (number as usize) < CpuSet::MAX_CPU => Ok(number),
            _ => Err(format!("'{word}' is not a CPU: write 0,2-5")),
        };
        let mut cpus = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("'{part}' is not a range of CPUs: write the lower number first"));
            }
            cpus.extend(first..=last);
        }
        Ok(Cpus(cpus))
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(first) = numbers.next() {
            let mut last = first;
            while numbers.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_the_kernel_writes_them() {
        let cpus: Cpus = "7,0,2-4".parse().unwrap();
        assert_eq!(cpus.numbers().collect::<Vec<_>>(), [0, 2, 3, 4, 7]);
        assert_eq!(cpus.to_string(), "0,2-4,7");
        assert_eq!(cpus.first_not_in(&Cpus::of(0..=3)), Some(4));
        for wrong in ["", "a", "3-1", "1,,2", "-1", "99999"] {
            assert!(wrong.parse::<Cpus>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_thread_is_bound_and_let_go_again() {
        let before = Cpus::available();
        let first = Cpus::of(before.numbers().take(1));
        first.bind_thread(0).unwrap();
        assert_eq!(Cpus::available(), first);
        before.bind_thread(0).unwrap();
        assert_eq!(Cpus::available(), before);
        assert!(Cpus::of([]).bind_thread(0).is_err(), "no CPU at all");
    }
}
