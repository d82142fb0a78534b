//! A system under test that holds no data and answers after a fixed time: what is measured against it is the driver.

use crate::backend::{Backend, Backends};
use crate::error::TpccError;
use crate::time::{Clock, Micros};

/// Answers everything after a fixed time.
#[derive(Clone, Copy, Debug)]
pub struct Stub {
    /// How long an answer takes.
    pub service: Micros,
}

impl Backends for Stub {
    fn open(&self, _connections: u32, _clock: Clock) -> Result<Box<dyn Backend>, TpccError> {
        unimplemented!("stub")
    }

    fn description(&self) -> String {
        format!("a stub that answers after {} us", self.service.0)
    }
}
