//! The types of one image: opened at the first question, with a cache of answers.

use super::frame::Frames;
use super::index::Index;
use super::location;
use super::path::{Strides, Wanted};
use super::registers::{self, Answers, Function};
use super::sections::DebugError;
use super::shape::{Shapes, TypeReader, Types};
use super::units::{DebugFiles, Opener};
use super::{DataField, FieldEvidence, FieldOwner, NoField};
use crate::image::{Image, ImageAddress};
use rustc_hash::FxHashSet;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

/// Maximum length of a followed function: generated ones may have megabytes.
const CODE_AT_MOST: u64 = 1 << 20;
/// Maximum number of cached answers, a few hundred megabytes; then the cache is cleared.
const ANSWERS_AT_MOST: usize = 1 << 21;

/// Debug information of one image.
pub(crate) struct TypeTable {
    files: DebugFiles,
    index: Index,
    shapes: Shapes,
    /// Read on the first question about an instruction.
    frames: Option<Frames>,
    answers: Answers,
}

impl TypeTable {
    /// Opens the file with the debug sections and reads through it once.
    pub(crate) fn open(debug_file: &Path, supplementary: Option<&Path>) -> Result<TypeTable, DebugError> {
        let open = || {
            let files = DebugFiles::open(debug_file, supplementary)?;
            let index = Index::read(&files);
            Ok(TypeTable {
                files,
                index,
                shapes: Shapes::default(),
                frames: None,
                answers: Answers::default(),
            })
        };
        catch_unwind(open).unwrap_or(Err(DebugError::Panicked))
    }

    /// The variable and field at an address. `size`: access size in bytes, 0 if unknown. After the error
    /// [`NoField::DamagedDebugInformation`] the table must not be used again.
    pub(crate) fn variable(&mut self, address: ImageAddress, size: u64) -> Result<DataField, NoField> {
        // Unwind safe: the table is dropped if this fails.
        let find = AssertUnwindSafe(|| self.find_variable(address, size));
        catch_unwind(find).unwrap_or(Err(NoField::DamagedDebugInformation))
    }

    fn find_variable(&mut self, address: ImageAddress, size: u64) -> Result<DataField, NoField> {
        let opener = Opener::new(&self.files);
        let mut reader = TypeReader { opener: &opener, index: &self.index, shapes: &mut self.shapes };
        let (start, entry) = self.index.variable_at_or_below(address.0).ok_or(NoField::NoVariable)?;
        let unit = opener.unit(entry.unit).ok_or(NoField::NoVariable)?;
        let found = unit.entry(entry.offset).ok_or(NoField::NoVariable)?;
        let type_of = reader.type_of(&unit, &found);
        let name = reader.name_of(&unit, &found).ok_or(NoField::NoVariable)?;
        let offset = address.0 - start;
        if reader.size(type_of).is_some_and(|size| offset >= size) {
            return Err(NoField::NoVariable);
        }
        let type_name = reader.cached_owner_name(type_of);
        let owner = FieldOwner::Variable { name: name.into(), type_name };
        let offset = i64::try_from(offset).map_err(|_| NoField::BadOffset)?;
        let wanted = Wanted { offset, size, strides: Strides::default(), repeats: false };
        registers::field_of(&mut reader, owner, type_of, wanted, FieldEvidence::Address)
    }

    /// The field of an instruction's memory operand; errors as in [`TypeTable::variable`].
    pub(crate) fn operand(&mut self, image: &Image, ip: ImageAddress) -> Result<Arc<DataField>, NoField> {
        if let Some(known) = self.answers.get(&ip.0) {
            return known.clone();
        }
        let follow = AssertUnwindSafe(|| self.follow(image, ip));
        let answers = catch_unwind(follow).unwrap_or(Err(NoField::DamagedDebugInformation))?;
        if self.answers.len() > ANSWERS_AT_MOST {
            self.answers.clear();
        }
        self.answers.extend(answers);
        // Between two instructions: a file of another build, or data within code.
        self.answers.entry(ip.0).or_insert(Err(NoField::NoMemoryOperand)).clone()
    }

    fn follow(&mut self, image: &Image, ip: ImageAddress) -> Result<Answers, NoField> {
        let function = self.index.function_at(ip.0).ok_or(NoField::NoFunction)?;
        let end = function.end.min(function.start.saturating_add(CODE_AT_MOST));
        let opener = Opener::new(&self.files);
        let mut reader = TypeReader { opener: &opener, index: &self.index, shapes: &mut self.shapes };
        let locals = location::locals(&reader, function.entry, (function.start, end));
        let file = image.parse().ok();
        let frame = file.map_or_else(Vec::new, |file| {
            let frames = self.frames.get_or_insert_with(|| Frames::read(&file));
            frames.rows(&file, function.start)
        });
        let code = image.bytes_at(ImageAddress(function.start)..ImageAddress(end));
        let mut outside = FxHashSet::default();
        for other in self.index.ranges_of(function.entry).filter(|other| other.start != function.start) {
            let end = other.end.min(other.start.saturating_add(CODE_AT_MOST));
            let code = image.bytes_at(ImageAddress(other.start)..ImageAddress(end));
            outside.extend(registers::targets_of(code, other.start));
        }
        let function =
            Function { code, start: function.start, locals: &locals, frame: &frame, outside: &outside };
        Ok(registers::follow(&function, &mut reader))
    }
}
