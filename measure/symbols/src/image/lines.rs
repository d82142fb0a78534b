//! Source lines and inline frames from DWARF. Expensive: parsed at the first question about an image.

use super::locate::Locator;
use super::ImageAddress;
use crate::demangle::demangle;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

/// One source position of an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceFrame {
    /// The routine, demangled. For inlined code: the inlined routine.
    pub function: Option<String>,
    /// The file as the compiler wrote it, directory included.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1.
    pub column: Option<u32>,
    /// Whether the next frame inlined this one.
    pub inlined: bool,
}

/// The line table of one image.
pub(crate) struct LineTable(addr2line::Loader);

/// The reason why there are no lines.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    #[error("{0}")]
    Unreadable(String),
    /// The parser panicked on malformed DWARF. It is a third-party library and must not end the report.
    #[error("it is malformed")]
    Malformed,
}

impl LineTable {
    /// Opens the file that holds the DWARF sections of an image.
    pub(crate) fn open(debug_file: &Path, locator: &Locator) -> Result<LineTable, LineError> {
        let supplementary = locator.supplementary_file(debug_file);
        let open = || addr2line::Loader::new_with_sup(debug_file, supplementary.as_deref());
        match catch_unwind(open) {
            Ok(Ok(loader)) => Ok(LineTable(loader)),
            Ok(Err(error)) => Err(LineError::Unreadable(error.to_string())),
            Err(_) => Err(LineError::Malformed),
        }
    }

    /// The frames at an address, innermost first; empty if the line table does not cover it. After an error the
    /// table must not be used again.
    pub(crate) fn frames(&self, address: ImageAddress) -> Result<Vec<SourceFrame>, LineError> {
        // Unwind safe: the table is dropped if this fails.
        let frames = AssertUnwindSafe(|| self.read_frames(address));
        catch_unwind(frames).map_err(|_| LineError::Malformed)
    }

    fn read_frames(&self, address: ImageAddress) -> Vec<SourceFrame> {
        let mut frames = Vec::new();
        let Ok(mut found) = self.0.find_frames(address.0) else { return frames };
        while let Ok(Some(frame)) = found.next() {
            let function = frame.function.as_ref().and_then(|name| name.raw_name().ok());
            let location = frame.location.as_ref();
            frames.push(SourceFrame {
                function: function.map(|name| demangle(&name)),
                file: location.and_then(|location| location.file).map(str::to_owned),
                line: location.and_then(|location| location.line).filter(|line| *line != 0),
                column: location.and_then(|location| location.column).filter(|column| *column != 0),
                inlined: false,
            });
        }
        // A unit without functions still has lines.
        frames.retain(|frame| frame.function.is_some() || frame.line.is_some());
        let callers = frames.len().saturating_sub(1);
        frames[..callers].iter_mut().for_each(|frame| frame.inlined = true);
        frames
    }
}
