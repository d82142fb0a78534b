//! Build ids of the files whose code was mapped during the recording: reports use them to check that a file is the
//! one that ran.

use crate::pmu::build_id;
use hardmeter_samples::model::{CpuMode, Pid};
use hardmeter_samples::perf_data::abi::{misc, record_type};
use hardmeter_samples::perf_data::BuildId;
use std::collections::BTreeMap;
use std::path::Path;

/// Executable files mapped so far.
#[derive(Debug, Default)]
pub struct Images {
    /// By path: the build id, if a record had it.
    files: BTreeMap<String, Option<Vec<u8>>>,
    /// The kernel's id, where the kernel is in the capture.
    kernel: Option<Vec<u8>>,
}

/// The kernel's name in build ids; in mappings, the symbol that determines its address is appended.
const KERNEL: &str = "[kernel.kallsyms]";

impl Images {
    /// Processes one record.
    ///
    /// ```text
    /// MMAP2, bytes: 0 header, 8 pid tid, 16 address, 24 length, 32 offset, 40 inode or build id, 64 protection,
    ///               68 flags, 72 path
    /// ```
    pub fn see(&mut self, record: &[u8]) {
        let Some(header) = record.first_chunk::<8>() else { return };
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        if kind != record_type::MMAP2 {
            return;
        }
        let (Some(identity), Some(protection), Some(text)) =
            (record.get(40..64), record.get(64..68), record.get(72..))
        else {
            return;
        };
        let protection = u32::from_ne_bytes(protection.try_into().expect("four bytes"));
        let path = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let Ok(path) = std::str::from_utf8(path) else { return };
        let flags = u16::from_ne_bytes([header[4], header[5]]);
        let told = (flags & misc::MMAP_BUILD_ID != 0)
            .then(|| identity[4..4 + usize::from(identity[0]).min(20)].to_vec());
        if path.starts_with(KERNEL) {
            self.kernel = told;
            return;
        }
        // "//anon" is the kernel's name for memory without a file.
        if protection & libc::PROT_EXEC as u32 == 0 || !path.starts_with('/') || path.starts_with("//") {
            return;
        }
        let known = self.files.entry(path.to_string()).or_default();
        if known.is_none() {
            *known = told;
        }
    }

    /// Their build ids; missing ones are read from the files. Files without a build id are left out.
    pub fn build_ids(&self) -> Vec<BuildId> {
        let with_id = self.files.iter().filter_map(|(path, told)| {
            let id = told.clone().or_else(|| build_id::of_file(Path::new(path)))?;
            Some(BuildId { pid: Pid(-1), mode: CpuMode::User, id, path: path.clone() })
        });
        let kernel = self.kernel.iter().map(|id| BuildId {
            pid: Pid(-1),
            mode: CpuMode::Kernel,
            id: id.clone(),
            path: KERNEL.to_string(),
        });
        kernel.chain(with_id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(path: &str, protection: i32, told: Option<[u8; 20]>) -> Vec<u8> {
        let mut record = record_type::MMAP2.to_ne_bytes().to_vec();
        record.extend(if told.is_some() { misc::MMAP_BUILD_ID } else { 0 }.to_ne_bytes());
        record.extend([0; 2 + 32]);
        record.extend(told.map_or([0; 4], |_| [20, 0, 0, 0]));
        record.extend(told.unwrap_or_default());
        record.extend((protection as u32).to_ne_bytes());
        record.extend([0; 4]);
        record.extend(path.as_bytes());
        record.resize(record.len() + 8, 0);
        record
    }

    #[test]
    fn code_is_listed_once_with_the_id_that_was_told_or_read() {
        let own = std::env::current_exe().expect("a path");
        let mut images = Images::default();
        images.see(&mapping("/bin/told", libc::PROT_EXEC, Some([7; 20])));
        images.see(&mapping("/bin/told", libc::PROT_EXEC, None));
        images.see(&mapping("/no/such/file", libc::PROT_EXEC, None));
        images.see(&mapping("/etc/hostname", libc::PROT_READ, None));
        images.see(&mapping("//anon", libc::PROT_EXEC, None));
        images.see(&mapping(own.to_str().expect("text"), libc::PROT_EXEC, None));
        images.see(&mapping("[kernel.kallsyms]_text", libc::PROT_EXEC, Some([8; 20])));
        images.see(&[10, 0, 0, 0, 0, 0]);
        images.see(&mapping("/cut", libc::PROT_EXEC, None)[..66]);
        let found: BTreeMap<String, Vec<u8>> =
            images.build_ids().into_iter().map(|entry| (entry.path, entry.id)).collect();
        let own_id = build_id::of_file(&own);
        assert_eq!(found.get("/bin/told"), Some(&vec![7; 20]));
        assert_eq!(found.get(own.to_str().expect("text")), own_id.as_ref());
        assert_eq!(found.get("[kernel.kallsyms]"), Some(&vec![8; 20]));
        assert_eq!(found.len(), 2 + usize::from(own_id.is_some()));
    }
}
