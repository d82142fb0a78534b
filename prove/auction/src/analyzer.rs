//! The analyzer of a run: a separate process, `hardmeter split analyze`, that ends with it.

use crate::error::AuctionError;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for restoring affinities after a request to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running analyzer. Dropped, it ends.
pub(crate) struct Analyzer {
    child: Child,
    log: PathBuf,
}

impl Analyzer {
    pub fn start(
        hardmeter: &Path,
        segments: &Path,
        policy: &str,
        folder: &Path,
    ) -> Result<Analyzer, AuctionError> {
        let log = folder.join("analyzer.log");
        let io = |source| AuctionError::Io { action: "write", path: log.clone(), source };
        let file = File::create(&log).map_err(io)?;
        let mut command = Command::new(hardmeter);
        command.args(["split", "analyze", "--policy", policy, "--directory"]).arg(segments);
        command.stdin(Stdio::null()).stdout(file.try_clone().map_err(io)?).stderr(file);
        let child = command.spawn().map_err(|source| AuctionError::Io {
            action: "run",
            path: hardmeter.to_owned(),
            source,
        })?;
        Ok(Analyzer { child, log })
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Fails if it has ended.
    pub fn check(&mut self) -> Result<(), AuctionError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(AuctionError::Analyzer { what: status.to_string(), log: self.said() }),
            Err(error) => Err(AuctionError::Analyzer { what: error.to_string(), log: self.said() }),
        }
    }

    fn said(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }
}

impl Drop for Analyzer {
    fn drop(&mut self) {
        // SAFETY: a child that was not waited for yet keeps its number.
        unsafe { libc::kill(self.pid(), libc::SIGTERM) };
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if asked.elapsed() > PATIENCE {
                // Without it the servers restore affinities themselves.
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
