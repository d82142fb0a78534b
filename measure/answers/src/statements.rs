//! The statement that a process executed at the time of a sample, and the texts of statements.

use crate::statement_spans::{Running, StatementSpans};
use hardmeter_samples::model::{Record, Sample, StatementId};
use hardmeter_samples::sidecar::Statement;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Id of all statements without a recorded text; no text has this hash.
const NAMELESS: StatementId = StatementId(0);

/// The statements of a capture.
#[derive(Clone, Debug, Default)]
pub struct Statements {
    texts: FxHashMap<StatementId, Arc<str>>,
    /// Statements from the marks of a kernel recording.
    spans: StatementSpans,
}

impl Statements {
    /// Statements with texts from the side file.
    pub fn new(texts: &[Statement]) -> Self {
        let text = |statement: &Statement| (statement.id, statement.text.as_str().into());
        Statements { texts: texts.iter().map(text).collect(), spans: StatementSpans::default() }
    }

    /// Processes a record that may concern statements.
    pub fn observe(&mut self, record: &Record<'_>) {
        self.spans.see(record);
    }

    /// The statement of a sample's process, if known.
    pub fn of_sample(&self, sample: &Sample<'_>) -> Option<StatementId> {
        let carried = sample.server_state().and_then(|state| state.statement);
        carried.or_else(|| match self.spans.of_sample(sample)? {
            Running::Statement(statement) => Some(statement),
            Running::Nameless => Some(NAMELESS),
            Running::Nothing => None,
        })
    }

    /// The normalised text of a statement; its id if the text is unknown.
    pub fn text(&self, statement: StatementId) -> Arc<str> {
        if statement == NAMELESS {
            return "(statements whose text was not recorded)".into();
        }
        let number = || format!("statement {statement}").into();
        self.texts.get(&statement).or_else(|| self.spans.text(statement)).cloned().unwrap_or_else(number)
    }

    /// Whether the capture has no statements.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.spans.marks() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;
    use hardmeter_samples::model::{Pid, StatementMark, StatementMarkKind, Tid};

    #[test]
    fn the_marks_of_a_kernel_recording_name_the_statement_too() {
        let mut statements = Statements::default();
        let mut begins = |text: Option<&'static [u8]>| {
            let kind = StatementMarkKind::Begins { text };
            let mark = StatementMark { pid: Pid(1), tid: Tid(1), time: None, kind };
            statements.observe(&Record::Statement(mark));
            let found = statements.of_sample(&sample(0, 1, 0x1000)).expect("begun");
            statements.text(found).to_string()
        };
        assert_eq!(begins(Some(b"SELECT 5")), "select ?");
        assert_eq!(begins(None), "(statements whose text was not recorded)");
        assert!(!statements.is_empty());
    }

    #[test]
    fn a_simulated_sample_names_its_statement() {
        let text = "UPDATE t SET a = $1".to_string();
        let statements = Statements::new(&[Statement { id: StatementId(7), text }]);
        let mut raw = b"HMs1\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        raw.extend([2, 0, 8, 0, 0, 0, 0, 0]);
        raw.extend(7u64.to_le_bytes());
        let mut sample = sample(0, 1, 0x1000);
        assert_eq!(statements.of_sample(&sample), None);
        sample.raw = Some(&raw);
        let found = statements.of_sample(&sample).expect("section 2");
        assert_eq!(&*statements.text(found), "UPDATE t SET a = $1");
        assert_eq!(&*statements.text(StatementId(255)), "statement 00000000000000ff");
    }
}
