//! Names of data addresses from `measure/symbols`: implements [`DataMap`].

use crate::code::CodeMap;
use crate::objects::{DataArea, DataMap, OperandField};
use crate::symbols::SymbolNames;
use hardmeter_samples::model::{AccessSize, CpuMode, Pid, VirtualAddress};
use hardmeter_symbols::{DataField, DataPlace, FieldOwner, ImageDescription, ImageKind, ResolvedData};
use std::sync::Arc;

impl DataMap for SymbolNames {
    fn data(&mut self, pid: Option<Pid>, address: VirtualAddress) -> DataArea {
        let ResolvedData { image, address: address_in_image, place } =
            self.symbolizer().lookup_data(pid.unwrap_or(Pid(-1)), address);
        let Some(image) = image else { return DataArea::Unknown };
        let description = self.symbolizer().image(image);
        let path = || Arc::from(description.path.as_str());
        match (description.kind, place) {
            (ImageKind::Kernel | ImageKind::KernelModule, DataPlace::Variable { name, .. }) => {
                DataArea::Kernel { name: Some(name) }
            }
            (ImageKind::Kernel | ImageKind::KernelModule, _) => DataArea::Kernel { name: None },
            (_, place @ (DataPlace::Variable { .. } | DataPlace::Section { .. })) => {
                let path = path();
                let field =
                    |address| self.symbolizer().variable_field_in_image(image, address, AccessSize(0)).ok();
                variable(path, place, address_in_image.and_then(field))
            }
            (ImageKind::Anonymous, _) => anonymous(description),
            _ => DataArea::File { path: path() },
        }
    }

    fn allocation_site(&mut self, pid: Option<Pid>, site: VirtualAddress) -> Arc<str> {
        // A return address is the instruction after the call, perhaps of the next line.
        let call = VirtualAddress(site.0.saturating_sub(1));
        let place = self.place(pid, call, CpuMode::User);
        let routine = self.routine(place);
        match self.line(place) {
            Some(line) => {
                let file = line.file.rsplit('/').next().unwrap_or_default();
                format!("{routine} ({file}:{})", line.line).into()
            }
            None => routine.to_string().into(),
        }
    }

    fn operand(&mut self, pid: Option<Pid>, ip: VirtualAddress) -> Option<OperandField> {
        let place = self.place(pid, ip, CpuMode::User);
        let resolved = self.resolved(place)?;
        let field = self.symbolizer().operand_field(resolved.image?, resolved.address).ok()?;
        let owner = match &field.owner {
            FieldOwner::Variable { name, .. } => name,
            // The type "char" or "long" does not identify the data.
            FieldOwner::Pointee { .. } if field.path.is_empty() => return None,
            FieldOwner::Pointee { type_name } => type_name,
        };
        Some(OperandField { owner: owner.clone(), field: field.path.clone() })
    }

    fn code(&mut self, pid: Option<Pid>, address: VirtualAddress) -> Arc<str> {
        let place = self.place(pid, address, CpuMode::Unknown);
        self.routine(place).to_string().into()
    }
}

/// A variable by its symbol and its field by debug information, which also has variables without a symbol.
fn variable(image: Arc<str>, place: DataPlace, field: Option<DataField>) -> DataArea {
    let path = field.as_ref().map(|field| field.path.clone()).filter(|path| !path.is_empty());
    match (place, field) {
        (DataPlace::Variable { name, offset, size }, _) => {
            DataArea::Variable { name, image, offset, size, field: path }
        }
        (_, Some(DataField { owner: FieldOwner::Variable { name, .. }, owner_size, offset, .. })) => {
            DataArea::Variable { name, image, offset: offset.0, size: owner_size.0, field: path }
        }
        (DataPlace::Section { name }, _) => DataArea::Section { name, image },
        _ => DataArea::File { path: image },
    }
}

/// Memory without a file, by the kernel's name for it.
fn anonymous(area: &ImageDescription) -> DataArea {
    let path = area.path.as_str();
    match path {
        "[heap]" => DataArea::Heap,
        _ if path.starts_with("[stack") => DataArea::Stack,
        _ if is_shared(path) => DataArea::SharedMemory { name: path.into() },
        "" | "//anon" => DataArea::Anonymous,
        // An area that a program named itself (prctl PR_SET_VMA).
        _ if path.starts_with("[anon") => DataArea::Anonymous,
        _ => DataArea::File { path: path.into() },
    }
}

/// Names of memory that processes share without a file: anonymous `MAP_SHARED`, System V segments, POSIX shared memory,
/// memory files, huge pages.
fn is_shared(path: &str) -> bool {
    const SHARED: [&str; 5] = ["/dev/zero", "/SYSV", "/dev/shm/", "/memfd:", "/anon_hugepage"];
    SHARED.iter().any(|prefix| path.starts_with(prefix))
}
