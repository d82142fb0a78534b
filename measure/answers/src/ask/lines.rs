//! A contended cache line with names: its objects, the routines that access it, the pairs that wait for each
//! other.

use crate::code::{CodeMap, ImageAddress, Place, SourceLine};
use crate::pass::Pass;
use crate::sharing::{
    ByteRange, Effect, Fight, LayoutGroup, LineAccess, LineCounts, LineDetail, LineId, LineStudy,
    LineVerdict, Movement,
};
use crate::symbols::SymbolNames;
use hardmeter_samples::model::{Pid, VirtualAddress};
use hardmeter_samples::object_notes::ObjectPath;
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Code as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CodeName {
    /// The routine's name, or why it has none: see [`crate::Routine::text`].
    pub routine: String,
    /// The source line.
    pub line: Option<SourceLine>,
}

/// The accesses of one instruction to some bytes of a line, with names.
#[derive(Clone, Debug, Serialize)]
pub struct AccessReport {
    /// The counts.
    pub access: LineAccess,
    /// The code.
    pub code: Option<CodeName>,
    /// The instruction, in its image's own numbering.
    pub instruction: Option<ImageAddress>,
    /// The object at these bytes.
    pub object: String,
}

/// A pair of routines, with names: the first missed because the second wrote.
#[derive(Clone, Debug, Serialize)]
pub struct FightReport {
    /// The routine that missed.
    pub waiting: Option<CodeName>,
    /// The routine that wrote.
    pub writing: Option<CodeName>,
    /// Misses.
    pub misses: u64,
    /// Number of these misses that are false sharing.
    pub false_sharing: u64,
}

/// A group of the suggested layout, with the names of what is in it.
#[derive(Clone, Debug, Serialize)]
pub struct GroupReport {
    /// The bytes, and who uses them.
    pub group: LayoutGroup,
    /// The objects at the bytes in question.
    pub objects: Vec<String>,
}

/// A line under study, with names.
#[derive(Clone, Debug, Serialize)]
pub struct LineReport {
    /// The line.
    pub line: LineId,
    /// The virtual address of the line's first byte in one of the processes that map it.
    pub address: Option<(Pid, VirtualAddress)>,
    /// Its counts.
    pub counts: LineCounts,
    /// True or false sharing.
    pub verdict: LineVerdict,
    /// How it moves between cores, if a way stands out.
    pub movement: Option<Movement>,
    /// The objects on the line, by number of samples, largest first.
    pub objects: Vec<String>,
    /// The class and the name of the most frequent object.
    pub owner: Option<(String, String)>,
    /// Its accesses.
    pub accesses: Vec<AccessReport>,
    /// Pairs of a waiting and a writing routine.
    pub fights: Vec<FightReport>,
    /// Whether the pairs were recorded; otherwise they are inferred from shares of stores.
    pub fights_exact: bool,
    /// Bytes that belong together, where more than one group was found.
    pub groups: Vec<GroupReport>,
    /// The predicted effect of a separate line for each group of bytes.
    pub effect: Option<Effect>,
}

/// Samples by object and by offset in a line.
pub(crate) type ObjectCounts = FxHashMap<(LineId, u16), FxHashMap<ObjectPath, u64>>;

/// Adds names to the counted places.
pub(crate) struct Named<'p> {
    pub(crate) objects: ObjectCounts,
    pub(crate) line_size: u32,
    pub(crate) pass: &'p mut Pass<SymbolNames>,
}

impl Named<'_> {
    pub(crate) fn line(&mut self, study: &LineStudy, detail: &LineDetail) -> LineReport {
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
            movement: detail.movement(),
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

    /// The class and the name of the object with most samples on a line.
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

    /// The objects at these ranges of accessed bytes, by number of samples, largest first.
    fn objects_on(&mut self, line: LineId, ranges: &[ByteRange]) -> Vec<String> {
        let counts = self.counts_on(line, ranges);
        let names = self.pass.objects();
        let mut texts: Vec<(String, u64)> =
            counts.into_iter().map(|(path, count)| (names.describe(path), count)).collect();
        texts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        texts.into_iter().map(|(text, _)| text).collect()
    }
}
