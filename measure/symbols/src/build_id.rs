//! The build id: the linker's hash of one build of a program or library.

use std::fmt;
use std::path::{Path, PathBuf};

/// The contents of a `.note.gnu.build-id` section, usually 20 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// The build id with these bytes; `None` if they are empty or all zero (perf's "unknown").
    pub fn new(bytes: &[u8]) -> Option<BuildId> {
        bytes.iter().any(|byte| *byte != 0).then(|| BuildId(bytes.to_vec()))
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether both name the same build. Older perf pads every id with zeros to 20 bytes.
    pub fn is_same_build(&self, other: &BuildId) -> bool {
        let (short, long) =
            if self.0.len() <= other.0.len() { (&self.0, &other.0) } else { (&other.0, &self.0) };
        long.starts_with(short) && long[short.len()..].iter().all(|byte| *byte == 0)
    }

    /// The path of a file of this build below a `.build-id` directory: `ab/cdef01` + `suffix`.
    pub(crate) fn path_below(&self, directory: &Path, suffix: &str) -> PathBuf {
        let text = self.to_string();
        let (first, rest) = text.split_at(2);
        directory.join(first).join(format!("{rest}{suffix}"))
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_does_not_make_another_build() {
        let short = BuildId::new(&[0xab, 0xcd, 0xef]).expect("not zero");
        let padded = BuildId::new(&[0xab, 0xcd, 0xef, 0, 0]).expect("not zero");
        let other = BuildId::new(&[0xab, 0xcd, 0xef, 0, 1]).expect("not zero");
        assert!(short.is_same_build(&padded) && padded.is_same_build(&short));
        assert!(!short.is_same_build(&other));
        assert_eq!(BuildId::new(&[0; 20]), None);
        assert_eq!(
            short.path_below(Path::new("/usr/lib/debug/.build-id"), ".debug"),
            PathBuf::from("/usr/lib/debug/.build-id/ab/cdef.debug")
        );
    }
}
