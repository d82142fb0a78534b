//! Sums of counts of several threads or drivers.

use super::{Draws, Errors, Second};

impl Draws {
    /// Adds the counts of another thread or driver.
    pub fn add(&mut self, other: &Draws) {
        add_counts(&mut self.orders_by_lines, &other.orders_by_lines);
        add_counts(&mut self.orders_by_district, &other.orders_by_district);
        self.lines += other.lines;
        self.remote_lines += other.remote_lines;
        self.payments += other.payments;
        self.remote_payments += other.remote_payments;
        self.payments_by_name += other.payments_by_name;
        self.order_statuses += other.order_statuses;
        self.order_statuses_by_name += other.order_statuses_by_name;
    }
}

impl Second {
    /// Adds the counts of the same second from another source.
    pub fn add(&mut self, other: &Second) {
        add_counts(&mut self.completed, &other.completed);
        self.response_total += other.response_total;
        self.longest = self.longest.max(other.longest);
        // The maxima of two drivers need not coincide; the sum is an upper bound.
        self.waiting += other.waiting;
        self.failures += other.failures;
    }
}

/// Adds a series that began `later` seconds later.
pub fn add_series(mine: &mut Vec<Second>, theirs: &[Second], later: usize) {
    if mine.len() < theirs.len() + later {
        mine.resize(theirs.len() + later, Second::default());
    }
    for (mine, theirs) in mine[later..].iter_mut().zip(theirs) {
        mine.add(theirs);
    }
}

/// Adds failures: one entry for each transaction and code, sorted by these.
pub fn add_errors(mine: &mut Vec<Errors>, theirs: &[Errors]) {
    for errors in theirs {
        match mine.iter_mut().find(|known| known.kind == errors.kind && known.code == errors.code) {
            Some(known) => {
                known.count += errors.count;
                known.retried += errors.retried;
            }
            None => mine.push(errors.clone()),
        }
    }
    mine.sort_by(|one, other| (one.kind, &one.code).cmp(&(other.kind, &other.code)));
}

fn add_counts<const N: usize>(mine: &mut [u64; N], theirs: &[u64; N]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine += theirs;
    }
}
