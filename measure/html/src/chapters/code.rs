//! The hottest routines, instruction by instruction: the hot ones with their neighbours, the rest folded away.

use crate::ask::HtmlReport;
use hardmeter_answers::{AnnotateAnswer, AnnotatedInstruction};
use hardmeter_evidence::number::{counted, grouped};
use hardmeter_evidence::page::Section;
use hardmeter_views::{percent, printable};
use maud::{html, Markup};

/// Neighbours of a hot instruction that are shown, on each side.
const NEIGHBOURS: usize = 4;
/// Largest number of hot instructions of a routine.
const HOT: usize = 12;

impl HtmlReport {
    pub(super) fn code_section(&self) -> Option<Section> {
        let body = html! {
            p.note { "The routines that cost most and have a name. Counts are samples of each event; not filtered." }
            @for (rank, listing) in self.listings.iter().enumerate() { (routine(rank, listing)) }
        };
        (!self.listings.is_empty()).then(|| Section::new("code", "Which instruction", body))
    }
}

fn routine(rank: usize, listing: &AnnotateAnswer) -> Markup {
    let annotation = &listing.annotation;
    let shares = annotation.events.iter().zip(&listing.events).filter(|(event, _)| event.share.count > 0);
    let shares: Vec<String> =
        shares.map(|(event, name)| format!("{} of {}", percent(event.share), printable(name))).collect();
    let total = |event: usize| annotation.events[event].share.count.max(1);
    let heat = |instruction: &AnnotatedInstruction| {
        let part = |(event, count): (usize, &u64)| *count as f64 / total(event) as f64;
        instruction.counts.iter().enumerate().map(part).fold(0.0, f64::max)
    };
    let pieces = shown(&annotation.instructions.iter().map(heat).collect::<Vec<_>>());
    html! {
        details open[rank == 0] {
            summary { b.code { (printable(&annotation.routine)) } " " (shares.join(", ")) }
            div.scroll tabindex="0" role="group" aria-label={ "Instructions of " (printable(&annotation.routine)) } { table.listing {
                thead { tr {
                    @for name in &listing.events { th.number scope="col" { (printable(name)) } }
                    th.number scope="col" { "latency" } th scope="col" { "address" } th scope="col" { "instruction" } th scope="col" { "source" }
                } }
                tbody { @for piece in &pieces {
                    @match piece {
                        Piece::Instruction(at) => { (instruction(&annotation.instructions[*at], listing, heat(&annotation.instructions[*at]))) }
                        Piece::Gap(length) => { tr.gap { td colspan=(listing.events.len() + 4) {
                            "… " (counted(*length as u64, "instruction")) } } }
                    }
                } }
            } }
        }
    }
}

fn instruction(instruction: &AnnotatedInstruction, listing: &AnnotateAnswer, heat: f64) -> Markup {
    let step = if heat < 0.005 { 0 } else { 1 + (heat * 5.99) as u32 };
    let text = &instruction.instruction;
    let source = text.line.as_ref().map(|line| {
        let code = listing.sources.get(line).map(|code| code.trim()).unwrap_or_default();
        printable(&format!("{}:{} {code}", line.file.rsplit('/').next().unwrap_or_default(), line.line))
    });
    html! {
        tr {
            @for count in &instruction.counts { td.number { @if *count > 0 { (grouped(*count)) } } }
            td.number { @if let Some(latency) = instruction.mean_latency { (format!("{latency:.0}")) } }
            td.code { (text.address) }
            td.code { span class={ "mark heat-" (step) } { (printable(&text.text)) }
                @if let Some(comment) = &text.comment { span.faint { " # " (printable(comment)) } } }
            td.code.faint { (source.unwrap_or_default()) }
        }
    }
}

/// A piece of a listing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Piece {
    /// An instruction, by its position.
    Instruction(usize),
    /// A number of instructions that are left out.
    Gap(usize),
}

/// The hottest instructions with their neighbours, in order, and the number of lines between them.
fn shown(heats: &[f64]) -> Vec<Piece> {
    let mut hottest: Vec<usize> = (0..heats.len()).filter(|at| heats[*at] > 0.0).collect();
    hottest.sort_by(|a, b| heats[*b].total_cmp(&heats[*a]).then(a.cmp(b)));
    hottest.truncate(HOT);
    let near = |at: usize| hottest.iter().any(|hot| hot.abs_diff(at) <= NEIGHBOURS);
    let mut pieces = Vec::new();
    for at in 0..heats.len() {
        match (near(at), pieces.last_mut()) {
            (true, _) => pieces.push(Piece::Instruction(at)),
            (false, Some(Piece::Gap(length))) => *length += 1,
            (false, _) => pieces.push(Piece::Gap(1)),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_instructions_are_shown_with_their_neighbours() {
        let mut heats = vec![0.0; 30];
        heats[10] = 0.5;
        let pieces = shown(&heats);
        assert_eq!((pieces.first(), pieces.last()), (Some(&Piece::Gap(6)), Some(&Piece::Gap(15))));
        assert_eq!(pieces[1..10], (6..15).map(Piece::Instruction).collect::<Vec<_>>());
    }

    #[test]
    fn a_routine_without_samples_is_one_gap() {
        assert_eq!(shown(&[0.0; 7]), [Piece::Gap(7)]);
    }
}
