//! The mapped file at an address, at a point of the capture.
//!
//! Records are fed in the order of the capture; [`AddressSpaces::resolve`] uses the mappings of that point.
//!
//! ```text
//!   process 100 ──┐
//!   process 101 ──┼──> one shared, sorted list of mappings     (postgres forks a backend per connection:
//!   process 102 ──┘                                             the list is copied on the first change only)
//! ```

use crate::build_id::BuildId;
use hardmeter_samples::model::VirtualAddress;
use hardmeter_samples::model::{Comm, CpuMode, Exit, FileOffset, Fork, Mmap, Pid, Record, Tid, Timestamp};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// A file, or other named area, that was mapped somewhere in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId(u32);

impl ImageId {
    /// Position in [`AddressSpaces::images`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kind of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageKind {
    /// A file: program, library, or data.
    File,
    /// The kernel itself.
    Kernel,
    /// A kernel module.
    KernelModule,
    /// The page of code that the kernel maps into every process.
    Vdso,
    /// The map file of a just-in-time compiler.
    JitMap,
    /// Memory without a file: heap, stack, shared memory.
    Anonymous,
}

/// The recorded data of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageDescription {
    /// The path, or bracketed name, as recorded.
    pub path: String,
    /// The last component of the path.
    pub name: String,
    /// The kind.
    pub kind: ImageKind,
    /// The build that ran, if the capture has it.
    pub build_id: Option<BuildId>,
    /// Whether the file was unlinked while mapped (the kernel's " (deleted)", already cut from `path`).
    pub deleted: bool,
    /// The process and place of its first mapping: while that process exists, `/proc` gives access to the file.
    pub(crate) first_mapping: (Pid, u64, u64),
    /// For the kernel: the recorded address of its reference symbol (`_text`), to detect another boot.
    pub(crate) kernel_reference: Option<(String, u64)>,
}

/// An address, found in a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedAddress {
    /// The mapped image.
    pub image: ImageId,
    /// The position in the file. For areas without a file, the position in the area.
    pub offset: FileOffset,
    /// Whether the mapping can be executed.
    pub executable: bool,
    /// The first address of the mapping.
    pub mapping_start: VirtualAddress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    /// One past the last address.
    end: u64,
    offset: u64,
    image: ImageId,
    executable: bool,
}

#[derive(Clone, Debug, Default)]
struct Process {
    /// Sorted, without overlap.
    mappings: Arc<Vec<Mapping>>,
    /// Cache of the previous answer: consecutive samples are often in one mapping.
    last: Cell<usize>,
}

impl Process {
    fn find(&self, address: u64) -> Option<&Mapping> {
        if let Some(mapping) = self.mappings.get(self.last.get()) {
            if mapping.start <= address && address < mapping.end {
                return Some(mapping);
            }
        }
        let position = self.position_at_or_below(address)?;
        let mapping = &self.mappings[position];
        (address < mapping.end).then(|| {
            self.last.set(position);
            mapping
        })
    }

    fn position_at_or_below(&self, address: u64) -> Option<usize> {
        self.mappings.partition_point(|mapping| mapping.start <= address).checked_sub(1)
    }

    /// Inserts a mapping; it replaces the parts of older ones that it covers, as mmap(MAP_FIXED) does.
    ///
    /// ```text
    ///   old   [aaaaaaaaaaaa][bbbb][cccccc]
    ///   new        [nnnnnnnnnnnnnnnn]
    ///   then  [aaa][nnnnnnnnnnnnnnnn][ccc]
    /// ```
    fn insert(&mut self, new: Mapping) {
        let mappings = Arc::make_mut(&mut self.mappings);
        let first = mappings.partition_point(|old| old.end <= new.start);
        let last = mappings.partition_point(|old| old.start < new.end);
        let mut replacement = Vec::with_capacity(3);
        if first < last {
            let left = mappings[first];
            if left.start < new.start {
                replacement.push(Mapping { end: new.start, ..left });
            }
        }
        replacement.push(new);
        if first < last {
            let right = mappings[last - 1];
            if right.end > new.end {
                let offset = right.offset.wrapping_add(new.end - right.start);
                replacement.push(Mapping { start: new.end, offset, ..right });
            }
        }
        mappings.splice(first..last.max(first), replacement);
    }
}

/// The address spaces of all processes of a capture.
#[derive(Clone, Debug, Default)]
pub struct AddressSpaces {
    processes: FxHashMap<Pid, Process>,
    names: FxHashMap<(Pid, Tid), Arc<str>>,
    images: Vec<ImageDescription>,
    image_ids: HashMap<(String, Option<BuildId>), ImageId>,
}

/// The "process" of kernel mappings.
const KERNEL: Pid = Pid(-1);

impl AddressSpaces {
    /// No process, no mapping.
    pub fn new() -> AddressSpaces {
        AddressSpaces::default()
    }

    /// Processes a record; ignores samples and losses.
    pub fn observe(&mut self, record: &Record<'_>) {
        match record {
            Record::Mmap(mmap) => self.mmap(mmap),
            Record::Comm(comm) => self.comm_record(comm),
            Record::Fork(fork) => self.fork(fork),
            Record::Exit(exit) => self.exit(exit),
            _ => {}
        }
    }

    /// A file or area was mapped.
    pub fn mmap(&mut self, mmap: &Mmap) {
        let in_kernel = is_kernel(mmap.mode) || mmap.pid == KERNEL;
        let pid = if in_kernel { KERNEL } else { mmap.pid };
        let start = mmap.start.0;
        let end = start.saturating_add(mmap.length);
        if start == end {
            return;
        }
        let image = self.intern(mmap, in_kernel);
        let mapping = Mapping { start, end, offset: mmap.offset.0, image, executable: mmap.executable };
        self.processes.entry(pid).or_default().insert(mapping);
    }

    /// A thread set its name.
    pub fn comm_record(&mut self, comm: &Comm) {
        if comm.exec {
            self.processes.insert(comm.pid, Process::default());
        }
        self.names.insert((comm.pid, comm.tid), comm.name.as_str().into());
    }

    /// A process or thread was created: it starts with its parent's name and, if a process, mappings.
    pub fn fork(&mut self, fork: &Fork) {
        if let Some(name) = self.names.get(&(fork.parent_pid, fork.parent_tid)) {
            let name = Arc::clone(name);
            self.names.insert((fork.pid, fork.tid), name);
        }
        // perf describes processes older than the capture by synthesized records of time 0: their own mappings
        // follow, so the parent's must not be copied (perf: `do_maps_clone = false`).
        let made_up = fork.time == Some(Timestamp(0));
        if fork.pid != fork.parent_pid && !made_up {
            let copy = self.processes.get(&fork.parent_pid).cloned().unwrap_or_default();
            self.processes.insert(fork.pid, copy);
        }
    }

    /// A process or thread ended. Its state is kept: later records may contain samples of it, and a new process
    /// with the same number starts with a fork record, which replaces the state.
    pub fn exit(&mut self, _exit: &Exit) {}

    /// The name of a thread, or of its process if the thread never set one.
    pub fn comm(&self, pid: Pid, tid: Tid) -> Option<&str> {
        let name = self.names.get(&(pid, tid)).or_else(|| self.names.get(&(pid, Tid(pid.0))))?;
        Some(name)
    }

    /// The image and offset at an address of a process.
    pub fn resolve(&self, pid: Pid, address: VirtualAddress, mode: CpuMode) -> Option<MappedAddress> {
        let space = if is_kernel_address(address, mode) { KERNEL } else { pid };
        let mapping = self.processes.get(&space)?.find(address.0)?;
        Some(answer(mapping, address))
    }

    /// The images that some process has mapped as code.
    pub(crate) fn executable_images(&self) -> Vec<ImageId> {
        let mappings = self.processes.values().flat_map(|process| process.mappings.iter());
        let mut images: Vec<ImageId> =
            mappings.filter(|mapping| mapping.executable).map(|mapping| mapping.image).collect();
        images.sort_unstable();
        images.dedup();
        images
    }

    /// The mappings of a process below an address, nearest first, extended to that address: the `.bss` of a program
    /// is after the mapping of its data, in anonymous memory or in none that was recorded.
    pub(crate) fn mappings_below(
        &self,
        pid: Pid,
        address: VirtualAddress,
    ) -> impl Iterator<Item = MappedAddress> + '_ {
        let process = self.processes.get(&pid);
        let below = process.and_then(|process| {
            process.position_at_or_below(address.0).map(|last| &process.mappings[..=last])
        });
        below.unwrap_or_default().iter().rev().map(move |mapping| answer(mapping, address))
    }

    /// The recorded data of an image.
    pub fn image(&self, id: ImageId) -> &ImageDescription {
        &self.images[id.index()]
    }

    /// All images, in the order of their first appearance.
    pub fn images(&self) -> &[ImageDescription] {
        &self.images
    }

    /// An image without a record: the map file of a just-in-time compiler, the kernel of a capture
    /// without kernel mappings.
    pub(crate) fn intern_special(&mut self, description: ImageDescription) -> ImageId {
        let key = (description.path.clone(), description.build_id.clone());
        if let Some(id) = self.image_ids.get(&key) {
            return *id;
        }
        let id = ImageId(self.images.len() as u32);
        self.images.push(description);
        self.image_ids.insert(key, id);
        id
    }

    fn intern(&mut self, mmap: &Mmap, in_kernel: bool) -> ImageId {
        let build_id = mmap.build_id.as_deref().and_then(BuildId::new);
        let key = (mmap.path.clone(), build_id);
        if let Some(id) = self.image_ids.get(&key) {
            return *id;
        }
        let kind = kind_of(&mmap.path, in_kernel);
        let (path, deleted) = match mmap.path.strip_suffix(" (deleted)") {
            Some(path) if kind == ImageKind::File => (path, true),
            _ => (mmap.path.as_str(), false),
        };
        let kernel_reference = (kind == ImageKind::Kernel)
            .then(|| path.split_once(']').map(|(_, symbol)| (symbol.to_owned(), mmap.offset.0)))
            .flatten()
            .filter(|(symbol, address)| !symbol.is_empty() && *address != 0);
        let id = ImageId(self.images.len() as u32);
        self.images.push(ImageDescription {
            path: path.to_owned(),
            name: short_name(path, kind),
            kind,
            build_id: key.1.clone(),
            deleted,
            first_mapping: (mmap.pid, mmap.start.0, mmap.start.0.saturating_add(mmap.length)),
            kernel_reference,
        });
        self.image_ids.insert(key, id);
        id
    }
}

fn answer(mapping: &Mapping, address: VirtualAddress) -> MappedAddress {
    MappedAddress {
        image: mapping.image,
        offset: FileOffset(mapping.offset.wrapping_add(address.0.wrapping_sub(mapping.start))),
        executable: mapping.executable,
        mapping_start: VirtualAddress(mapping.start),
    }
}

fn is_kernel(mode: CpuMode) -> bool {
    matches!(mode, CpuMode::Kernel | CpuMode::Hypervisor)
}

/// Whether an address belongs to the kernel's half. Where the mode is not recorded, the address decides: on
/// 64-bit Linux the kernel has the upper half.
pub(crate) fn is_kernel_address(address: VirtualAddress, mode: CpuMode) -> bool {
    is_kernel(mode) || (mode == CpuMode::Unknown && address.0 >= 1 << 63)
}

fn kind_of(path: &str, in_kernel: bool) -> ImageKind {
    // Shared memory, System V segments and memory files have paths that lead nowhere.
    const NO_FILE: [&str; 6] = ["//", "/dev/", "/SYSV", "/memfd:", "/anon_hugepage", "/[aio]"];
    match path {
        _ if in_kernel && path.starts_with("[kernel") => ImageKind::Kernel,
        _ if in_kernel => ImageKind::KernelModule,
        "[vdso]" => ImageKind::Vdso,
        _ if path.starts_with('/') && !NO_FILE.iter().any(|prefix| path.starts_with(prefix)) => {
            ImageKind::File
        }
        _ => ImageKind::Anonymous,
    }
}

fn short_name(path: &str, kind: ImageKind) -> String {
    match kind {
        ImageKind::Kernel => "[kernel]".to_owned(),
        ImageKind::File | ImageKind::KernelModule => path.rsplit('/').next().unwrap_or(path).to_owned(),
        _ if path.is_empty() => "[anonymous]".to_owned(),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pid: i32, start: u64, length: u64, offset: u64, path: &str) -> Mmap {
        Mmap {
            mode: if pid == -1 { CpuMode::Kernel } else { CpuMode::User },
            offset: FileOffset(offset),
            ..Mmap::code(Pid(pid), VirtualAddress(start), length, path)
        }
    }

    fn fork(parent: i32, child: i32, time: u64) -> Fork {
        Fork {
            pid: Pid(child),
            parent_pid: Pid(parent),
            tid: Tid(child),
            parent_tid: Tid(parent),
            time: Some(Timestamp(time)),
        }
    }

    fn at(spaces: &AddressSpaces, pid: i32, address: u64) -> Option<(String, u64)> {
        let mapped = spaces.resolve(Pid(pid), VirtualAddress(address), CpuMode::User)?;
        Some((spaces.image(mapped.image).name.clone(), mapped.offset.0))
    }

    #[test]
    fn a_new_mapping_cuts_the_old_ones_and_offsets_stay_true() {
        let mut spaces = AddressSpaces::new();
        spaces.mmap(&map(1, 0x1000, 0x3000, 0, "/bin/a"));
        spaces.mmap(&map(1, 0x4000, 0x1000, 0x100, "/bin/b"));
        spaces.mmap(&map(1, 0x5000, 0x3000, 0x5000, "/bin/c"));
        spaces.mmap(&map(1, 0x2000, 0x4000, 0x40, "/bin/n"));
        assert_eq!(at(&spaces, 1, 0xfff), None);
        assert_eq!(at(&spaces, 1, 0x1fff), Some(("a".into(), 0xfff)));
        assert_eq!(at(&spaces, 1, 0x2000), Some(("n".into(), 0x40)));
        assert_eq!(at(&spaces, 1, 0x5fff), Some(("n".into(), 0x403f)));
        assert_eq!(at(&spaces, 1, 0x6000), Some(("c".into(), 0x6000)));
        assert_eq!(at(&spaces, 1, 0x7fff), Some(("c".into(), 0x7fff)));
        assert_eq!(at(&spaces, 1, 0x8000), None);
        // A hole in a mapping leaves both ends.
        spaces.mmap(&map(1, 0x6800, 0x10, 0, "/bin/hole"));
        assert_eq!(at(&spaces, 1, 0x67ff), Some(("c".into(), 0x67ff)));
        assert_eq!(at(&spaces, 1, 0x6805), Some(("hole".into(), 5)));
        assert_eq!(at(&spaces, 1, 0x6810), Some(("c".into(), 0x6810)));
    }

    #[test]
    fn a_forked_process_shares_until_it_maps_and_exec_clears() {
        let mut spaces = AddressSpaces::new();
        spaces.mmap(&map(1, 0x1000, 0x1000, 0, "/bin/a"));
        spaces.fork(&fork(1, 2, 5));
        assert!(Arc::ptr_eq(&spaces.processes[&Pid(1)].mappings, &spaces.processes[&Pid(2)].mappings));
        spaces.mmap(&map(2, 0x1800, 0x100, 0, "/bin/own"));
        assert_eq!(at(&spaces, 2, 0x1800), Some(("own".into(), 0)));
        assert_eq!(at(&spaces, 1, 0x1800), Some(("a".into(), 0x800)));
        let exec = Comm { pid: Pid(2), tid: Tid(2), name: "new".into(), exec: true, time: None };
        spaces.comm_record(&exec);
        assert_eq!(at(&spaces, 2, 0x1800), None);
        assert_eq!(spaces.comm(Pid(2), Tid(2)), Some("new"));
        // A thread without a name has its process's.
        assert_eq!(spaces.comm(Pid(2), Tid(77)), Some("new"));
        // A made-up fork record (time 0) copies nothing.
        spaces.fork(&fork(1, 3, 0));
        assert_eq!(at(&spaces, 3, 0x1000), None);
    }

    #[test]
    fn kernel_addresses_are_common_to_all_processes() {
        let mut spaces = AddressSpaces::new();
        let text = 0xffff_ffff_8100_0000;
        spaces.mmap(&map(-1, text, 0x100_0000, text, "[kernel.kallsyms]_text"));
        let mapped = spaces.resolve(Pid(7), VirtualAddress(text + 16), CpuMode::Kernel).expect("kernel text");
        let image = spaces.image(mapped.image);
        assert_eq!((image.kind, image.name.as_str()), (ImageKind::Kernel, "[kernel]"));
        assert_eq!(image.kernel_reference, Some(("_text".to_owned(), text)));
        assert_eq!(spaces.resolve(Pid(7), VirtualAddress(text), CpuMode::User), None);
        assert!(spaces.resolve(Pid(7), VirtualAddress(text), CpuMode::Unknown).is_some());
    }

    #[test]
    fn what_a_path_names() {
        let cases = [
            ("/usr/lib/postgresql/15/bin/postgres", ImageKind::File),
            ("[vdso]", ImageKind::Vdso),
            ("[heap]", ImageKind::Anonymous),
            ("//anon", ImageKind::Anonymous),
            ("/dev/zero (deleted)", ImageKind::Anonymous),
            ("/SYSV0052e2c1 (deleted)", ImageKind::Anonymous),
            ("", ImageKind::Anonymous),
        ];
        for (path, kind) in cases {
            assert_eq!(kind_of(path, false), kind, "{path}");
        }
        let mut spaces = AddressSpaces::new();
        spaces.mmap(&map(1, 0x1000, 0x1000, 0, "/usr/bin/old (deleted)"));
        assert!(spaces.images()[0].deleted);
        assert_eq!(spaces.images()[0].path, "/usr/bin/old");
    }
}
