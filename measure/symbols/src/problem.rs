//! Problems while resolving names, each reported once with a remedy.

use std::collections::HashSet;
use std::fmt;

/// The kinds of problems while resolving names. None of them prevents a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// The program or library is missing on this machine, or unreadable.
    ImageUnreadable,
    /// The file on disk is of another build than the one that ran.
    OtherBuild,
    /// The file was replaced or removed while the process ran.
    ImageDeleted,
    /// The file is there but is not an intact ELF file.
    ImageMalformed,
    /// Only exported names: static functions have none.
    NoStaticNames,
    /// No line information: no source lines or inline frames.
    NoLines,
    /// No type information: fields of structs have no names.
    NoTypes,
    /// The kernel hides its addresses, or has been replaced.
    KernelNames,
    /// The map file of a just-in-time compiler is missing or malformed.
    JitMap,
    /// A source file is not on this machine.
    SourceMissing,
    /// The capture holds samples of virtual machines, which are not attributed.
    Guest,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The kind.
    pub kind: ProblemKind,
    /// The affected file or process.
    pub subject: String,
    /// The cause in one sentence.
    pub cause: String,
    /// What the user can do.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.cause)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

/// The problems so far without duplicates, in order of occurrence.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    list: Vec<Problem>,
    known: HashSet<(ProblemKind, String)>,
}

impl Problems {
    /// Records a problem, unless one of its kind is recorded for this subject.
    pub fn note(&mut self, kind: ProblemKind, subject: &str, cause: impl fmt::Display, remedy: &str) {
        if self.known.insert((kind, subject.to_owned())) {
            self.list.push(Problem {
                kind,
                subject: subject.to_owned(),
                cause: cause.to_string(),
                remedy: remedy.to_owned(),
            });
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }

    /// Number of problems.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no problems.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_said_once_per_subject() {
        let mut problems = Problems::default();
        for _ in 0..3 {
            problems.note(ProblemKind::NoLines, "/bin/a", "no .debug_info", "compile with -g");
        }
        problems.note(ProblemKind::NoLines, "/bin/b", "no .debug_info", "");
        let said: Vec<String> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(said, ["/bin/a: no .debug_info; compile with -g", "/bin/b: no .debug_info"]);
    }
}
