//! Names of code from `measure/symbols`: implements [`CodeMap`].

use crate::code::{CodeMap, Image, ImageAddress, ImageId, Place, Routine, SourceLine};
use hardmeter_samples::model::{CpuMode, FileOffset, Pid, Record, VirtualAddress};
use hardmeter_symbols as attribution;
use hardmeter_symbols::{ImageKind, Problem, Resolved, RoutineKind, Symbolizer};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Size of the cache of recent places; a power of two.
const RECENT: usize = 4096;

/// Names code with a [`Symbolizer`], each place once.
pub struct SymbolNames {
    symbolizer: Symbolizer,
    /// The name of every place, resolved when it was first sampled: at the end of the pass, the process may have
    /// ended or mapped something else there.
    known: FxHashMap<Place, Resolved>,
    /// Places that are in `known`, by the low bits of their offset. Most samples are at few places; this cache
    /// saves the map look-up: 0.1 s of 1.5 s on five million samples.
    recent: Box<[Place; RECENT]>,
    /// Names by routine number, so that equal names share their text.
    texts: Vec<Option<Arc<str>>>,
}

impl SymbolNames {
    /// Names from a symbolizer that has not processed a record yet.
    pub fn new(symbolizer: Symbolizer) -> Self {
        let nowhere = Place { image: ImageId::NONE, offset: FileOffset(u64::MAX) };
        SymbolNames {
            symbolizer,
            known: FxHashMap::default(),
            recent: Box::new([nowhere; RECENT]),
            texts: Vec::new(),
        }
    }

    /// The symbolizer, for other uses than answers.
    pub fn symbolizer(&mut self) -> &mut Symbolizer {
        &mut self.symbolizer
    }

    /// The resolved place.
    pub fn resolved(&self, place: Place) -> Option<Resolved> {
        self.known.get(&place).copied()
    }

    /// Problems while resolving names.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.symbolizer.problems().iter()
    }

    fn text(&mut self, resolved: Resolved) -> Arc<str> {
        let number = resolved.routine.index();
        if number >= self.texts.len() {
            self.texts.resize(number + 1, None);
        }
        let name = || {
            let routine = self.symbolizer.routine(resolved.routine);
            match routine.kind {
                // "unknown in [kernel]" gets brackets of its own.
                RoutineKind::UnknownInImage => routine.name.replace(['[', ']'], "").into(),
                _ => Arc::from(routine.name.as_str()),
            }
        };
        self.texts[number].get_or_insert_with(name).clone()
    }
}

/// The number of an image of the symbolizer in the analysis.
pub(crate) fn image_number(image: attribution::ImageId) -> ImageId {
    ImageId(image.index() as u32)
}

impl CodeMap for SymbolNames {
    fn observe(&mut self, record: &Record<'_>) {
        self.symbolizer.observe(record);
    }

    fn place(&mut self, pid: Option<Pid>, address: VirtualAddress, mode: CpuMode) -> Place {
        let pid = pid.unwrap_or(Pid(-1));
        let guest = matches!(mode, CpuMode::GuestKernel | CpuMode::GuestUser);
        let spaces = self.symbolizer.spaces();
        if let Some(mapped) = spaces.resolve(pid, address, mode).filter(|_| !guest) {
            let kind = spaces.image(mapped.image).kind;
            if matches!(kind, ImageKind::File | ImageKind::Vdso | ImageKind::Kernel | ImageKind::KernelModule)
            {
                let place = Place { image: image_number(mapped.image), offset: mapped.offset };
                let recent = &mut self.recent[place.offset.0 as usize % RECENT];
                if *recent != place {
                    *recent = place;
                    let symbolizer = &mut self.symbolizer;
                    self.known.entry(place).or_insert_with(|| symbolizer.lookup(pid, address, mode));
                }
                return place;
            }
        }
        // Compiled code and unknown addresses have no file to be an offset in.
        let resolved = self.symbolizer.lookup(pid, address, mode);
        let image = resolved.image.map_or(ImageId::NONE, image_number);
        let place = Place { image, offset: FileOffset(resolved.address.0) };
        self.known.insert(place, resolved);
        place
    }

    fn image(&self, image: ImageId) -> Option<Image> {
        let description = self.symbolizer.spaces().images().get(image.0 as usize)?;
        let path = match description.kind {
            ImageKind::Kernel => description.name.clone(),
            _ => description.path.clone(),
        };
        Some(Image { path, build_id: description.build_id.as_ref().map(|id| id.to_string()) })
    }

    fn address(&mut self, place: Place) -> ImageAddress {
        ImageAddress(self.resolved(place).map_or(place.offset.0, |resolved| resolved.address.0))
    }

    fn routine(&mut self, place: Place) -> Routine {
        let Some(resolved) = self.resolved(place) else {
            return Routine::Unknown("unknown address".into());
        };
        let text = self.text(resolved);
        match self.symbolizer.routine(resolved.routine).kind {
            RoutineKind::Function | RoutineKind::PltStub => Routine::Named(text),
            RoutineKind::StaticFunction => Routine::Nameless(text),
            RoutineKind::UnknownInImage | RoutineKind::UnknownAddress => Routine::Unknown(text),
        }
    }

    fn line(&mut self, place: Place) -> Option<SourceLine> {
        let resolved = self.resolved(place)?;
        let frames = self.symbolizer.lines(resolved.image?, resolved.address);
        // The innermost frame: for inlined code, the inlined line.
        let frame = frames.iter().find(|frame| frame.line.is_some())?;
        Some(SourceLine { file: frame.file.as_deref()?.into(), line: frame.line? })
    }
}
