//! Private memory of server processes: which memory context an address belongs to.

use super::found::{Found, PrivateObjects};
use super::layout::{Layout, Missing};
use crate::process_memory::{Mapping, ProcessMemory};
use crate::program::Program;
use hardmeter_samples::model::VirtualAddress;

/// What is known of the private memory of all processes of one server.
pub(crate) struct PrivateMemory {}

impl PrivateMemory {
    /// For a server of this layout that runs this program.
    pub fn new(_layout: &Layout, _program: &Program) -> Result<PrivateMemory, Missing> {
        Ok(PrivateMemory {})
    }
}

impl PrivateObjects for PrivateMemory {
    fn begin_look(&mut self) {}

    fn find(
        &mut self,
        _process: &ProcessMemory,
        _mapping: &Mapping,
        _address: VirtualAddress,
    ) -> Option<Found> {
        None
    }

    fn forget(&mut self, _process: &ProcessMemory) {}
}
