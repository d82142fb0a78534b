//! `hardmeter why`: why misses happen, with the evidence, and what helps.

mod explain;
mod heat;
mod json;
mod page;
mod remedy;
mod sentences;
mod text;

use crate::capture::{Capture, Walk, WalkOptions};
use crate::heading::Heading;
use crate::layout::printable;
use crate::symbols::SymbolNames;
use crate::ReportError;
use hardmeter_answers::why::{
    CacheLevel, DataNames, EventAnswer, EventKind, Hierarchy, LevelGeometry, MissRatioCurve, Why, WhyOptions,
};
use hardmeter_answers::{Pass, Remark};
use hardmeter_samples::machine::{Machine, LINE_SIZE};
use hardmeter_samples::model::{EventSource, Sample, StatementHash};
use hardmeter_samples::object_notes::{ObjectPath, TextId};
use hardmeter_samples::sidecar::{PageWalks, Sidecar};
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What to explain.
pub struct WhyReportOptions<'a> {
    /// Which samples, where names are looked for, how it is watched.
    pub walk: WalkOptions<'a>,
    /// The filter in words.
    pub filter_text: Option<String>,
    /// The machine whose caches were used, if the user named it.
    pub machine: Option<Machine>,
    /// Infer causes even where the software PMU told them, and hold the two against each other.
    pub infer: bool,
    /// Places, objects and statements shown per cause.
    pub limit: usize,
}

/// Why the misses of a capture happened.
#[derive(Clone, Debug)]
pub struct WhyReport {
    /// How the capture came to be.
    pub heading: Heading,
    /// The filter in words, if samples were filtered.
    pub filter: Option<String>,
    /// The caches that answers are about, where known.
    pub hierarchy: Option<Hierarchy>,
    /// The answers, event by event.
    pub events: Vec<EventAnswer>,
    /// What other sizes of the second level would miss, where reuse was measured.
    pub reuse: Option<MissRatioCurve>,
    /// What huge pages would save, where it was simulated.
    pub page_walks: Option<PageWalks>,
    /// Samples that pass the filter.
    pub passing: u64,
    /// What a reader must know besides.
    pub remarks: Vec<Remark>,
    /// What could not be read of the capture.
    pub unread: Vec<String>,
    statements: FxHashMap<StatementHash, Arc<str>>,
}

impl WhyReport {
    /// Walks over the capture and explains.
    ///
    /// # Errors
    ///
    /// [`ReportError`] if the capture cannot be read.
    pub fn make(capture: &Capture, options: WhyReportOptions<'_>) -> Result<WhyReport, ReportError> {
        let hierarchy = hierarchy_of(capture, options.machine.as_ref());
        let kinds = capture.events().iter().map(EventKind::of).collect();
        let mut why = Why::new(WhyOptions {
            events: kinds,
            hierarchy: hierarchy.clone(),
            one_line_in: capture.sidecar().map_or(1, Sidecar::lines_per_simulated),
            ignore_told: options.infer,
            limit: options.limit,
        });
        let mut names = FxHashMap::default();
        let mut passing = 0;
        let mut walk = capture.walk_with_objects(options.walk, &mut |pass, sample, located| {
            passing += 1;
            let data = data_names(pass, sample, &mut names);
            let statement = pass.statements().of_sample(sample);
            why.add(sample, located, data, statement);
            Ok(ControlFlow::Continue(()))
        })?;
        let events = why.answers(&mut walk.pass);
        let statements = statements_of(&events, &walk);
        let notes = capture.sidecar();
        let second = hierarchy.as_ref().and_then(|hierarchy| hierarchy.level(CacheLevel::L2));
        let reuse = notes.and_then(|notes| notes.reuse.as_ref()).zip(second);
        Ok(WhyReport {
            heading: capture.heading(&walk),
            filter: options.filter_text,
            hierarchy,
            events,
            reuse: reuse.and_then(|(reuse, l2)| MissRatioCurve::new(reuse, l2.size(), LINE_SIZE)),
            page_walks: notes.and_then(|notes| notes.page_walks).filter(|walks| walks.small > 0),
            passing,
            remarks: walk.remarks(None),
            unread: walk.unread(),
            statements,
        })
    }

    /// A statement's text, on one line.
    fn statement(&self, hash: StatementHash) -> String {
        self.statements.get(&hash).map_or_else(String::new, |text| printable(&text.replace('\n', " ")))
    }

    /// The level that an answer is about.
    fn geometry_of(&self, answer: &EventAnswer) -> Option<LevelGeometry> {
        let level = answer.kind.level()?;
        self.hierarchy.as_ref()?.level(level)
    }

    /// The name of an answer's event.
    fn event_name(&self, answer: &EventAnswer) -> &str {
        self.heading.events.get(answer.event.0).map_or("", |event| &event.name)
    }
}

/// The caches: of the machine that the user names, that was simulated, or that the header describes.
fn hierarchy_of(capture: &Capture, named: Option<&Machine>) -> Option<Hierarchy> {
    if let Some(machine) = named {
        return Some(Hierarchy::of_machine(machine, format!("{}, as given by --machine", machine.name)));
    }
    if let Some(machine) = capture.machine() {
        let origin = match capture.source() {
            EventSource::Simulated => format!("{}, simulated", machine.name),
            _ => format!("{}, from the notes beside the capture", machine.name),
        };
        return Some(Hierarchy::of_machine(&machine, origin));
    }
    Hierarchy::of_header(capture.caches())
}

/// What lies at the sample's data address; the texts are made once for each object.
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

fn statements_of(events: &[EventAnswer], walk: &Walk) -> FxHashMap<StatementHash, Arc<str>> {
    let causes = events.iter().flat_map(|event| &event.causes);
    let hashes = causes.flat_map(|cause| cause.statements.iter().map(|(hash, _)| *hash));
    hashes.map(|hash| (hash, walk.pass.statements().text(hash))).collect()
}
