//! Names of lightweight locks: each lock contains its kind, and the main array has a fixed order.

use crate::found::Found;
use crate::postgres::attach::Server;
use hardmeter_samples::model::VirtualAddress;
use std::collections::HashMap;
use std::ops::Range;

/// The locks of the main array, with the names given by extensions.
#[derive(Clone, Debug)]
pub(crate) struct Locks {
    base: VirtualAddress,
    count: u32,
    /// Kinds that extensions registered.
    named: HashMap<u32, String>,
}

/// Limit of extensions' kinds of locks.
const MOST_KINDS: u32 = 1024;
/// Limit of a name.
const LONGEST: usize = 64;

impl Locks {
    /// Reads them from a server.
    pub fn read(server: &Server) -> Locks {
        let (memory, program, layout) = (&server.memory, &server.program, &server.layout);
        let mut locks = Locks { base: server.locks, count: layout.fixed_locks, named: HashMap::new() };
        let word = |name: &str| program.address(name).and_then(|at| memory.u32(at).ok());
        let kinds = word("NamedLWLockTrancheRequests").unwrap_or(0).min(MOST_KINDS);
        let array = program.address("NamedLWLockTrancheArray").and_then(|at| memory.pointer(at).ok());
        let shape = layout.structure("NamedLWLockTranche").ok();
        let (Some(array), Some(shape)) = (array, shape) else { return locks };
        let (Some(number_at), Some(name_at)) = (shape.field("trancheId"), shape.field("trancheName")) else {
            return locks;
        };
        for kind in 0..u64::from(kinds) {
            let entry = array.0 + kind * shape.size;
            let number = memory.u32(VirtualAddress(entry + number_at.offset));
            let name = memory
                .pointer(VirtualAddress(entry + name_at.offset))
                .and_then(|at| memory.text(at, LONGEST));
            if let (Ok(number), Ok(name)) = (number, name) {
                locks.named.insert(number, name);
            }
        }
        // Extensions' locks follow the fixed ones; each lock contains its kind.
        const MOST_LOCKS: u32 = 65_536;
        while locks.count < layout.fixed_locks + MOST_LOCKS {
            let at = VirtualAddress(locks.base.0 + u64::from(locks.count) * layout.lock_stride);
            match memory.u16(at) {
                Ok(kind) if locks.named.contains_key(&u32::from(kind)) => locks.count += 1,
                _ => break,
            }
        }
        locks
    }

    /// The range of the locks of the main array.
    pub fn range(&self, server: &Server) -> Range<VirtualAddress> {
        self.base..VirtualAddress(self.base.0 + u64::from(self.count) * server.layout.lock_stride)
    }

    /// The name of a kind of lock.
    pub fn kind(&self, server: &Server, number: u32) -> String {
        let known = server.layout.tranche(number).or(self.named.get(&number).map(String::as_str));
        known.map_or_else(|| format!("tranche {number}"), str::to_string)
    }

    /// The lock of the main array that contains an address.
    pub fn find(&self, server: &Server, address: VirtualAddress) -> Option<Found> {
        let layout = &server.layout;
        let index = u32::try_from(address.0.checked_sub(self.base.0)? / layout.lock_stride).ok()?;
        if index >= self.count {
            return None;
        }
        let start = VirtualAddress(self.base.0 + u64::from(index) * layout.lock_stride);
        let (name, instance) = match index.checked_sub(layout.individual_locks) {
            None => (layout.tranche(index).unwrap_or("unused").to_string(), String::new()),
            Some(partition) => {
                let kind = u32::from(server.memory.u16(start).ok()?);
                let (buffers, managers) = (layout.buffer_partitions, layout.lock_partitions);
                let number = match partition {
                    _ if partition < buffers => partition,
                    _ if partition < buffers + managers => partition - buffers,
                    _ if index < layout.fixed_locks => partition - buffers - managers,
                    _ => index - layout.fixed_locks,
                };
                (self.kind(server, kind), number.to_string())
            }
        };
        let whole = Found::new("lightweight lock", start, layout.lock_stride).named(name).instance(instance);
        Some(field_part(server, whole, "LWLock", address, None))
    }
}

/// The field of a structure that contains an address, as a part of it: "field state". If the field is a lock,
/// with that lock's field: "field content_lock.state".
pub(crate) fn field_part(
    server: &Server,
    whole: Found,
    structure: &str,
    address: VirtualAddress,
    lock: Option<&str>,
) -> Found {
    let offset = address.0 - whole.origin.0;
    let Ok(shape) = server.layout.structure(structure) else { return whole };
    let Some(field) = shape.field_at(offset) else {
        // Padding up to the next field, or up to the next entry of the array.
        let before =
            shape.fields.iter().map(|field| field.offset + field.size).filter(|end| *end <= offset).max();
        let after = shape.fields.iter().map(|field| field.offset).filter(|start| *start > offset).min();
        let (start, end) = (before.unwrap_or(0), after.unwrap_or(whole.length.0.max(offset + 1)));
        let at = VirtualAddress(whole.origin.0 + start);
        return whole.part("padding", at, end - start);
    };
    let inner = server.layout.structure("LWLock").ok().filter(|_| lock == Some(field.name.as_str()));
    if let Some(inner) = inner.and_then(|lock| lock.field_at(offset - field.offset)) {
        let at = VirtualAddress(whole.origin.0 + field.offset + inner.offset);
        return whole.part(format!("field {}.{}", field.name, inner.name), at, inner.size);
    }
    let at = VirtualAddress(whole.origin.0 + field.offset);
    whole.part(format!("field {}", field.name), at, field.size)
}
