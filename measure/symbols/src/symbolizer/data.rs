//! Data addresses: global variables, sections, areas.

use super::{KernelState, Symbolizer};
use crate::address_spaces::{is_kernel_address, ImageId, ImageKind, MappedAddress};
use crate::demangle::demangle;
use crate::image::{Image, ImageAddress};
use crate::routine::{DataPlace, ResolvedData};
use hardmeter_samples::model::{CpuMode, FileOffset, Pid, VirtualAddress};

/// An image has no more mappings than this between its code and its `.bss`: constants, data made read-only
/// after relocation, data, and anonymous pieces between them.
const SEGMENTS_AT_MOST: usize = 16;

impl Symbolizer {
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
                // Named areas (stack, shared memory) are as named; unnamed ones may be .bss.
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
    ///   [text of postgres][data of postgres][anonymous: .bss of postgres, then a gap][heap]
    /// ```
    ///
    /// The distance between file and memory is taken from the code, where it is certain: the last page of constants
    /// and the first of variables are usually one page of the file, mapped twice.
    fn bss_of(&mut self, pid: Pid, address: VirtualAddress) -> Option<ResolvedData> {
        let is_file = |mapped: &MappedAddress| self.spaces.image(mapped.image).kind == ImageKind::File;
        let nearest = self.spaces.mappings_below(pid, address).find(is_file)?;
        let is_its_code = |mapped: &MappedAddress| mapped.image == nearest.image && mapped.executable;
        let code = self.spaces.mappings_below(pid, address).take(SEGMENTS_AT_MOST).find(is_its_code);
        let mapped = code.unwrap_or(nearest);
        let distance = address.0 - mapped.mapping_start.0;
        let start_offset = FileOffset(mapped.offset.0.wrapping_sub(distance));
        let image = self.load(mapped.image)?;
        let start = image.address_of_mapping(start_offset, mapped.executable)?;
        let in_image = ImageAddress(start.0.wrapping_add(distance));
        image.contains(in_image).then(|| self.name_data(mapped.image, in_image))
    }

    pub(super) fn name_data(&mut self, id: ImageId, address: ImageAddress) -> ResolvedData {
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
