//! The modes of OO1: names, descriptions, requirements.

/// Which of the three the ratios are to, or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// C pointers in memory: the lower limit.
    Plain,
    /// Page-fault-time swizzling.
    Texas,
    /// Objects by their ids.
    E,
    /// P3L, by one of its interfaces.
    P3l,
    /// Offsets in a shared mapping.
    Offset,
    /// A store of records.
    Records,
    /// A library of persistent memory.
    Pmem,
    /// A program that is not in the table.
    Other,
}

/// A mode that this repository has a program for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Its name: the program is `oo1-NAME`.
    pub name: &'static str,
    /// Its description.
    pub title: &'static str,
    /// Its family.
    pub family: Family,
    /// Its program's requirements that may be missing.
    pub needs: &'static str,
}

const NOTHING: &str = "it needs nothing but a C compiler: build/oo1 is not up to date";
const CLANG: &str = "clang was not found when the programs were built";
const STORE: &str = "the libraries of persist/ were not found when the programs were built";
const STORE_CLANG: &str = "clang, or the libraries of persist/, were not found when the programs were built";

/// All of them, in the order of tables.
pub const MODES: [Mode; 17] = [
    mode("plain", "C pointers in memory, gcc", Family::Plain, NOTHING),
    mode("plain-clang", "C pointers in memory, clang", Family::Plain, CLANG),
    mode("plain-inline", "C pointers, recursion inlined, gcc", Family::Plain, NOTHING),
    mode(
        "p3l-plugin",
        "P3L, compiler plugin, clang",
        Family::P3l,
        "clang's plugin was not built (clang, llvm-dev)",
    ),
    mode("p3l-pptr-gcc", "P3L, pptr<T>, g++", Family::P3l, STORE),
    mode("p3l-pptr-clang", "P3L, pptr<T>, clang++", Family::P3l, STORE_CLANG),
    mode("p3l-macros", "P3L, C macros, gcc", Family::P3l, STORE),
    mode("texas", "page faults, mprotect, gcc", Family::Texas, NOTHING),
    mode("texas-clang", "page faults, mprotect, clang", Family::Texas, CLANG),
    mode("texas-uffd", "page faults, userfaultfd, gcc", Family::Texas, NOTHING),
    mode("e", "objects by id, gcc", Family::E, NOTHING),
    mode("e-clang", "objects by id, clang", Family::E, CLANG),
    mode("offset", "offsets in a shared mapping, gcc", Family::Offset, NOTHING),
    mode("offset-clang", "offsets in a shared mapping, clang", Family::Offset, CLANG),
    mode(
        "lmdb",
        "LMDB, a record a part",
        Family::Records,
        "liblmdb was not found when the programs were built (liblmdb-dev)",
    ),
    mode(
        "sqlite",
        "SQLite, tables and indexes",
        Family::Records,
        "SQLite was not found when the programs were built (libsqlite3-dev)",
    ),
    mode(
        "pmemobj",
        "libpmemobj, PMEMoid",
        Family::Pmem,
        "libpmemobj was not found when the programs were built (libpmemobj-dev)",
    ),
];

const fn mode(name: &'static str, title: &'static str, family: Family, needs: &'static str) -> Mode {
    Mode { name, title, family, needs }
}

/// A mode by its name.
pub fn find(name: &str) -> Option<&'static Mode> {
    MODES.iter().find(|mode| mode.name == name)
}

/// The family of a mode, by its name; variants of a mode (`texas-clang`) belong to its family.
pub fn family(name: &str) -> Family {
    find(name).map_or(Family::Other, |mode| mode.family)
}

/// All names, for messages.
pub(crate) fn names() -> String {
    MODES.map(|mode| mode.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        for (at, mode) in MODES.iter().enumerate() {
            assert!(MODES[..at].iter().all(|other| other.name != mode.name), "{}", mode.name);
            assert_eq!(find(mode.name), Some(mode));
        }
        assert_eq!(family("texas-uffd"), Family::Texas);
        assert_eq!(family("liar"), Family::Other);
    }
}
