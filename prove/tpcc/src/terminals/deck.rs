//! Selects the next transaction from decks of cards, dealt without replacement (clause 5.2.4.2's second technique).

use crate::random::Stream;
use crate::work::Kind;

/// Cards of a deck by [`Kind`]: 43.5 % are payments, 4.3 % each of the last three, so that whole decks meet clause
/// 5.2.3's minimum mix independent of chance. New-Orders are 10 of 23, not the 45 % needed for 12.86 per minute and
/// warehouse: see [`super::pause`].
pub const DECK: [u32; 5] = [10, 10, 1, 1, 1];

/// The remaining cards of a terminal's deck, in two bytes. Dealing a random one of the remaining cards equals
/// dealing from a shuffled deck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deck(u16);

/// The first bit of each kind's count. New-Orders and payments have four bits, the others one.
const FIRST_BIT: [u32; 5] = [0, 4, 8, 9, 10];
const FULL: u16 = 10 | 10 << 4 | 1 << 8 | 1 << 9 | 1 << 10;

impl Deck {
    /// All cards.
    pub fn full() -> Deck {
        Deck(FULL)
    }

    fn left(self, kind: Kind) -> u32 {
        let mask = if DECK[kind.index()] == 1 { 1 } else { 15 };
        u32::from(self.0 >> FIRST_BIT[kind.index()] & mask)
    }

    /// Deals a card; an empty deck is replaced by a full one first.
    pub fn deal(&mut self, stream: &mut Stream) -> Kind {
        if self.0 == 0 {
            *self = Deck::full();
        }
        let all: u32 = Kind::ALL.iter().map(|&kind| self.left(kind)).sum();
        let mut card = stream.uniform(0..=all - 1);
        let kind = Kind::ALL.into_iter().find(|&kind| {
            let left = self.left(kind);
            let found = card < left;
            card = card.saturating_sub(left);
            found
        });
        let kind = kind.expect("the card is one of those that are left");
        self.0 -= 1 << FIRST_BIT[kind.index()];
        kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Part;

    #[test]
    fn each_deck_has_its_cards_and_is_in_another_order() {
        let mut stream = Stream::of(1, Part::Item, 0);
        let mut deck = Deck::full();
        let mut orders = Vec::new();
        for _ in 0..1000 {
            let dealt: Vec<Kind> = (0..23).map(|_| deck.deal(&mut stream)).collect();
            for kind in Kind::ALL {
                let count = dealt.iter().filter(|&&card| card == kind).count();
                assert_eq!(count as u32, DECK[kind.index()]);
            }
            orders.push(dealt);
        }
        orders.sort();
        orders.dedup();
        // There are 23! / (10! 10!) = 1.96e9 orders: two of a thousand decks are equal with p = 0.0003.
        assert_eq!(orders.len(), 1000);
    }

    #[test]
    fn every_place_of_a_deck_is_as_likely_for_a_card() {
        let mut stream = Stream::of(2, Part::Item, 0);
        let mut places = [0u32; 23];
        let mut deck = Deck::full();
        for _ in 0..23_000 {
            for place in &mut places {
                *place += u32::from(deck.deal(&mut stream) == Kind::Delivery);
            }
        }
        // Chi-square with 22 degrees of freedom: 48.3 is p = 0.001.
        let chi: f64 = places.iter().map(|&count| (f64::from(count) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 48.3, "{places:?}");
    }
}
