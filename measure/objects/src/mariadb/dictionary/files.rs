//! The tablespace of each file: its number is in the file's first page, the path contains the table's name.

use super::super::page::{PageId, HEADER};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Limit of examined files.
const MOST: usize = 200_000;

/// `bench/sbtest1` in SQL's form: `bench.sbtest1`. Characters other than letters and digits are `@` and four
/// hexadecimal digits.
pub(in super::super) fn readable(path: &str) -> String {
    let mut name = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('@') {
        name.push_str(before);
        let code =
            after.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
        match code {
            Some(character) => {
                name.push(character);
                rest = &after[4..];
            }
            None => {
                name.push('@');
                rest = after;
            }
        }
    }
    name.push_str(rest);
    name.replacen('/', ".", 1)
}

/// The tablespace in a file.
fn space_of(path: &Path) -> Option<u32> {
    let mut head = [0; HEADER];
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    PageId::of(&head).filter(|id| id.number == 0).map(|id| id.space)
}

/// The names of all tablespaces with a separate file, by their numbers.
pub(super) fn spaces(data: &Path) -> HashMap<u32, String> {
    let mut found = HashMap::new();
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries(data).take(MOST) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("undo") && path.is_file() {
            found.extend(space_of(&path).map(|space| (space, name)));
            continue;
        }
        if !path.is_dir() {
            continue;
        }
        for file in entries(&path).take(MOST) {
            let file = file.path();
            if file.extension().is_none_or(|extension| extension != "ibd") || found.len() >= MOST {
                continue;
            }
            let table = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.extend(space_of(&file).map(|space| (space, readable(&format!("{name}/{table}")))));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_sql() {
        assert_eq!(readable("bench/sbtest1"), "bench.sbtest1");
        assert_eq!(readable("my@002ddb/t@0024x#P#p0"), "my-db.t$x#P#p0");
        assert_eq!(readable("db/a@zz"), "db.a@zz");
        assert_eq!(readable("db/a@"), "db.a@");
    }

    #[test]
    fn the_first_page_names_the_tablespace() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("bench")).expect("made");
        let mut page = vec![0u8; 16384];
        page[34..38].copy_from_slice(&9u32.to_be_bytes());
        fs::write(folder.path().join("bench/t.ibd"), &page).expect("written");
        fs::write(folder.path().join("bench/short.ibd"), b"x").expect("written");
        fs::write(folder.path().join("bench/t.frm"), &page).expect("written");
        assert_eq!(spaces(folder.path()), HashMap::from([(9, "bench.t".to_string())]));
    }
}
