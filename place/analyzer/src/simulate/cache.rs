//! A simulated cache: sets of data in the order of their last use. The sets above a set in that order were inserted
//! since; the table of damage gives the share of the set that they evicted. Streams are data that is not used
//! again: only their sum is kept.

use super::damage::Damage;

/// The owner of data: a kind, or an application's code.
pub type Owner = u32;

struct Entry {
    owner: Owner,
    kb: f64,
    /// The amount streamed until its last use.
    streamed: f64,
}

/// One cache.
pub struct Cache {
    kb: f64,
    /// The latest used first.
    entries: Vec<Entry>,
    streamed: f64,
}

/// The depth, in cache sizes, beyond which nothing of a set is left.
const DEPTH: f64 = 5.0;

impl Cache {
    /// An empty cache.
    pub fn new(kb: f64) -> Cache {
        Cache { kb, entries: Vec::new(), streamed: 0.0 }
    }

    /// Uses a set: returns the evicted share. Afterwards it is complete.
    pub fn touch(&mut self, damage: &Damage, owner: Owner, kb: f64) -> f64 {
        if kb <= 0.0 {
            return 0.0;
        }
        let mut above = 0.0;
        let mut found = None;
        for (i, entry) in self.entries.iter().enumerate() {
            if entry.owner == owner {
                found = Some(i);
                break;
            }
            above += entry.kb;
        }
        let lost = match found {
            Some(i) => {
                let entry = self.entries.remove(i);
                let since = above + self.streamed - entry.streamed;
                damage.lost(kb / self.kb, since / self.kb)
            }
            None => 1.0,
        };
        self.entries.insert(0, Entry { owner, kb: kb.min(self.kb), streamed: self.streamed });
        self.forget();
        lost
    }

    /// Streams an amount of data that is not used again.
    pub fn stream(&mut self, kb: f64) {
        self.streamed += kb;
    }

    fn forget(&mut self) {
        let mut above = 0.0;
        let (streamed, limit) = (self.streamed, DEPTH * self.kb);
        let keep = self.entries.iter().take_while(|entry| {
            let gone = above + streamed - entry.streamed > limit;
            above += entry.kb;
            !gone
        });
        let keep = keep.count();
        self.entries.truncate(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_lost_to_what_came_since() {
        let damage = Damage::documented();
        let mut cache = Cache::new(2048.0);
        assert_eq!(cache.touch(&damage, 1, 1024.0), 1.0);
        assert_eq!(cache.touch(&damage, 1, 1024.0), 0.0);
        cache.stream(2048.0);
        assert_eq!(cache.touch(&damage, 1, 1024.0), 0.80);
        assert_eq!(cache.touch(&damage, 1, 1024.0), 0.0);
    }

    #[test]
    fn a_set_that_is_used_twice_counts_once() {
        let damage = Damage::documented();
        let mut cache = Cache::new(2048.0);
        cache.touch(&damage, 1, 1024.0);
        for _ in 0..3 {
            cache.touch(&damage, 2, 1024.0);
        }
        assert_eq!(cache.touch(&damage, 1, 1024.0), 0.15);
    }

    #[test]
    fn what_lies_too_deep_is_forgotten() {
        let damage = Damage::documented();
        let mut cache = Cache::new(100.0);
        for owner in 0..1000 {
            cache.touch(&damage, owner, 10.0);
        }
        assert!(cache.entries.len() < 60, "{}", cache.entries.len());
    }
}
