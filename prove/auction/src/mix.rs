//! Transitions between pages: two mixes, as weights. They were written for Hardmeter; RUBiS's own tables have no
//! clear licence.
//!
//! A visit begins at the start page and ends at random; then another visitor begins. An impossible step (no item on
//! the page) is drawn again. The share of pages that write follows from the weights: none in browsing, about 15 %
//! in bidding, as in RUBiS's mixes (`stationary`, and its test).

use crate::interaction::Interaction::{self, *};
use serde::{Deserialize, Serialize};

/// Behaviour of the visitors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mix {
    /// Visitors who only read.
    Browsing,
    /// Visitors who also bid, buy, sell and comment.
    Bidding,
}

/// The next interaction, with its weight; `None`: the visit ends.
pub type Weights = &'static [(Option<Interaction>, u32)];

const fn to(interaction: Interaction, weight: u32) -> (Option<Interaction>, u32) {
    (Some(interaction), weight)
}

const fn end(weight: u32) -> (Option<Interaction>, u32) {
    (None, weight)
}

impl Mix {
    /// The possible next interactions. Weights of a row are parts of their sum.
    pub fn after(self, interaction: Interaction) -> Weights {
        match self {
            Mix::Browsing => browsing(interaction),
            Mix::Bidding => bidding(interaction),
        }
    }
}

fn browsing(interaction: Interaction) -> Weights {
    match interaction {
        Home => const { &[to(Browse, 100)] },
        Browse => const { &[to(Categories, 70), to(Regions, 30)] },
        Categories => const { &[to(SearchCategory, 100)] },
        Regions => const { &[to(RegionCategories, 100)] },
        RegionCategories => const { &[to(SearchRegion, 100)] },
        SearchCategory => const { &[to(Item, 60), to(SearchCategory, 25), to(Categories, 10), end(5)] },
        SearchRegion => const { &[to(Item, 60), to(SearchRegion, 20), to(Regions, 15), end(5)] },
        Item => const { &[to(BidHistory, 15), to(User, 20), to(SearchCategory, 40), to(Browse, 20), end(5)] },
        User => const { &[to(Item, 40), to(SearchCategory, 40), to(Browse, 15), end(5)] },
        BidHistory => const { &[to(Item, 40), to(User, 30), to(SearchCategory, 25), end(5)] },
        _ => const { &[to(Home, 100)] },
    }
}

fn bidding(interaction: Interaction) -> Weights {
    match interaction {
        Home => const { &[to(Browse, 75), to(Register, 5), to(Sell, 8), to(MyLogin, 12)] },
        Browse => const { &[to(Categories, 70), to(Regions, 30)] },
        Categories => const { &[to(SearchCategory, 100)] },
        Regions => const { &[to(RegionCategories, 100)] },
        RegionCategories => const { &[to(SearchRegion, 100)] },
        SearchCategory => const { &[to(Item, 82), to(SearchCategory, 10), to(Categories, 4), end(4)] },
        SearchRegion => const { &[to(Item, 72), to(SearchRegion, 16), to(Regions, 8), end(4)] },
        Item => {
            const {
                &[
                    to(BidLogin, 56),
                    to(BuyNowLogin, 8),
                    to(CommentLogin, 8),
                    to(BidHistory, 6),
                    to(User, 6),
                    to(SearchCategory, 11),
                    end(5),
                ]
            }
        }
        User => const { &[to(Item, 50), to(SearchCategory, 40), end(10)] },
        BidHistory => const { &[to(Item, 60), to(User, 20), to(SearchCategory, 20)] },
        BidLogin => const { &[to(PutBid, 100)] },
        PutBid => const { &[to(StoreBid, 95), to(Item, 5)] },
        StoreBid => const { &[to(Item, 55), to(SearchCategory, 33), to(MyLogin, 4), end(8)] },
        BuyNowLogin => const { &[to(BuyNow, 100)] },
        BuyNow => const { &[to(StoreBuyNow, 90), to(Item, 10)] },
        StoreBuyNow => const { &[to(SearchCategory, 70), to(MyLogin, 10), end(20)] },
        CommentLogin => const { &[to(PutComment, 100)] },
        PutComment => const { &[to(StoreComment, 100)] },
        StoreComment => const { &[to(User, 20), to(SearchCategory, 60), end(20)] },
        Register => const { &[to(RegisterUser, 100)] },
        RegisterUser => const { &[to(Browse, 80), to(Sell, 20)] },
        Sell => const { &[to(SellCategories, 100)] },
        SellCategories => const { &[to(SellItem, 100)] },
        SellItem => const { &[to(RegisterItem, 100)] },
        RegisterItem => const { &[to(Sell, 30), to(Browse, 50), end(20)] },
        MyLogin => const { &[to(Me, 100)] },
        Me => const { &[to(Item, 50), to(Browse, 40), end(10)] },
        _ => const { &[to(Home, 100)] },
    }
}

/// The stationary share of each page if every drawn step is possible; a visit that ends is followed by one that
/// begins at the start page.
pub fn stationary(mix: Mix) -> Vec<(Interaction, f64)> {
    let number = |interaction: Interaction| {
        Interaction::ALL.iter().position(|&other| other == interaction).expect("ALL has all")
    };
    let mut shares = vec![0.0; Interaction::ALL.len()];
    shares[number(Home)] = 1.0;
    // A lazy chain (half of each step stays) converges even if the chain is periodic.
    for _ in 0..5000 {
        let mut next: Vec<f64> = shares.iter().map(|share| share / 2.0).collect();
        for &from in Interaction::ALL {
            let weights = mix.after(from);
            let sum: u32 = weights.iter().map(|&(_, weight)| weight).sum();
            for &(to, weight) in weights {
                let part = f64::from(weight) / f64::from(sum) / 2.0;
                next[number(to.unwrap_or(Home))] += shares[number(from)] * part;
            }
        }
        shares = next;
    }
    Interaction::ALL.iter().copied().zip(shares).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writing(mix: Mix) -> f64 {
        stationary(mix).iter().filter(|(interaction, _)| interaction.writes()).map(|(_, share)| share).sum()
    }

    #[test]
    fn browsing_writes_nothing_and_bidding_as_much_as_said() {
        assert_eq!(writing(Mix::Browsing), 0.0);
        let writes = writing(Mix::Bidding);
        assert!((0.14..=0.16).contains(&writes), "{writes}");
    }

    #[test]
    fn every_interaction_of_a_mix_is_reached() {
        let reached = |mix| stationary(mix).iter().filter(|&&(_, share)| share > 1e-4).count();
        assert_eq!(reached(Mix::Browsing), 10);
        assert_eq!(reached(Mix::Bidding), 27);
    }
}
