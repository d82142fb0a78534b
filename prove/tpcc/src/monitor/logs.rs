//! Files written during a run: acknowledged New-Orders, deferred deliveries.

use crate::error::TpccError;
use crate::time::{Clock, Micros};
use crate::work::{Completion, Delivery, Input, Outcome};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Files written during a run, if requested. Existing files are truncated.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    /// Deferred deliveries, the result file of clause 2.7.2.2. A line each: queueing time, W_ID, O_CARRIER_ID, for
    /// each district O_ID or `skipped`, completion time. A delivery that was given up has `failed:CODE` instead.
    pub deliveries: Option<PathBuf>,
    /// Acknowledged New-Orders (clause 3.5.3's success file): a line each, written when the acknowledgment is read.
    pub successes: Option<PathBuf>,
}

/// Buffer size of the deliveries' file in bytes.
const BUFFERED: usize = 64 << 10;

const SUCCESSES: &str = "# W_ID D_ID O_ID acknowledged\n";
const DELIVERIES: &str = "# queued W_ID O_CARRIER_ID O_ID-of-districts-1-to-10 completed\n";

impl Logs {
    /// Creates the files with a header line. All threads append to them.
    pub(super) fn create(&self) -> Result<(), TpccError> {
        for (path, header) in [(&self.successes, SUCCESSES), (&self.deliveries, DELIVERIES)] {
            if let Some(path) = path {
                std::fs::write(path, header).map_err(|error| cannot_write(path, error))?;
            }
        }
        Ok(())
    }

    /// Opens them for a thread; `clock` converts times to calendar time.
    pub(super) fn open(&self, clock: Clock) -> Result<Writers, TpccError> {
        let appended = |path: &Option<PathBuf>| -> Result<Option<Appended>, TpccError> {
            let Some(path) = path else { return Ok(None) };
            let file = OpenOptions::new().append(true).open(path);
            let file = file.map_err(|error| cannot_write(path, error))?;
            Ok(Some(Appended { file, path: path.clone(), lines: Vec::with_capacity(BUFFERED) }))
        };
        Ok(Writers {
            successes: appended(&self.successes)?,
            deliveries: appended(&self.deliveries)?,
            calendar: Calendar::new(clock),
        })
    }
}

/// The log writers of a thread.
pub(super) struct Writers {
    successes: Option<Appended>,
    deliveries: Option<Appended>,
    calendar: Calendar,
}

impl Writers {
    /// Sets the clock of all later moments.
    pub fn calendar_is(&mut self, clock: Clock) {
        self.calendar = Calendar::new(clock);
    }

    /// Logs acknowledged New-Orders: one unbuffered write for all, so that a killed driver omits no order that its
    /// terminal has seen.
    pub fn acknowledged(&mut self, done: &[Completion]) -> Result<(), TpccError> {
        let Some(file) = &mut self.successes else { return Ok(()) };
        for completion in done {
            let (Outcome::Ordered { order: number }, Input::NewOrder(order)) =
                (&completion.outcome, &completion.work.input)
            else {
                continue;
            };
            // Writing to a vector cannot fail.
            let _ = write!(file.lines, "{} {} {number} ", order.warehouse, order.district);
            self.calendar.append(completion.answered, &mut file.lines);
            file.lines.push(b'\n');
        }
        file.write_out()
    }

    /// Logs a deferred delivery (clause 2.7.2.2); without orders: it was given up with that code.
    pub fn delivered(
        &mut self,
        delivery: &Delivery,
        queued: Micros,
        orders: Result<&[u32; 10], &str>,
        completed: Micros,
    ) -> Result<(), TpccError> {
        let Some(file) = &mut self.deliveries else { return Ok(()) };
        self.calendar.append(queued, &mut file.lines);
        let _ = write!(file.lines, " {} {} ", delivery.warehouse, delivery.carrier);
        match orders {
            Ok(orders) => {
                for &order in orders {
                    let _ = match order {
                        0 => file.lines.write_all(b"skipped "),
                        order => write!(file.lines, "{order} "),
                    };
                }
            }
            Err(code) => {
                let _ = write!(file.lines, "failed:{code} ");
            }
        }
        self.calendar.append(completed, &mut file.lines);
        file.lines.push(b'\n');
        if file.lines.len() > BUFFERED - 512 {
            file.write_out()?;
        }
        Ok(())
    }

    /// Writes buffered lines.
    pub fn flush(&mut self) -> Result<(), TpccError> {
        self.deliveries.as_mut().map_or(Ok(()), Appended::write_out)
    }
}

/// A file that several threads append whole lines to.
struct Appended {
    file: File,
    path: PathBuf,
    lines: Vec<u8>,
}

impl Appended {
    fn write_out(&mut self) -> Result<(), TpccError> {
        if self.lines.is_empty() {
            return Ok(());
        }
        // One write(2) unless the disk is full: in append mode no other thread's line is interleaved.
        let written = self.file.write_all(&self.lines);
        self.lines.clear();
        written.map_err(|error| cannot_write(&self.path, error))
    }
}

fn cannot_write(path: &Path, error: std::io::Error) -> TpccError {
    TpccError::File { action: "write", file: path.display().to_string(), error }
}

/// The second that `text` represents.
struct Calendar {
    clock: Clock,
    /// The second that `text` says.
    second: u64,
    text: String,
}

impl Calendar {
    fn new(clock: Clock) -> Calendar {
        Calendar { clock, second: u64::MAX, text: String::new() }
    }

    fn append(&mut self, moment: Micros, line: &mut Vec<u8>) {
        let micros = self.clock.calendar_at(moment);
        let second = micros / 1_000_000;
        if second != self.second {
            self.second = second;
            self.text = text_of(second);
        }
        line.extend_from_slice(self.text.as_bytes());
        let _ = write!(line, ".{:06}Z", micros % 1_000_000);
    }
}

/// A second since 1970 as UTC: Gregorian, in eras of 400 years that begin in March.
fn text_of(second: u64) -> String {
    let (days, rest) = (second / 86_400 + 719_468, second % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::super::testing::input;
    use super::*;
    use crate::work::{ConnectionId, Kind, TerminalId, Work};

    #[test]
    fn moments_are_written_as_the_calendar_says() {
        // date -u -d @1795332665 and the like.
        for (second, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_795_332_665, "2026-11-22T07:31:05"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            assert_eq!(text_of(second), text);
        }
    }

    fn completion(kind: Kind, outcome: Outcome) -> Completion {
        let work =
            Work { terminal: TerminalId(0), input: input(kind, 3), due: Micros::ZERO, entered: Micros::ZERO };
        Completion {
            connection: ConnectionId(0),
            work,
            dispatched: Micros::ZERO,
            answered: Micros(1_000_001),
            outcome,
        }
    }

    #[test]
    fn files_say_who_was_acknowledged_and_what_was_delivered() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs {
            deliveries: Some(folder.path().join("deliveries")),
            successes: Some(folder.path().join("successes")),
        };
        logs.create().unwrap();
        let clock = Clock::beginning_at(0);
        let (mut one, mut other) = (logs.open(clock).unwrap(), logs.open(clock).unwrap());
        let done = [
            completion(Kind::NewOrder, Outcome::Ordered { order: 3001 }),
            completion(Kind::NewOrder, Outcome::RolledBack),
            completion(Kind::Payment, Outcome::Committed),
            completion(Kind::NewOrder, Outcome::Ordered { order: 3002 }),
        ];
        one.acknowledged(&done).unwrap();
        other.acknowledged(&done[..1]).unwrap();
        let successes = std::fs::read_to_string(logs.successes.unwrap()).unwrap();
        let lines: Vec<&str> = successes.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "3 1 3001 1970-01-01T00:00:01.000001Z",
                "3 1 3002 1970-01-01T00:00:01.000001Z",
                "3 1 3001 1970-01-01T00:00:01.000001Z"
            ]
        );
        let delivery = Delivery { warehouse: 3, carrier: 7 };
        let orders = [2101, 0, 5, 1, 1, 1, 1, 1, 1, 9];
        one.delivered(&delivery, Micros::ZERO, Ok(&orders), Micros(500_000)).unwrap();
        one.delivered(&delivery, Micros::ZERO, Err("40001"), Micros(500_000)).unwrap();
        one.flush().unwrap();
        let deliveries = std::fs::read_to_string(logs.deliveries.unwrap()).unwrap();
        let lines: Vec<&str> = deliveries.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "1970-01-01T00:00:00.000000Z 3 7 2101 skipped 5 1 1 1 1 1 1 9 1970-01-01T00:00:00.500000Z",
                "1970-01-01T00:00:00.000000Z 3 7 failed:40001 1970-01-01T00:00:00.500000Z"
            ]
        );
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let logs = Logs { successes: Some("/nowhere/successes".into()), deliveries: None };
        let error = logs.create().unwrap_err();
        assert!(error.to_string().contains("/nowhere/successes"), "{error}");
    }
}
