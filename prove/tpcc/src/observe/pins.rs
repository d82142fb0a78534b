//! Applies a CPU plan: processes are bound, and released at the end.

use super::cpus::Cpus;
use super::plan::CpuPlan;
use super::processes::Process;
use crate::backend::{Backend, Backends};
use crate::error::TpccError;
use crate::time::{Clock, Micros};
use crate::work::{Completion, ConnectionId, Work};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The titles of PostgreSQL's own processes after "postgres: ", in versions 12 to 18. All others serve clients.
const DAEMONS: [&str; 13] = [
    "archiver",
    "autovacuum",
    "background writer",
    "checkpointer",
    "io worker",
    "logger",
    "logical replication",
    "slotsync worker",
    "startup",
    "stats collector",
    "walreceiver",
    "walsummarizer",
    "walwriter",
];

/// An applied CPU plan. Dropping it restores the processes' CPUs.
#[derive(Debug)]
pub struct Pins {
    plan: CpuPlan,
    server: Option<Process>,
    /// The CPUs of the server's processes and of this one before.
    before: Mutex<BTreeMap<Process, Cpus>>,
    driver_before: Option<Cpus>,
    /// Connections that have their CPUs.
    connections: AtomicUsize,
}

impl Pins {
    /// Binds the driver and the daemons of a server, whose first process is `None` if it is not on this machine.
    ///
    /// # Errors
    ///
    /// [`TpccError::CpuPlan`] if the plan contradicts itself or the kernel refuses it.
    pub fn begin(plan: CpuPlan, server: Option<Process>) -> Result<Pins, TpccError> {
        let available = Cpus::available();
        if let Some(cpu) = plan.sets().find_map(|cpus| cpus.first_not_in(&available)) {
            return Err(TpccError::CpuPlan {
                cause: format!("there is no CPU {cpu} for this program, which may use {available}"),
                remedy: "name CPUs of these, or give --cpu-plan auto".into(),
            });
        }
        if plan.needs_server() && server.is_none() {
            return Err(TpccError::CpuPlan {
                cause: "the server's processes are not to be seen from here".into(),
                remedy:
                    "run this on the server's machine, in no other container than the server's, or name the \
                         driver only: --cpu-plan driver=0"
                        .into(),
            });
        }
        let mut pins = Pins {
            plan,
            server,
            before: Mutex::default(),
            driver_before: None,
            connections: AtomicUsize::new(0),
        };
        pins.bind_daemons()?;
        if let Some(cpus) = &pins.plan.driver {
            bind_driver(cpus)?;
            pins.driver_before = Some(available);
        }
        Ok(pins)
    }

    /// The plan.
    pub fn plan(&self) -> &CpuPlan {
        &self.plan
    }

    /// Binds the server's daemons, including those started since. Returns their number.
    ///
    /// # Errors
    ///
    /// [`TpccError::CpuPlan`] if the kernel refuses a binding.
    pub fn bind_daemons(&self) -> Result<usize, TpccError> {
        let (Some(cpus), Some(server)) = (&self.plan.daemons, self.server) else { return Ok(0) };
        let mut count = 0;
        for process in server.children() {
            if is_daemon(&process.title()) {
                count += 1;
                if !self.lock().contains_key(&process) {
                    self.bind(process, cpus)?;
                }
            }
        }
        Ok(count)
    }

    /// A system under test whose backends are bound as they are opened.
    pub fn around<'a>(self: &Arc<Pins>, backends: &'a dyn Backends) -> Box<dyn Backends + 'a> {
        Box::new(PinnedBackends { backends, pins: self.clone() })
    }

    /// Binds new connections to their CPUs; returns the number of the first.
    fn bind_backends(&self, pids: &[u32]) -> Result<usize, TpccError> {
        let first = self.connections.fetch_add(pids.len(), Ordering::Relaxed);
        for (at, &pid) in pids.iter().enumerate() {
            self.bind_backend(first + at, pid)?;
        }
        Ok(first)
    }

    fn bind_backend(&self, connection: usize, pid: u32) -> Result<(), TpccError> {
        let Some(cpus) = self.plan.backend(connection) else { return Ok(()) };
        let process = Process::of(pid).filter(|process| process.parent() == self.server);
        let Some(process) = process else {
            return Err(TpccError::CpuPlan {
                cause: format!("the server's process {pid} is not on this machine"),
                remedy: "run this on the server's machine, or leave out --cpu-plan".into(),
            });
        };
        self.bind(process, cpus)
    }

    fn bind(&self, process: Process, cpus: &Cpus) -> Result<(), TpccError> {
        let Ok(before) = Cpus::of_thread(process.pid) else { return Ok(()) };
        match cpus.bind_thread(process.pid) {
            Ok(()) => {
                self.lock().insert(process, before);
                Ok(())
            }
            // The process has ended.
            Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(refused(process, cpus, error)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Process, Cpus>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        for (process, cpus) in std::mem::take(&mut *self.lock()) {
            if process.is_there() {
                // Nothing can be done about a process that ends just now.
                let _ = cpus.bind_thread(process.pid);
            }
        }
        if let Some(cpus) = self.driver_before.take() {
            let _ = bind_driver(&cpus);
        }
    }
}

/// Binds all threads of this program; threads started later inherit it.
fn bind_driver(cpus: &Cpus) -> Result<(), TpccError> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for thread in threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        match cpus.bind_thread(thread) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => {
                return Err(TpccError::CpuPlan {
                    cause: format!("the driver cannot be bound to CPUs {cpus}: {error}"),
                    remedy: "leave driver= away".into(),
                })
            }
        }
    }
    Ok(())
}

fn is_daemon(title: &str) -> bool {
    // "postgres: 15/main: walwriter" if the server has a cluster_name.
    let Some(rest) = title.strip_prefix("postgres: ") else { return false };
    let name = rest.split_once(": ").map_or(rest, |(_, name)| name);
    DAEMONS.iter().any(|daemon| name.starts_with(daemon))
}

fn refused(process: Process, cpus: &Cpus, error: Errno) -> TpccError {
    TpccError::CpuPlan {
        cause: format!(
            "process {} ({}) cannot be bound to CPUs {cpus}: {error}",
            process.pid,
            process.title()
        ),
        remedy: "run as root or as the server's own account, or leave daemons= and backends= away".into(),
    }
}

struct PinnedBackends<'a> {
    backends: &'a dyn Backends,
    pins: Arc<Pins>,
}

struct PinnedBackend {
    backend: Box<dyn Backend>,
    pins: Arc<Pins>,
    /// The number of its first connection among those of all threads.
    first: usize,
}

impl Backends for PinnedBackends<'_> {
    fn open(&self, connections: u32, clock: Clock) -> Result<Box<dyn Backend>, TpccError> {
        let backend = self.backends.open(connections, clock)?;
        let first = self.pins.bind_backends(&backend.server_processes())?;
        Ok(Box::new(PinnedBackend { backend, pins: self.pins.clone(), first }))
    }

    fn description(&self) -> String {
        self.backends.description()
    }
}

impl Backend for PinnedBackend {
    fn connections(&self) -> u32 {
        self.backend.connections()
    }

    fn submit(&mut self, connection: ConnectionId, work: Work, now: Micros) {
        self.backend.submit(connection, work, now);
    }

    fn wait(&mut self, until: Option<Micros>, done: &mut Vec<Completion>) -> Result<(), TpccError> {
        self.backend.wait(until, done)
    }

    fn reconnect(&mut self, connection: ConnectionId) -> Result<(), TpccError> {
        self.backend.reconnect(connection)?;
        // The server may have restarted: a process that cannot be bound runs anywhere, and the observer warns about
        // the restart.
        if let Some(&pid) = self.backend.server_processes().get(connection.0 as usize) {
            let _ = self.pins.bind_backend(self.first + connection.0 as usize, pid);
        }
        Ok(())
    }

    fn server_processes(&self) -> Vec<u32> {
        self.backend.server_processes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    #[test]
    fn daemons_are_told_from_backends_by_their_titles() {
        for daemon in
            ["postgres: walwriter", "postgres: 15/main: autovacuum worker tpcc", "postgres: io worker 0"]
        {
            assert!(is_daemon(daemon), "{daemon}");
        }
        for other in
            ["postgres: postgres tpcc [local] idle", "postgres: 15/main: me db 127.0.0.1(5) SELECT", "vim"]
        {
            assert!(!is_daemon(other), "{other}");
        }
    }

    fn child() -> (Child, Process) {
        let child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        (child, process)
    }

    #[test]
    fn what_was_bound_is_let_go_again() {
        // The driver itself is bound only in tests/tpcc_run.rs: here it would bind other tests, too.
        let available = Cpus::available();
        let first = Cpus::of(available.numbers().take(1));
        let plan: CpuPlan = format!("backends={first}").parse().unwrap();
        let (mut child, process) = child();
        // This test plays the server: its child is the backend.
        let pins = Pins::begin(plan, Process::of(std::process::id())).unwrap();
        assert_eq!(pins.bind_backends(&[process.pid]).unwrap(), 0);
        assert_eq!(Cpus::of_thread(process.pid).unwrap(), first);
        drop(pins);
        assert_eq!(Cpus::of_thread(process.pid).unwrap(), available);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_plan_that_cannot_be_followed_is_refused_with_a_remedy() {
        let refused = |plan: &str, server| Pins::begin(plan.parse().unwrap(), server).unwrap_err();
        let error = refused("driver=1000", None);
        assert!(error.to_string().contains("there is no CPU 1000"), "{error}");
        let first = Cpus::available().numbers().next().unwrap();
        let error = refused(&format!("backends={first}"), None);
        assert!(error.to_string().contains("not to be seen from here"), "{error}");
        assert!(error.remedy().contains("the server's machine"), "{}", error.remedy());
        // Process 1 cannot be bound.
        let pins = Pins::begin(format!("backends={first}").parse().unwrap(), Process::of(std::process::id()))
            .unwrap();
        let error = pins.bind_backends(&[1]).unwrap_err();
        assert!(error.to_string().contains("not on this machine"), "{error}");
    }
}
