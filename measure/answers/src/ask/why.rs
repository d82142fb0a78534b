//! Why misses happen.

use super::inquiry::{Inquiry, Needs, Scope};
use crate::capture::{Capture, Walk};
use crate::error::AnswersError;
use crate::heading::Heading;
use crate::pass::{Located, Pass};
use crate::remark::Remark;
use crate::symbols::SymbolNames;
use crate::why::{CacheLevel, DataNames, EventAnswer, EventKind, Hierarchy, MissRatioCurve, Why, WhyOptions};
use hardmeter_samples::machine::{Machine, LINE_SIZE};
use hardmeter_samples::model::{EventSource, Sample, StatementId};
use hardmeter_samples::object_notes::{ObjectPath, TextId};
use hardmeter_samples::sidecar::{PageWalks, Sidecar};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Options of `why`.
#[derive(Clone, Debug)]
pub struct WhyQuestion {
    /// The machine whose caches were used, if the capture does not describe them.
    pub machine: Option<Machine>,
    /// Infer causes even where the software PMU recorded them, and compare the two.
    pub infer: bool,
    /// Places, objects and statements per cause.
    pub limit: usize,
}

impl Default for WhyQuestion {
    fn default() -> Self {
        WhyQuestion { machine: None, infer: false, limit: 5 }
    }
}

/// Why the misses of a capture happened.
#[derive(Clone, Debug, Serialize)]
pub struct WhyAnswer {
    /// Conditions of the recording.
    pub heading: Heading,
    /// The filter as text, if samples were filtered.
    pub filter: Option<String>,
    /// The caches that answers are about, where known.
    pub hierarchy: Option<Hierarchy>,
    /// The answers, event by event.
    pub events: Vec<EventAnswer>,
    /// Predicted misses of other L2 sizes, if reuse was measured.
    pub reuse: Option<MissRatioCurve>,
    /// Predicted effect of huge pages, if page walks were simulated.
    pub page_walks: Option<PageWalks>,
    /// Samples that pass the filter.
    pub passing: u64,
    /// Warnings about this answer.
    pub remarks: Vec<Remark>,
    /// Parts of the capture that could not be read, one sentence each.
    pub unread: Vec<String>,
    /// The texts of the statements that causes name.
    pub statements: BTreeMap<StatementId, Arc<str>>,
}

/// Collects what answers a [`WhyQuestion`].
pub(crate) struct WhyInquiry {
    why: Why,
    hierarchy: Option<Hierarchy>,
    names: FxHashMap<ObjectPath, DataNames>,
    passing: u64,
}

impl WhyInquiry {
    pub(crate) fn new(question: &WhyQuestion, capture: &Capture) -> WhyInquiry {
        let hierarchy = hierarchy_of(capture, question.machine.as_ref());
        let why = Why::new(WhyOptions {
            events: capture.events().iter().map(EventKind::of).collect(),
            hierarchy: hierarchy.clone(),
            one_line_in: capture.sidecar().map_or(1, Sidecar::lines_per_simulated),
            ignore_told: question.infer,
            limit: question.limit,
        });
        WhyInquiry { why, hierarchy, names: FxHashMap::default(), passing: 0 }
    }
}

impl Inquiry for WhyInquiry {
    type Answer = WhyAnswer;

    fn needs(&self) -> Needs {
        Needs::ALL
    }

    fn add(&mut self, pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, located: Located) {
        self.passing += 1;
        let data = data_names(pass, sample, &mut self.names);
        let statement = pass.statements().of_sample(sample);
        self.why.add(sample, located, data, statement);
    }

    fn finish(self, scope: &Scope<'_>, walk: &mut Walk) -> Result<WhyAnswer, AnswersError> {
        let capture = scope.capture;
        let events = self.why.answers(&mut walk.pass);
        let statements = statements_of(&events, walk);
        let notes = capture.sidecar();
        let second = self.hierarchy.as_ref().and_then(|hierarchy| hierarchy.level(CacheLevel::L2));
        let reuse = notes.and_then(|notes| notes.reuse.as_ref()).zip(second);
        Ok(WhyAnswer {
            heading: capture.heading(walk),
            filter: scope.filter.text(),
            hierarchy: self.hierarchy,
            events,
            reuse: reuse.and_then(|(reuse, l2)| MissRatioCurve::new(reuse, l2.size(), LINE_SIZE)),
            page_walks: notes.and_then(|notes| notes.page_walks).filter(|walks| walks.small > 0),
            passing: self.passing,
            remarks: walk.remarks(None),
            unread: walk.unread(),
            statements,
        })
    }
}

/// The caches: those of the machine that the user names, else the simulated ones, else those of the header.
fn hierarchy_of(capture: &Capture, named: Option<&Machine>) -> Option<Hierarchy> {
    if let Some(machine) = named {
        return Some(Hierarchy::of_machine(machine, format!("{}, as given by --machine", machine.name)));
    }
    if let Some(machine) = capture.machine() {
        let origin = match capture.source() {
            EventSource::Simulated => format!("{}, simulated", machine.name),
            _ => format!("{}, from the side file of the capture", machine.name),
        };
        return Some(Hierarchy::of_machine(&machine, origin));
    }
    Hierarchy::of_header(capture.caches())
}

/// Names of the objects at the samples' data addresses; each text is made once.
fn data_names(
    pass: &mut Pass<SymbolNames>,
    sample: &Sample<'_>,
    known: &mut FxHashMap<ObjectPath, DataNames>,
) -> Option<DataNames> {
    let path = pass.object(sample)?.path;
    if let Some(names) = known.get(&path) {
        return Some(names.clone());
    }
    let objects = pass.objects();
    let none = TextId(0);
    let general = objects.describe(ObjectPath { instance: none, part: none, ..path });
    let names = DataNames { general: general.into(), particular: objects.describe(path).into() };
    known.insert(path, names.clone());
    Some(names)
}

fn statements_of(events: &[EventAnswer], walk: &Walk) -> BTreeMap<StatementId, Arc<str>> {
    let causes = events.iter().flat_map(|event| &event.causes);
    let hashes = causes.flat_map(|cause| cause.statements.iter().map(|(hash, _)| *hash));
    hashes.map(|hash| (hash, walk.pass.statements().text(hash))).collect()
}
