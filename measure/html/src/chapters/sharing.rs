//! Contended lines: which routine waits for which, and which bytes of each line they use.

use crate::ask::HtmlReport;
use hardmeter_answers::{AccessReport, CodeName, LineReport, Share, SharingAnswer};
use hardmeter_evidence::number::{counted, grouped};
use hardmeter_evidence::page::{heat_map, table, HeatCell, Section};
use hardmeter_views::{percent, printable};
use maud::{html, Markup};
use std::collections::BTreeMap;

/// Routines on each side of the matrix.
const MATRIX: usize = 10;
/// Number of accesses that are listed for a line.
const ACCESSES: usize = 8;
/// Bytes of a line that are drawn.
const BYTES: usize = 64;

impl HtmlReport {
    pub(super) fn sharing_section(&self) -> Option<Section> {
        let sharing = self.sharing.as_ref().filter(|sharing| !sharing.lines().is_empty())?;
        let body = html! {
            p { (counted(sharing.contended, "line")) " are contended; "
                (counted(sharing.total.misses, "sampled miss")) " waited for a line that another core had written. "
                "Not filtered." }
            (matrix(sharing))
            h3 { "Which bytes" }
            p.note { "Each row is one cache line, each cell one byte: the deeper the colour, the more of the line's samples touch it. "
                "The outlined bytes are stored to." }
            @for (rank, line) in sharing.lines().iter().enumerate() { (line_markup(rank + 1, line, sharing)) }
        };
        Some(Section::new("sharing", "Contended lines", body))
    }
}

fn name(code: Option<&CodeName>) -> String {
    code.map_or_else(|| "unknown".into(), |code| printable(&code.routine))
}

/// Rows wait, columns wrote.
fn matrix(sharing: &SharingAnswer) -> Markup {
    let mut misses: BTreeMap<(String, String), u64> = BTreeMap::new();
    for fight in sharing.studied.iter().flat_map(|line| &line.fights) {
        *misses.entry((name(fight.waiting.as_ref()), name(fight.writing.as_ref()))).or_default() +=
            fight.misses;
    }
    let ranked = |side: fn(&(String, String)) -> &String| {
        let mut sums: BTreeMap<&String, u64> = BTreeMap::new();
        for (pair, count) in &misses {
            *sums.entry(side(pair)).or_default() += count;
        }
        let mut names: Vec<(&String, u64)> = sums.into_iter().collect();
        names.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        names.into_iter().take(MATRIX).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let (waiting, writing) = (ranked(|pair| &pair.0), ranked(|pair| &pair.1));
    let most = misses.values().copied().max().unwrap_or(1).max(1);
    let exact = sharing.studied.iter().all(|line| line.fights_exact);
    html! {
        @if !misses.is_empty() {
            h3 { "Waits between routines" }
            p.note { "Samples of the routine in the row that waited for a line written by the routine in the column; "
                @if exact { "exact (simulated)." } @else { "inferred from shares of stores." } }
            div.scroll tabindex="0" role="group" aria-label="Waits between routines" { table.crosstab {
                thead { tr { th scope="col" { "waits \\ wrote" } @for writer in &writing { th.slim scope="col" { (writer) } } } }
                tbody { @for waiter in &waiting { tr {
                    th.code scope="row" { (waiter) }
                    @for writer in &writing {
                        @let count = misses.get(&(waiter.clone(), writer.clone())).copied().unwrap_or(0);
                        td class={ "number heat-cell heat-" (heat(count, most)) } { @if count > 0 { (grouped(count)) } }
                    }
                } } }
            } }
        }
    }
}

/// The step of a colour, 0 to 6.
pub(super) fn heat(count: u64, most: u64) -> u32 {
    match count {
        0 => 0,
        _ => 1 + (count as f64 / most.max(1) as f64 * 5.99) as u32,
    }
}

fn line_markup(rank: usize, line: &LineReport, sharing: &SharingAnswer) -> Markup {
    let share = Share { count: line.counts.misses, total: sharing.total.misses };
    let objects: Vec<String> = line.objects.iter().take(2).map(|object| printable(object)).collect();
    let groups = line.effect.as_ref().filter(|effect| effect.after < effect.before);
    html! {
        details open[rank <= 3] {
            summary {
                b { (objects.join(", ")) } " " (percent(share)) " of the misses (n = " (grouped(share.count)) "): "
                (line.verdict.kind.name()) " sharing"
            }
            (heat_map(&[(format!("{} {}", line.line, seen(line)), bytes(line))]))
            (accesses(line))
            @if let Some(effect) = groups {
                p.remedy { "With a line of its own for each group of bytes: " (grouped(effect.before)) " sampled misses become "
                    (grouped(effect.after)) "." }
            }
        }
    }
}

fn seen(line: &LineReport) -> String {
    line.address.map_or_else(String::new, |(pid, address)| format!("({address} in process {pid})"))
}

/// A cell for each byte: the number of samples that touch it, with an outline if it is stored to.
fn bytes(line: &LineReport) -> Vec<HeatCell> {
    let mut counts = [0u64; BYTES];
    let mut stored = [false; BYTES];
    for access in &line.accesses {
        let Some(range) = access.access.range else { continue };
        for byte in usize::from(range.start)..usize::from(range.end).min(BYTES) {
            counts[byte] += samples(access);
            stored[byte] |= access.access.writes;
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let cell = |byte: usize| HeatCell {
        heat: counts[byte] as f64 / most as f64,
        marked: stored[byte],
        text: format!(
            "byte {byte}: {}{}",
            counted(counts[byte], "sample"),
            if stored[byte] { ", stored to" } else { "" }
        ),
    };
    (0..BYTES).map(cell).collect()
}

fn samples(access: &AccessReport) -> u64 {
    access.access.counts.misses + access.access.counts.invalidations + access.access.blamed
}

fn accesses(line: &LineReport) -> Markup {
    let titles = ["misses", "blamed", "bytes", "does", "routine", "object"].map(str::to_string);
    let row = |access: &AccessReport| {
        let does = match (access.access.reads, access.access.writes) {
            (true, true) => "loads, stores",
            (_, true) => "stores",
            _ => "loads",
        };
        let range = access.access.range.map_or("-".into(), |range| format!("{}..{}", range.start, range.end));
        let (misses, blamed) = (grouped(access.access.counts.misses), grouped(access.access.blamed));
        vec![misses, blamed, range, does.into(), name(access.code.as_ref()), printable(&access.object)]
    };
    let left_out = line.accesses.len().saturating_sub(ACCESSES);
    html! {
        (table(&titles, &line.accesses.iter().take(ACCESSES).map(row).collect::<Vec<_>>(), 2))
        @if left_out > 0 { p.note { (counted(left_out as u64, "more row")) " not shown (hardmeter sharing)." } }
    }
}
