//! Random numbers of the data and of the visitors: each part has its own stream, named by the seed and the part, so
//! that the same seed gives the same rows in any order of requests.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

/// The purpose of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // tables, and what a run draws
pub enum Part {
    Users,
    Items,
    OldItems,
    Bids,
    Comments,
    BuyNow,
    Arrivals,
    Visits,
    Pictures,
}

impl Stream {
    /// The stream of a part.
    pub fn of(seed: u64, part: Part) -> Stream {
        // seed_from_u64 mixes by SplitMix64, so that neighbouring seeds give independent streams.
        Stream(Xoshiro256PlusPlus::seed_from_u64(
            seed.rotate_left(8) ^ (part as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ))
    }

    /// A uniform number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.0.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }

    /// One of several.
    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len() as u32) as usize)
    }

    /// A number in (0, 1].
    pub fn share(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A number of the negative exponential distribution with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.share().ln()
    }

    /// The stream of one element of a part: an item's bids, a visitor. It depends only on these three values.
    pub fn of_one(seed: u64, part: Part, number: u32) -> Stream {
        let mut whole = Stream::of(seed, part);
        let named = whole.0.next_u64() ^ (u64::from(number) + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Stream(Xoshiro256PlusPlus::seed_from_u64(named))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_parts_differ() {
        let draw = |seed, part| (0..8).map(|_| Stream::of(seed, part).below(1000)).collect::<Vec<_>>();
        assert_eq!(draw(7, Part::Items), draw(7, Part::Items));
        let many = |seed, part| {
            let mut stream = Stream::of(seed, part);
            (0..8).map(|_| stream.below(1000)).collect::<Vec<_>>()
        };
        assert_ne!(many(7, Part::Items), many(7, Part::Users));
        assert_ne!(many(7, Part::Items), many(8, Part::Items));
        let one = |number| Stream::of_one(7, Part::Bids, number).below(1_000_000);
        assert_eq!(one(5), one(5));
        assert_ne!(one(5), one(6));
    }

    #[test]
    fn numbers_keep_their_bounds_and_their_mean() {
        let mut stream = Stream::of(1, Part::Arrivals);
        assert!((0..1000).all(|_| (3..=5).contains(&stream.within(3, 5))));
        assert_eq!(stream.one_of::<u8>(&[]), None);
        let mean = (0..100_000).map(|_| stream.exponential()).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }
}
