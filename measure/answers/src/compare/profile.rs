//! Walks over one capture: its samples by place, object and statement, with names that are the same in
//! another capture.

use super::instruction::Code;
use super::per::Per;
use super::run::{CompareRun, Label, RunEvent, RunRow, RunSum};
use crate::ask::inquiry::{Inquiry, Needs, Scope};
use crate::capture::Walk;
use crate::code::{CodeMap, ImageId, Place, Routine};
use crate::error::AnswersError;
use crate::heading::Heading;
use crate::key_table::KeyTable;
use crate::pass::{Located, Pass};
use crate::symbols::SymbolNames;
use crate::why::EventKind;
use crate::workload::Workload;
use hardmeter_samples::model::{FileOffset, Sample, StatementId};
use hardmeter_samples::object_notes::TextId;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

// The packed key: event and missing parts | image | offset | class and name of the object | statement
const WORDS: usize = 5;
const NO_PLACE: u64 = 1 << 61;
const NO_OBJECT: u64 = 1 << 62;
const NO_STATEMENT: u64 = 1 << 63;
const EVENT: u64 = 0xffff_ffff;

/// Counts samples for a comparison.
pub(crate) struct CompareInquiry {
    keys: KeyTable,
    sums: Vec<RunSum>,
}

impl Default for CompareInquiry {
    fn default() -> Self {
        CompareInquiry { keys: KeyTable::new(WORDS), sums: Vec::new() }
    }
}

impl Inquiry for CompareInquiry {
    type Answer = CompareRun;

    fn needs(&self) -> Needs {
        Needs::ALL
    }

    fn add(&mut self, pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, located: Located) {
        let mut key = [sample.event.0 as u64, 0, 0, 0, 0];
        match located.place {
            Some(place) => (key[1], key[2]) = (u64::from(place.image.0), place.offset.0),
            None => key[0] |= NO_PLACE,
        }
        match pass.object(sample) {
            Some(object) => key[3] = u64::from(object.path.class.0) << 32 | u64::from(object.path.name.0),
            None => key[0] |= NO_OBJECT,
        }
        match pass.statements().of_sample(sample) {
            Some(statement) => key[4] = statement.0,
            None => key[0] |= NO_STATEMENT,
        }
        let row = self.keys.number(&key);
        if row == self.sums.len() {
            self.sums.push(RunSum::default());
        }
        let latency = sample.weight.map_or(0, |weight| weight.latency.0);
        self.sums[row].add(RunSum::sample(sample.period.0, latency));
    }

    fn finish(self, scope: &Scope<'_>, walk: &mut Walk) -> Result<CompareRun, AnswersError> {
        let (capture, heading) = (scope.capture, scope.capture.heading(walk));
        let mut names = Names::default();
        let mut rows = Vec::with_capacity(self.sums.len());
        for (row, sum) in self.sums.iter().enumerate() {
            rows.push(names.row(self.keys.key(row), *sum, &mut walk.pass));
        }
        let event = |(index, event): (usize, &_)| {
            let mut sum = RunSum::default();
            rows.iter().filter(|row| row.event == index).for_each(|row| sum.add(row.sum));
            RunEvent { name: heading.events[index].name.clone(), kind: EventKind::of(event), sum }
        };
        let simulated = capture.machine().is_some();
        let machine = if simulated { heading.geometry.clone() } else { measured_machine(&heading) };
        Ok(CompareRun {
            file: heading.file.clone(),
            source: heading.source,
            machine,
            one_line_in: capture.sidecar().and_then(|notes| notes.one_line_in).unwrap_or(1),
            filter: scope.filter.text(),
            work: work(&heading, &Workload::of(capture)),
            builds: names.builds,
            events: capture.events().iter().enumerate().map(event).collect(),
            rows,
            lost: heading.lost_samples + heading.lost_records,
            remarks: walk.remarks(None),
            unread: walk.unread(),
        })
    }
}

/// The processor, without the host's name and kernel, which do not affect the counts.
fn measured_machine(heading: &Heading) -> Option<String> {
    let machine = heading.machine.as_deref()?;
    Some(machine.split(", ").next().unwrap_or(machine).to_string())
}

fn work(heading: &Heading, workload: &Workload) -> BTreeMap<Per, f64> {
    let of_server = |name: &str| workload.figures.get(name).copied();
    let known = [
        (Per::Transaction, of_server("transactions")),
        (Per::WritingTransaction, of_server("writing transactions")),
        (Per::Instruction, heading.instructions.map(|number| number as f64)),
        (Per::Second, heading.duration_ns.map(|ns| ns as f64 / 1e9)),
    ];
    known.into_iter().filter_map(|(per, work)| Some((per, work.filter(|work| *work > 0.0)?))).collect()
}

/// The names of places, each computed once.
#[derive(Default)]
struct Names {
    code: Code,
    places: FxHashMap<Place, Named>,
    builds: BTreeMap<Arc<str>, String>,
}

/// The names of a place: function, instruction, line, image.
#[derive(Clone)]
struct Named {
    function: Label,
    instruction: Option<Label>,
    line: Option<Label>,
    image: Arc<str>,
}

impl Names {
    fn row(&mut self, key: &[u64], sum: RunSum, pass: &mut Pass<SymbolNames>) -> RunRow {
        let object = (key[0] & NO_OBJECT == 0).then(|| {
            let index = pass.objects();
            let (class, name) =
                (index.text(TextId((key[3] >> 32) as u32)), index.text(TextId(key[3] as u32)));
            Label::plain(format!("{class} {name}").trim_end())
        });
        let statement = (key[0] & NO_STATEMENT == 0).then(|| {
            let statement = StatementId(key[4]);
            Label { identity: statement.to_string().into(), shown: pass.statements().text(statement) }
        });
        let place = Place { image: ImageId(key[1] as u32), offset: FileOffset(key[2]) };
        let named = (key[0] & NO_PLACE == 0).then(|| self.place(place, pass));
        let event = (key[0] & EVENT) as usize;
        match named {
            Some(Named { function, instruction, line, image }) => {
                RunRow { event, names: [Some(function), instruction, line, object, statement], image, sum }
            }
            None => RunRow { event, names: [None, None, None, object, statement], image: "".into(), sum },
        }
    }

    fn place(&mut self, place: Place, pass: &mut Pass<SymbolNames>) -> Named {
        if let Some(known) = self.places.get(&place) {
            return known.clone();
        }
        let map = pass.map();
        let image = map.image(place.image);
        let path = image.as_ref().map_or("", |image| image.path.as_str());
        let file: Arc<str> = path.rsplit('/').next().unwrap_or_default().into();
        if !self.builds.contains_key(&file) {
            let image = map.resolved(place).and_then(|resolved| resolved.image);
            if let Some(build) = image.and_then(|image| map.symbolizer().build_id(image)) {
                self.builds.insert(file.clone(), build.to_string());
            }
        }
        let routine = map.routine(place);
        let function = match &routine {
            Routine::Named(name) => Label::plain(name.clone()),
            Routine::Nameless(_) => {
                let identity = self.code.nameless(map, place);
                let shown: Arc<str> = routine.to_string().into();
                Label { identity: identity.unwrap_or_else(|| shown.clone()), shown }
            }
            Routine::Unknown(_) => Label::plain(routine.to_string()),
        };
        let instruction = self.code.text(map, place).map(Label::plain);
        let named = Named { function, instruction, line: line(map, place), image: file };
        self.places.insert(place, named.clone());
        named
    }
}

/// The source line, counted from the function's first line if both are in one file. For inlined code it is
/// the line of the call, and the name of the inlined function.
fn line(map: &mut SymbolNames, place: Place) -> Option<Label> {
    let resolved = map.resolved(place)?;
    let image = resolved.image?;
    let start = map.symbolizer().routine(resolved.routine).start;
    let frames = map.symbolizer().lines(image, resolved.address);
    let first = map.symbolizer().lines(image, start);
    let (inner, outer) = (frames.iter().find(|frame| frame.line.is_some())?, frames.last()?);
    let file = |path: &Option<String>| {
        path.as_deref().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_string()
    };
    let shown = format!("{}:{}", file(&inner.file), inner.line?);
    let inlined = if frames.len() > 1 { inner.function.as_deref().unwrap_or_default() } else { "" };
    let identity = match (outer.line, first.last().and_then(|first| Some((&first.file, first.line?)))) {
        (Some(line), Some((path, begin))) if *path == outer.file => {
            format!("{:+} {inlined}", i64::from(line) - i64::from(begin))
        }
        _ => shown.clone(),
    };
    Some(Label { identity: identity.into(), shown: shown.into() })
}
