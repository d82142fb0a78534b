//! Programs with a runtime that manages memory itself: Go, Java, Node, Python.
//!
//! Their heaps are anonymous mappings, which no symbol table names, and their stacks may lie within: a guess by the
//! stack pointer takes a map on the heap for a stack. Each runtime has tables about its own memory, and these are read.
//!
//! Rules, as for servers:
//! 1. What is named was recognised by the runtime's own tables or headers.
//! 2. What is not recognised is "private memory of unknown kind", never a guess.
//! 3. Variables and code of mapped files are left to the symbol tables, which know more.

mod go;
mod java;
mod node;
mod observer;
mod python;
mod struct_layout;

pub(crate) use observer::RuntimeProgram;

use crate::found::Found;
use crate::process_memory::{Mapping, Mappings, ProcessMemory};
use crate::program::files_of;
use hardmeter_samples::model::VirtualAddress;
use std::path::{Path, PathBuf};

/// A runtime in one process.
trait Runtime: Send {
    /// What it is: "go1.26", "Java (HotSpot)".
    fn describe(&self) -> String;

    /// Reads again what may have changed. Called every 20 ms at most.
    fn look(&mut self, memory: &ProcessMemory, mappings: &Mappings);

    /// What lies at an address of anonymous memory; `None` if the runtime does not know it.
    fn at(&mut self, memory: &ProcessMemory, mapping: &Mapping, address: VirtualAddress) -> Option<Found>;

    /// What is missing, and how to get it.
    fn remarks(&self, memory: &ProcessMemory) -> Vec<String>;
}

/// The runtime of a process.
fn recognise(memory: &ProcessMemory, mappings: &Mappings) -> Option<Box<dyn Runtime>> {
    fn boxed<T: Runtime + 'static>(runtime: T) -> Box<dyn Runtime> {
        Box::new(runtime)
    }
    java::Java::recognise(memory, mappings)
        .map(boxed)
        .or_else(|| go::Go::recognise(memory, mappings).map(boxed))
        .or_else(|| node::Node::recognise(memory, mappings).map(boxed))
        .or_else(|| python::Python::recognise(memory, mappings).map(boxed))
}

/// Whether a process runs the command of a runtime: `java`, `node`, `python3`. A server may have the library of one.
fn is_command(mappings: &Mappings) -> bool {
    let is_one = |path: &Path| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| matches!(&*name, "java" | "node" | "nodejs") || name.starts_with("python"))
    };
    !files_of(mappings, is_one).is_empty()
}

/// The remark on code that was compiled at run time and has no names.
fn without_map(memory: &ProcessMemory, remedy: &str) -> Vec<String> {
    let map = PathBuf::from(format!("/tmp/perf-{}.map", memory.pid()));
    if map.exists() {
        return Vec::new();
    }
    vec![format!(
        "code that was compiled at run time has no names, as {} is missing: run {remedy}",
        map.display()
    )]
}
