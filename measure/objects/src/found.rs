//! What one address was found to be, before times and numbers of texts are put to it.

use crate::process_memory::{Mapping, ProcessMemory};
use hardmeter_samples::model::{ByteCount, Pid, VirtualAddress};
use std::borrow::Cow;

/// A stretch of memory and its names, from general to particular (see [`ObjectPath`]).
///
/// [`ObjectPath`]: hardmeter_samples::object_notes::ObjectPath
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// First address for which the names hold.
    pub start: VirtualAddress,
    /// Bytes.
    pub length: ByteCount,
    /// Where the whole object begins that this is a part of.
    pub origin: VirtualAddress,
    /// What kind of thing.
    pub class: Cow<'static, str>,
    /// Which one.
    pub name: Cow<'static, str>,
    /// Which of several of that name.
    pub instance: Cow<'static, str>,
    /// Which part of it.
    pub part: Cow<'static, str>,
}

impl Found {
    /// A whole object of a class, without further names.
    pub fn new(class: impl Into<Cow<'static, str>>, start: VirtualAddress, length: u64) -> Found {
        let none = Cow::Borrowed("");
        Found {
            start,
            length: ByteCount(length),
            origin: start,
            class: class.into(),
            name: none.clone(),
            instance: none.clone(),
            part: none,
        }
    }

    /// With a name.
    pub fn named(self, name: impl Into<Cow<'static, str>>) -> Found {
        Found { name: name.into(), ..self }
    }

    /// With an instance.
    pub fn instance(self, instance: impl Into<Cow<'static, str>>) -> Found {
        Found { instance: instance.into(), ..self }
    }

    /// Only a part of it: `length` bytes at `start`; the origin stays.
    pub fn part(self, part: impl Into<Cow<'static, str>>, start: VirtualAddress, length: u64) -> Found {
        Found { part: part.into(), start, length: ByteCount(length), ..self }
    }
}

/// Knows what lies in the private memory of server processes: memory contexts and what was allocated in them.
pub(crate) trait PrivateObjects: Send {
    /// A new look begins: what was remembered of a process may have changed.
    fn begin_look(&mut self);

    /// What lies at an address of a process, in writable memory that belongs to no file and is no stack.
    fn find(&mut self, process: &ProcessMemory, mapping: &Mapping, address: VirtualAddress) -> Option<Found>;

    /// Whether a later look may tell more: the process was looked at before its memory came to be.
    fn is_provisional(&self, found: &Found) -> bool;

    /// What is remembered of an address, of a process whose memory can no longer be read.
    fn remembered(&self, pid: Pid, address: VirtualAddress) -> Option<Found>;

    /// A process has ended.
    fn forget(&mut self, process: &ProcessMemory);
}
