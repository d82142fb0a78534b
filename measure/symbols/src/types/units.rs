//! Units of debug information from all sources under one numbering; and references between entries.

use super::sections::{DebugError, DebugFile, PackageFile, Slice};
use gimli::{AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, Unit, UnitOffset, UnitType};
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Maximum number of units; Chromium has 40,000.
const UNITS_AT_MOST: usize = 1 << 20;

/// An entry (DIE): the number of its unit, and its offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct EntryRef {
    pub(super) unit: u32,
    pub(super) offset: usize,
}

/// The file that contains a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Main,
    /// Made by dwz: the common parts of several files.
    Supplementary,
    /// A `.dwo` file, by its number.
    Split(usize),
    /// A unit of the `.dwp` file.
    Package(gimli::DwoId),
}

/// The position of a unit.
#[derive(Clone, Copy, Debug)]
struct UnitPlace {
    source: Source,
    /// Range in `.debug_info`.
    start: usize,
    end: usize,
    /// The unit of the main file that this split one completes.
    skeleton: Option<u32>,
    /// Whether it is a skeleton whose split unit was found, which replaces it.
    replaced: bool,
}

/// All files with debug information of one image.
pub(super) struct DebugFiles {
    main: DebugFile,
    supplementary: Option<DebugFile>,
    split: Vec<DebugFile>,
    package: Option<PackageFile>,
    units: Vec<UnitPlace>,
    /// Runs of units of one source, each in the order of offsets.
    runs: Vec<(Source, Range<usize>)>,
    /// Type units by signature.
    signatures: FxHashMap<u64, EntryRef>,
}

impl DebugFiles {
    /// Opens them and lists the units.
    pub(super) fn open(path: &Path, supplementary: Option<&Path>) -> Result<DebugFiles, DebugError> {
        let supplementary = supplementary.map(DebugFile::open).transpose()?;
        let mut package = path.as_os_str().to_owned();
        package.push(".dwp");
        let mut files = DebugFiles {
            main: DebugFile::open(path)?,
            supplementary,
            split: Vec::new(),
            package: PackageFile::open(Path::new(&package)).ok(),
            units: Vec::new(),
            runs: Vec::new(),
            signatures: FxHashMap::default(),
        };
        let mut skeletons = Vec::new();
        for source in [Source::Main, Source::Supplementary] {
            skeletons.extend(files.list(source)?);
        }
        for (unit, id, path) in skeletons {
            files.add_split(unit, id, &path)?;
        }
        Ok(files)
    }

    /// Lists the units of a source; returns its skeletons, with the id and path of their split units.
    fn list(&mut self, source: Source) -> Result<Vec<(u32, gimli::DwoId, PathBuf)>, DebugError> {
        let mut skeletons = Vec::new();
        let mut found = Vec::new();
        let mut signatures = Vec::new();
        {
            let opener = Opener::new(self);
            let Some(dwarf) = opener.dwarf(source)? else { return Ok(skeletons) };
            let mut headers = dwarf.units();
            // Units after a damaged header cannot be located; earlier ones are used.
            while let Ok(Some(header)) = headers.next() {
                let number = self.units.len() + found.len();
                if number >= UNITS_AT_MOST {
                    break;
                }
                let Some(start) = header.debug_info_offset() else { continue };
                let end = start.0.saturating_add(header.length_including_self());
                found.push(UnitPlace { source, start: start.0, end, skeleton: None, replaced: false });
                let type_unit = match header.type_() {
                    UnitType::Type { type_signature, type_offset } => Some((type_signature, type_offset)),
                    UnitType::SplitType { type_signature, type_offset } => {
                        Some((type_signature, type_offset))
                    }
                    _ => None,
                };
                if let Some((signature, offset)) = type_unit {
                    signatures.push((signature.0, EntryRef { unit: number as u32, offset: offset.0 }));
                }
                if source != Source::Main {
                    continue;
                }
                let Ok(unit) = dwarf.unit(header) else { continue };
                if let (Some(id), Ok(Some(name))) = (unit.dwo_id, unit.dwo_name()) {
                    let Ok(name) = dwarf.attr_string(&unit, name) else { continue };
                    let directory = unit.comp_dir.map(|directory| OsStr::from_bytes(directory.slice()));
                    let path = Path::new(directory.unwrap_or_default()).join(OsStr::from_bytes(name.slice()));
                    skeletons.push((number as u32, id, path));
                }
            }
        }
        let first = self.units.len();
        self.units.extend(found);
        self.runs.push((source, first..self.units.len()));
        self.signatures.extend(signatures);
        Ok(skeletons)
    }

    /// Adds the split unit of a skeleton; a file that is missing or of another build adds nothing.
    fn add_split(&mut self, skeleton: u32, id: gimli::DwoId, path: &Path) -> Result<(), DebugError> {
        let in_package = match &self.package {
            Some(package) => package.borrow()?.cu_index.find(id.0).is_some(),
            None => false,
        };
        let source = if in_package {
            Source::Package(id)
        } else {
            let Ok(file) = DebugFile::open_split(path) else { return Ok(()) };
            self.split.push(file);
            Source::Split(self.split.len() - 1)
        };
        let first = self.units.len();
        self.list(source)?;
        let is_complement = {
            let opener = Opener::new(self);
            let dwarf = opener.dwarf(source)?;
            let completes = |place: &UnitPlace| {
                let header = dwarf.as_ref()?.unit_header(gimli::DebugInfoOffset(place.start)).ok()?;
                let unit = dwarf.as_ref()?.unit(header).ok()?;
                (unit.dwo_id == Some(id)).then_some(())
            };
            self.units[first..].iter().any(|place| completes(place).is_some())
        };
        if is_complement {
            self.units[first..].iter_mut().for_each(|place| place.skeleton = Some(skeleton));
            self.units[skeleton as usize].replaced = true;
        } else {
            self.units.truncate(first);
            self.runs.pop();
        }
        Ok(())
    }

    /// Number of units, skeletons included.
    pub(super) fn unit_count(&self) -> u32 {
        self.units.len() as u32
    }

    /// Whether to read a unit's entries: not those of a skeleton whose split unit was found.
    pub(super) fn is_whole(&self, unit: u32) -> bool {
        self.units.get(unit as usize).is_some_and(|place| !place.replaced)
    }
}

/// A unit that is being read.
pub(super) struct OpenUnit<'a> {
    pub(super) number: u32,
    pub(super) dwarf: Rc<Dwarf<Slice<'a>>>,
    pub(super) unit: Unit<Slice<'a>>,
}

/// Opens units for one question, and keeps them until its end.
pub(super) struct Opener<'a> {
    files: &'a DebugFiles,
    main: Rc<Dwarf<Slice<'a>>>,
    open: std::cell::RefCell<FxHashMap<u32, Rc<OpenUnit<'a>>>>,
}

impl<'a> Opener<'a> {
    pub(super) fn new(files: &'a DebugFiles) -> Opener<'a> {
        let endian = files.main.endian;
        let supplementary = files.supplementary.as_ref().map(|file| &file.sections);
        let sections = &files.main.sections;
        let main =
            sections.borrow_with_sup(supplementary, |section| EndianSlice::new(section.bytes(), endian));
        Opener { files, main: Rc::new(main), open: Default::default() }
    }

    /// The sections that a source's units are read from.
    fn dwarf(&self, source: Source) -> Result<Option<Rc<Dwarf<Slice<'a>>>>, DebugError> {
        let dwarf = match source {
            Source::Main => return Ok(Some(Rc::clone(&self.main))),
            Source::Supplementary => {
                let Some(file) = &self.files.supplementary else { return Ok(None) };
                let endian = file.endian;
                file.sections.borrow(|section| EndianSlice::new(section.bytes(), endian))
            }
            Source::Split(number) => {
                let file = &self.files.split[number];
                let endian = file.endian;
                let mut dwarf = file.sections.borrow(|section| EndianSlice::new(section.bytes(), endian));
                dwarf.make_dwo(&self.main);
                dwarf
            }
            Source::Package(id) => {
                let Some(package) = &self.files.package else { return Ok(None) };
                let Some(dwarf) = package.borrow()?.find_cu(id, &self.main)? else { return Ok(None) };
                dwarf
            }
        };
        Ok(Some(Rc::new(dwarf)))
    }

    /// A unit, by its number.
    pub(super) fn unit(&self, number: u32) -> Option<Rc<OpenUnit<'a>>> {
        if let Some(open) = self.open.borrow().get(&number) {
            return Some(Rc::clone(open));
        }
        let place = *self.files.units.get(number as usize)?;
        let dwarf = self.dwarf(place.source).ok()??;
        let header = dwarf.unit_header(gimli::DebugInfoOffset(place.start)).ok()?;
        let mut unit = dwarf.unit(header).ok()?;
        // A split unit has no skeleton of its own: no further step.
        if let Some(skeleton) = place.skeleton.filter(|skeleton| *skeleton != number) {
            unit.copy_relocated_attributes(&self.unit(skeleton)?.unit);
        }
        let open = Rc::new(OpenUnit { number, dwarf, unit });
        self.open.borrow_mut().insert(number, Rc::clone(&open));
        Some(open)
    }

    /// The target of an attribute of a unit's entry.
    pub(super) fn reference_of(&self, unit: u32, value: AttributeValue<Slice<'_>>) -> Option<EntryRef> {
        let source = self.files.units.get(unit as usize)?.source;
        match value {
            AttributeValue::UnitRef(offset) => Some(EntryRef { unit, offset: offset.0 }),
            AttributeValue::DebugInfoRef(offset) => self.in_source(source, offset.0),
            AttributeValue::DebugInfoRefSup(offset) => self.in_source(Source::Supplementary, offset.0),
            AttributeValue::DebugTypesRef(signature) => self.files.signatures.get(&signature.0).copied(),
            _ => None,
        }
    }

    fn in_source(&self, source: Source, offset: usize) -> Option<EntryRef> {
        let (_, run) = self.files.runs.iter().find(|(of, _)| *of == source)?;
        let units = self.files.units.get(run.clone())?;
        let before = units.partition_point(|place| place.start <= offset).checked_sub(1)?;
        let place = &units[before];
        (offset < place.end)
            .then(|| EntryRef { unit: (run.start + before) as u32, offset: offset - place.start })
    }
}

impl<'a> OpenUnit<'a> {
    /// One entry.
    pub(super) fn entry(&self, offset: usize) -> Option<DebuggingInformationEntry<Slice<'a>>> {
        self.unit.entry(UnitOffset(offset)).ok()
    }

    /// A text.
    pub(super) fn text(&self, value: AttributeValue<Slice<'a>>) -> Option<String> {
        let text = self.dwarf.attr_string(&self.unit, value).ok()?;
        Some(String::from_utf8_lossy(text.slice()).into_owned())
    }

    /// The name of an entry.
    pub(super) fn name(&self, entry: &DebuggingInformationEntry<Slice<'a>>) -> Option<String> {
        self.text(entry.attr_value(gimli::DW_AT_name)?).filter(|name| !name.is_empty())
    }

    /// An attribute that is a number.
    pub(super) fn number(
        &self,
        entry: &DebuggingInformationEntry<Slice<'a>>,
        name: gimli::DwAt,
    ) -> Option<u64> {
        entry.attr(name)?.udata_value()
    }
}
