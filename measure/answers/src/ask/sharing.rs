//! The contended cache lines, the worst ones access by access.
//!
//! This question walks over the capture once more than others: all lines are counted first, and the walk that it may
//! share with other questions looks at the worst of them.

use super::inquiry::{Inquiry, Needs, Scope};
use super::lines::{LineReport, Named, ObjectCounts};
use crate::capture::Walk;
use crate::code::Place;
use crate::error::AnswersError;
use crate::heading::Heading;
use crate::instructions::{operand_of, Instructions};
use crate::objects::{DataArea, DataMap};
use crate::pass::{Located, Pass};
use crate::remark::Remark;
use crate::sharing::{InstructionAccess, LineCensus, LineCounts, LineId, LineStudy, OtherSide, Roles};
use crate::symbols::SymbolNames;
use hardmeter_samples::model::{CpuMode, EventSource, FileOffset, GhostNotes, MemoryOperation, Sample};
use hardmeter_symbols::Access;
use serde::Serialize;
use std::ops::ControlFlow;

/// The number of lines whose common properties are examined, independent of the number shown.
const STUDIED: usize = 300;

/// Which shared lines of a capture to show.
#[derive(Clone, Debug)]
pub struct SharingQuestion {
    /// How many lines to show; `None`: all.
    pub lines: Option<usize>,
    /// Whether to infer verdicts from the samples' places even if the simulator recorded the causes.
    pub judge_by_samples: bool,
}

impl Default for SharingQuestion {
    /// The ten lines with most misses.
    fn default() -> Self {
        SharingQuestion { lines: Some(10), judge_by_samples: false }
    }
}

/// The contended cache lines.
#[derive(Clone, Debug, Serialize)]
pub struct SharingAnswer {
    /// Conditions of the recording.
    pub heading: Heading,
    /// The filter as text, if samples were filtered.
    pub filter: Option<String>,
    /// Samples that pass the filter.
    pub samples: u64,
    /// The sum over all contended lines.
    pub total: LineCounts,
    /// Number of contended lines.
    pub contended: u64,
    /// Sampling ratio of sharing events: one in `one_in` was recorded; 0 if unknown.
    pub one_in: u64,
    /// The lines with most misses: those to show, and up to 300 more to find what they have in common.
    pub studied: Vec<LineReport>,
    /// The number of lines of `studied` to show.
    pub shown: usize,
    /// Data that the answer lacks, and how to record it.
    pub missing: Vec<String>,
    /// Warnings about this answer.
    pub remarks: Vec<Remark>,
    /// Parts of the capture that could not be read, one sentence each.
    pub unread: Vec<String>,
}

impl SharingAnswer {
    /// The lines to show.
    pub fn lines(&self) -> &[LineReport] {
        &self.studied[..self.shown.min(self.studied.len())]
    }
}

/// Collects what answers a [`SharingQuestion`].
pub(crate) struct SharingInquiry {
    census: LineCensus,
    roles: Roles,
    contended: u64,
    study: LineStudy,
    lines: Option<usize>,
    line_size: u32,
    instructions: Instructions,
    objects: ObjectCounts,
}

impl SharingInquiry {
    /// Counts all lines in a separate walk.
    pub(crate) fn new(question: &SharingQuestion, scope: &Scope<'_>) -> Result<SharingInquiry, AnswersError> {
        let line_size = scope.capture.line_size();
        let roles = Roles::new(scope.capture.events());
        let mut census = LineCensus::new(roles.clone(), line_size);
        scope.capture.walk::<AnswersError>(scope.walk(false), &mut |pass, sample, _| {
            census.add(sample, || shared_place(pass.map(), sample));
            Ok(ControlFlow::Continue(()))
        })?;
        let mut ranking = census.ranking();
        let contended = ranking.len() as u64;
        ranking.truncate(question.lines.map_or(usize::MAX, |lines| lines.max(STUDIED)));
        let study = LineStudy::new(roles.clone(), line_size, &ranking, question.judge_by_samples);
        Ok(SharingInquiry {
            census,
            roles,
            contended,
            study,
            lines: question.lines,
            line_size,
            instructions: Instructions::default(),
            objects: ObjectCounts::default(),
        })
    }
}

impl Inquiry for SharingInquiry {
    type Answer = SharingAnswer;

    fn needs(&self) -> Needs {
        Needs::ALL
    }

    fn add(&mut self, pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, located: Located) {
        let shared = match sample.physical_address {
            Some(_) => None,
            None => shared_place(pass.map(), sample),
        };
        let Some(line) = LineId::of(sample, self.line_size, shared).filter(|line| self.study.wants(*line))
        else {
            return;
        };
        let instruction = located
            .place
            .and_then(|place| instruction_access(&mut self.instructions, pass.map(), place, sample));
        let process = located.process.map(|id| pass.process_name(id));
        if let (Some(object), Some(address)) = (pass.object(sample), sample.address) {
            let offset = (address.0 % u64::from(self.line_size)) as u16;
            *self.objects.entry((line, offset)).or_default().entry(object.path).or_default() += 1;
        }
        let other = other_side(pass, sample);
        self.study.add(line, sample, located.place, process, instruction, other);
    }

    fn finish(self, scope: &Scope<'_>, walk: &mut Walk) -> Result<SharingAnswer, AnswersError> {
        let mut named = Named { objects: self.objects, line_size: self.line_size, pass: &mut walk.pass };
        let studied: Vec<LineReport> =
            self.study.lines().iter().map(|detail| named.line(&self.study, detail)).collect();
        let remarks = walk.remarks(None);
        let ghosts = scope.capture.sidecar().and_then(|notes| notes.ghosts.as_ref());
        Ok(SharingAnswer {
            heading: scope.capture.heading(walk),
            filter: scope.filter.text(),
            samples: self.census.samples(),
            total: self.census.total(),
            contended: self.contended,
            one_in: self.roles.one_in(),
            shown: self.lines.map_or(studied.len(), |lines| lines.min(studied.len())),
            studied,
            missing: missing(&self.census, scope.capture.source(), ghosts),
            remarks,
            unread: walk.unread(),
        })
    }
}

/// The physical place of a sample's data address, if that lies in memory that processes share.
fn shared_place(names: &mut SymbolNames, sample: &Sample<'_>) -> Option<Place> {
    let (pid, address) = (sample.pid?, sample.address?);
    if !matches!(names.data(Some(pid), address), DataArea::SharedMemory { .. }) {
        return None;
    }
    let mapped = names.symbolizer().spaces().resolve(pid, address, CpuMode::User)?;
    Some(Place { image: crate::symbols::image_number(mapped.image), offset: FileOffset(mapped.offset.0) })
}

fn instruction_access(
    instructions: &mut Instructions,
    names: &mut SymbolNames,
    place: Place,
    sample: &Sample<'_>,
) -> Option<InstructionAccess> {
    let instruction = instructions.at(names, place)?;
    let store = sample.data_source.is_some_and(|source| source.operation() == MemoryOperation::Store);
    let operand = operand_of(&instruction, store)?;
    Some(InstructionAccess {
        reads: operand.access != Access::Write,
        writes: operand.access != Access::Read,
        size: operand.size,
    })
}

fn other_side(pass: &mut Pass<SymbolNames>, sample: &Sample<'_>) -> Option<OtherSide> {
    let sharing = sample.simulated()?.sharing?;
    let place = (sharing.ip.0 != 0).then(|| pass.place(Some(sharing.pid), sharing.ip, CpuMode::User));
    Some(OtherSide { place, process: pass.name_of(sharing.pid) })
}

/// The data that a complete answer lacks, with the remedy.
fn missing(census: &LineCensus, source: EventSource, ghosts: Option<&GhostNotes>) -> Vec<String> {
    const RECORD: &str = "record with \"hardmeter record --source simulated --cores 4 --period 1 -e \
        coherence-miss,invalidation\", or on hardware with \"perf c2c record\"";
    let (total, roles) = (census.total(), census.roles());
    let mut missing = Vec::new();
    if census.samples() == 0 || total.misses + total.invalidations > 0 {
        if source != EventSource::Simulated && total.misses > 0 && !census.stores_seen() {
            missing.push(
                "no stores were sampled, so the writers are unknown: record them too, as \"perf c2c record\" does"
                    .to_string(),
            );
        }
        if source == EventSource::Simulated && roles.misses_recorded() && !roles.invalidations_recorded() {
            missing.push(
                "stores that take lines away were not recorded (-e invalidation): writers are known only as the \
                 other side of misses"
                    .to_string(),
            );
        }
        return missing;
    }
    if let Some(ghosts) = ghosts {
        missing.push(match (ghosts.at_once(), roles.misses_recorded()) {
            (true, true) => "no access met a line that another process wrote, of those followed at the same time".to_string(),
            (true, false) => "coherence misses were not recorded: record with -e coherence-miss,invalidation".to_string(),
            (false, _) => format!(
                "no two processes were followed at the same time, so that none took a line from another; {RECORD}"
            ),
        });
    } else if census.with_address() == 0 {
        missing.push(format!("no sample has a data address, so no line can be identified: {RECORD}"));
    } else if source == EventSource::Simulated {
        missing.push(if roles.misses_recorded() {
            "no access waited for a line that another core wrote; with one simulated core (--cores 1) none ever does"
                .to_string()
        } else {
            "coherence misses were not recorded: record with -e coherence-miss,invalidation --period 1".to_string()
        });
    } else if census.with_source() == 0 {
        missing.push(format!(
            "no sample carries a data source, so it is unknown which accesses waited for another core: {RECORD}"
        ));
    } else {
        missing.push(format!(
            "of {} samples with a data source none hit a line that another core had modified (HITM)",
            census.with_source()
        ));
    }
    missing
}
