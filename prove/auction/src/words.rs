//! Words for names and descriptions.

use crate::random::Stream;

/// The items on sale. The search scenario searches for the adjectives, each of which occurs in about one name of
/// thirty.
pub const THINGS: [&str; 40] = [
    "lamp",
    "bicycle",
    "chair",
    "teapot",
    "camera",
    "violin",
    "atlas",
    "clock",
    "radio",
    "kettle",
    "sledge",
    "mirror",
    "carpet",
    "compass",
    "globe",
    "harmonica",
    "telescope",
    "typewriter",
    "rucksack",
    "barometer",
    "drum",
    "kite",
    "candlestick",
    "tripod",
    "accordion",
    "chessboard",
    "lantern",
    "anvil",
    "wheelbarrow",
    "hammock",
    "sundial",
    "loom",
    "gramophone",
    "easel",
    "sextant",
    "abacus",
    "cauldron",
    "stool",
    "trumpet",
    "puzzle",
];

/// Adjectives.
pub const KINDS: [&str; 32] = [
    "old", "green", "folding", "brass", "wooden", "large", "tiny", "blue", "repaired", "painted", "rare",
    "sturdy", "silent", "Dutch", "portable", "heavy", "striped", "polished", "crooked", "modern", "copper",
    "grey", "light", "handmade", "curious", "elegant", "dusty", "golden", "plain", "Danish", "narrow",
    "round",
];

const PHRASES: [&str; 24] = [
    "It stood in a dry cellar for years",
    "My grandmother swore by it",
    "It works, as far as I can tell",
    "One corner is scratched",
    "The colour is as in the picture",
    "I bought it in a harbour town",
    "It needs a little oil",
    "Nothing is missing that I know of",
    "It comes with its box",
    "To be fetched, or sent for a fee",
    "There are not many left",
    "A friend repaired it last winter",
    "It makes a sound when it is shaken",
    "Children have played with it",
    "It was never used in the rain",
    "The handle is new",
    "It is heavier than it looks",
    "I have no room for it any more",
    "The key is lost, but it opens",
    "It was in a small exhibition once",
    "No pets, no smoke",
    "It belongs to a set of three",
    "Ask before you bid",
    "The price is fair",
];

/// The categories.
pub const CATEGORIES: [&str; 20] = [
    "Antiques",
    "Books",
    "Cameras",
    "Clocks",
    "Clothes",
    "Coins",
    "Computers",
    "Furniture",
    "Garden",
    "Instruments",
    "Jewellery",
    "Kitchen",
    "Maps",
    "Models",
    "Paintings",
    "Radios",
    "Sports",
    "Stamps",
    "Tools",
    "Toys",
];

/// Number of regions, as in RUBiS.
pub const REGIONS: u32 = 62;

const BEGINNINGS: [&str; 8] = ["North", "South", "East", "West", "Upper", "Lower", "New", "Old"];
const PLACES: [&str; 8] = ["harbour", "bridge", "field", "mill", "wood", "ford", "hill", "market"];

/// The name of a region, from 1.
pub fn region(number: u32) -> String {
    let at = number.saturating_sub(1) as usize;
    format!("{}{}", BEGINNINGS[at / 8 % 8], PLACES[at % 8])
}

/// A text of `least` to `most` bytes, of complete sentences except for the last.
pub fn description(stream: &mut Stream, least: u32, most: u32, text: &mut String) {
    let length = text.len() + stream.within(least, most) as usize;
    while text.len() < length {
        text.push_str(stream.one_of(&PHRASES).expect("there are phrases"));
        text.push_str(". ");
    }
    text.truncate(length);
    // A blank at the end would be lost in comparisons.
    if text.ends_with(' ') {
        text.pop();
        text.push('.');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Part;
    use std::collections::HashSet;

    #[test]
    fn regions_have_names_of_their_own_and_descriptions_their_length() {
        let names: HashSet<String> = (1..=REGIONS).map(region).collect();
        assert_eq!(names.len(), REGIONS as usize);
        let mut stream = Stream::of(3, Part::Items);
        for _ in 0..1000 {
            let mut text = String::from("x");
            description(&mut stream, 100, 400, &mut text);
            assert!((101..=401).contains(&text.len()), "{}", text.len());
        }
    }
}
