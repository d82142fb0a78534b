//! The log: a line with its time on standard error for every change and every problem; the latest lines are also in
//! the state file.

use crate::state::Event;
use std::collections::{HashMap, VecDeque};
use std::io::Write;

/// The number of lines kept for the state file.
const KEPT: usize = 50;
/// A lasting problem is reported again after this time.
const AGAIN_NS: u64 = 60_000_000_000;
/// Limit of remembered problems.
const TROUBLES: usize = 1000;

/// The log.
#[derive(Debug, Default)]
pub(super) struct Journal {
    latest: VecDeque<Event>,
    troubles: HashMap<String, u64>,
}

impl Journal {
    /// Logs a change.
    pub fn say(&mut self, text: impl Into<String>) {
        let event = Event { time: now(), text: text.into() };
        // Standard error is closed: continue without it.
        let _ = writeln!(std::io::stderr(), "{} {}", event.time, event.text);
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back(event);
    }

    /// A problem that may last: reported once a minute.
    pub fn trouble(&mut self, now_ns: u64, text: String) {
        let due = self.troubles.get(&text).is_none_or(|&said| now_ns.saturating_sub(said) >= AGAIN_NS);
        if !due {
            return;
        }
        if self.troubles.len() >= TROUBLES {
            self.troubles.clear();
        }
        self.troubles.insert(text.clone(), now_ns);
        self.say(text);
    }

    /// The latest lines, oldest first.
    pub fn latest(&self) -> Vec<Event> {
        self.latest.iter().cloned().collect()
    }
}

/// 2026-11-22T10:30:00.123Z
fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs() as libc::time_t;
    // SAFETY: both live; gmtime_r fills the structure in.
    let time = unsafe {
        let mut time: libc::tm = std::mem::zeroed();
        libc::gmtime_r(&seconds, &mut time);
        time
    };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        time.tm_year + 1900,
        time.tm_mon + 1,
        time.tm_mday,
        time.tm_hour,
        time.tm_min,
        time.tm_sec,
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_that_goes_on_is_said_once_a_minute() {
        let mut journal = Journal::default();
        for second in 0..130 {
            journal.trouble(second * 1_000_000_000, "spoilt".into());
        }
        assert_eq!(journal.latest().len(), 3, "at 0, 60 and 120 seconds");
        for line in 0..60 {
            journal.say(format!("line {line}"));
        }
        let latest = journal.latest();
        assert_eq!((latest.len(), latest[0].text.as_str()), (50, "line 10"));
    }
}
