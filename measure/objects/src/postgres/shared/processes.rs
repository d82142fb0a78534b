//! The array of processes: a slot for each, with its locks and its wait, and the dense arrays with the data
//! of all processes that snapshots need.

use super::locks::field_part;
use crate::found::Found;
use crate::postgres::attach::Server;
use crate::process_memory::{children_of, parent_of, title_of, ProcessMemory};
use hardmeter_samples::model::{Pid, VirtualAddress};
use std::collections::HashMap;
use std::ops::Range;

/// An array with one element for each process.
#[derive(Clone, Copy, Debug)]
struct Mirror {
    name: &'static str,
    base: VirtualAddress,
    stride: u64,
}

/// The places of slots.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    base: VirtualAddress,
    stride: u64,
    count: u64,
    pid_at: u64,
    header_size: u64,
    mirrors: Vec<Mirror>,
}

impl Slots {
    /// Reads them from a server; `None` if its header is invalid.
    pub fn read(server: &Server) -> Option<Slots> {
        let (memory, layout) = (&server.memory, &server.layout);
        let field =
            |name: &str| Some(VirtualAddress(server.processes.0 + layout.offset("PROC_HDR", name).ok()?));
        let pointer = |name: &str| {
            let there = memory.pointer(field(name)?).ok()?;
            server.segment.contains(&there).then_some(there)
        };
        let mirror = |name, stride| Some(Mirror { name, base: pointer(name)?, stride });
        Some(Slots {
            base: pointer("allProcs")?,
            stride: layout.structure("PGPROC").ok()?.size,
            count: u64::from(memory.u32(field("allProcCount")?).ok()?),
            pid_at: layout.offset("PGPROC", "pid").ok()?,
            header_size: layout.structure("PROC_HDR").ok()?.size,
            mirrors: [mirror("xids", 4), mirror("subxidStates", 2), mirror("statusFlags", 1)]
                .into_iter()
                .flatten()
                .collect(),
        })
    }

    /// The ranges of slots, dense arrays and their header.
    pub fn ranges(&self, server: &Server) -> Vec<Range<VirtualAddress>> {
        let range = |start: VirtualAddress, length: u64| start..VirtualAddress(start.0 + length);
        let mirrors = self.mirrors.iter().map(|mirror| range(mirror.base, self.count * mirror.stride));
        mirrors
            .chain([range(self.base, self.count * self.stride), range(server.processes, self.header_size)])
            .collect()
    }

    /// The slot, or the element of a dense array, that contains an address.
    pub fn find(&self, server: &Server, roles: &Roles, address: VirtualAddress) -> Option<Found> {
        let index = |base: VirtualAddress, stride: u64| {
            let index = address.0.checked_sub(base.0)? / stride;
            (index < self.count).then(|| (index, VirtualAddress(base.0 + index * stride)))
        };
        if let Some((slot, start)) = index(self.base, self.stride) {
            let pid = server.memory.u32(VirtualAddress(start.0 + self.pid_at)).unwrap_or(0);
            let (role, instance) = self.owner(roles, slot, pid);
            let whole = Found::new("process slot", start, self.stride).named(role).instance(instance);
            return Some(field_part(server, whole, "PGPROC", address, Some("fpInfoLock")));
        }
        for mirror in &self.mirrors {
            if let Some((slot, start)) = index(mirror.base, mirror.stride) {
                // Neighbours share lines; each element is an instance.
                let whole = Found::new("process array", start, mirror.stride);
                let found =
                    whole.named(format!("ProcGlobal.{}", mirror.name)).instance(format!("element {slot}"));
                return Some(Found { origin: mirror.base, ..found });
            }
        }
        let header = server.processes.0..server.processes.0 + self.header_size;
        header.contains(&address.0).then(|| {
            let whole = Found::new("process header", server.processes, self.header_size).named("ProcGlobal");
            field_part(server, whole, "PROC_HDR", address, None)
        })
    }

    fn owner(&self, roles: &Roles, slot: u64, pid: u32) -> (String, String) {
        match roles.of(Pid(pid as i32)) {
            _ if pid == 0 => ("free".into(), format!("slot {slot}")),
            Some(role) => (role.to_string(), format!("slot {slot}, process {pid}")),
            None => ("process".into(), format!("slot {slot}, process {pid}")),
        }
    }
}

/// The role of each process in the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roles(HashMap<Pid, String>);

/// Limit of remembered processes.
const MOST_ROLES: usize = 1 << 20;

impl Roles {
    /// Finds the present processes.
    pub fn look(&mut self, server: &Server) {
        let first = server.memory.pid();
        self.0.entry(first).or_insert_with(|| "postmaster".to_string());
        for pid in children_of(first) {
            self.learn(server, pid);
        }
    }

    /// Finds the role of one process of the server, unless it is known.
    pub fn learn(&mut self, server: &Server, pid: Pid) {
        // A process that has not set its role yet will do so shortly after its start.
        let unknown = |role: &String| role == UNKNOWN;
        if self.0.len() >= MOST_ROLES || self.0.get(&pid).is_some_and(|role| !unknown(role)) {
            return;
        }
        let said = server.program.address("MyBackendType").and_then(|at| {
            let kind = ProcessMemory::open(pid).ok()?.u32(at).ok()?;
            Some(in_words(server.layout.backend_type(kind)?))
        });
        let role =
            said.flatten().map(str::to_string).or_else(|| title_of(pid).and_then(|title| by_title(&title)));
        self.0.insert(pid, role.unwrap_or_else(|| UNKNOWN.to_string()));
    }

    /// The processes that serve a client now.
    pub fn clients(&self, server: &Server) -> Vec<Pid> {
        let mut children = children_of(server.memory.pid());
        // A process that has ended has no parent any more, though its parent has not reaped it yet.
        children.retain(|pid| self.of(*pid) == Some(CLIENT) && parent_of(*pid).is_some());
        children
    }

    /// The role of a process.
    pub fn of(&self, pid: Pid) -> Option<&str> {
        self.0.get(&pid).map(String::as_str)
    }

    /// All known roles.
    pub fn all(&self) -> impl Iterator<Item = (Pid, &str)> {
        self.0.iter().map(|(pid, role)| (*pid, role.as_str()))
    }
}

const UNKNOWN: &str = "server process";
/// The role of a process that serves a client.
pub(crate) const CLIENT: &str = "client backend";

/// A kind of process in the terms of `pg_stat_activity`; `None` if it has none yet.
fn in_words(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "AUTOVAC_LAUNCHER" => "autovacuum launcher",
        "AUTOVAC_WORKER" => "autovacuum worker",
        "BACKEND" => CLIENT,
        "DEAD_END_BACKEND" => "dead-end client backend",
        "BG_WORKER" => "background worker",
        "BG_WRITER" => "background writer",
        "CHECKPOINTER" => "checkpointer",
        "STARTUP" => "startup",
        "WAL_RECEIVER" => "walreceiver",
        "WAL_SENDER" => "walsender",
        "WAL_SUMMARIZER" => "walsummarizer",
        "WAL_WRITER" => "walwriter",
        "SLOTSYNC_WORKER" => "slotsync worker",
        "STANDALONE_BACKEND" => "standalone backend",
        "IO_WORKER" => "io worker",
        "ARCHIVER" => "archiver",
        "LOGGER" => "logger",
        _ => return None,
    })
}

/// "postgres: hardmeter: walwriter" is a walwriter; "postgres: hardmeter: app bank [local] idle" serves a
/// client.
fn by_title(title: &str) -> Option<String> {
    const KINDS: [&str; 14] = [
        "autovacuum launcher",
        "autovacuum worker",
        "background writer",
        "checkpointer",
        "startup",
        "walreceiver",
        "walsender",
        "walsummarizer",
        "walwriter",
        "slotsync worker",
        "io worker",
        "archiver",
        "logger",
        "logical replication launcher",
    ];
    let said = title.split_once("postgres: ")?.1;
    let known = KINDS.iter().find(|kind| said.split(": ").any(|part| part.starts_with(**kind)));
    match known {
        Some(&"logical replication launcher") => Some("background worker".into()),
        Some(kind) => Some((*kind).into()),
        None => said.contains('[').then(|| CLIENT.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::layout::{Layout, MAJORS};

    #[test]
    fn roles_by_title() {
        let role = |title| by_title(title).unwrap_or_default();
        assert_eq!(role("postgres: hardmeter: walwriter "), "walwriter");
        assert_eq!(role("postgres: autovacuum launcher"), "autovacuum launcher");
        assert_eq!(role("postgres: hardmeter: postgres bank [local] idle"), "client backend");
        assert_eq!(role("postgres: logical replication launcher"), "background worker");
        assert_eq!(role("/usr/lib/postgresql/15/bin/postgres -D data"), "");
    }

    #[test]
    fn all_kinds_of_all_versions_have_words() {
        for major in MAJORS {
            for (kind, _) in Layout::of(major).expect("known").backend_types {
                assert_eq!(in_words(&kind).is_none(), kind == "INVALID", "{major} {kind}");
            }
        }
    }
}
