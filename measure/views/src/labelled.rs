//! Call paths with labels: process, statement, object and cause of the samples of a path.

use hardmeter_answers::why::Cause;
use hardmeter_answers::{CodeMap, Located, Object, Pass, ProcessNameId, StackId, Stacks};
use hardmeter_samples::model::{EventIndex, Sample, StatementId};
use hardmeter_samples::object_notes::TextId;
use rustc_hash::FxHashMap;

/// The labels of a group of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Labels {
    pub(crate) stack: StackId,
    pub(crate) process: Option<ProcessNameId>,
    pub(crate) statement: Option<StatementId>,
    /// Class and name.
    pub(crate) object: Option<(TextId, TextId)>,
    pub(crate) cause: Option<Cause>,
}

/// Sums over samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSums {
    pub(crate) samples: u64,
    pub(crate) events: u64,
    pub(crate) latency: u64,
}

/// Counts call paths by process, statement, object and cause.
#[derive(Default)]
pub struct LabelledStacks {
    stacks: Stacks,
    groups: FxHashMap<(EventIndex, Labels), LabelSums>,
    samples: u64,
}

impl LabelledStacks {
    /// Counts a sample with the object at its data address.
    pub fn add<M: CodeMap>(
        &mut self,
        sample: &Sample<'_>,
        located: Located,
        object: Option<Object>,
        pass: &mut Pass<M>,
    ) {
        let labels = Labels {
            stack: self.stacks.path(sample, located, pass),
            process: located.process,
            statement: pass.statements().of_sample(sample),
            object: object.map(|object| (object.path.class, object.path.name)),
            cause: sample.simulated().as_ref().and_then(Cause::told),
        };
        let sums = self.groups.entry((sample.event, labels)).or_default();
        sums.samples += 1;
        sums.events = sums.events.saturating_add(sample.period.0);
        sums.latency = sums.latency.saturating_add(sample.weight.map_or(0, |weight| weight.latency.0));
        self.samples += 1;
    }

    /// Samples counted.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    pub(crate) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// The groups in a fixed order.
    pub(crate) fn groups(&self) -> Vec<(EventIndex, Labels, LabelSums)> {
        let mut groups: Vec<_> =
            self.groups.iter().map(|((event, labels), sums)| (*event, *labels, *sums)).collect();
        groups.sort_unstable_by_key(|(event, labels, _)| (*event, *labels));
        groups
    }
}

/// `index public.orders_pkey`; `None` if the object has no name at all.
pub(crate) fn object_text<M: CodeMap>(object: (TextId, TextId), pass: &mut Pass<M>) -> Option<String> {
    let index = pass.objects();
    let text = format!("{} {}", index.text(object.0), index.text(object.1)).trim().to_string();
    (!text.is_empty()).then_some(text)
}
