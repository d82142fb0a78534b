//! The object at an address, before times and numbers of texts are added.

use crate::process_memory::{Mapping, ProcessMemory};
use hardmeter_samples::model::{ByteCount, Pid, VirtualAddress};
use std::borrow::Cow;

/// A range of memory and its names, from general to particular (see [`ObjectPath`]).
///
/// [`ObjectPath`]: hardmeter_samples::object_notes::ObjectPath
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// First address for which the names hold.
    pub start: VirtualAddress,
    /// Its length in bytes.
    pub length: ByteCount,
    /// The beginning of the whole object.
    pub origin: VirtualAddress,
    /// The class of the object.
    pub class: Cow<'static, str>,
    /// The name of the object.
    pub name: Cow<'static, str>,
    /// The instance among several of that name.
    pub instance: Cow<'static, str>,
    /// The part of the object.
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

    /// Only a part of it: `length` bytes at `start`; the origin is unchanged.
    pub fn part(self, part: impl Into<Cow<'static, str>>, start: VirtualAddress, length: u64) -> Found {
        Found { part: part.into(), start, length: ByteCount(length), ..self }
    }
}

/// Identifies private memory of server processes: memory contexts and their allocations.
pub(crate) trait PrivateObjects: Send {
    /// A new check begins: remembered data of a process may have changed.
    fn begin_look(&mut self);

    /// The object at an address of a process, in writable memory that belongs to no file and is not a stack.
    fn find(&mut self, process: &ProcessMemory, mapping: &Mapping, address: VirtualAddress) -> Option<Found>;

    /// True if a later check may find more: the process was read before this memory was allocated.
    fn is_provisional(&self, found: &Found) -> bool;

    /// The remembered object at an address of a process whose memory can no longer be read.
    fn remembered(&self, pid: Pid, address: VirtualAddress) -> Option<Found>;

    /// A process has ended.
    fn forget(&mut self, process: &ProcessMemory);
}
