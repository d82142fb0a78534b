//! What an address is by symbols and mappings alone: the questions this room asks of `attribution`.

use hardmeter_samples::model::{Pid, VirtualAddress};
use std::fmt;
use std::sync::Arc;

/// What a data address lies in, as far as the capture's mappings and the symbol tables tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataArea {
    /// A variable with a symbol.
    Variable {
        /// Its name.
        name: Arc<str>,
        /// The program or library it is of.
        image: Arc<str>,
        /// Distance from its start, in bytes.
        offset: u64,
        /// Its size in bytes; 0 where not known.
        size: u64,
        /// The field of its type, where debug information tells.
        field: Option<Arc<str>>,
    },
    /// A section of a program, where no symbol covers the address.
    Section {
        /// For example `.bss`.
        name: Arc<str>,
        /// The program or library it is of.
        image: Arc<str>,
    },
    /// A stack, by the name of its mapping.
    Stack,
    /// The heap that grows behind the program.
    Heap,
    /// Memory shared between processes, without a file.
    SharedMemory {
        /// As the kernel calls it: "/dev/zero (deleted)".
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
        /// The variable, where the kernel's symbols tell.
        name: Option<Arc<str>>,
    },
    /// No mapping is known there.
    Unknown,
}

/// What an instruction's memory operand means, by debug information: "struct node", "next".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandField {
    /// The type pointed to, or the variable.
    pub owner: Arc<str>,
    /// The field of it; empty where it is no struct.
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

/// Knows what lies at data addresses without knowing the server.
pub trait DataMap {
    /// What lies at an address of a process, now.
    fn data(&mut self, pid: Option<Pid>, address: VirtualAddress) -> DataArea;
    /// What to call the call that returns to `site`, where a heap block was asked for: routine, and line where known.
    fn allocation_site(&mut self, pid: Option<Pid>, site: VirtualAddress) -> Arc<str>;
    /// What the memory operand of an instruction means.
    fn operand(&mut self, pid: Option<Pid>, ip: VirtualAddress) -> Option<OperandField>;
    /// What to call the code at an address: for fetches of instructions.
    fn code(&mut self, pid: Option<Pid>, address: VirtualAddress) -> Arc<str>;
}
