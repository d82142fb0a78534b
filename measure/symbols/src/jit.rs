//! Names of just-in-time compiled code: `/tmp/perf-PID.map`, with `START SIZE NAME` per line, in hexadecimal.

use std::io;
use std::path::Path;

/// The map file of one process.
#[derive(Debug, Default)]
pub(crate) struct JitMap {
    entries: Vec<JitRoutine>,
    /// Lines that are not entries.
    pub(crate) malformed_lines: usize,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JitRoutine {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) name: String,
}

impl JitMap {
    /// Reads a map file.
    pub(crate) fn read(path: &Path) -> io::Result<JitMap> {
        // All users may write to the directory: opening a pipe there must not block.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(JitMap::parse(&String::from_utf8_lossy(&std::fs::read(path)?)))
    }

    fn parse(text: &str) -> JitMap {
        let mut map = JitMap::default();
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let mut number = || {
                let word = words.next()?;
                u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
            };
            match (number(), number(), words.next()) {
                (Some(start), Some(size), Some(name)) if size > 0 && !name.is_empty() => {
                    let end = start.saturating_add(size);
                    map.entries.push(JitRoutine { start, end, name: name.to_owned() });
                }
                _ => map.malformed_lines += 1,
            }
        }
        // Compilers append: if code was replaced, the later line is the current one.
        map.entries.reverse();
        map.entries.sort_by_key(|entry| entry.start);
        map.entries.dedup_by_key(|entry| entry.start);
        for index in 1..map.entries.len() {
            let next = map.entries[index].start;
            map.entries[index - 1].end = map.entries[index - 1].end.min(next);
        }
        map
    }

    /// The routine that covers an address.
    pub(crate) fn find(&self, address: u64) -> Option<&JitRoutine> {
        let position = self.entries.partition_point(|entry| entry.start <= address).checked_sub(1)?;
        Some(&self.entries[position]).filter(|entry| address < entry.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_line_wins_and_bad_lines_are_counted() {
        let text =
            "1000 20 first\n2000 10 LazyCompile:~main file.js:3\n1000 20 second\nnonsense\n0x3000 0 empty\n";
        let map = JitMap::parse(text);
        let name = |address| map.find(address).map(|entry| entry.name.as_str());
        assert_eq!(name(0x101f), Some("second"));
        assert_eq!(name(0x1020), None);
        assert_eq!(name(0x2000), Some("LazyCompile:~main file.js:3"));
        assert_eq!(map.malformed_lines, 2);
    }
}
