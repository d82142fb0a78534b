//! Time of a run: microseconds since its start.

use std::ops::{Add, AddAssign, Sub};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds: a time since the start of a run, or a duration.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Micros(pub u64);

impl Micros {
    /// None at all.
    pub const ZERO: Micros = Micros(0);

    /// Converts whole seconds.
    pub const fn seconds(seconds: u64) -> Micros {
        Micros(seconds * 1_000_000)
    }

    /// Converts seconds with a fraction.
    pub fn of_seconds(seconds: f64) -> Micros {
        Micros((seconds * 1e6).max(0.0).round() as u64)
    }

    /// In seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The difference; 0 if the other is longer.
    pub fn saturating_sub(self, other: Micros) -> Micros {
        Micros(self.0.saturating_sub(other.0))
    }
}

impl Add for Micros {
    type Output = Micros;
    fn add(self, other: Micros) -> Micros {
        Micros(self.0 + other.0)
    }
}

impl AddAssign for Micros {
    fn add_assign(&mut self, other: Micros) {
        self.0 += other.0;
    }
}

impl Sub for Micros {
    type Output = Micros;
    /// Panics in debug builds if the other is longer: the times of one piece of work are in order by construction.
    fn sub(self, other: Micros) -> Micros {
        Micros(self.0 - other.0)
    }
}

impl From<Duration> for Micros {
    fn from(duration: Duration) -> Micros {
        Micros(duration.as_micros() as u64)
    }
}

impl From<Micros> for Duration {
    fn from(micros: Micros) -> Duration {
        Duration::from_micros(micros.0)
    }
}

/// The clock of a run: monotonic, so that setting the machine's clock changes no response time. It also keeps the
/// calendar time of its start, to detect a step of the wall clock afterwards.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begun: Instant,
    calendar: SystemTime,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock { begun: Instant::now(), calendar: SystemTime::now() }
    }

    /// A clock that starts at a calendar time (microseconds since 1970), for several drivers that begin together.
    /// Before that it stands at 0.
    pub fn beginning_at(calendar: u64) -> Clock {
        let (now, today) = (Instant::now(), SystemTime::now());
        let calendar = UNIX_EPOCH + Duration::from_micros(calendar);
        let begun = match calendar.duration_since(today) {
            Ok(ahead) => now + ahead,
            // The machine has booted later than that.
            Err(past) => now.checked_sub(past.duration()).unwrap_or(now),
        };
        Clock { begun, calendar }
    }

    /// A clock that starts at a time of this one.
    pub fn begun_at(&self, moment: Micros) -> Clock {
        let since = Duration::from(moment);
        Clock { begun: self.begun + since, calendar: self.calendar + since }
    }

    /// Since its beginning.
    pub fn now(&self) -> Micros {
        self.begun.elapsed().into()
    }

    /// The calendar's time at its beginning, in microseconds since 1970.
    pub fn calendar_at_start(&self) -> u64 {
        self.calendar.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
    }

    /// Calendar time of a time of the run, for log files.
    pub fn calendar_at(&self, moment: Micros) -> u64 {
        self.calendar_at_start() + moment.0
    }

    /// Step of the wall clock since the start in seconds; positive is ahead.
    pub fn stepped_by(&self) -> f64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
        (now - self.calendar_at(self.now()) as i64) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_may_begin_earlier_or_later_and_keeps_to_the_calendar() {
        let now = Clock::start();
        let ahead = Clock::beginning_at(now.calendar_at_start() + 3_600_000_000);
        assert_eq!(ahead.now(), Micros::ZERO);
        let past = Clock::beginning_at(now.calendar_at_start() - 5_000_000);
        assert!(past.now() >= Micros::seconds(5));
        let later = past.begun_at(Micros::seconds(2));
        assert_eq!(later.calendar_at_start(), now.calendar_at_start() - 3_000_000);
        let both = (past.now(), later.now());
        assert!(both.0 - both.1 <= Micros::seconds(2) && both.1 >= Micros::seconds(3), "{both:?}");
    }
}
