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
mod runtime;
mod struct_layout;

pub(crate) use observer::RuntimeProgram;

use crate::process_memory::{Mappings, ProcessMemory};
use crate::program::files_of;
use runtime::Runtime;
use std::path::Path;

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
