//! Fields of variables and types: looks up a data address or an instruction in DWARF.

use super::images::TypeState;
use super::Symbolizer;
use crate::address_spaces::{ImageId, ImageKind};
use crate::image::ImageAddress;
use crate::problem::ProblemKind;
use crate::types::{DataField, NoField, TypeTable};
use hardmeter_samples::model::{AccessSize, Pid, VirtualAddress};
use object::Architecture;
use std::sync::Arc;

const NO_TYPES_REMEDY: &str =
    "install its debug symbols (on Debian the package ends in -dbgsym) or compile it with -g";

impl Symbolizer {
    /// The global or static variable at a data address, and its field: `stats.counters[3].hits`.
    ///
    /// `size` is the access's size in bytes (0 if unknown); it selects among the members of a union.
    ///
    /// # Errors
    ///
    /// [`NoField`] if the address is in no image, or debug information does not describe it.
    pub fn variable_field(
        &mut self,
        pid: Pid,
        address: VirtualAddress,
        size: AccessSize,
    ) -> Result<DataField, NoField> {
        let place = self.lookup_data(pid, address);
        let (Some(image), Some(address)) = (place.image, place.address) else { return Err(NoField::NoImage) };
        self.variable_field_in_image(image, address, size)
    }

    /// The same for an address in an image, as in [`ResolvedData`](crate::ResolvedData).
    ///
    /// # Errors
    ///
    /// [`NoField`] if debug information does not describe it.
    pub fn variable_field_in_image(
        &mut self,
        image: ImageId,
        address: ImageAddress,
        size: AccessSize,
    ) -> Result<DataField, NoField> {
        if self.spaces.image(image).kind != ImageKind::File {
            return Err(NoField::NoImage);
        }
        let key = (image, address.0, size.0);
        if let Some(known) = self.variable_answers.get(&key) {
            return known.clone();
        }
        let answer = self.type_table(image)?.variable(address, size.0.into());
        self.give_up_if_damaged(image, &answer);
        // Capacity of the cache. A large array has many addresses; rare ones are cheap to look up again.
        const KEPT_AT_MOST: usize = 1 << 20;
        if self.variable_answers.len() >= KEPT_AT_MOST {
            self.variable_answers.clear();
        }
        self.variable_answers.insert(key, answer.clone());
        answer
    }

    /// The field that an instruction's memory operand accesses: `struct node: next`. The first question about a
    /// function analyses all of it; later ones are looked up.
    ///
    /// # Errors
    ///
    /// [`NoField`] if debug information is missing or does not describe the operand.
    pub fn operand_field(&mut self, image: ImageId, ip: ImageAddress) -> Result<Arc<DataField>, NoField> {
        if !matches!(self.spaces.image(image).kind, ImageKind::File) {
            return Err(NoField::NoImage);
        }
        self.type_table(image)?;
        let slot = &mut self.slots[image.index()];
        let (Some(loaded), TypeState::Loaded(types)) = (slot.image.loaded(), &mut slot.types) else {
            return Err(NoField::NoImage);
        };
        if loaded.architecture != Architecture::X86_64 {
            return Err(NoField::OtherArchitecture);
        }
        let answer = types.operand(loaded, ip);
        self.give_up_if_damaged(image, &answer);
        answer
    }

    fn type_table(&mut self, image: ImageId) -> Result<&mut TypeTable, NoField> {
        self.load(image).ok_or(NoField::NoImage)?;
        if matches!(self.slots[image.index()].types, TypeState::NotTried) {
            self.slots[image.index()].types = self.open_types(image);
        }
        match &mut self.slots[image.index()].types {
            TypeState::Loaded(table) => Ok(table),
            TypeState::Unavailable(reason) => Err(*reason),
            TypeState::NotTried => Err(NoField::NoDebugInformation),
        }
    }

    fn open_types(&mut self, image: ImageId) -> TypeState {
        let debug_file = self.loaded(image).and_then(|loaded| loaded.debug_file.clone());
        let path = self.spaces.image(image).path.clone();
        let Some(debug_file) = debug_file else {
            let cause = "has no debug information: fields of its structs have no names";
            self.problems.note(ProblemKind::NoTypes, &path, cause, NO_TYPES_REMEDY);
            return TypeState::Unavailable(NoField::NoDebugInformation);
        };
        let supplementary = self.locator.supplementary_file(&debug_file);
        match TypeTable::open(&debug_file, supplementary.as_deref()) {
            Ok(table) => TypeState::Loaded(Box::new(table)),
            Err(error) => {
                let cause = format!("debug information in {}: {error}", debug_file.display());
                self.problems.note(ProblemKind::NoTypes, &path, cause, NO_TYPES_REMEDY);
                TypeState::Unavailable(NoField::DamagedDebugInformation)
            }
        }
    }

    fn give_up_if_damaged<T>(&mut self, image: ImageId, answer: &Result<T, NoField>) {
        if let Err(reason @ NoField::DamagedDebugInformation) = answer {
            self.slots[image.index()].types = TypeState::Unavailable(*reason);
            let path = self.spaces.image(image).path.clone();
            self.problems.note(
                ProblemKind::NoTypes,
                &path,
                "has malformed debug information",
                NO_TYPES_REMEDY,
            );
        }
    }
}
