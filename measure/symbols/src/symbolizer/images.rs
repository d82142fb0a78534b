//! Images and their line tables, opened on the first question about them.

use super::Symbolizer;
use crate::address_spaces::{ImageId, ImageKind};
use crate::build_id::BuildId;
use crate::image::bytes::ImageBytes;
use crate::image::lines::{LineError, LineTable, SourceFrame};
use crate::image::locate::Found;
use crate::image::{Image, ImageAddress, ImageError};
use crate::problem::ProblemKind;
use crate::types::{NoField, TypeTable};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NO_LINES_REMEDY: &str =
    "install its debug symbols (on Debian the package ends in -dbgsym), compile it with -g, \
                               or allow debuginfod";

/// The state of an image's file.
#[derive(Default)]
pub(super) enum ImageState {
    #[default]
    NotTried,
    Unavailable,
    /// A data file: a problem only if code is reported in it.
    NotElf,
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

/// Like [`ImageState`], of the types.
#[derive(Default)]
pub(super) enum TypeState {
    #[default]
    NotTried,
    Unavailable(NoField),
    Loaded(Box<TypeTable>),
}

/// One image of the capture.
#[derive(Default)]
pub(super) struct ImageSlot {
    pub(super) image: ImageState,
    lines: LineState,
    pub(super) types: TypeState,
}

impl ImageState {
    /// The image, if it was loaded.
    pub(super) fn loaded(&self) -> Option<&Image> {
        match self {
            ImageState::Loaded(image) => Some(image),
            _ => None,
        }
    }
}

impl Symbolizer {
    /// The file that an image was read from, which may differ from the recorded path.
    pub fn image_file(&mut self, image: ImageId) -> Option<&Path> {
        self.load(image).map(|image| image.path.as_path())
    }

    /// The build of an image: as recorded, else from the file that was read.
    pub fn build_id(&mut self, image: ImageId) -> Option<BuildId> {
        let description = self.spaces.image(image);
        let recorded = description.build_id.as_ref().or_else(|| self.recorded_builds.get(&description.path));
        match recorded {
            Some(recorded) => Some(recorded.clone()),
            None => self.load(image)?.build_id.clone(),
        }
    }

    /// The source frames at an address of an image, innermost first; empty if unknown. The first question about an
    /// image parses its DWARF, which may take a second.
    pub fn lines(&mut self, image: ImageId, address: ImageAddress) -> Arc<[SourceFrame]> {
        if let Some(frames) = self.line_answers.get(&(image, address.0)) {
            return Arc::clone(frames);
        }
        let frames: Arc<[SourceFrame]> = match self.line_table(image).map(|table| table.frames(address)) {
            Some(Ok(frames)) => frames.into(),
            Some(Err(error)) => {
                self.slots[image.index()].lines = LineState::Unavailable;
                self.note_line_error(image, &error);
                Arc::new([])
            }
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
        let debug_file = self.loaded(id).and_then(|image| image.debug_file.clone());
        let Some(debug_file) = debug_file else {
            let path = &self.spaces.image(id).path;
            self.problems.note(ProblemKind::NoLines, path, "has no line information", NO_LINES_REMEDY);
            return LineState::Unavailable;
        };
        match LineTable::open(&debug_file, &self.locator) {
            Ok(table) => LineState::Loaded(Box::new(table)),
            Err(error) => {
                self.note_line_error(id, &error);
                LineState::Unavailable
            }
        }
    }

    fn note_line_error(&mut self, id: ImageId, error: &LineError) {
        let debug_file =
            self.loaded(id).and_then(|image| image.debug_file.as_deref()).unwrap_or(Path::new(""));
        let cause = format!("line information in {} cannot be read: {error}", debug_file.display());
        self.problems.note(ProblemKind::NoLines, &self.spaces.image(id).path, cause, NO_LINES_REMEDY);
    }

    /// The image, if it was loaded before.
    pub(crate) fn loaded(&self, id: ImageId) -> Option<&Image> {
        self.slots.get(id.index())?.image.loaded()
    }

    /// The image, loaded at the first call; `None`, with a problem recorded, if it cannot be loaded.
    pub(crate) fn load(&mut self, id: ImageId) -> Option<&Image> {
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, ImageSlot::default);
        }
        if matches!(self.slots[id.index()].image, ImageState::NotTried) {
            self.slots[id.index()].image = match self.load_now(id) {
                Ok(image) => ImageState::Loaded(Box::new(image)),
                Err(ImageError::NotElf) => ImageState::NotElf,
                Err(error) => {
                    self.note_image_error(id, &error);
                    ImageState::Unavailable
                }
            };
        }
        self.loaded(id)
    }

    /// The image of code that ran: a file that is not a program is recorded as a problem.
    pub(super) fn load_code(&mut self, id: ImageId) -> Option<&Image> {
        self.load(id);
        if matches!(self.slots[id.index()].image, ImageState::NotElf) {
            self.note_image_error(id, &ImageError::NotElf);
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
            ImageError::Malformed(_) | ImageError::NotElf => (ProblemKind::ImageMalformed, "reinstall it"),
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
}
