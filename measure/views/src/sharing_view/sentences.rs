//! Common properties of contended lines, in sentences: the kinds of objects with most contention.

use super::movement::Movements;
use crate::number::{counted, grouped, percent};
use hardmeter_answers::{CodeName, LineReport};
use hardmeter_answers::{Evidence, Share, SharingKind};
use hardmeter_samples::model::Pid;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of kinds in the text.
const MOST: usize = 5;
/// Objects of a kind named one by one, at most.
const NAMED: usize = 3;

/// The lines of one kind of object that are shared in one way.
#[derive(Default)]
struct Kind<'r> {
    lines: u64,
    misses: u64,
    names: Vec<&'r str>,
    pids: BTreeSet<Pid>,
    fights: BTreeMap<(&'r str, &'r str), u64>,
    inferred: bool,
    movements: Movements,
}

/// One sentence for each kind of object with most misses, over the studied lines; `total` are the misses of all
/// lines.
pub(super) fn of(lines: &[LineReport], total: u64) -> Vec<String> {
    let mut kinds: BTreeMap<(&str, &'static str), Kind<'_>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.counts.misses > 0) {
        let Some((class, name)) = &line.owner else { continue };
        let kind = kinds.entry((class, shared(line.verdict.kind))).or_default();
        kind.lines += 1;
        kind.misses += line.counts.misses;
        kind.inferred |= matches!(line.verdict.evidence, Evidence::Sampled { .. });
        if !name.is_empty() && !kind.names.contains(&name.as_str()) {
            kind.names.push(name);
        }
        kind.movements.add(line.movement.as_ref());
        kind.pids.extend(line.accesses.iter().flat_map(|access| &access.access.pids));
        for fight in &line.fights {
            let parties = (routine(&fight.waiting), routine(&fight.writing));
            *kind.fights.entry(parties).or_default() += fight.misses;
        }
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by(|a, b| b.1.misses.cmp(&a.1.misses).then(a.0.cmp(&b.0)));
    kinds.iter().take(MOST).map(|((class, shared), kind)| sentence(class, shared, kind, total)).collect()
}

fn sentence(class: &str, shared: &str, kind: &Kind<'_>, total: u64) -> String {
    let share = Share { count: kind.misses, total };
    let names = match kind.names.len() {
        0 => String::new(),
        number if number <= NAMED => format!(" {}", kind.names.join(", ")),
        number => format!(" of {number} names"),
    };
    let how = if kind.inferred { "inferred (sampled)" } else { "exact (simulated)" };
    let mut text = format!(
        "{} (n = {} of {}) of the misses that waited for another core: {class}{names}, {}, {shared} between {}, {how}",
        percent(share),
        grouped(share.count),
        grouped(total),
        counted(kind.lines, "line"),
        counted(kind.pids.len() as u64, "process"),
    );
    let known = |routine: &str| !routine.is_empty() && !routine.starts_with("[unknown");
    let told = kind.fights.iter().filter(|((waiting, writing), _)| known(waiting) && known(writing));
    if let Some(((waiting, writing), _)) = told.max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0))) {
        text.push_str(&format!("; most wait in {waiting} for {writing}"));
    }
    if let Some(how) = kind.movements.in_words() {
        text.push_str(&format!("; {how}"));
    }
    text
}

fn shared(kind: SharingKind) -> &'static str {
    match kind {
        SharingKind::True => "truly shared",
        SharingKind::False => "falsely shared",
        SharingKind::Mixed => "shared truly and falsely",
        SharingKind::Unknown => "shared in a way that cannot be determined",
    }
}

fn routine(code: &Option<CodeName>) -> &str {
    code.as_ref().map_or("", |code| code.routine.as_str())
}
