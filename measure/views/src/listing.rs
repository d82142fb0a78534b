//! `hardmeter annotate`: a routine's instructions with source lines between them and samples beside them, as the
//! paper reads LWLockRelease through `objdump -S`.

use crate::drawn::view_of;
use crate::heading::HeadingText;
use crate::layout::{printable, Align, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped, percent};
use crate::register_view;
use crate::top_view::{closing_text, remark_json};
use hardmeter_answers::{AnnotateAnswer, AnnotatedInstruction, SourceLine};
use serde_json::{json, Value as Json};
use std::fmt::Write;

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
        text.push_str(&self.grid().render(style, 2));
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

    fn grid(&self) -> TextTable {
        let with_latency = self.annotation.instructions.iter().any(|line| line.mean_latency.is_some());
        let mut columns: Vec<_> =
            self.events.iter().map(|event| (event.clone(), Align::Right, Cut::Never)).collect();
        if with_latency {
            columns.push(("latency".to_string(), Align::Right, Cut::Never));
        }
        columns.push(("address".to_string(), Align::Right, Cut::Never));
        columns.push(("mem".to_string(), Align::Left, Cut::Never));
        columns.push(("instruction".to_string(), Align::Left, Cut::KeepHead));
        let blank = columns.len() - 1;
        let mut grid = TextTable::new(columns);
        let mut before: Option<&SourceLine> = None;
        for line in &self.annotation.instructions {
            let source = line.instruction.line.as_ref();
            if let Some(source) = source.filter(|source| Some(*source) != before) {
                let mut row = vec![(String::new(), Tone::Plain); blank];
                row.push((self.source_text(source), Tone::Faint));
                grid.row(row);
                before = Some(source);
            }
            grid.row(self.cells(line, with_latency));
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
                // Of the routine's own samples: here the question is where in the routine.
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

    /// `lwlock.c:1796  if (lock->exclusive > 0)`: the file's name is enough beside the text.
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
        json!({
            "format": "hardmeter-annotate",
            "version": 1,
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
        })
    }
}
