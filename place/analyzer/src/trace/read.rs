//! Reads traces from a stream of untrusted bytes.

use super::{kind_text, Header, Kind, Section, FORMAT, VERSION};
use crate::model::{CpuId, KindRef};
use hardmeter_samples::model::Cycles;
use std::collections::BTreeSet;
use std::io::{self, BufRead, Read};

/// Limit of a line: labels have 128 bytes.
const LINE: u64 = 16 * 1024;
/// The number that segments of all applications of a large machine can name.
const KINDS: usize = 1 << 20;

/// The reason why a trace cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("the trace cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is not a trace.
    #[error("this is not a trace of sections: {0}; `hardmeter split analyze --trace` writes them")]
    Foreign(String),
    /// It has a later version.
    #[error(
        "the trace is of version {0}, this program reads up to {VERSION}; use the hardmeter that wrote it"
    )]
    Newer(u32),
    /// A line is invalid.
    #[error("line {line} of the trace is damaged: {why}; what came before it can be used (head -n)")]
    Damaged {
        /// Its number, from 1.
        line: u64,
        /// The reason.
        why: String,
    },
}

/// A line after the first.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Entry {
    Kind(Kind),
    Section(Section),
}

/// A stream of entries. Stops at the first invalid line. A last line without end is left by a killed writer:
/// it is skipped, and [`Reader::was_cut`] returns true.
pub struct Reader<R: BufRead> {
    input: R,
    header: Header,
    kinds: BTreeSet<KindRef>,
    line: u64,
    cut: bool,
    done: bool,
}

type Fields = (u64, u32, String, u64, Option<u64>, Option<String>, Option<f64>, u8);

impl<R: BufRead> Reader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    ///
    /// [`TraceError`] if the first line is not the header of a trace of a known version.
    pub fn new(mut input: R) -> Result<Reader<R>, TraceError> {
        let mut first = Vec::new();
        input.by_ref().take(LINE).read_until(b'\n', &mut first)?;
        let header: Header =
            serde_json::from_slice(&first).map_err(|error| TraceError::Foreign(error.to_string()))?;
        if header.format != FORMAT {
            return Err(TraceError::Foreign(format!("its format is {:?}", header.format)));
        }
        if header.version == 0 || header.version > VERSION {
            return Err(TraceError::Newer(header.version));
        }
        if !(1_000_000..=100_000_000_000).contains(&header.cycles_per_second) {
            let why = format!("{} cycles a second", header.cycles_per_second);
            return Err(TraceError::Damaged { line: 1, why });
        }
        Ok(Reader { input, header, kinds: BTreeSet::new(), line: 1, cut: false, done: false })
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// True if the last line had no end.
    pub fn was_cut(&self) -> bool {
        self.cut
    }

    fn entry(&mut self) -> Result<Option<Entry>, TraceError> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let length = self.input.by_ref().take(LINE).read_until(b'\n', &mut bytes)?;
            self.line += 1;
            if length == 0 {
                return Ok(None);
            }
            if bytes.last() != Some(&b'\n') {
                if length as u64 == LINE {
                    return Err(self.damaged("it is too long"));
                }
                self.cut = true;
                return Ok(None);
            }
            let text = bytes.trim_ascii();
            match text.first() {
                None => continue,
                Some(b'[') => return self.section(text).map(Some),
                Some(_) => return self.kind(text).map(Some),
            }
        }
    }

    fn kind(&mut self, text: &[u8]) -> Result<Entry, TraceError> {
        let kind: Kind = serde_json::from_slice(text).map_err(|error| self.damaged(error))?;
        let bad = |value: Option<f64>, most: f64| value.is_some_and(|x| !(-1.0..=most).contains(&x));
        if bad(kind.warm_cycles, 1e15) || bad(kind.footprint_kb, 1e9) || bad(kind.slowdown, 1e6) {
            return Err(self.damaged("a number is out of range"));
        }
        if self.kinds.len() >= KINDS && !self.kinds.contains(&kind.kind) {
            return Err(self.damaged("more kinds than any machine has"));
        }
        self.kinds.insert(kind.kind);
        Ok(Entry::Kind(kind))
    }

    fn section(&mut self, text: &[u8]) -> Result<Entry, TraceError> {
        let fields: Fields = serde_json::from_slice(text).map_err(|error| self.damaged(error))?;
        let (ended_ns, cpu, kind, elapsed, own, previous, displaced, flags) = fields;
        let kind = kind_text::parse(&kind).ok_or_else(|| self.damaged("invalid kind"))?;
        if !self.kinds.contains(&kind) {
            return Err(self.damaged(format!("kind {kind} was not introduced")));
        }
        let previous = match previous {
            Some(text) => {
                Some(kind_text::parse(&text).ok_or_else(|| self.damaged("invalid preceding kind"))?)
            }
            None => None,
        };
        if displaced.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(self.damaged("more was displaced than there is"));
        }
        if elapsed > 1 << 52 || own.is_some_and(|own| own > 1 << 52) || cpu >= 1024 || flags > 15 {
            return Err(self.damaged("a number is out of range"));
        }
        Ok(Entry::Section(Section {
            ended_ns,
            cpu: CpuId(cpu),
            kind,
            previous,
            elapsed: Cycles(elapsed),
            own: own.map(Cycles),
            displaced,
            preempted: flags & 1 != 0,
            migrated: flags & 2 != 0,
            placed: flags & 4 != 0,
            nested: flags & 8 != 0,
        }))
    }

    fn damaged(&self, why: impl ToString) -> TraceError {
        TraceError::Damaged { line: self.line, why: why.to_string() }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Entry, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let entry = self.entry().transpose();
        self.done = !matches!(entry, Some(Ok(_)));
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::*;
    use crate::model::{AppId, Class, CodeId};

    fn kind() -> Kind {
        Kind {
            kind: KindRef { app: AppId(7), code: CodeId(0x1f) },
            label: "SELECT \"a\"\n".into(),
            application: "web".into(),
            class: Class::Polluter,
            warm_cycles: Some(2.5e6),
            footprint_kb: None,
            slowdown: Some(0.25),
        }
    }

    fn section() -> Section {
        Section {
            ended_ns: 12_345,
            cpu: CpuId(3),
            kind: kind().kind,
            previous: Some(KindRef { app: AppId(8), code: CodeId(2) }),
            elapsed: Cycles(1000),
            own: None,
            displaced: Some(0.5),
            preempted: true,
            migrated: false,
            placed: true,
            nested: false,
        }
    }

    fn written() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), &Header::new(2_700_000_000, "a test")).unwrap();
        writer.kind(&kind()).unwrap();
        writer.section(&section()).unwrap();
        writer.section(&Section { own: Some(Cycles(900)), previous: None, ..section() }).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = written();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        assert_eq!(reader.header(), &Header::new(2_700_000_000, "a test"));
        let entries: Vec<Entry> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[0], Entry::Kind(kind()));
        assert_eq!(entries[1], Entry::Section(section()));
        let Entry::Section(last) = &entries[2] else { panic!("{entries:?}") };
        assert_eq!((last.own, last.previous), (Some(Cycles(900)), None));
        assert!(!reader.was_cut());
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.lines().nth(2).unwrap() == r#"[12345,3,"7.1f",1000,null,"8.2",0.5,5]"#, "{text}");
    }

    #[test]
    fn a_last_line_without_end_is_left_out() {
        let bytes = written();
        let mut reader = Reader::new(&bytes[..bytes.len() - 5]).unwrap();
        assert_eq!(reader.by_ref().map(Result::unwrap).count(), 2);
        assert!(reader.was_cut());
    }

    fn outcome(bytes: &[u8]) -> Result<usize, TraceError> {
        Reader::new(bytes)?.collect::<Result<Vec<_>, _>>().map(|entries| entries.len())
    }

    #[test]
    fn foreign_and_newer_files_are_refused_with_a_reason() {
        assert!(matches!(outcome(b""), Err(TraceError::Foreign(_))));
        assert!(matches!(outcome(b"\x7fELF\x02\x01"), Err(TraceError::Foreign(_))));
        let other = br#"{"format":"perf","version":1,"cycles_per_second":1000000000}"#;
        assert!(matches!(outcome(other), Err(TraceError::Foreign(_))));
        let newer = String::from_utf8(written()).unwrap().replace("\"version\":1", "\"version\":2");
        let error = outcome(newer.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("version 2"), "{error}");
    }

    #[test]
    fn each_kind_of_damage_is_named_with_its_line() {
        let good = String::from_utf8(written()).unwrap();
        let long = format!("[1,3,\"7.1f\",{}", "1".repeat(20_000));
        for (bad, why) in [
            (r#"[1,3,"7.20",1000,null,null,null,0]"#, "not introduced"),
            (r#"[1,3,"7.1f",1000,null,null,2.5,0]"#, "more was displaced"),
            (r#"[1,3,"7.1f",1000,null,"x",null,0]"#, "preceding kind"),
            (r#"[1,3,"7.1ffffffff",1000,null,null,null,0]"#, "invalid kind"),
            (r#"[1,5000,"7.1f",1000,null,null,null,0]"#, "out of range"),
            (r#"[1,3,"7.1f",1000,null,null,null]"#, "invalid length"),
            (r#"{"kind":"7.1f","warm_cycles":1e300}"#, "out of range"),
            (r#"{"label":"x"}"#, "missing field"),
            (long.as_str(), "too long"),
        ] {
            let error = outcome(format!("{good}{bad}\n").as_bytes()).unwrap_err().to_string();
            assert!(error.contains("line 5") && error.contains(why), "{bad}: {error}");
        }
    }

    /// Sets every byte of a valid trace to some values: the result is an error or entries, never a panic.
    #[test]
    fn no_byte_makes_it_panic() {
        let good = written();
        for at in 0..good.len() {
            for value in [0, b'"', b'[', b'}', b'9', b'\n', 0xff] {
                let mut bytes = good.clone();
                bytes[at] = value;
                let _ = outcome(&bytes);
            }
        }
    }
}
