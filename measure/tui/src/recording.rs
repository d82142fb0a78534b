//! A recording by another process, and its state while it runs.
//!
//! Invariants:
//! 1. The recorder waits for nothing here: its messages are read by a thread, and its file is only read.
//! 2. Reading takes at most one twentieth of a CPU: after each read the reader sleeps [`REST`] times as long, at lowest
//!    priority.
//! 3. A recording that is dropped is stopped; the recorder finishes its file.

use crate::glimpse::Glimpse;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// The shortest time between two reads.
const SHORTEST_REST: Duration = Duration::from_secs(2);
/// Time between two reads, as a multiple of the duration of the last one.
const REST: u32 = 20;

/// A running recorder.
pub struct Recording {
    child: Child,
    output: PathBuf,
    begun: Instant,
    lines: Receiver<String>,
    glimpses: Receiver<(Glimpse, Duration)>,
    /// Dropped to end the reader.
    _reads: Sender<()>,
    said: Vec<String>,
}

/// How a recording ended.
#[derive(Debug)]
pub struct Ended {
    /// The recorder's status.
    pub status: ExitStatus,
    /// All lines that it printed.
    pub said: Vec<String>,
}

impl Recording {
    /// Starts a recorder that writes to `output` and prints its messages on standard error.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut command: Command, output: &Path) -> io::Result<Recording> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (send_line, lines) = mpsc::channel();
        let stderr = child.stderr.take();
        std::thread::spawn(move || {
            let read = stderr.into_iter().flat_map(|stderr| BufReader::new(stderr).split(b'\n'));
            for line in read.map_while(Result::ok) {
                if send_line.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        let (send_glimpse, glimpses) = mpsc::channel();
        let (reads, end) = mpsc::channel();
        let (path, pid) = (output.to_path_buf(), child.id());
        std::thread::spawn(move || read_at_intervals(&path, pid, &send_glimpse, &end));
        let (begun, said) = (Instant::now(), Vec::new());
        Ok(Recording { child, output: output.to_path_buf(), begun, lines, glimpses, _reads: reads, said })
    }

    /// The time since its begin.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Size of its file so far.
    pub fn bytes(&self) -> u64 {
        let file = partial_of(&self.output, self.child.id());
        file.and_then(|file| file.metadata().ok()).map_or(0, |data| data.len())
    }

    /// A line that it has printed since the last call.
    pub fn next_line(&mut self) -> Option<String> {
        let line = self.lines.try_recv().ok()?;
        self.said.push(line.clone());
        Some(line)
    }

    /// The findings in its file and the duration of the reading, if the file was read since the last call.
    pub fn next_glimpse(&self) -> Option<(Glimpse, Duration)> {
        self.glimpses.try_iter().last()
    }

    /// Asks it to stop: it finishes its file.
    pub fn stop(&mut self) {
        if let (Ok(None), Ok(pid)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            // SAFETY: a plain call; the child has not been waited for, so that the number is still its own.
            unsafe { libc::kill(pid, libc::SIGINT) };
        }
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// If its state cannot be read.
    pub fn is_running(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If its state cannot be read.
    pub fn wait(mut self) -> io::Result<Ended> {
        let status = self.child.wait()?;
        // Processes that it started may keep its standard error open: do not wait long.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(200)) {
            self.said.push(line);
        }
        Ok(Ended { status, said: std::mem::take(&mut self.said) })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads the growing file until the other end of `end` is dropped, or the receiver is gone.
fn read_at_intervals(output: &Path, pid: u32, send: &Sender<(Glimpse, Duration)>, end: &Receiver<()>) {
    // SAFETY: a plain call. On Linux it sets the priority of this thread alone; a failure leaves it as it was.
    unsafe { libc::setpriority(libc::PRIO_PROCESS as _, 0, 19) };
    let mut rest = SHORTEST_REST;
    while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(rest) {
        let Some(file) = partial_of(output, pid) else { continue };
        let begun = Instant::now();
        // It may have no events yet, or be renamed at this moment: the next read will succeed.
        let glimpse = Glimpse::of_file(&file).ok();
        let took = begun.elapsed();
        rest = SHORTEST_REST.max(took * REST);
        if glimpse.is_some_and(|glimpse| send.send((glimpse, took)).is_err()) {
            break;
        }
    }
}

/// The file of a recorder before it gets its final name: `NAME.PID-N.partial` in the same folder.
fn partial_of(output: &Path, pid: u32) -> Option<PathBuf> {
    let mut prefix = OsString::from(output.file_name()?);
    prefix.push(format!(".{pid}-"));
    let prefix = prefix.to_str()?.to_string();
    let folder = match output.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut names = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name());
    let own = |name: &OsString| {
        name.to_str().is_some_and(|name| name.starts_with(&prefix) && name.ends_with(".partial"))
    };
    names.find(own).map(|name| folder.join(name))
}
