//! The ledger as a table: predictions, measurements, and results.

use super::ledger::Entry;
use super::outcome::Closing;
use super::result::{interval, signed, Gauge};
use hardmeter_evidence::number::counted;
use hardmeter_evidence::table::{printable, Column, Cut, Style, TextTable};
use hardmeter_evidence::{Direction, Verdict};
use serde_json::{json, Value};

/// All entries of a ledger.
#[derive(Clone, Debug)]
pub struct Log(pub Vec<Entry>);

impl Log {
    /// The log as JSON.
    pub fn json(&self) -> Value {
        let (right, of) = self.predicted_well();
        json!({
            "format": "hardmeter-tune-log",
            "version": 1,
            "entries": self.0,
            "predicted_within_factor_two": { "count": right, "of": of },
        })
    }

    /// The log as text.
    pub fn text(&self, style: Style) -> String {
        if self.0.is_empty() {
            return "No remedy was tried yet.\n".into();
        }
        let columns = [
            Column::right("entry"),
            Column::left("begun (UTC)"),
            Column::left("where").cut(Cut::KeepTail),
            Column::left("remedy"),
            Column::left("verdict"),
            Column::right("predicted"),
            Column::right("measured"),
            Column::right("95 % interval"),
            Column::left("state"),
        ];
        let mut table = TextTable::new(columns);
        for entry in &self.0 {
            let gauge = entry.result.as_ref().and_then(|result| result.primary());
            let cells = [
                entry.begin.entry.to_string(),
                utc(entry.begin.at),
                printable(&entry.begin.target),
                printable(&entry.begin.remedy),
                entry.result.as_ref().map_or("-".into(), |result| result.verdict.to_string()),
                entry.begin.predicted.map_or("-".into(), |gain| signed(-gain)),
                gauge.and_then(|gauge| gauge.change).map_or("-".into(), signed),
                gauge.and_then(|gauge| gauge.interval).map_or("-".into(), interval),
                state(entry.closed).into(),
            ];
            table.plain(cells);
        }
        let mut text = table.render(style, 0);
        let (right, of) = self.predicted_well();
        if of > 0 {
            let gains = counted(of as u64, "proven gain");
            text += &format!("\nOf {gains} with a prediction, {right} came within a factor of two of it.\n");
        }
        let open = self.0.iter().filter(|entry| entry.closed.is_none()).count();
        if open > 0 {
            text += &format!(
                "\n{} open; hardmeter tune undo restores what was before.\n",
                counted(open as u64, "entry")
            );
        }
        text
    }

    /// Of the gains that were predicted and proven: the number predicted within a factor of two, and their
    /// number.
    fn predicted_well(&self) -> (usize, usize) {
        let pairs: Vec<(f64, f64)> = self
            .0
            .iter()
            .filter_map(|entry| {
                let result = entry.result.as_ref().filter(|result| result.verdict == Verdict::Better)?;
                // If another measure decided, the prediction is of something else.
                let meant =
                    |gauge: &&Gauge| entry.begin.measure.is_none_or(|measure| measure == gauge.measure);
                let gauge = result.primary().filter(meant)?;
                // Predictions are shares of time: twice the throughput is half the time.
                let gain = match gauge.measure.direction() {
                    Direction::Less => -gauge.change?,
                    Direction::More => 1.0 - 1.0 / (1.0 + gauge.change?),
                };
                Some((entry.begin.predicted?, gain))
            })
            .collect();
        let right = pairs.iter().filter(|(predicted, measured)| {
            let ratio = predicted / measured;
            (0.5..=2.0).contains(&ratio)
        });
        (right.count(), pairs.len())
    }
}

pub(super) fn state(closed: Option<Closing>) -> &'static str {
    match closed {
        Some(Closing::Undone) => "undone",
        Some(Closing::Kept) => "kept",
        Some(Closing::Foreign) => "left to others",
        None => "open",
    }
}

/// A time as a date and a time of day.
pub(super) fn utc(seconds: u64) -> String {
    // SAFETY: gmtime_r fills the structure, for which all bytes zero is a valid value, from a valid
    // reference.
    let time = unsafe {
        let seconds = seconds as libc::time_t;
        let mut time = std::mem::zeroed::<libc::tm>();
        libc::gmtime_r(&seconds, &mut time);
        time
    };
    let (year, month) = (time.tm_year + 1900, time.tm_mon + 1);
    format!("{year}-{month:02}-{:02} {:02}:{:02}", time.tm_mday, time.tm_hour, time.tm_min)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::trial::result::tests::result;
    use crate::trial::{Begin, Measure};

    pub(in crate::trial) fn entry(
        number: u64,
        predicted: f64,
        measured: f64,
        closed: Option<Closing>,
    ) -> Entry {
        let begin = Begin {
            entry: number,
            token: String::new(),
            at: 1_700_000_000,
            server: "7".into(),
            target: "shop at /run".into(),
            database: "shop".into(),
            remedy: "jit".into(),
            finding: None,
            evidence: Value::Null,
            predicted: Some(predicted),
            measure: None,
            switches: Vec::new(),
            backends: Vec::new(),
            run: None,
            postmaster: None,
        };
        Entry { begin, result: Some(result(Verdict::Better, measured)), closed, note: String::new() }
    }

    #[test]
    fn predictions_stand_beside_what_was_measured() {
        let log = Log(vec![
            entry(1, 0.86, -0.88, Some(Closing::Undone)),
            entry(2, 0.10, -0.50, Some(Closing::Kept)),
            entry(3, 0.86, -0.88, None),
        ]);
        let text = log.text(Style::default());
        assert!(text.contains("2023-11-14 22:13"), "{text}");
        for part in ["-86.0 %", "-88.0 %", "-89.0 .. -87.0 %", "undone", "kept", "open"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("Of 3 proven gains with a prediction, 2 came within"), "{text}");
        assert_eq!(log.json()["predicted_within_factor_two"]["count"], 2);
        assert_eq!(Log(Vec::new()).text(Style::default()), "No remedy was tried yet.\n");
        // A prediction of what did not decide is not counted.
        let meant = [Measure::Latency, Measure::Cpu, Measure::Throughput].map(|measure| {
            let mut one = entry(4, 0.86, -0.88, None);
            one.begin.measure = Some(measure);
            one
        });
        assert_eq!(Log(meant.into()).json()["predicted_within_factor_two"]["of"], 1);
    }
}
