//! Observes the server during a run: CPU time, checkpoints, settings, and the CPUs it runs on.
//!
//! ```text
//!   processes, machine    /proc: CPU time of the server's process tree, the machine
//!   server, postgres      the server's own statistics, over a separate connection
//!   watch                 both of them once a second, on threads of their own
//!   cpus, plan, pins      which processes run on which CPUs (--cpu-plan), put back afterwards
//! ```
//!
//! The driver does not depend on it: a run that cannot be observed still has its figures, and warns about what is
//! missing.

mod cpus;
mod machine;
mod pins;
mod plan;
mod postgres;
mod processes;
mod server;
mod watch;

pub use cpus::Cpus;
pub use machine::Machine;
pub use pins::Pins;
pub use plan::CpuPlan;
pub use postgres::Postgres;
pub use processes::Process;
pub use server::{shown, Look, Server};
pub use watch::{Seen, Watch};

use crate::measure::Environment;

/// The environment known before a run, except the backends' description. `None`: a stub.
pub fn environment(server: Option<&mut (dyn Server + 'static)>) -> Environment {
    let Machine { processor, memory_bytes, kernel } = Machine::here();
    let mut environment = Environment {
        hardmeter: env!("CARGO_PKG_VERSION").into(),
        processor,
        memory_bytes,
        kernel,
        ..Environment::default()
    };
    let Some(server) = server else { return environment };
    if server.first_process().is_none() {
        environment.remarks.push(
            "the server's processes cannot be seen from here: its CPU time is not known, and processor, memory and \
             kernel are those of the driver's machine"
                .into(),
        );
    }
    match server.settings() {
        Ok(settings) => environment.settings = settings,
        Err(error) => environment.remarks.push(format!("its settings are not known: {error}")),
    }
    match server.database_bytes() {
        Ok(bytes) => environment.database_bytes = (bytes, 0),
        Err(error) => environment.remarks.push(format!("the database's size is not known: {error}")),
    }
    environment
}
