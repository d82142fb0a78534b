//! Writes traces.

use super::{Header, Kind, Section};
use std::io::{self, Write};

/// Writes lines to a file or another writer. Sections are not buffered here: pass a `BufWriter`.
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Writes the first line.
    ///
    /// # Errors
    ///
    /// The error of the underlying writer.
    pub fn new(mut out: W, header: &Header) -> io::Result<Writer<W>> {
        line(&mut out, header)?;
        Ok(Writer { out })
    }

    /// Writes the data of a kind: before its first section, and again when more is known.
    ///
    /// # Errors
    ///
    /// The error of the underlying writer.
    pub fn kind(&mut self, kind: &Kind) -> io::Result<()> {
        line(&mut self.out, kind)
    }

    /// Writes a section.
    ///
    /// # Errors
    ///
    /// The error of the underlying writer.
    pub fn section(&mut self, section: &Section) -> io::Result<()> {
        let flags = u8::from(section.preempted)
            | u8::from(section.migrated) << 1
            | u8::from(section.placed) << 2
            | u8::from(section.nested) << 3;
        let fields = (
            section.ended_ns,
            section.cpu.0,
            section.kind.to_string(),
            section.elapsed.0,
            section.own.map(|own| own.0),
            section.previous.map(|previous| previous.to_string()),
            section.displaced,
            flags,
        );
        line(&mut self.out, &fields)
    }

    /// Flushes and returns the underlying writer.
    ///
    /// # Errors
    ///
    /// The error of the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

fn line<W: Write, T: serde::Serialize>(out: &mut W, value: &T) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
