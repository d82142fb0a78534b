//! `hardmeter annotate`: a routine's instructions with source lines and samples, as the paper shows LWLockRelease
//! with `objdump -S`.

use crate::drawn::view_of;
use crate::heading::HeadingText;
use crate::layout::{printable, Column, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped, percent};
use crate::register_view;
use crate::screen::{Block, Screen, Wanted};
use crate::top_view::{closing_text, remark_json};
use hardmeter_answers::{AnnotateAnswer, AnnotatedInstruction, EventShare, SourceLine};
use hardmeter_evidence::envelope::envelope;
use serde_json::{json, Value as Json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Lines of code on a first screen, with those on the events above it.
const HOT_LINES: usize = 30;

view_of! {
    /// A routine, instruction by instruction.
    Listing(AnnotateAnswer)
}

impl Listing {
    /// The listing as text.
    pub fn render(&self, style: Style, code_only: bool) -> String {
        let mut text = match code_only {
            true => String::new(),
            false => self.heading.render(style, &[]) + "\n",
        };
        let annotation = &self.annotation;
        let _ = writeln!(
            text,
            "{}  {}..{} in {}",
            style.paint(Tone::Title, &printable(&annotation.routine)),
            annotation.start,
            annotation.end,
            printable(&annotation.image)
        );
        for (name, event) in self.events.iter().zip(&annotation.events) {
            let (here, all) = (counted(event.share.count, "sample"), grouped(event.share.total));
            let _ = writeln!(text, "  {name}: {here} here, {} of n = {all}", percent(event.share));
        }
        text.push('\n');
        text.push_str(&self.grid(&(0..annotation.instructions.len()).collect()).render(style, 2));
        if annotation.misplaced_samples > 0 {
            let _ = writeln!(
                text,
                "  {} fall between instructions: this is not the code that ran",
                counted(annotation.misplaced_samples, "sample")
            );
        }
        if let Some(registers) = &self.registers {
            let _ = write!(text, "\n{}", register_view::render(registers, style));
        }
        if !code_only {
            text.push_str(&closing_text(&self.heading, &self.remarks, style));
        }
        text
    }

    /// The first screen: the instructions with most samples and their neighbours.
    pub fn screen(&self, style: Style, wanted: Wanted) -> String {
        let mut screen = Screen::new(&self.heading, style, wanted);
        let annotation = &self.annotation;
        let share = |(name, event): (&String, &EventShare)| {
            let (here, all) = (counted(event.share.count, "sample"), grouped(event.share.total));
            format!("  {name}: {here} here, {} of n = {all}", percent(event.share))
        };
        let mut lines: Vec<String> = self.events.iter().zip(&annotation.events).map(share).collect();
        if annotation.misplaced_samples > 0 {
            let samples = counted(annotation.misplaced_samples, "sample");
            lines.push(format!("  {samples} fall between instructions: this is not the code that ran"));
        }
        let about = format!("{}..{} in {}", annotation.start, annotation.end, annotation.image);
        let hot = self.hot(HOT_LINES.saturating_sub(lines.len()));
        screen.block(Block::new(&*annotation.routine, about, self.grid(&hot)).drawn(lines));
        screen.remarks(&self.remarks);
        screen.next(format!("annotate {} --registers", annotation.routine));
        screen.next("why");
        let mut text = screen.text();
        if let Some(registers) = &self.registers {
            let _ = write!(text, "\n{}", register_view::render(registers, style));
        }
        text
    }

    /// The instructions to show on this number of lines: those with most samples, and their neighbours.
    fn hot(&self, lines: usize) -> BTreeSet<usize> {
        let instructions = &self.annotation.instructions;
        let all: BTreeSet<usize> = (0..instructions.len()).collect();
        if all.len() <= lines && self.lines_of(&all) <= lines {
            return all;
        }
        let weight = |index: usize| -> f64 {
            let counts = instructions[index].counts.iter().zip(&self.annotation.events);
            counts.map(|(count, event)| *count as f64 / event.share.count.max(1) as f64).sum()
        };
        let mut ranked: Vec<(f64, usize)> = all.iter().map(|index| (weight(*index), *index)).collect();
        ranked.retain(|(weight, _)| *weight > 0.0);
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut hot = BTreeSet::new();
        for (_, index) in ranked {
            let around = |before: usize, after: usize| {
                let last = (index + after).min(instructions.len() - 1);
                let more = index.saturating_sub(before)..=last;
                hot.iter().copied().chain(more).collect::<BTreeSet<usize>>()
            };
            let fitting = [around(2, 2), around(1, 0), around(0, 0)];
            match fitting.into_iter().find(|shown| self.lines_of(shown) <= lines) {
                Some(fitting) => hot = fitting,
                None => break,
            }
        }
        hot
    }

    /// Number of lines that these instructions take, with their source lines and the gaps between them.
    fn lines_of(&self, shown: &BTreeSet<usize>) -> usize {
        let mut before: Option<&SourceLine> = None;
        let (mut lines, mut due) = (0, 0);
        for index in shown {
            lines += 1 + usize::from(*index != due);
            due = index + 1;
            let source = self.annotation.instructions[*index].instruction.line.as_ref();
            if source.is_some() && source != before {
                lines += 1;
                before = source;
            }
        }
        lines + usize::from(due < self.annotation.instructions.len())
    }

    /// These instructions, with a line for each gap.
    fn grid(&self, shown: &BTreeSet<usize>) -> TextTable {
        let with_latency = self.annotation.instructions.iter().any(|line| line.mean_latency.is_some());
        let mut columns: Vec<Column> = self.events.iter().map(Column::right).collect();
        columns.extend(with_latency.then(|| Column::right("latency")));
        columns.extend([Column::right("address"), Column::left("mem")]);
        columns.push(Column::left("instruction").cut(Cut::KeepHead).at_least(40));
        let blank = columns.len() - 1;
        let mut grid = TextTable::new(columns);
        let faint = |grid: &mut TextTable, text: String| {
            let mut row = vec![(String::new(), Tone::Plain); blank];
            row.push((text, Tone::Faint));
            grid.row(row);
        };
        let gap = |from: usize, to: usize| format!("... {}", counted((to - from) as u64, "instruction"));
        let mut before: Option<&SourceLine> = None;
        let mut due = 0;
        for index in shown {
            if *index != due {
                faint(&mut grid, gap(due, *index));
            }
            due = index + 1;
            let line = &self.annotation.instructions[*index];
            let source = line.instruction.line.as_ref();
            if let Some(source) = source.filter(|source| Some(*source) != before) {
                faint(&mut grid, self.source_text(source));
                before = Some(source);
            }
            grid.row(self.cells(line, with_latency));
        }
        if due < self.annotation.instructions.len() {
            faint(&mut grid, gap(due, self.annotation.instructions.len()));
        }
        grid
    }

    fn cells(&self, line: &AnnotatedInstruction, with_latency: bool) -> Vec<(String, Tone)> {
        let mut row: Vec<(String, Tone)> = line
            .counts
            .iter()
            .zip(&self.annotation.events)
            .map(|(count, event)| match count {
                0 => (String::new(), Tone::Plain),
                // Relative to the routine's own samples: the question is where in the routine.
                count => {
                    (grouped(*count), Tone::of_fraction(*count as f64 / event.share.count.max(1) as f64))
                }
            })
            .collect();
        if with_latency {
            let latency = line.mean_latency.map_or(String::new(), |mean| format!("{mean:.0}"));
            row.push((latency, Tone::Plain));
        }
        let instruction = &line.instruction;
        row.push((format!("{:x}:", instruction.address.0), Tone::Plain));
        row.push((instruction.access.unwrap_or_default().to_string(), Tone::Operand));
        let comment = instruction.comment.as_ref().map_or(String::new(), |comment| format!("  {comment}"));
        row.push((format!("{}{comment}", instruction.text), Tone::Plain));
        row
    }

    /// `lwlock.c:1796 if (lock->exclusive > 0)`: the file's name suffices with the text.
    fn source_text(&self, line: &SourceLine) -> String {
        let file = line.file.rsplit('/').next().unwrap_or(&line.file);
        match self.sources.get(line) {
            Some(text) => format!("{file}:{}  {}", line.line, text.trim_end().replace('\t', "    ")),
            None => format!("{file}:{}", line.line),
        }
    }

    /// The listing for machines.
    pub fn json(&self) -> Json {
        let instructions: Vec<Json> = self
            .annotation
            .instructions
            .iter()
            .map(|line| {
                let mut object = json!(line);
                let source = line.instruction.line.as_ref().and_then(|line| self.sources.get(line));
                object["source"] = json!(source);
                object
            })
            .collect();
        let events: Vec<Json> = self
            .events
            .iter()
            .zip(&self.annotation.events)
            .map(|(name, event)| json!({"event": name, "share": event.share}))
            .collect();
        envelope(
            "annotate",
            1,
            json!({
                "capture": self.heading,
                "routine": self.annotation.routine,
                "image": self.annotation.image,
                "start": self.annotation.start,
                "end": self.annotation.end,
                "events": events,
                "instructions": instructions,
                "misplaced_samples": self.annotation.misplaced_samples,
                "registers": self.registers,
                "remarks": self.remarks.iter().map(remark_json).collect::<Vec<_>>(),
            }),
        )
    }
}
