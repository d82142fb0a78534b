//! The algebra of [`Record`]: records of processors are added, and later minus earlier is the difference.

use crate::model::{Moments, Record, AFTERS, BUCKETS};
use hardmeter_samples::model::Cycles;

impl Default for Record {
    fn default() -> Record {
        Record {
            count: 0,
            exact: 0,
            preempted: 0,
            migrated: 0,
            elapsed: Cycles(0),
            cycles: Cycles(0),
            own: Moments::default(),
            adaptive: 0.0,
            misses: Moments::default(),
            displaced: Moments::default(),
            after: [Moments::default(); AFTERS],
            nested: Cycles(0),
            histogram: vec![0; BUCKETS],
        }
    }
}

fn plus(a: Cycles, b: Cycles) -> Cycles {
    Cycles(a.0.saturating_add(b.0))
}

fn minus(a: Cycles, b: Cycles) -> Cycles {
    Cycles(a.0.saturating_sub(b.0))
}

impl Record {
    /// The sum of both. The expectation is that of the record with more values.
    pub fn add(&mut self, other: &Record) {
        if other.exact > self.exact {
            self.adaptive = other.adaptive;
        }
        self.count = self.count.saturating_add(other.count);
        self.exact = self.exact.saturating_add(other.exact);
        self.preempted = self.preempted.saturating_add(other.preempted);
        self.migrated = self.migrated.saturating_add(other.migrated);
        self.elapsed = plus(self.elapsed, other.elapsed);
        self.cycles = plus(self.cycles, other.cycles);
        self.own.add(&other.own);
        self.misses.add(&other.misses);
        self.displaced.add(&other.displaced);
        for (mine, theirs) in self.after.iter_mut().zip(&other.after) {
            mine.add(theirs);
        }
        self.nested = plus(self.nested, other.nested);
        self.histogram.resize(self.histogram.len().max(other.histogram.len()), 0);
        for (mine, theirs) in self.histogram.iter_mut().zip(&other.histogram) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// The difference from `earlier`.
    pub fn since(&self, earlier: &Record) -> Record {
        let mut after = [Moments::default(); AFTERS];
        for (i, moments) in after.iter_mut().enumerate() {
            *moments = self.after[i].since(&earlier.after[i]);
        }
        Record {
            count: self.count.saturating_sub(earlier.count),
            exact: self.exact.saturating_sub(earlier.exact),
            preempted: self.preempted.saturating_sub(earlier.preempted),
            migrated: self.migrated.saturating_sub(earlier.migrated),
            elapsed: minus(self.elapsed, earlier.elapsed),
            cycles: minus(self.cycles, earlier.cycles),
            own: self.own.since(&earlier.own),
            adaptive: self.adaptive,
            misses: self.misses.since(&earlier.misses),
            displaced: self.displaced.since(&earlier.displaced),
            after,
            nested: minus(self.nested, earlier.nested),
            histogram: self
                .histogram
                .iter()
                .enumerate()
                .map(|(i, n)| n.saturating_sub(earlier.histogram.get(i).copied().unwrap_or(0)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(values: &[u64]) -> Record {
        let mut record = Record::default();
        for &value in values {
            record.count += 1;
            record.exact += 1;
            record.cycles.0 += value;
            record.elapsed.0 += 2 * value;
            record.own.push(value as f64);
            record.after[2].push(value as f64);
            record.histogram[3] += 1;
        }
        record.adaptive = record.own.mean;
        record
    }

    #[test]
    fn what_came_between_is_the_difference() {
        let (early, late) = (record(&[100, 200]), record(&[300, 500]));
        let mut all = early.clone();
        all.add(&late);
        let between = all.since(&early);
        assert_eq!((between.count, between.cycles, between.elapsed), (2, Cycles(800), Cycles(1600)));
        assert!((between.own.mean - 400.0).abs() < 1e-9 && (between.own.m2 - 20_000.0).abs() < 1e-6);
        assert_eq!(between.after[2].count, 2);
        assert_eq!(between.after[0].count, 0);
        assert_eq!(between.histogram[3], 2);
    }

    #[test]
    fn a_record_that_began_anew_counts_nothing_below_zero() {
        let between = record(&[100]).since(&record(&[100, 200, 300]));
        assert_eq!((between.count, between.cycles, between.own.count), (0, Cycles(0), 0));
        assert!(between.histogram.iter().all(|&n| n == 0));
    }
}
