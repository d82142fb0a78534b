//! A seeded random coin.

use serde::{Deserialize, Serialize};

/// SplitMix64 (Steele, Lea, Flood 2014): small, fast, and the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coin(u64);

impl Coin {
    /// A coin with this seed.
    pub fn new(seed: u64) -> Coin {
        Coin(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to but not including 1.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Shuffles the values: every order is equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = (self.uniform() * (last + 1) as f64) as usize;
            values.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_orders_are_equally_likely() {
        let mut coin = Coin::new(1);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut three = [0, 1, 2];
            coin.shuffle(&mut three);
            *seen.entry(three).or_insert(0) += 1;
        }
        // 1000 of each are expected, with a deviation of 29.
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|&count| (880..1120).contains(&count)), "{seen:?}");
    }
}
