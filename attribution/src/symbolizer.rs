//! From (process, address) to routine, variable and source line, for a whole capture.

use crate::address_spaces::{
    is_kernel_address, AddressSpaces, ImageDescription, ImageId, ImageKind, MappedAddress,
};
use crate::build_id::BuildId;
use crate::demangle::demangle;
use crate::image::bytes::ImageBytes;
use crate::image::lines::{LineTable, SourceFrame};
use crate::image::locate::{Found, Locator};
use crate::image::{Image, ImageAddress, ImageError};
use crate::jit::JitMap;
use crate::kernel::KernelSymbols;
use crate::problem::{ProblemKind, Problems};
use crate::routine::{DataPlace, Resolved, ResolvedData, Routine, RoutineId, RoutineKind};
use hardmeter_samples::model::{CpuMode, FileOffset, Pid, Record, Tid, VirtualAddress};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Where to look for files.
#[derive(Clone, Debug)]
pub struct SymbolizerOptions {
    /// Directories of separate debug files, each with a `.build-id` directory or a copy of the tree.
    pub debug_directories: Vec<PathBuf>,
    /// Whether debug files may be fetched from the servers of `DEBUGINFOD_URLS`. Off by default: it tells others
    /// what runs here, and may take minutes.
    pub allow_debuginfod: bool,
    /// A directory that holds the root file system of the machine of the capture.
    pub sysroot: Option<PathBuf>,
    /// Where just-in-time compilers write their `perf-PID.map`.
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

/// What is known of an image's file.
#[derive(Default)]
enum ImageState {
    #[default]
    NotTried,
    Unavailable,
    Loaded(Box<Image>),
}

/// Like [`ImageState`], of the line table.
#[derive(Default)]
enum LineState {
    #[default]
    NotTried,
    Unavailable,
    Loaded(Box<LineTable>),
}

#[derive(Default)]
struct ImageSlot {
    image: ImageState,
    lines: LineState,
}

#[derive(Default)]
enum KernelState {
    #[default]
    NotTried,
    Unavailable,
    Loaded(KernelSymbols),
}

/// Names the addresses of a capture. Feed it all records in order; look addresses up between them.
pub struct Symbolizer {
    spaces: AddressSpaces,
    locator: Locator,
    options: SymbolizerOptions,
    recorded_builds: HashMap<String, BuildId>,
    slots: Vec<ImageSlot>,
    kernel: KernelState,
    kernel_image: Option<ImageId>,
    jit_maps: FxHashMap<Pid, Option<(ImageId, JitMap)>>,
    routines: Vec<Routine>,
    routine_ids: FxHashMap<(Option<ImageId>, u64, RoutineKind), RoutineId>,
    /// Answers by image and file offset; of the kernel and of compiled code, by image and address.
    answers: FxHashMap<(ImageId, u64), Resolved>,
    data_answers: FxHashMap<(ImageId, u64), DataPlace>,
    line_answers: FxHashMap<(ImageId, u64), Arc<[SourceFrame]>>,
    problems: Problems,
}

impl Symbolizer {
    /// A symbolizer that knows no process yet.
    pub fn new(options: SymbolizerOptions) -> Symbolizer {
        let locator = Locator {
            debug_directories: options.debug_directories.clone(),
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
            jit_maps: FxHashMap::default(),
            routines: Vec::new(),
            routine_ids: FxHashMap::default(),
            answers: FxHashMap::default(),
            data_answers: FxHashMap::default(),
            line_answers: FxHashMap::default(),
            problems: Problems::default(),
        }
    }

    /// Tells the build ids of the capture's header, by path: files of another build then give no names. To be
    /// called before the first lookup.
    pub fn expect_builds(&mut self, builds: impl IntoIterator<Item = (String, BuildId)>) {
        self.recorded_builds.extend(builds);
    }

    /// Takes note of a mapping, name, fork or exit.
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

    /// What the capture told of an image.
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

    /// What went wrong so far.
    pub fn problems(&self) -> &Problems {
        &self.problems
    }

    /// The routine at an address of a process.
    pub fn lookup(&mut self, pid: Pid, address: VirtualAddress, mode: CpuMode) -> Resolved {
        if matches!(mode, CpuMode::GuestKernel | CpuMode::GuestUser) {
            self.problems.note(
                ProblemKind::Guest,
                "capture",
                "holds samples of virtual machines, whose addresses have no names here",
                "record inside the virtual machine",
            );
            return self.unknown_address(address);
        }
        let mapped = self.spaces.resolve(pid, address, mode);
        if is_kernel_address(address, mode) {
            return self.lookup_kernel(mapped, address);
        }
        match mapped {
            Some(mapped) => {
                if let Some(answer) = self.answers.get(&(mapped.image, mapped.offset.0)) {
                    return *answer;
                }
                match self.spaces.image(mapped.image).kind {
                    ImageKind::File | ImageKind::Vdso => self.lookup_file(mapped),
                    _ => self.lookup_jit(pid, address, Some(mapped.image)),
                }
            }
            None => self.lookup_jit(pid, address, None),
        }
    }

    /// The routine at an address of an image: targets of calls, neighbours in a disassembly.
    pub fn lookup_in_image(&mut self, image: ImageId, address: ImageAddress) -> Resolved {
        self.name_code(image, address)
    }

    fn lookup_file(&mut self, mapped: MappedAddress) -> Resolved {
        let address = match self.load(mapped.image) {
            Some(image) => image.address_of(mapped.offset, mapped.executable),
            None => None,
        };
        let answer = match address {
            Some(address) => self.name_code(mapped.image, address),
            None => self.unknown_in_image(mapped.image, ImageAddress(mapped.offset.0)),
        };
        self.answers.insert((mapped.image, mapped.offset.0), answer);
        answer
    }

    /// Names an address of an image: linkage stubs first, whose unwind range covers all of `.plt`; then symbols;
    /// then nameless unwind ranges.
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
        let key = (Some(id), range.start, kind);
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
                let name = self.routine_name(id, kind, range.start, linkage_name.as_deref());
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
        start: u64,
        linkage_name: Option<&str>,
    ) -> String {
        let image = self.spaces.image(id);
        match (kind, linkage_name) {
            (RoutineKind::PltStub, Some(name)) => format!("{}@plt", demangle(name)),
            (RoutineKind::PltStub, None) => format!("linkage stub in {}", image.name),
            (_, Some(name)) => demangle(name),
            (_, None) => {
                let has_static_names = self.loaded(id).is_some_and(|image| image.has_static_names);
                let image = self.spaces.image(id);
                if !has_static_names {
                    self.problems.note(
                        ProblemKind::NoStaticNames,
                        &image.path,
                        "is stripped: its static functions have no names",
                        "install its debug symbols (on Debian the package ends in -dbgsym), or allow debuginfod",
                    );
                }
                format!("static function in {} (+{start:#x})", image.name)
            }
        }
    }

    fn lookup_jit(&mut self, pid: Pid, address: VirtualAddress, area: Option<ImageId>) -> Resolved {
        if !self.jit_maps.contains_key(&pid) {
            let map = self.read_jit_map(pid);
            self.jit_maps.insert(pid, map);
        }
        let found =
            self.jit_maps[&pid].as_ref().and_then(|(image, map)| Some((*image, map.find(address.0)?)));
        let Some((image, entry)) = found else {
            return match area {
                Some(area) => self.unknown_in_image(area, ImageAddress(address.0)),
                None => self.unknown_address(address),
            };
        };
        let key = (Some(image), entry.start, RoutineKind::Function);
        let offset = address.0 - entry.start;
        let routine = match self.routine_ids.get(&key) {
            Some(routine) => *routine,
            None => {
                let routine = Routine {
                    kind: RoutineKind::Function,
                    image: Some(image),
                    name: demangle(&entry.name),
                    linkage_name: Some(entry.name.clone()),
                    start: ImageAddress(entry.start),
                    size: entry.end - entry.start,
                };
                self.add_routine(routine)
            }
        };
        Resolved { routine, offset, image: Some(image), address: ImageAddress(address.0) }
    }

    fn read_jit_map(&mut self, pid: Pid) -> Option<(ImageId, JitMap)> {
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
                Some((self.special_image(shown, name, ImageKind::JitMap), map))
            }
            // Most processes compile nothing: no file is no problem.
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

    fn lookup_kernel(&mut self, mapped: Option<MappedAddress>, address: VirtualAddress) -> Resolved {
        let image = match mapped {
            Some(mapped) => mapped.image,
            None => self.kernel_image(),
        };
        if let Some(answer) = self.answers.get(&(image, address.0)) {
            return *answer;
        }
        self.read_kernel_symbols();
        let found = match &self.kernel {
            KernelState::Loaded(symbols) => symbols.find(address.0),
            _ => None,
        };
        let answer = match found {
            Some(symbol) if symbol.function => {
                let name = symbol.name.to_owned();
                let printed = match symbol.module {
                    Some(module) => format!("{name} [{module}]"),
                    None => name.clone(),
                };
                let (start, size) = (symbol.start, symbol.end - symbol.start);
                let key = (Some(image), start, RoutineKind::Function);
                let known = self.routine_ids.get(&key).copied();
                let routine = known.unwrap_or_else(|| {
                    self.add_routine(Routine {
                        kind: RoutineKind::Function,
                        image: Some(image),
                        name: printed,
                        linkage_name: Some(name),
                        start: ImageAddress(start),
                        size,
                    })
                });
                let offset = address.0 - start;
                Resolved { routine, offset, image: Some(image), address: ImageAddress(address.0) }
            }
            _ => self.unknown_in_image(image, ImageAddress(address.0)),
        };
        self.answers.insert((image, address.0), answer);
        answer
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

    /// The variable, section or area at a data address.
    pub fn lookup_data(&mut self, pid: Pid, address: VirtualAddress) -> ResolvedData {
        if is_kernel_address(address, CpuMode::Unknown) {
            return self.lookup_kernel_data(address);
        }
        let mapped = self.spaces.resolve(pid, address, CpuMode::User);
        if let Some(mapped) = mapped {
            let description = self.spaces.image(mapped.image);
            let area = ResolvedData {
                image: Some(mapped.image),
                address: Some(ImageAddress(mapped.offset.0)),
                place: DataPlace::Area,
            };
            match description.kind {
                ImageKind::File => {
                    let in_image = self.load(mapped.image);
                    let in_image =
                        in_image.and_then(|image| image.address_of(mapped.offset, mapped.executable));
                    return match in_image {
                        Some(in_image) => self.name_data(mapped.image, in_image),
                        None => area,
                    };
                }
                // Named areas (stack, shared memory) are what they say; nameless ones may be a program's .bss.
                ImageKind::Anonymous if !matches!(description.path.as_str(), "" | "//anon" | "[heap]") => {
                    return area;
                }
                _ => {}
            }
            return self.bss_of(pid, address).unwrap_or(area);
        }
        self.bss_of(pid, address).unwrap_or(ResolvedData::UNKNOWN)
    }

    /// The `.bss` of the nearest file mapped below an address, if it reaches that far.
    ///
    /// ```text
    ///   [text of postgres][data of postgres][anonymous: .bss of postgres, then nothing of it][heap]
    /// ```
    fn bss_of(&mut self, pid: Pid, address: VirtualAddress) -> Option<ResolvedData> {
        let is_file = |mapped: &MappedAddress| self.spaces.image(mapped.image).kind == ImageKind::File;
        let mapped = self.spaces.mappings_below(pid, address).find(is_file)?;
        let distance = address.0 - mapped.mapping_start.0;
        let start_offset = FileOffset(mapped.offset.0.wrapping_sub(distance));
        let image = self.load(mapped.image)?;
        let start = image.address_of_mapping(start_offset, mapped.executable)?;
        let in_image = ImageAddress(start.0.wrapping_add(distance));
        image.contains(in_image).then(|| self.name_data(mapped.image, in_image))
    }

    fn name_data(&mut self, id: ImageId, address: ImageAddress) -> ResolvedData {
        let place = match self.data_answers.get(&(id, address.0)) {
            Some(place) => place.clone(),
            None => {
                let place = self.load(id).map_or(DataPlace::Area, |image| data_place(image, address));
                self.data_answers.insert((id, address.0), place.clone());
                place
            }
        };
        ResolvedData { image: Some(id), address: Some(address), place }
    }

    fn lookup_kernel_data(&mut self, address: VirtualAddress) -> ResolvedData {
        let image = self.kernel_image();
        self.read_kernel_symbols();
        let found = match &self.kernel {
            KernelState::Loaded(symbols) => symbols.find(address.0).filter(|symbol| !symbol.function),
            _ => None,
        };
        let place = found.map_or(DataPlace::Area, |symbol| DataPlace::Variable {
            name: symbol.name.into(),
            offset: address.0 - symbol.start,
            size: symbol.end - symbol.start,
        });
        ResolvedData { image: Some(image), address: Some(ImageAddress(address.0)), place }
    }

    /// The source frames at an address of an image, innermost first; empty where nothing is known. The first
    /// question about an image parses its DWARF, which may take a second.
    pub fn lines(&mut self, image: ImageId, address: ImageAddress) -> Arc<[SourceFrame]> {
        if let Some(frames) = self.line_answers.get(&(image, address.0)) {
            return Arc::clone(frames);
        }
        let frames: Arc<[SourceFrame]> = match self.line_table(image) {
            Some(table) => table.frames(address).into(),
            None => Arc::new([]),
        };
        self.line_answers.insert((image, address.0), Arc::clone(&frames));
        frames
    }

    fn line_table(&mut self, id: ImageId) -> Option<&LineTable> {
        self.load(id)?;
        if matches!(self.slots[id.index()].lines, LineState::NotTried) {
            self.slots[id.index()].lines = self.open_line_table(id);
        }
        match &self.slots[id.index()].lines {
            LineState::Loaded(table) => Some(table),
            _ => None,
        }
    }

    fn open_line_table(&mut self, id: ImageId) -> LineState {
        const REMEDY: &str =
            "install its debug symbols (on Debian the package ends in -dbgsym), compile it with -g, \
                              or allow debuginfod";
        let debug_file = self.loaded(id).and_then(|image| image.debug_file.clone());
        let path = self.spaces.image(id).path.clone();
        let Some(debug_file) = debug_file else {
            self.problems.note(ProblemKind::NoLines, &path, "has no line information", REMEDY);
            return LineState::Unavailable;
        };
        match LineTable::open(&debug_file, &self.locator) {
            Ok(table) => LineState::Loaded(Box::new(table)),
            Err(error) => {
                let cause = format!("line information in {} cannot be read: {error}", debug_file.display());
                self.problems.note(ProblemKind::NoLines, &path, cause, REMEDY);
                LineState::Unavailable
            }
        }
    }

    /// The image, if it was loaded before.
    pub(crate) fn loaded(&self, id: ImageId) -> Option<&Image> {
        match &self.slots.get(id.index())?.image {
            ImageState::Loaded(image) => Some(image),
            _ => None,
        }
    }

    /// The image, loaded on the first call; `None`, with a problem noted, when it cannot be.
    pub(crate) fn load(&mut self, id: ImageId) -> Option<&Image> {
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, ImageSlot::default);
        }
        if matches!(self.slots[id.index()].image, ImageState::NotTried) {
            self.slots[id.index()].image = match self.load_now(id) {
                Ok(image) => ImageState::Loaded(Box::new(image)),
                Err(error) => {
                    self.note_image_error(id, &error);
                    ImageState::Unavailable
                }
            };
        }
        self.loaded(id)
    }

    fn load_now(&self, id: ImageId) -> Result<Image, ImageError> {
        let description = self.spaces.image(id);
        let expected = description.build_id.as_ref().or_else(|| self.recorded_builds.get(&description.path));
        let found = match description.kind {
            ImageKind::File => self.locator.image_file(description, expected)?,
            ImageKind::Vdso => {
                let bytes = Arc::new(ImageBytes::Owned(crate::vdso::bytes()?));
                crate::image::check_build(&bytes, expected)?;
                Found { path: PathBuf::from("[vdso]"), bytes }
            }
            _ => return Err(io::Error::from(io::ErrorKind::Unsupported).into()),
        };
        Image::load(&found.path, found.bytes, &self.locator)
    }

    fn note_image_error(&mut self, id: ImageId, error: &ImageError) {
        let description = self.spaces.image(id);
        let (kind, remedy) = match error {
            _ if !matches!(description.kind, ImageKind::File | ImageKind::Vdso) => return,
            ImageError::OtherBuild { .. } => (
                ProblemKind::OtherBuild,
                "install the build that ran, or give its directory tree with --sysroot, or allow debuginfod",
            ),
            _ if description.deleted => (
                ProblemKind::ImageDeleted,
                "the file was replaced while it ran: restart the server and record again, or report while it runs",
            ),
            ImageError::Malformed(_) => (ProblemKind::ImageMalformed, "reinstall it"),
            ImageError::Unreadable(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                (ProblemKind::ImageUnreadable, "report as a user who may read it")
            }
            ImageError::Unreadable(_) => (
                ProblemKind::ImageUnreadable,
                "report on the machine of the capture, or give its directory tree with --sysroot",
            ),
        };
        let path = description.path.clone();
        self.problems.note(kind, &path, error, remedy);
    }

    fn unknown_in_image(&mut self, id: ImageId, address: ImageAddress) -> Resolved {
        let key = (Some(id), 0, RoutineKind::UnknownInImage);
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
        let routine = match self.routine_ids.get(&(None, 0, RoutineKind::UnknownAddress)) {
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
        self.routine_ids.insert((routine.image, routine.start.0, routine.kind), id);
        self.routines.push(routine);
        id
    }
}

/// The variable at an address, or else its section.
fn data_place(image: &Image, address: ImageAddress) -> DataPlace {
    if let Some(symbol) = image.variables.find(address.0) {
        let name = demangle(&image.variables.name(symbol)).into();
        return DataPlace::Variable {
            name,
            offset: address.0 - symbol.start,
            size: symbol.end - symbol.start,
        };
    }
    match image.section_name(address) {
        Some(name) => DataPlace::Section { name: name.into() },
        None => DataPlace::Area,
    }
}
