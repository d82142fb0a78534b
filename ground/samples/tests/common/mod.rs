//! Shared by the tests of the container: fixtures, perf, and a capture with every record type.
#![allow(dead_code)] // each test file uses its part

use hardmeter_samples::model::{Record, Sample};
use hardmeter_samples::perf_data::{CaptureReader, ReadSummary, RecordOrder};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A recorded fixture, or `None` (with a message) where the shared folder is absent.
pub fn fixture(name: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("HARDMETER_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    let path = shared.join("research/fixtures").join(name);
    if !path.exists() {
        println!("skipped: no fixture {}; set HARDMETER_SHARED", path.display());
        return None;
    }
    Some(path)
}

/// Runs perf; `None` (with a message) if it is not installed.
pub fn perf(arguments: &[&str]) -> Option<std::process::Output> {
    match Command::new("perf").args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: perf does not run: {error}");
            None
        }
    }
}

/// perf's standard output as lines, if perf is installed and accepted the file.
pub fn perf_lines(arguments: &[&str]) -> Option<Vec<String>> {
    let output = perf(arguments)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "perf {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_string).collect())
}

/// Runs `look` on every sample.
pub fn each_sample(
    reader: &CaptureReader,
    order: RecordOrder,
    mut look: impl FnMut(&Sample<'_>),
) -> ReadSummary {
    reader
        .for_each(order, &mut |record| {
            if let Record::Sample(sample) = &record {
                look(sample);
            }
            ControlFlow::Continue(())
        })
        .expect("readable")
}
