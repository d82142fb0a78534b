//! The side file `hardmeter.data.objects`: the objects at the addresses of a profiled program during the recording.
//!
//! The crate that knows a server (`measure/objects`) writes it while recording; `measure/answers` joins samples to
//! them. It contains only names, ranges and times, so that readers are independent of PostgreSQL:
//!
//! ```text
//!   class               name                           instance          part
//!   "index"             "public.pgbench_accounts_pkey" "main block 1"    "line pointers"
//!   "buffer descriptor" "public.pgbench_branches"      "main block 0"    "field state"
//!   "lightweight lock"  "WALInsert"                    "3"               "field state"
//!   "memory context"    "CacheMemoryContext/CatCache"  "catalog pg_proc" ""
//! ```
//!
//! A fact holds for a range of addresses and a span of time. If the memory was reused between two observations, a
//! sample in between is *not stable*: views print the share of such samples.

use crate::model::{ByteCount, Pid, StateId, Tid, Timestamp, VirtualAddress};
use crate::sidecar::{store_whole, SidecarError};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The name of memory of a process that was in use only after the observer's last look at that process.
pub const NOT_IN_TIME: &str = "not looked at in time";

/// Number of a text in [`ObjectNotes::texts`]; texts repeat over up to a hundred thousand facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TextId(pub u32);

/// The name of an object, from general to particular; an empty text if a level does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectPath {
    /// The class: "table", "index", "buffer descriptor", "lightweight lock", "memory context", "stack" ...
    pub class: TextId,
    /// The name: of a relation, a lock, a context.
    pub name: TextId,
    /// The instance, if several objects have the name: a block, a partition, a slot.
    pub instance: TextId,
    /// The part: "line pointers", "column abalance", "field state".
    pub part: TextId,
}

/// State of the server that a fact depends on: the bytes that a [`StateRule`](crate::model::StateRule) reads at a
/// sample. A sample with other bytes under the same id is of another object, whatever its time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StateKey {
    /// The rule.
    pub id: StateId,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A range of addresses belongs to an object for a span of time. Ranges may overlap: the shortest one with a fact
/// that held wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectFact {
    /// The process; `None` for shared memory, mapped at the same address in all processes of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<Pid>,
    /// First address.
    pub start: VirtualAddress,
    /// Bytes.
    pub length: ByteCount,
    /// When it was first and last observed (`CLOCK_MONOTONIC`).
    pub seen: (Timestamp, Timestamp),
    /// The state it depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateKey>,
    /// Its names.
    pub path: ObjectPath,
    /// The start of the whole object that contains this part: the page of a line pointer.
    pub origin: VirtualAddress,
}

/// The role of a process in its server: "client backend", "checkpointer".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRole {
    /// The process.
    pub pid: Pid,
    /// Its role.
    pub role: TextId,
}

/// The role of a thread in a server whose sessions are threads: "client connection", "page cleaner".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRole {
    /// Its process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Its role.
    pub role: TextId,
}

/// The role of a range of code in the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeMarkKind {
    /// An operator of an executed plan: "Seq Scan".
    Operator,
    /// A phase of a transaction: "parse", "plan", "execute", "commit".
    Phase,
}

/// Code whose presence on the call chain identifies the activity of a process. Addresses are in the image's own
/// numbering, as `objdump` prints them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeMark {
    /// The image's path.
    pub image: TextId,
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// The role of the code.
    pub kind: CodeMarkKind,
    /// Its name.
    pub name: TextId,
}

/// The part of a page layout that is the same for all pages of a relation, for drawing one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageKind {
    /// The relation, as in [`ObjectPath::name`].
    pub relation: TextId,
    /// Bytes of a page.
    pub page_size: u32,
    /// The kind of the relation: "table", "btree index" ...
    pub kind: TextId,
}

/// The content of the side file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectNotes {
    /// Version of this format: [`ObjectNotes::VERSION`] when written here.
    pub version: u32,
    /// The observed server: "PostgreSQL 15.18 (process 4711)".
    pub server: String,
    /// Distinct texts; the first is empty.
    pub texts: Vec<String>,
    /// Objects at addresses.
    pub facts: Vec<ObjectFact>,
    /// Roles of processes.
    #[serde(default)]
    pub roles: Vec<ProcessRole>,
    /// Roles of threads, which have precedence.
    #[serde(default)]
    pub thread_roles: Vec<ThreadRole>,
    /// Roles of code.
    #[serde(default)]
    pub marks: Vec<CodeMark>,
    /// Relations with pages.
    #[serde(default)]
    pub pages: Vec<PageKind>,
    /// Information that is missing, and why.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// Larger files were not written by Hardmeter.
const SIZE_LIMIT: u64 = 1 << 30;

impl ObjectNotes {
    /// The version written here.
    pub const VERSION: u32 = 1;

    /// A side file without facts.
    pub fn new(server: impl Into<String>) -> ObjectNotes {
        ObjectNotes {
            version: Self::VERSION,
            server: server.into(),
            texts: vec![String::new()],
            facts: Vec::new(),
            roles: Vec::new(),
            thread_roles: Vec::new(),
            marks: Vec::new(),
            pages: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// A text by its number; empty for an invalid number.
    pub fn text(&self, id: TextId) -> &str {
        self.texts.get(id.0 as usize).map_or("", String::as_str)
    }

    /// The path of the side file: the capture's name with `.objects` appended.
    pub fn path_for(capture: &Path) -> PathBuf {
        let mut name = capture.as_os_str().to_os_string();
        name.push(".objects");
        PathBuf::from(name)
    }

    /// Reads the side file of objects of a capture; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`SidecarError`] if the file exists but cannot be read, is damaged, or has a newer version.
    pub fn load(capture: &Path) -> Result<Option<ObjectNotes>, SidecarError> {
        let path = Self::path_for(capture);
        let mut text = Vec::new();
        match File::open(&path).and_then(|file| file.take(SIZE_LIMIT).read_to_end(&mut text)) {
            Ok(_) => Self::parse(&path, &text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(SidecarError::Io { path, source }),
        }
    }

    fn parse(path: &Path, text: &[u8]) -> Result<ObjectNotes, SidecarError> {
        /// The version is read first: a newer file may have fields of other types.
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let damaged =
            |error: serde_json::Error| SidecarError::Damaged { path: path.into(), reason: error.to_string() };
        let version: Version = serde_json::from_slice(text).map_err(damaged)?;
        if version.version > Self::VERSION.into() {
            let (found, known) = (version.version, Self::VERSION);
            return Err(SidecarError::Newer { path: path.into(), found, known });
        }
        serde_json::from_slice(text).map_err(damaged)
    }

    /// Writes the side file of objects of a capture atomically.
    ///
    /// # Errors
    ///
    /// [`SidecarError::Io`] if the file cannot be written.
    pub fn store(&self, capture: &Path) -> Result<(), SidecarError> {
        let path = Self::path_for(capture);
        store_whole(&path, |file| serde_json::to_writer(file, self))
            .map_err(|source| SidecarError::Io { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_back_and_a_newer_version_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let capture = folder.path().join("hardmeter.data");
        assert!(ObjectNotes::load(&capture).expect("no notes").is_none());
        let mut notes = ObjectNotes::new("PostgreSQL 15.18 (process 4711)");
        notes.texts.extend(["index".to_string(), "public.t_pkey".to_string()]);
        let none = TextId(0);
        notes.facts.push(ObjectFact {
            pid: None,
            start: VirtualAddress(0x7f00_0000_2000),
            length: ByteCount(24),
            seen: (Timestamp(5), Timestamp(9)),
            state: Some(StateKey { id: StateId(1), bytes: vec![1, 2, 3] }),
            path: ObjectPath { class: TextId(1), name: TextId(2), instance: none, part: none },
            origin: VirtualAddress(0x7f00_0000_2000),
        });
        notes.store(&capture).expect("written");
        assert_eq!(ObjectNotes::load(&capture).expect("read"), Some(notes));
        std::fs::write(ObjectNotes::path_for(&capture), r#"{"version": 2, "facts": 7}"#).expect("written");
        let newer = ObjectNotes::load(&capture);
        assert!(matches!(newer, Err(SidecarError::Newer { found: 2, .. })), "{newer:?}");
        std::fs::write(ObjectNotes::path_for(&capture), b"\xff\x00{").expect("written");
        assert!(matches!(ObjectNotes::load(&capture), Err(SidecarError::Damaged { .. })));
    }
}
