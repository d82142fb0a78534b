//! What went wrong on the way to a name, said once, with what the user can do about it.

use std::collections::HashSet;
use std::fmt;

/// The kinds of problems that attribution meets. None of them stops a report; each makes it poorer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// The program or library is not on this machine, or cannot be read.
    ImageUnreadable,
    /// The file on disk is of another build than the one that ran: its names would be wrong.
    OtherBuild,
    /// The file was replaced or removed while the process ran.
    ImageDeleted,
    /// The file is there but is not an intact ELF file.
    ImageMalformed,
    /// No symbol table beyond the exported names: static functions stay unnamed.
    NoStaticNames,
    /// No line information: no source lines, no inline frames.
    NoLines,
    /// No types: fields of structs have no names.
    NoTypes,
    /// The kernel hides its addresses, or another kernel runs now.
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
    /// What kind.
    pub kind: ProblemKind,
    /// What it is about: a file, a process.
    pub subject: String,
    /// What happened and why, one sentence.
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

/// The problems met so far, in the order of their first appearance, each once.
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

    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether everything went well.
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
