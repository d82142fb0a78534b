//! A small server with libsplit, and processes that end with a test.

use crate::common::{run, succeeded, tests_folder};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The application's number.
pub const APP: u32 = 42;

/// The program of `split/requests.c`, compiled once, with libsplit's own sources.
pub fn requests() -> &'static Path {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, program) = PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("requests");
        let placement = tests_folder().join("../place");
        let library = std::fs::read_dir(placement.join("libsplit/src")).expect("libsplit").flatten();
        let mut sources: Vec<PathBuf> = library.map(|entry| entry.path()).collect();
        let discovery = |path: &Path| path.to_string_lossy().contains("/probe_discover");
        sources.retain(|path| path.extension().is_some_and(|suffix| suffix == "c") && !discovery(path));
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-O2", "-D_GNU_SOURCE", "-DSPLIT_VERSION=\"test\"", "-pthread"]);
        for folder in ["libsplit/include", "libsplit/src", "sections", "../ground/statement/c"] {
            compiler.arg("-I").arg(placement.join(folder));
        }
        compiler.arg("-o").arg(&program).arg(tests_folder().join("split/requests.c"));
        compiler.arg(placement.join("sections/kernels.c")).args(sources).args(["-ldl", "-lm"]);
        succeeded(run(&mut compiler));
        (folder, program)
    });
    program
}

/// A process that is ended with the test.
pub struct Running(pub Child);

impl Running {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    #[allow(dead_code)] // not every test that includes this file uses it
    pub fn kill(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("waited for");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This number of threads that work on these kinds, in turn.
pub fn serve(folder: &Path, threads: u32, kinds: &[&str]) -> Running {
    let mut command = Command::new(requests());
    command.arg(folder).arg(APP.to_string()).arg(threads.to_string()).args(kinds);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("read");
    assert_eq!(line, "ready\n");
    Running(child)
}

/// Polls until a result is available.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(300), "no {what} within five minutes");
        std::thread::sleep(Duration::from_millis(10));
    }
}
