//! Distinct keys, numbered in order of appearance. Keys are runs of words in one vector: a key costs its
//! words and four bytes of index, without an allocation.

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// Distinct keys of one width.
#[derive(Clone, Debug)]
pub(crate) struct KeyTable {
    width: usize,
    words: Vec<u64>,
    index: HashTable<u32>,
}

fn hash(key: &[u64]) -> u64 {
    let mut hasher = FxHasher::default();
    for word in key {
        hasher.write_u64(*word);
    }
    hasher.finish()
}

impl KeyTable {
    /// An empty table for keys of `width` words.
    pub(crate) fn new(width: usize) -> Self {
        assert!(width > 0, "a key has at least one word");
        KeyTable { width, words: Vec::new(), index: HashTable::new() }
    }

    /// The number of a key, and whether it is new.
    pub(crate) fn number(&mut self, key: &[u64]) -> usize {
        debug_assert_eq!(key.len(), self.width);
        let (width, words) = (self.width, &mut self.words);
        let range = |row: &u32| *row as usize * width..(*row as usize + 1) * width;
        // Compare words: at this length, a call of memcmp costs more than the comparison.
        let equal = |row: &u32| words[range(row)].iter().zip(key).all(|(a, b)| a == b);
        let entry = self.index.entry(hash(key), equal, |row| hash(&words[range(row)]));
        match entry {
            hashbrown::hash_table::Entry::Occupied(entry) => *entry.get() as usize,
            hashbrown::hash_table::Entry::Vacant(entry) => {
                let row = words.len() / width;
                entry.insert(u32::try_from(row).expect("memory ends before 2^32 keys"));
                words.extend_from_slice(key);
                row
            }
        }
    }

    /// A key by its number.
    pub(crate) fn key(&self, number: usize) -> &[u64] {
        &self.words[number * self.width..(number + 1) * self.width]
    }

    /// Number of distinct keys.
    pub(crate) fn len(&self) -> usize {
        self.words.len() / self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_number_while_the_table_grows() {
        let mut table = KeyTable::new(2);
        for round in 0..2 {
            for i in 0..1000u64 {
                assert_eq!(table.number(&[i, i * i]), i as usize, "round {round}");
            }
        }
        assert_eq!(table.len(), 1000);
        assert_eq!(table.key(7), [7, 49]);
    }
}
