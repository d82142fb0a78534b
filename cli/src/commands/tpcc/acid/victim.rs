//! A throwaway server that is killed and restarted.

use hardmeter_samples::model::Pid;
use hardmeter_servers::{Cluster, ServerError, ServerFolder, StartOptions, Status};
use hardmeter_tpcc::acid::durability::Victim;
use hardmeter_tpcc::TpccError;
use std::fs;
use std::time::{Duration, Instant};

/// Time limit for killed processes to disappear.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that hardmeter made.
pub(super) struct Ours {
    folder: ServerFolder,
}

impl Ours {
    pub(super) fn new(folder: ServerFolder) -> Ours {
        Ours { folder }
    }
}

fn failed(what: &'static str) -> impl Fn(ServerError) -> TpccError {
    move |error| TpccError::Victim { what, reason: error.to_string(), remedy: error.remedy() }
}

impl Victim for Ours {
    /// Kills everything together. The first process is stopped before its children are listed, so that it
    /// cannot fork in the meantime and no process survives to write.
    fn kill(&mut self) -> Result<(), TpccError> {
        let cluster = Cluster::open(&self.folder).map_err(failed("killed"))?;
        let Status::Running(first) = cluster.status() else {
            return Err(TpccError::Victim {
                what: "killed",
                reason: "it does not run".into(),
                remedy: "see its log for why it ended: hardmeter server status".into(),
            });
        };
        signal(first, libc::SIGSTOP);
        let all = cluster.processes();
        for &process in &all {
            signal(process, libc::SIGKILL);
        }
        let begin = Instant::now();
        while all.iter().any(|&process| lives(process)) {
            if begin.elapsed() > PATIENCE {
                return Err(TpccError::Victim {
                    what: "killed",
                    reason: "some of its processes are still there".into(),
                    remedy: "see what they wait for (ps, /proc/PID/stack): a disk that does not answer?"
                        .into(),
                });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<String, TpccError> {
        let mut cluster = Cluster::open(&self.folder).map_err(failed("started"))?;
        let log = self.folder.log();
        let before = fs::metadata(&log).map_or(0, |log| log.len() as usize);
        cluster.start(&StartOptions::default(), &|_| {}).map_err(failed("started"))?;
        let said = fs::read(&log).unwrap_or_default();
        Ok(String::from_utf8_lossy(said.get(before..).unwrap_or_default()).into_owned())
    }
}

fn signal(process: Pid, signal: libc::c_int) {
    // SAFETY: kill takes plain numbers. A process that has already ended is not an error.
    unsafe { libc::kill(process.0, signal) };
}

/// A zombie does not count as alive: it only waits for its parent, which may be this process, to reap it.
fn lives(process: Pid) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // The state follows the name, which is in brackets and may contain some.
    let state = stat.rfind(')').and_then(|end| stat.get(end + 2..end + 3));
    state.is_some_and(|state| !matches!(state, "Z" | "X"))
}
