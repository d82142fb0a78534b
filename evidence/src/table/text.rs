//! Text of a limited width: cells cut to the width of their column, lines, wrapped paragraphs.

use super::{Cut, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The cells of a column, cut to its width.
pub(super) fn fit(cells: &[String], width: usize, cut: Cut) -> Vec<String> {
    let short: Vec<String> = cells.iter().map(|cell| shorten(cell, width, cut)).collect();
    if cut != Cut::KeepDifference {
        return short;
    }
    let apart = |index: usize| {
        let alike = |other: &usize| short[*other] == short[index] && cells[*other] != cells[index];
        let same =
            |other: usize| cells[index].chars().zip(cells[other].chars()).take_while(|(a, b)| a == b).count();
        (0..cells.len()).filter(alike).map(same).max()
    };
    let fitted = |index: usize| match apart(index) {
        Some(same) => around(&cells[index], width, same),
        None => short[index].clone(),
    };
    (0..cells.len()).map(fitted).collect()
}

/// The beginning of a text, and the part after its first `same` characters, from the start of that word on.
fn around(text: &str, width: usize, same: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    let head = &characters[..(width / 4).min(same)];
    let space = width.saturating_sub(head.len() + 1);
    let word = |at: &usize| !characters[*at - 1].is_alphanumeric() && characters[*at - 1] != '_';
    // A start close enough to the difference that the difference is not cut off.
    let from = (head.len().max(same.saturating_sub(space / 2)) + 1..=same).find(word).unwrap_or(same);
    let tail: String = characters[from.min(characters.len())..].iter().collect();
    let head: String = head.iter().collect();
    format!("{head}…{}", shorten(&tail, space, Cut::KeepHead))
}

/// A text on one line of at most this width; its end is cut off.
pub fn one_line(text: &str, width: usize) -> String {
    shorten(&printable(&text.split_whitespace().collect::<Vec<_>>().join(" ")), width, Cut::KeepHead)
}

/// Names come from untrusted files: control characters in them must not reach the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn shorten(text: &str, width: usize, cut: Cut) -> String {
    if cut == Cut::Never || text.width() <= width {
        return text.to_string();
    }
    let space = width.saturating_sub(1);
    let take = |characters: &mut dyn Iterator<Item = char>| {
        let mut used = 0;
        characters
            .take_while(|c| {
                used += c.width().unwrap_or(0);
                used <= space
            })
            .collect::<Vec<char>>()
    };
    match cut {
        Cut::KeepTail => {
            let kept = take(&mut text.chars().rev());
            std::iter::once('…').chain(kept.into_iter().rev()).collect()
        }
        _ => take(&mut text.chars()).into_iter().chain(std::iter::once('…')).collect(),
    }
}

/// Breaks a paragraph at spaces to fit the width; every line is indented.
pub fn wrap(text: &str, style: Style, indent: usize) -> String {
    let space = style.width.unwrap_or(100).saturating_sub(indent).max(30);
    let mut lines = vec![String::new()];
    let text = printable(text);
    let words = text.split_whitespace().flat_map(|word| match style.width {
        Some(_) => pieces(word, space),
        None => vec![word],
    });
    for word in words {
        let line = lines.last_mut().expect("one line at least");
        if !line.is_empty() && line.width() + 1 + word.width() > space {
            lines.push(word.to_string());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

/// A word, broken if it is wider than a line.
fn pieces(word: &str, space: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while rest.width() > space {
        let mut used = 0;
        let fits = |c: &char| {
            used += c.width().unwrap_or(0);
            used <= space
        };
        let end: usize = rest.chars().take_while(fits).map(char::len_utf8).sum();
        let (piece, left) = rest.split_at(end.max(rest.chars().next().map_or(0, char::len_utf8)));
        pieces.push(piece);
        rest = left;
    }
    pieces.push(rest);
    pieces
}
