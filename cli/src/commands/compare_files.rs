//! The captures that a name stands for: a file, all captures of a folder, or a pattern of file names.

use super::CommandError;
use std::path::{Path, PathBuf};

/// The captures that these names stand for, in the order of their names.
pub(super) fn captures_of(names: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    let mut all = Vec::new();
    for name in names {
        let file = name.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        if name.is_dir() {
            all.extend(matching(name, "*.data")?);
        } else if !name.exists() && file.contains(['*', '?']) {
            let folder = name.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
            all.extend(matching(folder, &file)?);
        } else {
            all.push(name.clone());
        }
    }
    for (number, file) in all.iter().enumerate() {
        if all[..number].contains(file) {
            return Err(CommandError::new(
                format!("{} is named twice on one side", file.display()),
                "name each run once: a run that is counted twice makes the intervals too narrow",
            ));
        }
    }
    Ok(all)
}

/// The files of a folder whose names match a pattern; the files beside captures are left out.
fn matching(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, CommandError> {
    let unreadable = |error: std::io::Error| {
        CommandError::new(
            format!("cannot read the folder {}: {error}", folder.display()),
            "check its name and your rights",
        )
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let beside =
            [".json", ".objects", ".partial", ".lock", ".html"].iter().any(|end| name.ends_with(end));
        if !beside && fits(&name, pattern) && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(CommandError::new(
            format!("no capture in {} is named {pattern}", folder.display()),
            "name the captures themselves: --a FILE... --b FILE...",
        ));
    }
    Ok(files)
}

/// Whether a name fits a pattern, in which `*` is any text and `?` any character.
fn fits(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) = (name.chars().collect(), pattern.chars().collect());
    // Where the last star stands, and how much of the name it covers.
    let (mut at, mut in_pattern) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        if pattern.get(in_pattern) == Some(&'*') {
            star = Some((in_pattern, at));
            in_pattern += 1;
        } else if pattern.get(in_pattern).is_some_and(|wanted| *wanted == '?' || *wanted == name[at]) {
            (at, in_pattern) = (at + 1, in_pattern + 1);
        } else if let Some((position, covered)) = star {
            star = Some((position, covered + 1));
            (at, in_pattern) = (covered + 1, position + 1);
        } else {
            return false;
        }
    }
    pattern[in_pattern..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_by_hand() {
        for (name, pattern) in
            [("a.data", "*.data"), ("run-12.data", "run-??.data"), ("abcabd", "*abd"), ("x", "*"), ("", "*")]
        {
            assert!(fits(name, pattern), "{name} {pattern}");
        }
        for (name, pattern) in
            [("a.data.json", "*.data"), ("run-1.data", "run-??.data"), ("abc", "ab"), ("", "?")]
        {
            assert!(!fits(name, pattern), "{name} {pattern}");
        }
    }

    #[test]
    fn folders_and_patterns_stand_for_the_captures_in_them() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.data", "a.data", "a.data.json", "a.data.objects", "old.data", "notes.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let names = |given: &Path| -> Vec<String> {
            let found = captures_of(&[given.to_path_buf()]).unwrap();
            found.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(folder.path()), ["a.data", "b.data", "old.data"]);
        assert_eq!(names(&folder.path().join("?.data")), ["a.data", "b.data"]);
        assert_eq!(
            names(&folder.path().join("absent.data")),
            ["absent.data"],
            "what is wrong with it is said later"
        );
        assert!(captures_of(&[folder.path().join("z*")]).is_err());
        let twice = [folder.path().join("a.data"), folder.path().to_path_buf()];
        assert!(captures_of(&twice).unwrap_err().to_string().contains("named twice"));
    }
}
