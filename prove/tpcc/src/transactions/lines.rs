//! The lines of an order in the order in which rows of STOCK are locked.

use crate::work::{NewOrder, OrderLine, MAX_LINES};

/// A line, and its position among the lines of the same row of STOCK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// OL_NUMBER, from 1.
    pub number: u8,
    /// The entered line.
    pub entered: OrderLine,
    /// Number of earlier lines with the same row of STOCK.
    pub repeats: u8,
}

/// Lines sorted by supplying warehouse, item and number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    lines: [Line; MAX_LINES],
    count: usize,
}

impl Lines {
    pub(super) fn of(order: &NewOrder) -> Lines {
        let mut lines = [Line::default(); MAX_LINES];
        let count = order.lines().len();
        for (number, (line, &entered)) in (1..).zip(lines.iter_mut().zip(order.lines())) {
            *line = Line { number, entered, repeats: 0 };
        }
        lines[..count].sort_unstable_by_key(|line| (line.entered.supply, line.entered.item, line.number));
        for at in 1..count {
            let (before, line) = (lines[at - 1], &mut lines[at]);
            if (before.entered.supply, before.entered.item) == (line.entered.supply, line.entered.item) {
                line.repeats = before.repeats + 1;
            }
        }
        Lines { lines, count }
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Line] {
        &self.lines[..self.count]
    }

    /// Lines with this number of earlier lines for the same row of STOCK.
    pub(super) fn repeated(&self, repeats: u8) -> impl Iterator<Item = &Line> + Clone {
        self.all().iter().filter(move |line| line.repeats == repeats)
    }

    /// Maximum number of repetitions of a row of STOCK.
    pub(super) fn most_repeats(&self) -> u8 {
        self.all().iter().map(|line| line.repeats).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_by_warehouse_and_item_and_repeats_are_counted() {
        let mut order =
            NewOrder { warehouse: 2, district: 1, customer: 1, line_count: 6, all_lines: Default::default() };
        for (line, (supply, item)) in
            order.all_lines.iter_mut().zip([(2, 7), (1, 9), (2, 7), (2, 3), (1, 7), (2, 7)])
        {
            *line = OrderLine { supply, item, quantity: 1 };
        }
        let lines = Lines::of(&order);
        let numbers: Vec<u8> = lines.all().iter().map(|line| line.number).collect();
        assert_eq!(numbers, [5, 2, 4, 1, 3, 6]);
        let numbers = |repeats| lines.repeated(repeats).map(|line| line.number).collect::<Vec<u8>>();
        assert_eq!((numbers(0), numbers(1), numbers(2)), (vec![5, 2, 4, 1], vec![3], vec![6]));
        assert_eq!(lines.most_repeats(), 2);
    }
}
