//! The interface of each runtime.

use crate::found::Found;
use crate::process_memory::{Mapping, Mappings, ProcessMemory};
use hardmeter_samples::model::VirtualAddress;
use std::path::PathBuf;

/// A runtime in one process.
pub(super) trait Runtime: Send {
    /// Its name: "go1.26", "Java (HotSpot)".
    fn describe(&self) -> String;

    /// Reads again what may have changed. Called every 20 ms at most.
    fn look(&mut self, memory: &ProcessMemory, mappings: &Mappings);

    /// The object at an address of anonymous memory; `None` if the runtime does not know it.
    fn at(&mut self, memory: &ProcessMemory, mapping: &Mapping, address: VirtualAddress) -> Option<Found>;

    /// The missing part, and how to get it.
    fn remarks(&self, memory: &ProcessMemory) -> Vec<String>;
}

/// The warning about code that was compiled at run time and has no names.
pub(super) fn without_map(memory: &ProcessMemory, remedy: &str) -> Vec<String> {
    let map = PathBuf::from(format!("/tmp/perf-{}.map", memory.pid()));
    if map.exists() {
        return Vec::new();
    }
    vec![format!(
        "code that was compiled at run time has no names, as {} is missing: run {remedy}",
        map.display()
    )]
}
