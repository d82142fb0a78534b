//! Lines of source files, for a disassembly with source.

use crate::problem::{ProblemKind, Problems};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where to find source files, which are rarely at the compiler's paths.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// Directories with a copy of the source tree: `/build/postgresql-15/src/backend/a.c` is searched there as
    /// `src/backend/a.c`, with the longest suffix of the path that exists.
    pub roots: Vec<PathBuf>,
    /// Path prefixes and their replacements, tried first: `/build/pg15` becomes `/home/me/pg`.
    pub prefixes: Vec<(PathBuf, PathBuf)>,
}

/// Source files, each read once.
#[derive(Debug, Default)]
pub struct SourceFiles {
    options: SourceOptions,
    files: HashMap<String, Option<SourceFile>>,
}

#[derive(Debug)]
struct SourceFile {
    text: String,
    /// Offset of each line, and the end of the text.
    starts: Vec<usize>,
}

/// Maximum size of a source file.
const LARGEST: u64 = 64 << 20;

impl SourceFiles {
    /// An empty cache.
    pub fn new(options: SourceOptions) -> SourceFiles {
        SourceFiles { options, files: HashMap::new() }
    }

    /// A line of a file, from 1, without its newline. `None` if the file is missing, which is reported once, or has
    /// no such line.
    pub fn line(&mut self, path: &str, line: u32, problems: &mut Problems) -> Option<&str> {
        if !self.files.contains_key(path) {
            let file = self.read(path, problems);
            self.files.insert(path.to_owned(), file);
        }
        self.files[path].as_ref()?.line(line)
    }

    fn read(&self, path: &str, problems: &mut Problems) -> Option<SourceFile> {
        const REMEDY: &str = "name a directory that holds the source with --source-root";
        let Some(found) = self.candidates(Path::new(path)).find(|candidate| candidate.is_file()) else {
            problems.note(ProblemKind::SourceMissing, path, "is not on this machine", REMEDY);
            return None;
        };
        let read = std::fs::metadata(&found).and_then(|metadata| {
            if metadata.len() > LARGEST {
                return Err(std::io::Error::other("too large for a source file"));
            }
            std::fs::read(&found)
        });
        match read {
            Ok(bytes) => Some(SourceFile::new(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) => {
                let cause = format!("cannot be read from {}: {error}", found.display());
                problems.note(ProblemKind::SourceMissing, path, cause, REMEDY);
                None
            }
        }
    }

    /// Replaced prefixes, then endings below each root, then the path itself.
    fn candidates<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
        let replaced = self.options.prefixes.iter().filter_map(move |(from, to)| {
            let rest = path.strip_prefix(from).ok()?;
            Some(to.join(rest))
        });
        let below_roots = self.options.roots.iter().flat_map(move |root| {
            let mut parts: Vec<_> = path.components().filter(|part| is_plain(*part)).collect();
            parts.reverse();
            (0..parts.len()).rev().map(move |last| {
                let ending = parts[..=last].iter().rev();
                ending.fold(root.clone(), |path, part| path.join(part))
            })
        });
        replaced.chain(below_roots).chain([path.to_owned()])
    }
}

fn is_plain(part: std::path::Component<'_>) -> bool {
    matches!(part, std::path::Component::Normal(_))
}

impl SourceFile {
    fn new(text: String) -> SourceFile {
        let newlines = text.match_indices('\n').map(|(position, _)| position + 1);
        let starts = std::iter::once(0).chain(newlines).collect();
        SourceFile { text, starts }
    }

    fn line(&self, line: u32) -> Option<&str> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        // The empty rest after the last newline is not a line.
        (start < self.text.len()).then(|| self.text[start..end].trim_end_matches(['\n', '\r']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_below_a_root_and_by_prefix() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("copy");
        std::fs::create_dir_all(root.join("src/backend")).expect("made");
        std::fs::write(root.join("src/backend/a.c"), "int x;\r\n\nint y;\n").expect("written");
        let compiled = "/build/postgresql-15-XyZ/src/backend/a.c";

        let mut problems = Problems::default();
        let mut by_root = SourceFiles::new(SourceOptions { roots: vec![root.clone()], prefixes: vec![] });
        let lines: Vec<_> =
            (0..5).map(|line| by_root.line(compiled, line, &mut problems).map(str::to_owned)).collect();
        assert_eq!(lines, [None, Some("int x;".into()), Some("".into()), Some("int y;".into()), None]);

        let prefixes = vec![(PathBuf::from("/build/postgresql-15-XyZ"), root)];
        let mut by_prefix = SourceFiles::new(SourceOptions { roots: vec![], prefixes });
        assert_eq!(by_prefix.line(compiled, 3, &mut problems), Some("int y;"));
        assert!(problems.is_empty());
    }

    #[test]
    fn a_missing_file_is_stated_once() {
        let mut problems = Problems::default();
        let mut files = SourceFiles::default();
        for line in 1..9 {
            assert_eq!(files.line("/build/nowhere/a.c", line, &mut problems), None);
        }
        assert_eq!(problems.len(), 1);
        let said = problems.iter().next().expect("one").to_string();
        assert!(said.starts_with("/build/nowhere/a.c: is not on this machine; "), "{said}");
    }
}
