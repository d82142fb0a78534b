//! An interval tree: ranges sorted by start, each node with the furthest end in its subtree.
//!
//! ```text
//!   ranges by start    [0,9)   [2,4)   [3,4)   [7,8)        query 7: the right half may hold it,
//!   furthest end        `---- 9 ----'   `---- 8 ----'       and of the left half, whose furthest end is 9,
//!                              `------- 9 -----'            only [0,9)
//! ```
//!
//! Ranges may nest and overlap: a page lies in the buffer pool, which lies in the shared segment. A query
//! costs O(log n + results).

/// First address, first address after it, the caller's number.
pub(super) type Range = (u64, u64, u32);

/// Half-open ranges of addresses, numbered by the caller.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeTree {
    /// Ranges ordered by start.
    ranges: Vec<Range>,
    /// The furthest end of each node of the binary tree over `ranges`: the root at 1, children of n at 2n and 2n+1.
    furthest: Vec<u64>,
}

impl RangeTree {
    /// A tree of ranges `(start, end, number)`.
    pub(super) fn new(mut ranges: Vec<Range>) -> Self {
        ranges.sort_unstable();
        let mut tree = RangeTree { furthest: vec![0; 4 * ranges.len()], ranges };
        if !tree.ranges.is_empty() {
            tree.fill(1, 0, tree.ranges.len());
        }
        tree
    }

    fn fill(&mut self, node: usize, low: usize, high: usize) -> u64 {
        let furthest = if high - low == 1 {
            self.ranges[low].1
        } else {
            let middle = low.midpoint(high);
            self.fill(2 * node, low, middle).max(self.fill(2 * node + 1, middle, high))
        };
        self.furthest[node] = furthest;
        furthest
    }

    /// Appends the numbers of all ranges that contain `address`.
    pub(super) fn containing(&self, address: u64, found: &mut Vec<u32>) {
        if !self.ranges.is_empty() {
            self.descend(1, 0, self.ranges.len(), address, found);
        }
    }

    fn descend(&self, node: usize, low: usize, high: usize, address: u64, found: &mut Vec<u32>) {
        if self.furthest[node] <= address || self.ranges[low].0 > address {
            return;
        }
        if high - low == 1 {
            found.push(self.ranges[low].2);
            return;
        }
        let middle = low.midpoint(high);
        self.descend(2 * node, low, middle, address, found);
        self.descend(2 * node + 1, middle, high, address, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tree: &RangeTree, address: u64) -> Vec<u32> {
        let mut found = Vec::new();
        tree.containing(address, &mut found);
        found
    }

    #[test]
    fn nested_and_overlapping_ranges() {
        let tree = RangeTree::new(vec![(7, 8, 3), (0, 9, 0), (3, 4, 2), (2, 4, 1)]);
        assert_eq!(found(&tree, 7), [0, 3]);
        assert_eq!(found(&tree, 3), [0, 1, 2]);
        assert_eq!(found(&tree, 8), [0], "ends are exclusive");
        assert_eq!(found(&tree, 9).len(), 0);
        assert_eq!(found(&RangeTree::new(Vec::new()), 9).len(), 0);
        let one = RangeTree::new(vec![(5, 6, 7)]);
        assert_eq!((found(&one, 5), found(&one, 4)), (vec![7], vec![]));
    }

    /// Compares with the definition, on ranges of all sizes.
    #[test]
    fn finds_what_a_scan_finds() {
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let ranges: Vec<(u64, u64, u32)> = (0..1000)
            .map(|number| {
                let start = next(10_000);
                (start, start + 1 + next(1 + (number % 10) * 100), number as u32)
            })
            .collect();
        let tree = RangeTree::new(ranges.clone());
        for address in (0..11_000).step_by(7) {
            let mut got = found(&tree, address);
            got.sort_unstable();
            let inside = |range: &&(u64, u64, u32)| range.0 <= address && address < range.1;
            let wanted: Vec<u32> = ranges.iter().filter(inside).map(|range| range.2).collect();
            assert_eq!(got, wanted, "{address}");
        }
    }
}
