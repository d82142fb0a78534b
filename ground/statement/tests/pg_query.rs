//! PostgreSQL's own parser as oracle: libpg_query's fingerprint of the parse tree.
//!
//! * A statement with other literals, comments, white space and case is the same statement.
//! * Statements with different fingerprints have different StatementIds.
//!
//! The converse of the second does not hold and need not: a column alias or a quoted name changes the text, but not
//! the tree.

use hardmeter_statement::{normalise, Dialect, StatementId};
use pg_query::protobuf::{KeywordKind, ScanToken, Token};
use pg_query::FingerprintOptions;
use std::collections::BTreeMap;

fn id(text: &str) -> StatementId {
    StatementId::of(Dialect::Postgres, text.as_bytes())
}

fn plain(text: &str) -> String {
    String::from_utf8(normalise(Dialect::Postgres, text.as_bytes())).expect("UTF-8")
}

/// With full table names, which the default shortens; `None`: PostgreSQL refuses the text.
fn fingerprint(text: &str) -> Option<u64> {
    let options = FingerprintOptions::FULL_RELNAME
        | FingerprintOptions::RANGEVAR_IGNORE_ALIASES
        | FingerprintOptions::RANGEVAR_INCLUDE_SCHEMA;
    pg_query::fingerprint(text, 0, options).ok().map(|fingerprint| fingerprint.value)
}

fn statements() -> Vec<&'static str> {
    include_str!("statements.sql").lines().filter(|line| !line.starts_with("--")).collect()
}

/// xorshift: the same sequence in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// A token, as PostgreSQL's scanner classifies it.
struct Piece {
    text: String,
    kind: Token,
    is_keyword: bool,
}

fn pieces(text: &str) -> Vec<Piece> {
    let piece = |token: ScanToken| Piece {
        text: text[token.start as usize..token.end as usize].to_owned(),
        kind: token.token(),
        is_keyword: token.keyword_kind() != KeywordKind::NoKeyword,
    };
    let scanned = pg_query::scan(text).expect("statements are well formed");
    scanned.tokens.into_iter().map(piece).collect()
}

/// Other literals of the same kind, other case. Quoted names keep their case.
fn reworded(piece: &Piece, random: &mut Random) -> String {
    let number = random.below(100_000).to_string();
    match piece.kind {
        Token::Iconst => number,
        Token::Fconst => random.one_of(&["0.25", "7.", ".125e+3", "12e5", "3.5E-4"]).to_owned(),
        Token::Sconst | Token::Usconst => match random.below(5) {
            0 => format!("'{number}'"),
            1 => format!("'it''s -- {number} /* '"),
            2 => format!("E'\\'{number}\\\\'"),
            3 => format!("$${number} ' \" $1$$"),
            _ => format!("$a_1$ $${number}$$ $a$ $a_1$"),
        },
        Token::Bconst => random.one_of(&["b'0'", "B'1101'"]).to_owned(),
        Token::Xconst => random.one_of(&["x'0'", "X'ffee'"]).to_owned(),
        _ if piece.text.starts_with(['"', '\'', '$']) => piece.text.clone(),
        _ => {
            let upper = random.below(3);
            let change = |byte: char| match upper {
                0 => byte.to_ascii_uppercase(),
                1 => byte,
                _ if random.below(2) == 0 => byte.to_ascii_uppercase(),
                _ => byte.to_ascii_lowercase(),
            };
            piece.text.chars().map(change).collect()
        }
    }
}

/// A statement as another program might write it.
fn rewritten(text: &str, random: &mut Random) -> String {
    const BLANKS: [&str; 7] = [" ", "\n", "\t ", " /* ' */ ", " -- it's\n", "/* /* \" */ */", "\r\n"];
    let mut written = String::from(random.one_of(&["", " ", "-- first\n", ";", "/* x */"]));
    for piece in pieces(text) {
        // A sign belongs to its literal, not to the token before it.
        written.push_str(&reworded(&piece, random));
        written.push_str(random.one_of(&BLANKS));
    }
    written.push_str(random.one_of(&["", ";", " ; ", "; -- last"]));
    written
}

#[test]
fn literals_comments_white_space_and_case_make_no_difference() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut compared, mut refused) = (0, 0);
    for text in statements() {
        let expected = fingerprint(text).unwrap_or_else(|| panic!("PostgreSQL refuses {text}"));
        for _ in 0..100 {
            let again = rewritten(text, &mut random);
            // `interval` etc. accept only some literals; the fingerprint of DO includes its body.
            if fingerprint(&again) != Some(expected) {
                refused += 1;
                continue;
            }
            assert_eq!(id(&again), id(text), "{text}\n{again}\n{}\n{}", plain(text), plain(&again));
            compared += 1;
        }
    }
    println!("{compared} rewritten statements compared, {refused} left out");
    assert!(compared > 15_000 && refused * 20 < compared, "{compared} {refused}");
}

#[test]
fn what_the_parser_tells_apart_has_another_id() {
    let mut by_id: BTreeMap<StatementId, (&str, u64)> = BTreeMap::new();
    for text in statements() {
        let tree = fingerprint(text).expect("statements are well formed");
        if let Some((other, other_tree)) = by_id.insert(id(text), (text, tree)) {
            assert_eq!(tree, other_tree, "{text} and {other} are {}", plain(text));
        }
    }
    assert!(by_id.len() > 150);
}

/// A table, a column, an operator or a keyword is another one.
#[test]
fn a_changed_name_or_operator_makes_another_statement() {
    const OPERATORS: [&str; 10] = ["=", "<", ">", "<=", ">=", "<>", "+", "-", "||", "~"];
    const KEYWORDS: [(&str, &str); 9] = [
        ("and", "or"),
        ("asc", "desc"),
        ("left", "right"),
        ("union", "except"),
        ("from", "from only"),
        ("select", "select distinct"),
        ("first", "last"),
        ("in", "not in"),
        ("is", "is not"),
    ];
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut compared, mut same) = (0, 0);
    for text in statements() {
        let before = pieces(text);
        for at in 0..before.len() {
            let piece = &before[at];
            let other = match piece.kind {
                Token::Ident if !piece.text.starts_with('"') => {
                    format!("{}_{}", piece.text, random.below(10))
                }
                Token::Ident => format!("\"{}2\"", piece.text.trim_matches('"')),
                _ if piece.is_keyword => match KEYWORDS.iter().find(|(word, _)| *word == piece.text) {
                    Some((_, other)) => (*other).to_owned(),
                    None => continue,
                },
                Token::Ascii61
                | Token::Ascii60
                | Token::Ascii62
                | Token::Ascii43
                | Token::Ascii45
                | Token::NotEquals
                | Token::LessEquals
                | Token::GreaterEquals
                | Token::Op => random.one_of(&OPERATORS).to_owned(),
                _ => continue,
            };
            let words: Vec<&str> = (0..before.len())
                .map(|i| if i == at { other.as_str() } else { before[i].text.as_str() })
                .collect();
            let changed = words.join(" ");
            match fingerprint(&changed) {
                Some(tree) if Some(tree) != fingerprint(text) => {
                    assert_ne!(id(&changed), id(text), "{text}\n{changed}\n{}", plain(text));
                    compared += 1;
                }
                // PostgreSQL refuses it, or it is an alias, which the fingerprint leaves out.
                _ => same += 1,
            }
        }
    }
    println!("{compared} changes that the parser sees, {same} that it does not");
    assert!(compared > 500, "{compared}");
}

#[test]
fn normalised_text_is_normal() {
    for text in statements() {
        let once = plain(text);
        assert_eq!(plain(&once), once, "{text}");
    }
}
