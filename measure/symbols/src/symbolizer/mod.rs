//! Finds routine, variable and source line of a process and an address, for a whole capture.

mod code;
mod data;
mod fields;
mod images;

use crate::address_spaces::{is_kernel_address, AddressSpaces, ImageDescription, ImageId, ImageKind};
use crate::build_id::BuildId;
use crate::demangle::demangle;
use crate::image::lines::SourceFrame;
use crate::image::locate::Locator;
use crate::image::ImageAddress;
use crate::jit::JitMap;
use crate::kernel::KernelSymbols;
use crate::problem::{ProblemKind, Problems};
use crate::routine::{DataPlace, Place, Resolved, Routine, RoutineId, RoutineKind};
use crate::types::{DataField, NoField};
use hardmeter_samples::model::{CpuMode, FileOffset, Pid, Record, Tid, VirtualAddress};
use images::ImageSlot;
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Where to search for files.
#[derive(Clone, Debug)]
pub struct SymbolizerOptions {
    /// Directories of separate debug files, each with a `.build-id` directory or a copy of the tree.
    pub debug_directories: Vec<PathBuf>,
    /// Whether debug files may be fetched from the servers of `DEBUGINFOD_URLS`. Off by default: it discloses which
    /// programs run here, and may take minutes.
    pub allow_debuginfod: bool,
    /// A directory that holds the root file system of the machine of the capture.
    pub sysroot: Option<PathBuf>,
    /// The directory of just-in-time compilers' `perf-PID.map`.
    pub jit_map_directory: PathBuf,
    /// The kernel's symbol table.
    pub kernel_symbols: PathBuf,
}

impl Default for SymbolizerOptions {
    fn default() -> SymbolizerOptions {
        SymbolizerOptions {
            debug_directories: vec![PathBuf::from("/usr/lib/debug")],
            allow_debuginfod: false,
            sysroot: None,
            jit_map_directory: PathBuf::from("/tmp"),
            kernel_symbols: PathBuf::from("/proc/kallsyms"),
        }
    }
}

#[derive(Default)]
enum KernelState {
    #[default]
    NotTried,
    Unavailable,
    Loaded(KernelSymbols),
}

/// Image, start, size, kind: aliases of one start may differ in size.
type RoutineKey = (Option<ImageId>, u64, u64, RoutineKind);

/// Names the addresses of a capture. Add all records in order; look addresses up between them.
pub struct Symbolizer {
    spaces: AddressSpaces,
    locator: Locator,
    options: SymbolizerOptions,
    recorded_builds: HashMap<String, BuildId>,
    slots: Vec<ImageSlot>,
    kernel: KernelState,
    kernel_image: Option<ImageId>,
    jit_images: FxHashMap<Pid, Option<ImageId>>,
    jit_maps: FxHashMap<ImageId, JitMap>,
    routines: Vec<Routine>,
    routine_ids: FxHashMap<RoutineKey, RoutineId>,
    /// Cache by image and file offset; for the kernel and compiled code, by image and address.
    answers: FxHashMap<(ImageId, u64), Resolved>,
    data_answers: FxHashMap<(ImageId, u64), DataPlace>,
    line_answers: FxHashMap<(ImageId, u64), Arc<[SourceFrame]>>,
    /// By image, address and size of the access.
    variable_answers: FxHashMap<(ImageId, u64, u8), Result<DataField, NoField>>,
    problems: Problems,
}

impl Symbolizer {
    /// A symbolizer without processes.
    pub fn new(options: SymbolizerOptions) -> Symbolizer {
        let in_sysroot = options.sysroot.iter().map(|root| root.join("usr/lib/debug"));
        let locator = Locator {
            debug_directories: in_sysroot.chain(options.debug_directories.iter().cloned()).collect(),
            allow_debuginfod: options.allow_debuginfod,
            sysroot: options.sysroot.clone(),
        };
        Symbolizer {
            spaces: AddressSpaces::new(),
            locator,
            options,
            recorded_builds: HashMap::new(),
            slots: Vec::new(),
            kernel: KernelState::NotTried,
            kernel_image: None,
            jit_images: FxHashMap::default(),
            jit_maps: FxHashMap::default(),
            routines: Vec::new(),
            routine_ids: FxHashMap::default(),
            answers: FxHashMap::default(),
            data_answers: FxHashMap::default(),
            line_answers: FxHashMap::default(),
            variable_answers: FxHashMap::default(),
            problems: Problems::default(),
        }
    }

    /// Sets the build ids of the capture's header, by path: files of another build then give no names. Call it
    /// before the first lookup.
    pub fn expect_builds(&mut self, builds: impl IntoIterator<Item = (String, BuildId)>) {
        self.recorded_builds.extend(builds);
    }

    /// Processes a mapping, name, fork or exit.
    pub fn observe(&mut self, record: &Record<'_>) {
        self.spaces.observe(record);
    }

    /// The address spaces, as of the last record.
    pub fn spaces(&self) -> &AddressSpaces {
        &self.spaces
    }

    /// The address spaces, to feed them record by record.
    pub fn spaces_mut(&mut self) -> &mut AddressSpaces {
        &mut self.spaces
    }

    /// The name of a thread.
    pub fn comm(&self, pid: Pid, tid: Tid) -> Option<&str> {
        self.spaces.comm(pid, tid)
    }

    /// The recorded data of an image.
    pub fn image(&self, id: ImageId) -> &ImageDescription {
        self.spaces.image(id)
    }

    /// The routines named so far.
    pub fn routines(&self) -> &[Routine] {
        &self.routines
    }

    /// One of them.
    pub fn routine(&self, id: RoutineId) -> &Routine {
        &self.routines[id.index()]
    }

    /// The problems so far.
    pub fn problems(&self) -> &Problems {
        &self.problems
    }

    /// The routine at an address of a process: [`place`](Symbolizer::place), then [`name`](Symbolizer::name).
    pub fn lookup(&mut self, pid: Pid, address: VirtualAddress, mode: CpuMode) -> Resolved {
        let place = self.place(pid, address, mode);
        self.name(place)
    }

    /// The place of an address of a process at this point. Opens no image: cheap enough for every sample, so that
    /// places can be counted before they are named.
    pub fn place(&mut self, pid: Pid, address: VirtualAddress, mode: CpuMode) -> Place {
        let outside = Place { image: None, offset: FileOffset(address.0) };
        if matches!(mode, CpuMode::GuestKernel | CpuMode::GuestUser) {
            self.problems.note(
                ProblemKind::Guest,
                "capture",
                "holds samples of virtual machines, whose addresses have no names here",
                "record inside the virtual machine",
            );
            return outside;
        }
        let mapped = self.spaces.resolve(pid, address, mode);
        if is_kernel_address(address, mode) {
            let image = mapped.map_or_else(|| self.kernel_image(), |mapped| mapped.image);
            return Place { image: Some(image), offset: FileOffset(address.0) };
        }
        if let Some(mapped) = mapped {
            if matches!(self.spaces.image(mapped.image).kind, ImageKind::File | ImageKind::Vdso) {
                return Place { image: Some(mapped.image), offset: mapped.offset };
            }
        }
        // Code outside all files was made by a compiler at run time.
        let area = mapped.map(|mapped| mapped.image);
        let image = self.jit_image(pid, address).or(area);
        Place { image, ..outside }
    }

    /// The routine at a place.
    pub fn name(&mut self, place: Place) -> Resolved {
        let address = VirtualAddress(place.offset.0);
        let Some(image) = place.image else { return self.unknown_address(address) };
        if let Some(answer) = self.answers.get(&(image, place.offset.0)) {
            return *answer;
        }
        let answer = match self.spaces.image(image).kind {
            ImageKind::File | ImageKind::Vdso => match self.address_in_image(place) {
                Some(address) => self.name_code(image, address),
                None => self.unknown_in_image(image, ImageAddress(place.offset.0)),
            },
            ImageKind::Kernel | ImageKind::KernelModule => self.name_kernel(image, address),
            ImageKind::JitMap => self.name_jit(image, address),
            ImageKind::Anonymous => self.unknown_in_image(image, ImageAddress(address.0)),
        };
        self.answers.insert((image, place.offset.0), answer);
        answer
    }

    /// The routine at an address of an image: targets of calls, neighbours in a disassembly.
    pub fn name_in_image(&mut self, image: ImageId, address: ImageAddress) -> Resolved {
        match self.spaces.image(image).kind {
            ImageKind::File | ImageKind::Vdso => self.name_code(image, address),
            _ => self.name(Place { image: Some(image), offset: FileOffset(address.0) }),
        }
    }

    fn address_in_image(&mut self, place: Place) -> Option<ImageAddress> {
        self.load_code(place.image?)?.address_of(place.offset, true)
    }

    /// Names an address of an image: linkage stubs first, whose unwind range covers all of `.plt`; then symbols;
    /// then unnamed unwind ranges.
    fn name_code(&mut self, id: ImageId, address: ImageAddress) -> Resolved {
        let Some(image) = self.load(id) else { return self.unknown_in_image(id, address) };
        let (kind, range, linkage_name) = if let Some(stub) = image.plt.find(address.0) {
            (RoutineKind::PltStub, stub.range.clone(), stub.name.clone())
        } else if let Some(symbol) = image.functions.find(address.0) {
            (RoutineKind::Function, symbol.start..symbol.end, None)
        } else if let Some(range) = image.unwind.find(address.0) {
            (RoutineKind::StaticFunction, range, None)
        } else {
            return self.unknown_in_image(id, address);
        };
        let key = (Some(id), range.start, range.end - range.start, kind);
        let routine = match self.routine_ids.get(&key) {
            Some(routine) => *routine,
            None => {
                let linkage_name = match kind {
                    RoutineKind::Function => {
                        let image = self.loaded(id).expect("loaded above");
                        image.functions.find(address.0).map(|symbol| image.functions.name(symbol))
                    }
                    _ => linkage_name,
                };
                let name = self.routine_name(id, kind, range.clone(), linkage_name.as_deref());
                let (start, size) = (ImageAddress(range.start), range.end - range.start);
                self.add_routine(Routine { kind, image: Some(id), name, linkage_name, start, size })
            }
        };
        Resolved { routine, offset: address.0.wrapping_sub(range.start), image: Some(id), address }
    }

    fn routine_name(
        &mut self,
        id: ImageId,
        kind: RoutineKind,
        range: Range<u64>,
        linkage_name: Option<&str>,
    ) -> String {
        let loaded = self.loaded(id);
        let has_static_names = loaded.is_some_and(|image| image.has_static_names);
        let position = match linkage_name {
            None => loaded.and_then(|image| image.position_of_nameless(range.clone())),
            Some(_) => None,
        };
        let image = self.spaces.image(id);
        match (kind, linkage_name) {
            (RoutineKind::PltStub, Some(name)) => format!("{}@plt", demangle(name)),
            (RoutineKind::PltStub, None) => format!("linkage stub in {}", image.name),
            (_, Some(name)) => demangle(name),
            (_, None) => {
                // Symbols of the vdso cannot be installed.
                if !has_static_names && image.kind == ImageKind::File {
                    self.problems.note(
                        ProblemKind::NoStaticNames,
                        &image.path,
                        "is stripped: its static functions have no names",
                        "install its debug symbols (on Debian the package ends in -dbgsym), or allow debuginfod",
                    );
                }
                match position {
                    // Names before which it may lie, such as `_PG_init`, are in several libraries.
                    Some(position) if image.name.contains(".so") => {
                        format!("static function {position} in {}", image.name)
                    }
                    Some(position) => format!("static function {position}"),
                    None => format!("static function in {} (+{:#x})", image.name, range.start),
                }
            }
        }
    }

    /// The image of the compiled routine at an address, if the process's map file has one.
    fn jit_image(&mut self, pid: Pid, address: VirtualAddress) -> Option<ImageId> {
        if !self.jit_images.contains_key(&pid) {
            let image = self.read_jit_map(pid);
            self.jit_images.insert(pid, image);
        }
        let image = self.jit_images[&pid]?;
        self.jit_maps[&image].find(address.0).map(|_| image)
    }

    fn name_jit(&mut self, image: ImageId, address: VirtualAddress) -> Resolved {
        let Some(entry) = self.jit_maps.get(&image).and_then(|map| map.find(address.0)) else {
            return self.unknown_in_image(image, ImageAddress(address.0));
        };
        let routine = Routine {
            kind: RoutineKind::Function,
            image: Some(image),
            name: demangle(&entry.name),
            linkage_name: Some(entry.name.clone()),
            start: ImageAddress(entry.start),
            size: entry.end - entry.start,
        };
        self.resolved(routine, image, address)
    }

    /// An answer at a run-time address, with its routine added unless it is known.
    fn resolved(&mut self, routine: Routine, image: ImageId, address: VirtualAddress) -> Resolved {
        let offset = address.0.wrapping_sub(routine.start.0);
        let known = self.routine_ids.get(&routine.key()).copied();
        let routine = known.unwrap_or_else(|| self.add_routine(routine));
        Resolved { routine, offset, image: Some(image), address: ImageAddress(address.0) }
    }

    fn read_jit_map(&mut self, pid: Pid) -> Option<ImageId> {
        let path = self.options.jit_map_directory.join(format!("perf-{pid}.map"));
        let shown = path.display().to_string();
        match JitMap::read(&path) {
            Ok(map) => {
                if map.malformed_lines > 0 {
                    let cause =
                        format!("has {} lines that are no entries; they were left out", map.malformed_lines);
                    self.problems.note(ProblemKind::JitMap, &shown, cause, "");
                }
                let name = format!("perf-{pid}.map");
                let image = self.special_image(shown, name, ImageKind::JitMap);
                self.jit_maps.insert(image, map);
                Some(image)
            }
            // Most processes compile nothing: a missing file is not a problem.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.problems.note(ProblemKind::JitMap, &shown, format!("cannot be read: {error}"), "");
                None
            }
        }
    }

    fn special_image(&mut self, path: String, name: String, kind: ImageKind) -> ImageId {
        self.spaces.intern_special(ImageDescription {
            path,
            name,
            kind,
            build_id: None,
            deleted: false,
            first_mapping: (Pid(-1), 0, 0),
            kernel_reference: None,
        })
    }

    fn name_kernel(&mut self, image: ImageId, address: VirtualAddress) -> Resolved {
        self.read_kernel_symbols();
        let found = match &self.kernel {
            KernelState::Loaded(symbols) => symbols.find(address.0).filter(|symbol| symbol.function),
            _ => None,
        };
        let Some(symbol) = found else { return self.unknown_in_image(image, ImageAddress(address.0)) };
        let routine = Routine {
            kind: RoutineKind::Function,
            image: Some(image),
            name: match symbol.module {
                Some(module) => format!("{} [{module}]", symbol.name),
                None => symbol.name.to_owned(),
            },
            linkage_name: Some(symbol.name.to_owned()),
            start: ImageAddress(symbol.start),
            size: symbol.end - symbol.start,
        };
        self.resolved(routine, image, address)
    }

    /// The image of kernel addresses that no recorded mapping covers.
    fn kernel_image(&mut self) -> ImageId {
        if let Some(image) = self.kernel_image {
            return image;
        }
        let image =
            self.special_image("[kernel.kallsyms]".to_owned(), "[kernel]".to_owned(), ImageKind::Kernel);
        self.kernel_image = Some(image);
        image
    }

    fn read_kernel_symbols(&mut self) {
        if !matches!(self.kernel, KernelState::NotTried) {
            return;
        }
        let recorded = self.spaces.images().iter().find(|image| image.kind == ImageKind::Kernel);
        let build = recorded.and_then(|image| image.build_id.as_ref());
        let build = build.or_else(|| self.recorded_builds.get("[kernel.kallsyms]"));
        let reference = recorded.and_then(|image| image.kernel_reference.as_ref());
        self.kernel = match KernelSymbols::read(&self.options.kernel_symbols, reference, build) {
            Ok(symbols) => KernelState::Loaded(symbols),
            Err(error) => {
                self.problems.note(ProblemKind::KernelNames, "kernel", &error, error.remedy());
                KernelState::Unavailable
            }
        };
    }

    fn unknown_in_image(&mut self, id: ImageId, address: ImageAddress) -> Resolved {
        let key = (Some(id), 0, 0, RoutineKind::UnknownInImage);
        let routine = match self.routine_ids.get(&key) {
            Some(routine) => *routine,
            None => self.add_routine(Routine {
                kind: RoutineKind::UnknownInImage,
                image: Some(id),
                name: format!("unknown in {}", self.spaces.image(id).name),
                linkage_name: None,
                start: ImageAddress(0),
                size: 0,
            }),
        };
        Resolved { routine, offset: address.0, image: Some(id), address }
    }

    fn unknown_address(&mut self, address: VirtualAddress) -> Resolved {
        let routine = match self.routine_ids.get(&(None, 0, 0, RoutineKind::UnknownAddress)) {
            Some(routine) => *routine,
            None => self.add_routine(Routine {
                kind: RoutineKind::UnknownAddress,
                image: None,
                name: "unknown address".to_owned(),
                linkage_name: None,
                start: ImageAddress(0),
                size: 0,
            }),
        };
        Resolved { routine, offset: address.0, image: None, address: ImageAddress(address.0) }
    }

    fn add_routine(&mut self, routine: Routine) -> RoutineId {
        let id = RoutineId(self.routines.len() as u32);
        self.routine_ids.insert(routine.key(), id);
        self.routines.push(routine);
        id
    }
}

impl Routine {
    fn key(&self) -> RoutineKey {
        (self.image, self.start.0, self.size, self.kind)
    }
}
