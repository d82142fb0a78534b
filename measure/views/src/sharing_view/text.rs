//! The report on sharing as text.

use super::movement::movement_text;
use super::SharingReport;
use crate::layout::{printable, wrap, Column, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped, percent};
use crate::rows::{begin_part, only, Frame};
use crate::screen::{sentences_text, Block, Screen, Wanted};
use hardmeter_answers::{AccessReport, CodeName, FightReport, GroupReport, LineReport};
use hardmeter_answers::{Basis, Effect, Evidence, LineCounts, LineVerdict, Share, SharingKind};
use std::fmt::Write;

/// The amount of detail per studied line.
#[derive(Clone, Copy, Debug)]
pub struct SharingDetail {
    /// Lines shown access by access.
    pub lines: usize,
    /// Rows per table of a line.
    pub rows: usize,
}

impl SharingReport {
    /// The report as text; `tables_only` leaves out the heading and the warnings.
    pub fn render(&self, style: Style, detail: SharingDetail, tables_only: bool) -> String {
        let frame = Frame { heading: &self.heading, remarks: &self.remarks, style, tables_only };
        frame.around(&only(self.filter.as_ref()), |text| {
            begin_part(text);
            self.render_lines(style, detail, text);
        })
    }

    fn render_lines(&self, style: Style, detail: SharingDetail, text: &mut String) {
        if !self.sentences().is_empty() {
            text.push_str(&sentences_text(&self.sentences(), style));
            text.push('\n');
        }
        let _ = writeln!(text, "{}: {}", style.paint(Tone::Title, "contended cache lines"), self.summary());
        if !self.lines().is_empty() {
            text.push_str(&self.table().render(style, 2));
        }
        let shown: u64 = self.lines().iter().map(|line| line.counts.misses).sum();
        let more = self.contended - self.lines().len() as u64;
        if more > 0 {
            let rest = Share { count: self.total.misses - shown, total: self.total.misses };
            let rest = format!(
                "  and {} with {} ({} of n = {}); --all shows them\n",
                counted(more, "line"),
                missed(rest.count),
                percent(rest),
                grouped(rest.total)
            );
            text.push_str(&style.paint(Tone::Faint, &rest));
        }
        for (rank, line) in self.lines().iter().enumerate().take(detail.lines) {
            text.push('\n');
            self.render_line(rank + 1, line, style, detail.rows, text);
        }
        for missing in &self.missing {
            let _ = writeln!(text, "\n{}", wrap(missing, style, 0));
        }
    }

    /// The first screen: common properties of the lines, and the most contended ones.
    pub fn screen(&self, style: Style, wanted: Wanted) -> String {
        let mut screen = Screen::new(&self.heading, style, wanted);
        screen.about(self.filter.iter().map(|filter| format!("only {filter}")));
        screen.findings(self.sentences_or_reason());
        if !self.lines().is_empty() {
            let counts: Vec<u64> = self.lines().iter().map(|line| line.counts.misses).collect();
            let shown: u64 = counts.iter().sum();
            let more = (self.contended - counts.len() as u64, self.total.misses - shown);
            let block = Block::new("contended cache lines", self.summary(), self.table());
            screen.block(block.of(counts, self.total.misses, more).counting("coherence miss"));
        }
        screen.remarks(&self.remarks);
        ["objects", "why"].into_iter().for_each(|command| screen.next(command));
        screen.text()
    }

    pub(super) fn summary(&self) -> String {
        let sampled = match self.one_in {
            0 | 1 => String::new(),
            one_in => format!(", one recorded of every {}", grouped(one_in)),
        };
        format!(
            "n = {} and {} on {}{sampled}",
            missed(self.total.misses),
            counted(self.total.invalidations, "invalidation"),
            counted(self.contended, "line")
        )
    }

    pub(super) fn table(&self) -> TextTable {
        let mut grid = TextTable::new([
            Column::right("#"),
            Column::right("misses"),
            Column::right(format!("of {}", grouped(self.total.misses))),
            Column::right("local").spare(2),
            Column::right("remote").spare(3),
            Column::right("taken").spare(4),
            Column::right("latency").spare(1),
            Column::left("sharing"),
            Column::left("address"),
            Column::left("object").cut(Cut::KeepHead).at_least(50),
        ]);
        for (rank, line) in self.lines().iter().enumerate() {
            let share = Share { count: line.counts.misses, total: self.total.misses };
            let tone = Tone::of_fraction(share.fraction());
            let plain = |text: String| (text, Tone::Plain);
            grid.row(vec![
                plain((rank + 1).to_string()),
                (grouped(line.counts.misses), tone),
                (percent(share), tone),
                plain(grouped(line.counts.local_hitm)),
                plain(grouped(line.counts.remote_hitm)),
                plain(grouped(line.counts.invalidations)),
                plain(latency(&line.counts)),
                plain(line.verdict.kind.name().to_string()),
                plain(line.address.map_or_else(|| line.line.to_string(), |(_, address)| address.to_string())),
                plain(objects_text(&line.objects)),
            ]);
        }
        grid
    }

    fn render_line(&self, rank: usize, line: &LineReport, style: Style, rows: usize, text: &mut String) {
        let seen =
            line.address.map_or_else(String::new, |(pid, address)| format!(", {address} in process {pid}"));
        let title = format!("{rank}: {}{seen}", line.line);
        let objects = objects_text(&line.objects);
        let _ = match objects.as_str() {
            "" => writeln!(text, "{}", style.paint(Tone::Title, &title)),
            objects => writeln!(text, "{}: {}", style.paint(Tone::Title, &title), printable(objects)),
        };
        let _ = writeln!(text, "  {}", wrap(&verdict_text(&line.verdict), style, 2));
        if let Some(movement) = &line.movement {
            let _ = writeln!(text, "  {}", wrap(&movement_text(movement, line.verdict.kind), style, 2));
        }
        text.push_str(&accesses(&line.accesses, rows).render(style, 2));
        more(line.accesses.len(), rows, "access", style, text);
        if !line.fights.is_empty() {
            let how = if line.fights_exact {
                "exact (simulated)"
            } else {
                "inferred from shares of stores (sampled)"
            };
            let n: u64 = line.fights.iter().map(|fight| fight.misses).sum();
            let _ = writeln!(text, "  who waits for whom, n = {}; {how}", missed(n));
            text.push_str(&fights(&line.fights, rows).render(style, 4));
            more(line.fights.len(), rows, "pair", style, text);
        }
        if let Some(effect) = &line.effect {
            let _ = writeln!(text, "  another layout: a cache line for each of");
            for group in &line.groups {
                let _ = writeln!(text, "    {}", wrap(&group_text(group), style, 6));
            }
            let all = if self.one_in > 0 || effect.basis == Basis::Samples { self.total.misses } else { 0 };
            let _ = writeln!(text, "  {}", wrap(&effect_text(effect, all), style, 2));
        }
    }
}

fn missed(count: u64) -> String {
    counted(count, "coherence miss")
}

fn more(all: usize, shown: usize, noun: &str, style: Style, text: &mut String) {
    if all > shown {
        let rest = format!("  and {} more; --rows shows them\n", counted((all - shown) as u64, noun));
        text.push_str(&style.paint(Tone::Faint, &rest));
    }
}

fn latency(counts: &LineCounts) -> String {
    counts.mean_latency().map_or("-".to_string(), |mean| format!("{mean:.0}"))
}

/// The first two, and how many more.
pub(super) fn objects_text(objects: &[String]) -> String {
    const SHOWN: usize = 2;
    let mut text = objects[..objects.len().min(SHOWN)].join("; ");
    if objects.len() > SHOWN {
        let _ = write!(text, "; {} more", objects.len() - SHOWN);
    }
    text
}

fn code_text(code: Option<&CodeName>) -> (String, String) {
    let Some(code) = code else { return ("-".to_string(), String::new()) };
    let line = code.line.as_ref().map_or_else(String::new, |line| {
        let file = line.file.rsplit('/').next().unwrap_or(&line.file);
        format!("{file}:{}", line.line)
    });
    (code.routine.clone(), line)
}

pub(super) fn accesses(accesses: &[AccessReport], rows: usize) -> TextTable {
    let right = |title: &str| Column::right(title);
    let left = |title: &str, cut| Column::left(title).cut(cut);
    let mut grid = TextTable::new(vec![
        left("bytes", Cut::Never),
        left("access", Cut::Never),
        right("misses"),
        right("true"),
        right("false"),
        right("blamed"),
        right("takes"),
        right("others"),
        right("latency"),
        left("routine", Cut::KeepHead),
        left("line", Cut::KeepTail),
        left("process", Cut::Never),
        left("object", Cut::KeepHead),
    ]);
    for row in accesses.iter().take(rows) {
        let access = &row.access;
        let (routine, mut line) = code_text(row.code.as_ref());
        if let Some(address) = row.instruction.filter(|_| line.is_empty()) {
            line = address.to_string();
        }
        let guess = if access.size_known { "" } else { "?" };
        let kind = match (access.reads, access.writes) {
            (true, true) => "load+store",
            (false, true) => "store",
            _ => "load",
        };
        let process = access.process.as_deref().unwrap_or("-");
        let process = match access.pids.len() {
            0 | 1 => process.to_string(),
            many => format!("{process} x{many}"),
        };
        let cells = [
            access.range.map_or_else(String::new, |range| format!("{range}{guess}")),
            kind.to_string(),
            number(access.counts.misses),
            number(access.counts.true_sharing),
            number(access.counts.false_sharing),
            number(access.blamed),
            number(access.counts.invalidations),
            number(access.accesses),
            latency(&access.counts),
            routine,
            line,
            process,
            row.object.clone(),
        ];
        grid.row(cells.into_iter().map(|cell| (cell, Tone::Plain)).collect());
    }
    grid
}

fn number(count: u64) -> String {
    match count {
        0 => String::new(),
        count => grouped(count),
    }
}

pub(super) fn fights(fights: &[FightReport], rows: usize) -> TextTable {
    let mut grid = TextTable::new(vec![
        Column::right("misses"),
        Column::left("waits").cut(Cut::KeepHead),
        Column::left("for").cut(Cut::KeepHead),
    ]);
    let code = |code: Option<&CodeName>| match code_text(code) {
        (routine, line) if line.is_empty() => routine,
        (routine, line) => format!("{routine} ({line})"),
    };
    for fight in fights.iter().take(rows) {
        let cells = [grouped(fight.misses), code(fight.waiting.as_ref()), code(fight.writing.as_ref())];
        grid.row(cells.into_iter().map(|cell| (cell, Tone::Plain)).collect());
    }
    grid
}

/// `p=0.012`, `p<0.001`.
fn p_text(p: f64) -> String {
    if p < 0.001 {
        "p<0.001".to_string()
    } else {
        format!("p={p:.3}")
    }
}

pub(super) fn verdict_text(verdict: &LineVerdict) -> String {
    let kind = verdict.kind.name();
    match verdict.evidence {
        Evidence::Simulated { false_sharing } => {
            let others = Share { count: false_sharing.total - false_sharing.count, ..false_sharing };
            let (share, whose) = match verdict.kind {
                SharingKind::True => (others, "that another core had written"),
                _ => (false_sharing, "that no other core had written"),
            };
            let all = missed(share.total);
            let count = grouped(share.count);
            format!(
                "{kind} sharing: {count} of n = {all} ({}) on bytes {whose}; exact (simulated)",
                percent(share)
            )
        }
        Evidence::Sampled { loads, stores, p } => {
            let part = |share: Share, what: &str| match share.total {
                0 => format!("no {what}"),
                _ => format!("{} of n = {} {what}", percent(share), grouped(share.total)),
            };
            let reason = match verdict.kind {
                SharingKind::Unknown => format!("too few samples to tell, {}", p_text(p)),
                _ => format!("inferred (sampled, n={}, {})", loads.total + stores.total, p_text(p)),
            };
            format!(
                "{kind} sharing: {} on bytes that another thread stores, {} on bytes that another thread misses on; {reason}",
                part(loads, "misses"),
                part(stores, "stores"),
            )
        }
    }
}

pub(super) fn group_text(group: &GroupReport) -> String {
    let ranges: Vec<String> = group.group.ranges.iter().map(|range| range.to_string()).collect();
    let objects = objects_text(&group.objects);
    let colon = if objects.is_empty() { "" } else { ": " };
    printable(&format!("bytes {} ({}){colon}{objects}", ranges.join(", "), group.group.kind.describe()))
}

/// `all`: the coherence misses of all lines, counted in the same way as in `effect`; 0 if not counted.
pub(super) fn effect_text(effect: &Effect, all: u64) -> String {
    let vanishing = Share { count: effect.vanishing(), total: effect.before };
    let (count, before) = (grouped(vanishing.count), missed(vanishing.total));
    let mut text = format!("predicted: {count} of n = {before} vanish ({})", percent(vanishing));
    if all > 0 {
        let of_all = Share { count: vanishing.count, total: all };
        let _ = write!(text, ", that is {} of all n = {}", percent(of_all), grouped(all));
    }
    if effect.new > 0 {
        let _ = write!(
            text,
            "; that is in balance: {} go, {} come, for what one miss fetched together is then fetched apart",
            grouped(effect.before + effect.new - effect.after),
            grouped(effect.new)
        );
    }
    if effect.after > effect.before {
        text = format!("predicted: no gain, {} instead of {}", missed(effect.after), grouped(effect.before));
    }
    let basis = match effect.basis {
        Basis::AllAccesses => "exact on this trace: every load and store was replayed".to_string(),
        Basis::AllMisses => {
            "every recorded miss and invalidation was replayed; accesses that hit are not in \
            the trace (record loads and stores with period 1 for an exact answer)"
                .to_string()
        }
        Basis::OneMissIn(one_in) => format!(
            "replayed on a sample, one event in {}; record with period 1 for all of them",
            grouped(one_in)
        ),
        Basis::SomeMisses => {
            "replayed on the samples of this capture, which does not record how many events each stands for; record with -e coherence-miss,invalidation --period 1 for all of them"
                .to_string()
        }
        Basis::Samples => {
            "inferred (sampled): misses on groups that no other thread was seen to store to".to_string()
        }
    };
    format!("{text}; {basis}")
}
