//! Mini debug info (`.gnu_debugdata`): Fedora's xz-packed symbol table of static functions.

use object::{Object, ObjectSection};
use std::io::Read;

/// Maximum size of a decompressed table. Real ones have a few megabytes; a malicious section may claim terabytes.
const LARGEST: u64 = 256 << 20;
/// Largest dictionary the unpacker may allocate, in KiB. xz -9 uses 64 MiB.
const DICTIONARY_KIB: u32 = 128 << 10;

/// The unpacked ELF file, if the section exists and is intact.
pub(crate) fn unpack(file: &object::File<'_>) -> Option<Vec<u8>> {
    let packed = file.section_by_name(".gnu_debugdata")?.data().ok()?;
    let reader = lzma_rust2::XzReader::new_mem_limit(packed, true, DICTIONARY_KIB);
    let mut unpacked = Vec::new();
    let read = reader.take(LARGEST).read_to_end(&mut unpacked);
    match read {
        Ok(_) if object::File::parse(&*unpacked).is_ok() => Some(unpacked),
        Ok(_) => None,
        Err(error) => {
            log::debug!("mini debug info: {error}");
            None
        }
    }
}
