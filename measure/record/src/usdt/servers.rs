//! Interprets the probes of known servers.
//!
//! PostgreSQL has two kinds of statement probes. `query__start` and `query__done` enclose only statements of the
//! simple protocol: prepared statements (`pgbench -M prepared`, nearly every driver) do not execute them, and a
//! failed statement does not reach `query__done` (both observed with 15.20). `statement__status` fires whenever a
//! backend updates pg_stat_activity: with the text at a begin, at parse, bind and execute, and without text when it
//! waits for its client, also after an error. It is preferred if available.

use super::argument::{Argument, Place};
use super::note::Probe;
use hardmeter_samples::model::{FileOffset, StatementProbe};

/// A probe to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The kind of probe.
    pub probe: StatementProbe,
    /// File offset of its instruction.
    pub location: FileOffset,
    /// File offset of its semaphore.
    pub semaphore: Option<FileOffset>,
    /// The pointer to the statement's text; `None` for a mark without text.
    pub text: Option<Argument>,
}

/// The smallest set of marks that covers all statements. Empty if these probes do not. `register`: only registers
/// can be read, so a status whose text pointer is in memory does not distinguish a begin from an end.
pub fn statement_marks(probes: &[Probe], register: bool) -> Vec<Mark> {
    let named = |name: &str, probe: StatementProbe, with_text: bool| -> Option<Vec<Mark>> {
        let places: Vec<&Probe> =
            probes.iter().filter(|known| known.provider == "postgresql" && known.name == name).collect();
        let marks: Option<Vec<Mark>> = places
            .iter()
            .map(|place| {
                let text = match with_text {
                    // Every occurrence must have its text: samples of a missed statement would be attributed to
                    // another.
                    true => Some(place.arguments.first().copied().flatten().filter(|text| text.size == 8)?),
                    false => None,
                };
                Some(Mark { probe, location: place.location, semaphore: place.semaphore, text })
            })
            .collect();
        marks.filter(|marks| !marks.is_empty())
    };
    let in_register = |mark: &Mark| mark.text.is_some_and(|text| matches!(text.place, Place::Register(_)));
    match named("statement__status", StatementProbe::Status, true) {
        Some(marks) if !register || marks.iter().all(in_register) => return marks,
        _ => {}
    }
    let start = named("query__start", StatementProbe::Start, true);
    let done = named("query__done", StatementProbe::Done, false);
    match (start, done) {
        (Some(start), Some(done)) => [start, done].concat(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(name: &str, location: u64, argument: &str) -> Probe {
        Probe {
            provider: "postgresql".into(),
            name: name.into(),
            location: FileOffset(location),
            semaphore: Some(FileOffset(8)),
            arguments: argument.split_ascii_whitespace().map(Argument::parse).collect(),
        }
    }

    #[test]
    fn the_status_is_preferred_and_the_frame_is_second() {
        let frame = [probe("query__start", 1, "8@%rbx"), probe("query__done", 2, "8@-144(%rbp)")];
        let status = probe("statement__status", 3, "8@%rsi");
        let kinds = |probes: &[Probe]| -> Vec<(StatementProbe, u64, bool)> {
            statement_marks(probes, false)
                .iter()
                .map(|mark| (mark.probe, mark.location.0, mark.text.is_some()))
                .collect()
        };
        let both = [frame[0].clone(), frame[1].clone(), status];
        assert_eq!(kinds(&both), [(StatementProbe::Status, 3, true)]);
        assert_eq!(kinds(&frame), [(StatementProbe::Start, 1, true), (StatementProbe::Done, 2, false)]);
        assert_eq!(kinds(&frame[..1]), []);
        // A status probe whose text the kernel cannot fetch is useless.
        let deaf = [probe("statement__status", 3, "8@$0"), frame[0].clone(), frame[1].clone()];
        assert_eq!(kinds(&deaf).len(), 2);
        let other = Probe { provider: "mysql".into(), ..probe("statement__status", 3, "8@%rsi") };
        assert_eq!(kinds(&[other]), []);
        // The argument is in memory, but only registers can be read.
        let memory = [probe("statement__status", 3, "8@8(%rsp)"), frame[0].clone(), frame[1].clone()];
        assert_eq!(statement_marks(&memory, false).len(), 1);
        assert_eq!(statement_marks(&memory, true).len(), 2);
    }
}
