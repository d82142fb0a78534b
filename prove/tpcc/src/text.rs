//! The specification's texts: random strings (clause 4.3.2.2), last names (4.3.2.3), ORIGINAL (4.3.3.1).

use crate::random::Stream;
use std::ops::RangeInclusive;

/// Letters, digits and two signs: 64 characters, so that six random bits select one.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// A tenth of the items and of the stock have this word in their data.
pub const ORIGINAL: &str = "ORIGINAL";

/// Appends an a-string: random length within a range; letters, digits and signs.
pub fn a_string(stream: &mut Stream, length: RangeInclusive<u32>, text: &mut Vec<u8>) {
    let length = stream.uniform(length) as usize;
    let end = text.len() + length;
    while text.len() < end {
        // Ten characters of each 64 bits: half of the population is such text.
        let mut bits = stream.bits();
        for _ in 0..10.min(end - text.len()) {
            text.push(ALPHABET[(bits & 63) as usize]);
            bits >>= 6;
        }
    }
}

/// Appends an n-string of a fixed length: digits.
pub fn n_string(stream: &mut Stream, length: usize, text: &mut Vec<u8>) {
    for _ in 0..length {
        text.push(b'0' + stream.uniform(0..=9) as u8);
    }
}

/// Appends letters only: states.
pub fn letters(stream: &mut Stream, length: usize, text: &mut Vec<u8>) {
    for _ in 0..length {
        text.push(ALPHABET[stream.uniform(0..=25) as usize]);
    }
}

/// Appends a zip code: four random digits and 11111 (clause 4.3.2.7).
pub fn zip(stream: &mut Stream, text: &mut Vec<u8>) {
    n_string(stream, 4, text);
    text.extend_from_slice(b"11111");
}

/// Appends I_DATA or S_DATA: an a-string of 26 to 50, with ORIGINAL at a random place if requested.
pub fn data(stream: &mut Stream, original: bool, text: &mut Vec<u8>) {
    let begin = text.len();
    a_string(stream, 26..=50, text);
    if original {
        let last = (text.len() - begin - ORIGINAL.len()) as u32;
        let at = begin + stream.uniform(0..=last) as usize;
        text[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL.as_bytes());
    }
}

/// The last name of a number from 0 to 999.
pub fn last_name(number: u32) -> String {
    [number / 100 % 10, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Part;

    #[test]
    fn names_are_those_of_the_specification() {
        // Clause 4.3.2.3's own example: 371 is PRICALLYOUGHT, 40 is BARPRESBAR.
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(0), "BARBARBAR");
        // The longest fits into C_LAST varchar(16).
        assert_eq!((0..1000).map(|number| last_name(number).len()).max(), Some(15));
    }

    #[test]
    fn strings_have_their_lengths_and_characters() {
        let mut stream = Stream::of(1, Part::Customer, 1);
        let mut lengths = [0; 18];
        for _ in 0..1000 {
            let mut text = vec![];
            a_string(&mut stream, 8..=16, &mut text);
            lengths[text.len()] += 1;
            assert!(text.iter().all(|character| ALPHABET.contains(character)));
        }
        assert!(
            lengths[..8].iter().all(|&count| count == 0) && lengths[8..17].iter().all(|&count| count > 0)
        );
        let mut text = vec![];
        zip(&mut stream, &mut text);
        assert!(text.len() == 9 && text.ends_with(b"11111") && text.iter().all(u8::is_ascii_digit));
    }

    #[test]
    fn original_is_within_the_data() {
        let mut stream = Stream::of(2, Part::Item, 0);
        for original in [true, false] {
            for _ in 0..200 {
                let mut text = b"before".to_vec();
                data(&mut stream, original, &mut text);
                let data = std::str::from_utf8(&text[6..]).unwrap();
                assert!((26..=50).contains(&data.len()));
                assert_eq!(data.contains(ORIGINAL), original);
            }
        }
    }
}
