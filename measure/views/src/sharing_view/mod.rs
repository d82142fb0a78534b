//! `hardmeter sharing`: the cache lines that cores fight for, the worst ones access by access.
//!
//! Two walks over the capture: the first counts all lines, the second looks at the worst of them.

mod json;
mod page;
mod sentences;
mod text;

use crate::capture::{Capture, WalkOptions};
use crate::heading::Heading;
use crate::instructions::{operand_of, Instructions};
use crate::symbols::SymbolNames;
use crate::ReportError;
use hardmeter_answers::{
    ByteRange, CodeMap, DataArea, DataMap, Effect, Fight, ImageAddress, InstructionAccess, LayoutGroup,
    LineAccess, LineCensus, LineCounts, LineDetail, LineId, LineStudy, LineVerdict, OtherSide, Pass, Place,
    Remark, Roles, SourceLine,
};
use hardmeter_samples::model::{
    CpuMode, EventSource, FileOffset, MemoryOperation, Pid, Sample, VirtualAddress,
};
use hardmeter_samples::object_notes::ObjectPath;
use hardmeter_symbols::Access;
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;

pub use text::SharingDetail;

/// Lines looked at for what they have in common, however few are shown.
const STUDIED: usize = 300;

/// What to show of a capture's shared lines.
pub struct SharingOptions<'a> {
    /// Which samples, where names are looked for, how it is watched.
    pub walk: WalkOptions<'a>,
    /// How many lines to show; `None`: all.
    pub lines: Option<usize>,
    /// Whether to infer verdicts from where samples fell, even where the simulator knows.
    pub judge_by_samples: bool,
}

/// Code as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeName {
    /// The routine, or the honest phrase in its place.
    pub routine: String,
    /// The source line.
    pub line: Option<SourceLine>,
}

/// What one instruction did to some bytes of a line, with names.
#[derive(Clone, Debug)]
pub struct AccessReport {
    /// The counts.
    pub access: LineAccess,
    /// The code.
    pub code: Option<CodeName>,
    /// The instruction, in its image's own numbering.
    pub instruction: Option<ImageAddress>,
    /// What lies at these bytes.
    pub object: String,
}

/// Who waits for whom, with names.
#[derive(Clone, Debug)]
pub struct FightReport {
    /// Who missed.
    pub waiting: Option<CodeName>,
    /// Who wrote.
    pub writing: Option<CodeName>,
    /// Misses.
    pub misses: u64,
    /// Those of them by false sharing.
    pub false_sharing: u64,
}

/// A group of the suggested layout, with the names of what is in it.
#[derive(Clone, Debug)]
pub struct GroupReport {
    /// The bytes, and who uses them.
    pub group: LayoutGroup,
    /// What lies there.
    pub objects: Vec<String>,
}

/// A line under study, with names.
#[derive(Clone, Debug)]
pub struct LineReport {
    /// Which line.
    pub line: LineId,
    /// An address on it, as one of its processes sees it: of the line's first byte.
    pub address: Option<(Pid, VirtualAddress)>,
    /// Its counts.
    pub counts: LineCounts,
    /// True or false sharing.
    pub verdict: LineVerdict,
    /// What lies on it, the commonest first.
    pub objects: Vec<String>,
    /// The class and the name of the commonest.
    pub owner: Option<(String, String)>,
    /// Its accesses.
    pub accesses: Vec<AccessReport>,
    /// Who waits for whom.
    pub fights: Vec<FightReport>,
    /// Whether that was recorded; otherwise it is inferred from shares of stores.
    pub fights_exact: bool,
    /// Bytes that belong together, where more than one group was found.
    pub groups: Vec<GroupReport>,
    /// What a line for each group would bring.
    pub effect: Option<Effect>,
}

/// Everything that `hardmeter sharing` shows.
#[derive(Clone, Debug)]
pub struct SharingReport {
    /// How the capture came to be.
    pub heading: Heading,
    /// The filter in words, if samples were filtered.
    pub filter: Option<String>,
    /// Samples that pass the filter.
    pub samples: u64,
    /// The sum over all contended lines.
    pub total: LineCounts,
    /// How many lines are contended.
    pub contended: u64,
    /// One event of sharing in so many was recorded; 0 where the capture does not tell.
    pub one_in: u64,
    /// What the lines have in common, in sentences.
    pub sentences: Vec<String>,
    /// The lines to show, those with most misses first.
    pub lines: Vec<LineReport>,
    /// What is missing for an answer, and how to record it.
    pub missing: Vec<String>,
    /// What a reader must know besides.
    pub remarks: Vec<Remark>,
    /// What could not be read of the capture.
    pub unread: Vec<String>,
}

/// What lies on the bytes of a line: how often each object was seen at an offset.
type ObjectCounts = FxHashMap<(LineId, u16), FxHashMap<ObjectPath, u64>>;

impl SharingReport {
    /// Walks over the capture twice.
    ///
    /// # Errors
    ///
    /// [`ReportError`] if the capture cannot be read.
    pub fn make(capture: &Capture, options: SharingOptions<'_>) -> Result<SharingReport, ReportError> {
        let line_size = capture.line_size();
        let roles = Roles::new(capture.events());
        let WalkOptions { filter, symbols, progress } = options.walk;
        let mut census = LineCensus::new(roles.clone(), line_size);
        let first = WalkOptions { filter: filter.clone(), symbols: None, progress };
        capture.walk(first, &mut |pass, sample, _| {
            census.add(sample, || shared_place(pass.map(), sample));
            Ok(ControlFlow::Continue(()))
        })?;
        let mut ranking = census.ranking();
        let contended = ranking.len() as u64;
        ranking.truncate(options.lines.map_or(usize::MAX, |lines| lines.max(STUDIED)));
        let mut study = LineStudy::new(roles.clone(), line_size, &ranking, options.judge_by_samples);
        let mut instructions = Instructions::default();
        let mut objects = ObjectCounts::default();
        let second = WalkOptions { filter, symbols, progress };
        let mut walk = capture.walk_with_objects(second, &mut |pass, sample, located| {
            let shared = match sample.physical_address {
                Some(_) => None,
                None => shared_place(pass.map(), sample),
            };
            let Some(line) = LineId::of(sample, line_size, shared).filter(|line| study.wants(*line)) else {
                return Ok(ControlFlow::Continue(()));
            };
            let instruction = located
                .place
                .and_then(|place| instruction_access(&mut instructions, pass.map(), place, sample));
            let process = located.process.map(|id| pass.process_name(id));
            if let (Some(object), Some(address)) = (pass.object(sample), sample.address) {
                let offset = (address.0 % u64::from(line_size)) as u16;
                *objects.entry((line, offset)).or_default().entry(object.path).or_default() += 1;
            }
            let other = other_side(pass, sample);
            study.add(line, sample, located.place, process, instruction, other);
            Ok(ControlFlow::Continue(()))
        })?;
        let mut named = Named { objects, line_size, pass: &mut walk.pass };
        let mut lines: Vec<LineReport> =
            study.lines().iter().map(|detail| named.line(&study, detail)).collect();
        let sentences = sentences::of(&lines, census.total().misses);
        lines.truncate(options.lines.unwrap_or(usize::MAX));
        let remarks = walk.remarks(None);
        Ok(SharingReport {
            heading: capture.heading(&walk),
            filter: None,
            samples: census.samples(),
            total: census.total(),
            contended,
            one_in: roles.one_in(),
            sentences,
            lines,
            missing: missing(&census, capture.source()),
            remarks,
            unread: walk.unread(),
        })
    }
}

/// The place of a sample's data address in memory that processes share, if it lies in such.
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

/// Gives names to what was counted.
struct Named<'p> {
    objects: ObjectCounts,
    line_size: u32,
    pass: &'p mut Pass<SymbolNames>,
}

impl Named<'_> {
    fn line(&mut self, study: &LineStudy, detail: &LineDetail) -> LineReport {
        let groups = detail.groups();
        let effect = study.effect(detail, &groups);
        let rows: Vec<LineAccess> = detail.accesses().into_iter().cloned().collect();
        let (fights, fights_exact) = detail.fights();
        let example = rows.iter().find_map(|row| row.example);
        let mask = !(u64::from(self.line_size) - 1);
        let whole = ByteRange { start: 0, end: self.line_size as u16 };
        let groups = groups
            .into_iter()
            .map(|group| GroupReport { objects: self.objects_on(detail.line, &group.ranges), group });
        LineReport {
            line: detail.line,
            address: example.map(|(pid, address)| (pid, VirtualAddress(address.0 & mask))),
            counts: detail.counts,
            verdict: study.verdict(detail),
            groups: groups.collect(),
            effect,
            objects: self.objects_on(detail.line, &[whole]),
            owner: self.owner(detail.line, whole),
            accesses: rows.into_iter().map(|access| self.access(detail.line, access)).collect(),
            fights: self.fights(&fights),
            fights_exact,
        }
    }

    /// Instructions of one routine and line are one party.
    fn fights(&mut self, fights: &[Fight]) -> Vec<FightReport> {
        let mut merged: Vec<FightReport> = Vec::new();
        for fight in fights {
            let (waiting, writing) = (self.code(fight.waiting), self.code(fight.writing));
            match merged.iter_mut().find(|one| (&one.waiting, &one.writing) == (&waiting, &writing)) {
                Some(one) => {
                    one.misses += fight.misses;
                    one.false_sharing += fight.false_sharing;
                }
                None => merged.push(FightReport {
                    waiting,
                    writing,
                    misses: fight.misses,
                    false_sharing: fight.false_sharing,
                }),
            }
        }
        merged.sort_by(|a, b| {
            b.misses.cmp(&a.misses).then_with(|| (&a.waiting, &a.writing).cmp(&(&b.waiting, &b.writing)))
        });
        merged
    }

    fn access(&mut self, line: LineId, access: LineAccess) -> AccessReport {
        let object = access.range.map(|range| self.objects_on(line, &[range])).unwrap_or_default();
        AccessReport {
            code: self.code(access.place),
            instruction: access.place.map(|place| self.pass.map().address(place)),
            object: object.into_iter().next().unwrap_or_default(),
            access,
        }
    }

    fn code(&mut self, place: Option<Place>) -> Option<CodeName> {
        let place = place?;
        let map = self.pass.map();
        Some(CodeName { routine: map.routine(place).to_string(), line: map.line(place) })
    }

    /// The class and the name of what was seen most on a line.
    fn owner(&mut self, line: LineId, whole: ByteRange) -> Option<(String, String)> {
        let seen = self.counts_on(line, &[whole]);
        let names = self.pass.objects();
        let text = |id| names.text(id).to_string();
        let mut counts: FxHashMap<(String, String), u64> = FxHashMap::default();
        for (path, count) in seen {
            *counts.entry((text(path.class), text(path.name))).or_default() += count;
        }
        counts.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0))).map(|(owner, _)| owner)
    }

    fn counts_on(&self, line: LineId, ranges: &[ByteRange]) -> FxHashMap<ObjectPath, u64> {
        let mut counts: FxHashMap<ObjectPath, u64> = FxHashMap::default();
        for range in ranges {
            for offset in range.start..range.end {
                for (path, count) in self.objects.get(&(line, offset)).into_iter().flatten() {
                    *counts.entry(*path).or_default() += count;
                }
            }
        }
        counts
    }

    /// What lies at accessed bytes of these ranges, the commonest first.
    fn objects_on(&mut self, line: LineId, ranges: &[ByteRange]) -> Vec<String> {
        let counts = self.counts_on(line, ranges);
        let names = self.pass.objects();
        let mut texts: Vec<(String, u64)> =
            counts.into_iter().map(|(path, count)| (names.describe(path), count)).collect();
        texts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        texts.into_iter().map(|(text, _)| text).collect()
    }
}

/// What keeps the answer from being whole, and the remedy.
fn missing(census: &LineCensus, source: EventSource) -> Vec<String> {
    const RECORD: &str = "record with \"hardmeter record --source simulated --cores 4 --period 1 -e \
        coherence-miss,invalidation\", or on hardware with \"perf c2c record\"";
    let (total, roles) = (census.total(), census.roles());
    let mut missing = Vec::new();
    if census.samples() == 0 || total.misses + total.invalidations > 0 {
        if source != EventSource::Simulated && total.misses > 0 && !census.stores_seen() {
            missing.push(
                "no stores were sampled, so nothing tells who writes: record them too, as \"perf c2c record\" does"
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
    if census.with_address() == 0 {
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
