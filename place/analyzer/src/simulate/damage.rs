//! The effects of sections on each other's data in a cache: measured numbers, kept as data with their source.

use serde::{Deserialize, Serialize};

/// The built-in numbers.
const DOCUMENTED: &str = include_str!("../../data/damage-6a.json");

/// The share of a set that is lost, by the amount inserted since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// of the set.
    pub resident_kb: f64,
    /// For each of the sizes that were inserted, 0 to 1.
    pub lost: Vec<f64>,
}

/// The damage that one section does to another, on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Damage {
    /// The source of the numbers.
    pub source: String,
    /// The L2 of the measured machine; other machines are scaled.
    pub l2_kb: f64,
    /// Columns: the amount inserted.
    pub inserted_kb: Vec<f64>,
    /// Rows by the size of the set, ascending.
    pub rows: Vec<Row>,
    /// The time to fetch lost data from L3, if loads depend on each other.
    pub reload_us_per_kb: f64,
    /// The factor for fetching from memory.
    pub memory_factor: f64,
    /// The speed of a thread whose sibling works too.
    pub sibling_speed: f64,
    /// Moving a thread.
    pub migration_us: f64,
    /// Setting and restoring an affinity without a move.
    pub affinity_us: f64,
}

/// The reason why numbers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DamageError {
    /// The text does not have the form of data/damage-6a.json.
    #[error("the damage file cannot be read: {0}; place/analyzer/data/damage-6a.json shows the form")]
    Form(#[from] serde_json::Error),
    /// They are inconsistent.
    #[error("invalid damage file: {0}")]
    Sense(&'static str),
}

impl Damage {
    /// The measurements of docs/design/place.md.
    pub fn documented() -> Damage {
        Damage::parse(DOCUMENTED).expect("the built-in numbers are in order: a test reads them")
    }

    /// Parses the numbers of a damage file.
    ///
    /// # Errors
    ///
    /// [`DamageError`] if the text is not JSON of this form, or its numbers contradict each other.
    pub fn parse(text: &str) -> Result<Damage, DamageError> {
        let damage: Damage = serde_json::from_str(text)?;
        let ascends = |values: &[f64]| {
            values.windows(2).all(|pair| pair[0] < pair[1])
                && values.first().is_some_and(|first| *first > 0.0)
        };
        let sizes: Vec<f64> = damage.rows.iter().map(|row| row.resident_kb).collect();
        let sense = |good: bool, why| if good { Ok(()) } else { Err(DamageError::Sense(why)) };
        sense(damage.l2_kb > 0.0, "l2_kb must be more than 0")?;
        sense(ascends(&sizes) && ascends(&damage.inserted_kb), "sizes must be more than 0, and ascend")?;
        let full = |row: &Row| row.lost.len() == damage.inserted_kb.len();
        sense(damage.rows.iter().all(full), "each row needs a share for each inserted size")?;
        let shares = damage.rows.iter().flat_map(|row| &row.lost).all(|share| (0.0..=1.0).contains(share));
        sense(shares, "shares are from 0 to 1")?;
        let times = [damage.reload_us_per_kb, damage.migration_us, damage.affinity_us];
        sense(times.iter().all(|time| (0.0..1e6).contains(time)), "times are from 0 to a second")?;
        sense((1.0..1000.0).contains(&damage.memory_factor), "memory is no faster than L3")?;
        sense(damage.sibling_speed > 0.0 && damage.sibling_speed <= 1.0, "sibling_speed is from 0 to 1")?;
        Ok(damage)
    }

    /// The evicted share of a set, by the amount inserted since its use; both as shares of the cache. Interpolated
    /// between rows and columns: linear in the set's size and in the logarithm of the inserted amount.
    pub fn lost(&self, resident: f64, inserted: f64) -> f64 {
        if inserted <= 0.0 || resident <= 0.0 {
            return 0.0;
        }
        if resident > 1.0 {
            // A set that does not fit displaces itself.
            return 1.0;
        }
        let kb = resident * self.l2_kb;
        let above = self.rows.iter().position(|row| row.resident_kb >= kb).unwrap_or(self.rows.len() - 1);
        let below = above.saturating_sub(1);
        let (low, high) = (&self.rows[below], &self.rows[above]);
        let span = high.resident_kb - low.resident_kb;
        let part = if span > 0.0 { ((kb - low.resident_kb) / span).clamp(0.0, 1.0) } else { 0.0 };
        let inserted = inserted * self.l2_kb;
        self.in_row(low, inserted) * (1.0 - part) + self.in_row(high, inserted) * part
    }

    fn in_row(&self, row: &Row, inserted: f64) -> f64 {
        let columns = &self.inserted_kb;
        match columns.iter().position(|&column| column >= inserted) {
            None => row.lost[columns.len() - 1],
            Some(0) => row.lost[0] * inserted / columns[0],
            Some(above) => {
                let (low, high) = (columns[above - 1], columns[above]);
                let part = (inserted / low).ln() / (high / low).ln();
                row.lost[above - 1] * (1.0 - part) + row.lost[above] * part
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_are_met() {
        let damage = Damage::documented();
        assert_eq!(damage.lost(0.5, 1.0), 0.80);
        assert_eq!(damage.lost(1.0, 0.125), 0.30);
        assert_eq!(damage.lost(0.75, 4.0), 1.0);
        // Half way between the rows of 1 and 1.5 MB, after 1 MB: (0.15 + 0.42) / 2.
        assert!((damage.lost(0.625, 0.5) - 0.285).abs() < 1e-9);
        // Between columns, 512 KB x sqrt(2): (0.17 + 0.42) / 2 of 1.5 MB.
        assert!((damage.lost(0.75, 0.25 * 2f64.sqrt()) - 0.295).abs() < 1e-9);
    }

    #[test]
    fn ends_are_held() {
        let damage = Damage::documented();
        assert_eq!(damage.lost(0.5, 0.0), 0.0);
        assert_eq!(damage.lost(0.5, 1000.0), 1.0);
        assert_eq!(damage.lost(1.5, 0.01), 1.0);
        assert_eq!(damage.lost(0.01, 1.0), 0.13);
        assert!((damage.lost(1.0, 0.0625) - 0.15).abs() < 1e-9);
    }

    #[test]
    fn more_inserted_never_loses_less() {
        let damage = Damage::documented();
        for resident in 1..=16 {
            let mut last = 0.0;
            for inserted in 1..=80 {
                let lost = damage.lost(f64::from(resident) / 16.0, f64::from(inserted) / 20.0);
                assert!(lost >= last - 1e-12, "{resident}/16 after {inserted}/20");
                last = lost;
            }
        }
    }

    #[test]
    fn files_that_make_no_sense_are_refused() {
        let good = DOCUMENTED;
        for (from, to) in [
            ("[256, 512,", "[512, 256,"),
            ("0.00, 0.01,", "0.01,"),
            ("0.84", "8.4"),
            ("\"memory_factor\": 2.5", "\"memory_factor\": 0.5"),
            ("\"l2_kb\": 2048", "\"l2_kb\": 0"),
            ("\"migration_us\": 6.5", "\"migration\": 6.5"),
            ("0.62", "0.0"),
        ] {
            assert!(good.contains(from), "{from}");
            assert!(Damage::parse(&good.replacen(from, to, 1)).is_err(), "{to}");
        }
    }
}
