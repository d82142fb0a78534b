//! Resolves an address of a database server to its relation and block, lock or memory context, and an address
//! of a program with a managed runtime (Go, Java, Node, Python) to a part of its heap or a stack.
//!
//! A profiled server is inspected from outside while it is recorded: its memory is read, never written, and
//! it receives no requests. The findings become [`ObjectNotes`], a side file of the capture; later stages do
//! not depend on the server.
//!
//! ```text
//!   attach(pid) ──> ServerObjects ── state_rules() ──> what the software PMU reads at each sample
//!                        │
//!   sampled accesses ──> see()          looks up each new address at once
//!   a clock ───────────> look_again()   confirms what was found, or ends its validity
//!                        │
//!                     counted() ─> Counted: transactions, rows
//!                     finish() ──> ObjectNotes ──> hardmeter.data.objects
//! ```
//!
//! Out of scope: taking samples (`measure/record`), joining them with objects (`measure/answers`).
//!
//! # Design constraints
//!
//! * *Read only.* Memory is read by `process_vm_readv`, files by `open(O_RDONLY)`. No connection, no signal, no ptrace stop.
//! * *Stripped binaries.* A distribution's packages are enough: exported symbols, and layout tables by major version
//!   (PostgreSQL) or structures that are recognised by what they point to (MariaDB).
//! * *Loud.* At attach the layout is tested against the running server (magic numbers, sizes, tags). A server that does
//!   not pass is refused with the reason, and the rest of the profile works.
//! * *Bounded.* A server in the middle of a change, or a damaged one, may show any bytes: every length and every list is
//!   bounded, and pointers are followed only into memory that is mapped.
//! * *One interface.* [`ServerObjects`] does not depend on the server; PostgreSQL, MariaDB and the runtimes are its
//!   implementations.
//!
//! ```
//! use hardmeter_objects::attach;
//! use hardmeter_samples::model::Pid;
//!
//! // This process is not a PostgreSQL server.
//! let error = attach(Pid(std::process::id() as i32)).err().expect("it is refused");
//! assert!(!error.to_string().is_empty());
//! ```

mod bytes;
mod error;
mod facts;
mod found;
#[cfg(fuzzing)]
pub mod fuzzing;
mod mariadb;
pub mod postgres;
pub mod process_memory;
pub mod program;
mod regions;
mod runtimes;
mod server;
mod source_files;
mod thread_stacks;

pub use error::AttachError;
pub use server::{Access, Counted, ServerObjects};

use hardmeter_samples::model::Pid;
use program::ProgramError;

/// Attaches to the server to which a process belongs; any of its processes is accepted.
///
/// PostgreSQL, MariaDB, and programs of Go, Java, Node and Python are supported; another program gives [`AttachError::Program`].
///
/// # Errors
///
/// [`AttachError`] if the process is gone, its memory may not be read, or its program or version is not
/// supported.
pub fn attach(pid: Pid) -> Result<Box<dyn ServerObjects>, AttachError> {
    if let Some(program) = runtimes::RuntimeProgram::attach_by_name(pid)? {
        return Ok(Box::new(program));
    }
    match postgres::Postgres::attach(pid) {
        Ok(server) => Ok(Box::new(server)),
        Err(AttachError::Program(ProgramError::NotThis { .. })) => match mariadb::MariaDb::attach(pid) {
            Ok(server) => Ok(Box::new(server)),
            Err(AttachError::Program(ProgramError::NotThis { pid, missing, .. })) => {
                let wanted = "PostgreSQL or MariaDB server, and no Go, Java, Node or Python program";
                match runtimes::RuntimeProgram::attach(pid)? {
                    Some(program) => Ok(Box::new(program)),
                    None => Err(ProgramError::NotThis { pid, wanted, missing }.into()),
                }
            }
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}
