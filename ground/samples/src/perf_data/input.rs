//! The source of a capture's bytes, readable at any offset.

use super::bytes::Cursor;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes readable at any offset, through a shared reference and repeatedly.
pub(super) enum Input {
    /// A regular file, or an unlinked temporary one into which a pipe was copied.
    File(File),
    /// Bytes in memory.
    Bytes(Vec<u8>),
}

impl Input {
    /// Copies a stream that cannot be read at an offset (a pipe, standard input) into a temporary file without a
    /// name.
    pub(super) fn spool(stream: &mut dyn io::Read) -> io::Result<Input> {
        let mut file = tempfile::tempfile()?;
        io::copy(stream, &mut file)?;
        Ok(Input::File(file))
    }

    pub(super) fn length(&self) -> io::Result<u64> {
        match self {
            Input::File(file) => Ok(file.metadata()?.len()),
            Input::Bytes(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Reads up to `buffer.len()` bytes; fewer only at the end.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Input::File(file) => {
                let mut done = 0;
                while done < buffer.len() {
                    match file.read_at(&mut buffer[done..], offset + done as u64) {
                        Ok(0) => break,
                        Ok(count) => done += count,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(done)
            }
            Input::Bytes(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let count = buffer.len().min(bytes.len() - start);
                buffer[..count].copy_from_slice(&bytes[start..start + count]);
                Ok(count)
            }
        }
    }

    /// Reads a complete section. `None` if it lies outside the file or is larger than `limit`: a length from the
    /// file must not determine an allocation.
    pub(super) fn section(&self, section: Section, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let Section { offset, size } = section;
        let inside =
            offset.checked_add(size).is_some_and(|end| self.length().is_ok_and(|length| end <= length));
        if !inside || size > limit {
            return Ok(None);
        }
        let mut bytes = vec![0; size as usize];
        let count = self.read_at(&mut bytes, offset)?;
        bytes.truncate(count);
        Ok(Some(bytes))
    }
}

/// `struct perf_file_section`.
#[derive(Clone, Copy)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl Section {
    pub(super) const SIZE: usize = 16;

    /// Reads a section; missing bytes count as zero.
    pub(super) fn from_bytes(bytes: &[u8]) -> Section {
        let mut cursor = Cursor::new(bytes);
        Section { offset: cursor.u64().unwrap_or(0), size: cursor.u64().unwrap_or(0) }
    }
}
