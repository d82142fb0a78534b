//! The processes whose memory was read: whether each belongs to the server, and its mappings.

use super::attach::Server;
use crate::process_memory::{parent_of, Mappings, ProcessMemory};
use crate::program::loaded_size;
use crate::regions::{region_of, Region};
use hardmeter_samples::model::{Pid, VirtualAddress};
use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// One process of the server.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    /// Its memory.
    pub memory: ProcessMemory,
    /// Its mappings when they were last read.
    pub mappings: Mappings,
    read: Instant,
}

/// All processes with samples; `None` for one that is not the server's.
#[derive(Debug, Default)]
pub(crate) struct ServerProcesses {
    known: HashMap<Pid, Option<ServerProcess>>,
    /// Sizes of images of libraries.
    sizes: HashMap<PathBuf, Option<u64>>,
    /// Number of samples of processes that had ended before they were read.
    pub ended: u64,
}

/// A list of mappings is read again at the earliest after this time, even if an address is not in it.
const PAUSE: Duration = Duration::from_millis(50);
/// The server has no processes deeper below its first.
const DEPTH: usize = 4;

impl ServerProcesses {
    /// A process, if it is the server's and still runs or was read before it ended.
    pub fn get(&mut self, server: &Server, pid: Pid) -> Option<&ServerProcess> {
        if let Entry::Vacant(place) = self.known.entry(pid) {
            let Ok((mappings, memory)) =
                ProcessMemory::open(pid).and_then(|memory| Ok((memory.mappings()?, memory)))
            else {
                self.ended += 1;
                return None;
            };
            let own = belongs(pid, server.memory.pid());
            place.insert(own.then(|| ServerProcess { memory, mappings, read: Instant::now() }));
        }
        self.known.get(&pid)?.as_ref()
    }

    /// The number of bytes of a library's image.
    fn loaded_size(sizes: &mut HashMap<PathBuf, Option<u64>>, server: &Server, path: &Path) -> Option<u64> {
        if let Some(size) = sizes.get(path) {
            return *size;
        }
        let size = loaded_size(&server.memory.file(path));
        sizes.insert(path.to_owned(), size);
        size
    }

    /// The region of an address of a process, by its mappings; for a process that ended, by those of the
    /// first process, from which all others were forked. `None`: it is not a process of the server.
    pub fn region(
        &mut self,
        server: &Server,
        pid: Pid,
        was_ours: bool,
        stack_pointer: Option<VirtualAddress>,
        address: VirtualAddress,
    ) -> Option<Region> {
        self.refresh(pid, address);
        let mut sizes = std::mem::take(&mut self.sizes);
        let ended = self.ended;
        let mut process = self.get(server, pid);
        let alive = process.is_some();
        if !alive && was_ours {
            process = self.get(server, server.memory.pid());
        }
        let region = process.map(|process| {
            let mut size = |path: &Path| Self::loaded_size(&mut sizes, server, path);
            region_of(&server.program, &process.mappings, stack_pointer, address, &mut size)
        });
        self.sizes = sizes;
        let region = region.filter(|region| alive || region.is_lasting());
        if region.is_some() && !alive {
            self.ended = ended;
        }
        region
    }

    /// Reads a process's mappings again, unless they were read just before or contain the address.
    fn refresh(&mut self, pid: Pid, address: VirtualAddress) {
        let Some(Some(process)) = self.known.get_mut(&pid) else { return };
        if process.mappings.at(address).is_none() && process.read.elapsed() >= PAUSE {
            process.read = Instant::now();
            if let Ok(mappings) = process.memory.mappings() {
                process.mappings = mappings;
            }
        }
    }

    /// Removes processes that have ended; returns them.
    pub fn remove_ended(&mut self) -> Vec<ProcessMemory> {
        let mut ended = Vec::new();
        self.known.retain(|pid, process| match process {
            Some(process) if process.memory.is_alive() => true,
            Some(process) => {
                ended.push(process.memory.clone());
                false
            }
            // A number may be reused, possibly for a process of the server.
            None => parent_of(*pid).is_some(),
        });
        ended
    }
}

/// True if a process is the first one, or was started by it.
pub(crate) fn belongs(pid: Pid, first: Pid) -> bool {
    std::iter::successors(Some(pid), |pid| parent_of(*pid)).take(DEPTH).any(|ancestor| ancestor == first)
}
