//! What lies at data addresses, from the attribution room: what the analysis asks through [`DataMap`].

use crate::symbols::SymbolNames;
use hardmeter_analysis::{CodeMap, DataArea, DataMap};
use hardmeter_attribution::{DataPlace, ImageDescription, ImageKind, ResolvedData};
use hardmeter_samples::model::{CpuMode, Pid, VirtualAddress};
use std::sync::Arc;

impl DataMap for SymbolNames {
    fn data(&mut self, pid: Option<Pid>, address: VirtualAddress) -> DataArea {
        let ResolvedData { image, place, .. } =
            self.symbolizer().lookup_data(pid.unwrap_or(Pid(-1)), address);
        let Some(image) = image else { return DataArea::Unknown };
        let description = self.symbolizer().image(image);
        let path = || Arc::from(description.path.as_str());
        match (description.kind, place) {
            (ImageKind::Kernel | ImageKind::KernelModule, DataPlace::Variable { name, .. }) => {
                DataArea::Kernel { name: Some(name) }
            }
            (ImageKind::Kernel | ImageKind::KernelModule, _) => DataArea::Kernel { name: None },
            (_, DataPlace::Variable { name, offset, .. }) => {
                DataArea::Variable { name, image: path(), offset, field: None }
            }
            (_, DataPlace::Section { name }) => DataArea::Section { name, image: path() },
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

    fn code(&mut self, pid: Option<Pid>, address: VirtualAddress) -> Arc<str> {
        let place = self.place(pid, address, CpuMode::Unknown);
        self.routine(place).to_string().into()
    }
}

/// Memory without a file, by the name that the kernel gave it.
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
