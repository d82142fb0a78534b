//! The bytes of a file: mapped from disk, or decompressed into memory.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// Bytes that are valid as long as this value exists.
#[derive(Debug)]
pub(crate) enum ImageBytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl ImageBytes {
    /// Maps a regular file; pipes and devices are refused, since reading them could block or never end.
    pub(crate) fn open(path: &Path) -> io::Result<ImageBytes> {
        let metadata = std::fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if metadata.len() == 0 {
            return Ok(ImageBytes::Owned(Vec::new()));
        }
        let file = File::open(path)?;
        // SAFETY: programs and libraries are replaced by renaming, not overwritten; truncating a file while it is
        // read would end this process by SIGBUS. perf and addr2line accept the same risk: copying each image would
        // cost hundreds of megabytes for large debug files.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(ImageBytes::Mapped(map))
    }
}

impl Deref for ImageBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            ImageBytes::Mapped(map) => map,
            ImageBytes::Owned(bytes) => bytes,
        }
    }
}
