//! Names data addresses by symbols and mappings alone: the interface through which answers use
//! `measure/symbols`.

use hardmeter_samples::model::{Pid, VirtualAddress};
use std::fmt;
use std::sync::Arc;

/// The thing at a data address, by the capture's mappings and the symbol tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataArea {
    /// A variable with a symbol.
    Variable {
        /// Its name.
        name: Arc<str>,
        /// The program or library to which it belongs.
        image: Arc<str>,
        /// Distance from its start, in bytes.
        offset: u64,
        /// Its size in bytes; 0 if unknown.
        size: u64,
        /// The field of its type, if debug information has it.
        field: Option<Arc<str>>,
    },
    /// A section of a program, if no symbol covers the address.
    Section {
        /// For example `.bss`.
        name: Arc<str>,
        /// The program or library to which it belongs.
        image: Arc<str>,
    },
    /// A stack, by the name of its mapping.
    Stack,
    /// The heap after the program's data.
    Heap,
    /// Memory shared between processes, without a file.
    SharedMemory {
        /// The kernel's name: "/dev/zero (deleted)".
        name: Arc<str>,
    },
    /// A mapped file, or a program whose symbols cannot be read.
    File {
        /// Its path.
        path: Arc<str>,
    },
    /// Private memory without a name: large heap blocks, threads' stacks.
    Anonymous,
    /// The kernel's memory.
    Kernel {
        /// The variable, if the kernel's symbols have it.
        name: Option<Arc<str>>,
    },
    /// No known mapping.
    Unknown,
}

/// The type and field of an instruction's memory operand, from debug information: "struct node", "next".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandField {
    /// The type pointed to, or the variable.
    pub owner: Arc<str>,
    /// The field; empty if the type is not a struct.
    pub field: Arc<str>,
}

impl fmt::Display for OperandField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.field {
            "" => f.write_str(&self.owner),
            field => write!(f, "{}: {field}", self.owner),
        }
    }
}

/// Names data addresses without knowledge of the server.
pub trait DataMap {
    /// The mapping of a process at an address at this point of the walk.
    fn data(&mut self, pid: Option<Pid>, address: VirtualAddress) -> DataArea;
    /// The routine, and line if known, of the call that returns to `site`, where a heap block was allocated.
    fn allocation_site(&mut self, pid: Option<Pid>, site: VirtualAddress) -> Arc<str>;
    /// The type and field of an instruction's memory operand.
    fn operand(&mut self, pid: Option<Pid>, ip: VirtualAddress) -> Option<OperandField>;
    /// The routine at an address, for instruction fetches.
    fn code(&mut self, pid: Option<Pid>, address: VirtualAddress) -> Arc<str>;
}
