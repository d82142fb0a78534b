//! The processes that belong to the server, and their roles in it.

use hardmeter_samples::model::{Pid, Record, Tid};
use hardmeter_samples::object_notes::TextId;
use rustc_hash::{FxHashMap, FxHashSet};

/// The server's processes: those in the side file, and the children that they fork while recording. A child
/// that executes another program (`archive_command`) is removed.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerProcesses {
    named: FxHashSet<Pid>,
    roles: FxHashMap<Pid, TextId>,
    thread_roles: FxHashMap<Tid, TextId>,
    /// Forked children of members that have not executed another program.
    children: FxHashSet<Pid>,
}

impl ServerProcesses {
    /// Adds a process that the side file names.
    pub(super) fn name(&mut self, pid: Pid, role: Option<TextId>) {
        self.named.insert(pid);
        if let Some(role) = role {
            self.roles.insert(pid, role);
        }
    }

    /// Adds a thread that the side file names.
    pub(super) fn name_thread(&mut self, pid: Pid, tid: Tid, role: TextId) {
        self.named.insert(pid);
        self.thread_roles.insert(tid, role);
    }

    /// Processes a fork or exec.
    pub(super) fn observe(&mut self, record: &Record<'_>) {
        match record {
            Record::Fork(fork) if fork.pid != fork.parent_pid => {
                if self.contains(fork.parent_pid) {
                    self.children.insert(fork.pid);
                } else {
                    // The number of an ended process may be used again.
                    self.children.remove(&fork.pid);
                }
            }
            Record::Comm(comm) if comm.exec => {
                self.children.remove(&comm.pid);
            }
            _ => {}
        }
    }

    /// True if a process belongs to the server. If the side file names no process, true for every process.
    pub(super) fn contains(&self, pid: Pid) -> bool {
        self.named.is_empty() || self.named.contains(&pid) || self.children.contains(&pid)
    }

    /// The role of a process in the server.
    pub(super) fn role(&self, pid: Pid) -> Option<TextId> {
        self.roles.get(&pid).copied()
    }

    /// The role of a thread, or of its process.
    pub(super) fn role_of_thread(&self, pid: Pid, tid: Tid) -> Option<TextId> {
        self.thread_roles.get(&tid).copied().or_else(|| self.role(pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{comm, fork};

    #[test]
    fn forked_backends_belong_and_other_programs_do_not() {
        let mut server = ServerProcesses::default();
        assert!(server.contains(Pid(7)), "nobody told which");
        server.name(Pid(100), Some(TextId(1)));
        for record in [fork(1, 50), fork(100, 101), fork(101, 102), fork(50, 51)] {
            server.observe(&record);
        }
        server.name_thread(Pid(100), Tid(110), TextId(2));
        assert_eq!(server.role_of_thread(Pid(100), Tid(110)), Some(TextId(2)));
        assert_eq!(server.role_of_thread(Pid(100), Tid(100)), Some(TextId(1)), "its process's");
        let members = [50, 51, 100, 101, 102].map(|pid| server.contains(Pid(pid)));
        assert_eq!(members, [false, false, true, true, true]);
        assert_eq!((server.role(Pid(100)), server.role(Pid(101))), (Some(TextId(1)), None));
        let Record::Comm(mut exec) = comm(102, "sh") else { unreachable!() };
        exec.exec = true;
        server.observe(&Record::Comm(exec));
        assert!(!server.contains(Pid(102)), "it runs another program");
        server.observe(&fork(50, 101));
        assert!(!server.contains(Pid(101)), "its number was given to another");
    }
}
