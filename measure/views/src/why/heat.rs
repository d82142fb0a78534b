//! A map of sets for the eye: sets in rows of cells, several sets a cell where there are many.

use hardmeter_answers::why::SetMap;
use rustc_hash::FxHashSet;

/// Cells of a row.
const COLUMNS: usize = 64;
/// Rows at most.
const ROWS: usize = 32;

/// A cell: some neighbouring sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// Its first set.
    pub first: u32,
    /// Its last set.
    pub last: u32,
    /// Samples.
    pub samples: u64,
    /// Whether one of its sets stands out.
    pub standing: bool,
}

/// The cells, row by row.
pub(super) fn rows(map: &SetMap) -> Vec<Vec<Cell>> {
    let sets_per_cell = map.counts.len().div_ceil(COLUMNS * ROWS).max(1);
    let standing: FxHashSet<u32> = map.standing_out.iter().map(|set| set.set).collect();
    let cells: Vec<Cell> = map
        .counts
        .chunks(sets_per_cell)
        .enumerate()
        .map(|(number, counts)| {
            let first = (number * sets_per_cell) as u32;
            let last = first + counts.len() as u32 - 1;
            Cell {
                first,
                last,
                samples: counts.iter().sum(),
                standing: (first..=last).any(|set| standing.contains(&set)),
            }
        })
        .collect();
    cells.chunks(COLUMNS).map(<[Cell]>::to_vec).collect()
}

/// The most samples in one cell.
pub(super) fn hottest(rows: &[Vec<Cell>]) -> u64 {
    rows.iter().flatten().map(|cell| cell.samples).max().unwrap_or(0)
}

/// `sets 0-63`, as a label of a row.
pub(super) fn label(row: &[Cell]) -> String {
    match (row.first(), row.last()) {
        (Some(first), Some(last)) => format!("{}-{}", first.first, last.last),
        _ => String::new(),
    }
}

/// `12-15, 40`: set numbers in ranges, a few of them.
pub(super) fn ranges(sets: impl Iterator<Item = u32>) -> String {
    const SHOWN: usize = 6;
    let mut sets: Vec<u32> = sets.collect();
    sets.sort_unstable();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for set in sets {
        match ranges.last_mut() {
            Some(last) if last.1 + 1 == set => last.1 = set,
            _ => ranges.push((set, set)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let shown: Vec<String> = ranges.iter().take(SHOWN).map(text).collect();
    let more = if ranges.len() > SHOWN { " ..." } else { "" };
    shown.join(", ") + more
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use hardmeter_answers::why::{CacheLevel, LevelGeometry, SetIndexing};

    /// A map of `sets` sets; the samples of each are its number modulo ten.
    pub(crate) fn map(sets: u32) -> SetMap {
        let counts: Vec<u64> = (0..sets).map(|set| u64::from(set % 10)).collect();
        SetMap {
            level: CacheLevel::L1d,
            geometry: LevelGeometry { sets, ways: 8, line_size: 64, indexing: SetIndexing::Virtual },
            samples: counts.iter().sum(),
            tested: 0,
            lines: 0,
            counts,
            standing_out: Vec::new(),
        }
    }

    #[test]
    fn a_first_level_is_one_row_and_a_last_level_32() {
        let rows = rows(&map(64));
        assert_eq!((rows.len(), rows[0].len()), (1, 64));
        assert_eq!(rows[0][7], Cell { first: 7, last: 7, samples: 7, standing: false });
        assert_eq!(label(&rows[0]), "0-63");
        let rows = super::rows(&map(20_480));
        assert_eq!((rows.len(), rows[0].len()), (32, 64));
        assert_eq!(rows[0][0], Cell { first: 0, last: 9, samples: 45, standing: false });
        assert_eq!(hottest(&rows), 45);
    }

    #[test]
    fn neighbours_are_told_as_ranges() {
        assert_eq!(ranges([15, 12, 13, 14, 40].into_iter()), "12-15, 40");
        assert_eq!(ranges((0..40).step_by(2)), "0, 2, 4, 6, 8, 10 ...");
    }
}
