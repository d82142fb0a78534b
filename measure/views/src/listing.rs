//! `hardmeter annotate`: a routine's instructions with source lines between them and samples beside them, as the
//! paper reads LWLockRelease through `objdump -S`.

use crate::capture::{names_missing, Capture, WalkOptions};
use crate::heading::Heading;
use crate::layout::{printable, Align, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped, percent};
use crate::register_view::{RegisterRecord, RegisterView};
use crate::routine_search::{find_routine, RoutineWanted};
use crate::symbols::{image_number, SymbolNames};
use crate::top_view::{closing_text, remark_json};
use crate::ReportError;
use hardmeter_answers::{
    annotate, AnnotatedInstruction, Annotation, CodeMap, Filter, ImageAddress, InstructionText, PlaceCounts,
    Remark, RoutineBody, SourceLine,
};
use hardmeter_samples::model::EventIndex;
use hardmeter_symbols::{
    self as attribution, Access, Instruction, Problems, SourceFiles, SourceOptions, Syntax,
};
use serde_json::{json, Value as Json};
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::{ControlFlow, Range};

/// What to show of which routine.
pub struct ListingOptions<'a> {
    /// The routine, by name or address.
    pub wanted: RoutineWanted,
    /// Which samples, where names are looked for, how it is watched.
    pub walk: WalkOptions<'a>,
    /// How instructions are written.
    pub syntax: Syntax,
    /// Where source files are.
    pub sources: SourceOptions,
    /// How many records to show with their registers.
    pub registers: Option<usize>,
}

/// A routine, instruction by instruction.
#[derive(Clone, Debug)]
pub struct Listing {
    /// How the capture came to be.
    pub heading: Heading,
    /// The names of the annotation's events.
    pub events: Vec<String>,
    /// The instructions with their samples.
    pub annotation: Annotation,
    /// Source text by line, where the files were found.
    pub sources: HashMap<SourceLine, String>,
    /// Records with registers, where asked for.
    pub registers: Option<RegisterView>,
    /// What a reader must know besides.
    pub remarks: Vec<Remark>,
    /// What could not be read of the capture.
    pub unread: Vec<String>,
}

impl Listing {
    /// Walks over the capture, finds the routine, and lays the samples beside its instructions.
    ///
    /// # Errors
    ///
    /// [`ReportError`] if the capture cannot be read, or the routine is not found, ambiguous, or has no code.
    pub fn make(capture: &Capture, options: ListingOptions<'_>) -> Result<Listing, ReportError> {
        let filter = options.walk.filter.clone();
        let (symbols, progress) = (options.walk.symbols.clone(), options.walk.progress);
        let mut counts = PlaceCounts::default();
        let mut walk = capture.walk(options.walk, &mut |_, sample, located| {
            counts.add(sample, located);
            Ok(ControlFlow::Continue(()))
        })?;
        let heading = capture.heading(&walk);
        let unread = walk.unread();
        let names = walk.pass.map();
        let found = find_routine(&options.wanted, names, &counts)?;
        let body = disassembled(names, found.image, &found.name, found.range.clone(), options.syntax)?;
        let events = events_shown(capture, &filter);
        let mut files = SourceFiles::new(options.sources);
        let (sources, missing) = source_texts(&body, &mut files);
        let annotation = annotate(body, &counts, &events, names);
        let mut remarks = walk.remarks(None);
        remarks.extend(found.remark);
        remarks.extend(missing);
        let registers = match options.registers {
            Some(limit) => {
                let walk = WalkOptions { filter, symbols, progress };
                Some(records(capture, walk, found.image, &found.range, limit)?)
            }
            None => None,
        };
        let name = |event: &EventIndex| capture.events()[event.0].name.clone();
        Ok(Listing {
            heading,
            events: events.iter().map(name).collect(),
            annotation,
            sources,
            registers,
            remarks,
            unread,
        })
    }

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
            let _ = write!(text, "\n{}", registers.render(style));
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

fn events_shown(capture: &Capture, filter: &Filter) -> Vec<EventIndex> {
    let all = (0..capture.events().len()).map(EventIndex);
    all.filter(|event| filter.events.is_empty() || filter.events.contains(event)).collect()
}

fn disassembled(
    names: &mut SymbolNames,
    image: attribution::ImageId,
    name: &str,
    range: Range<attribution::ImageAddress>,
    syntax: Syntax,
) -> Result<RoutineBody, ReportError> {
    let instructions = names.symbolizer().disassemble(image, range.clone(), syntax)?;
    let image_path = names.image(image_number(image)).map_or(String::new(), |image| image.path);
    let texts = instructions.iter().map(|instruction| instruction_text(names, image, instruction)).collect();
    Ok(RoutineBody {
        image: image_number(image),
        name: name.to_string(),
        image_path,
        range: ImageAddress(range.start.0)..ImageAddress(range.end.0),
        instructions: texts,
    })
}

fn instruction_text(
    names: &mut SymbolNames,
    image: attribution::ImageId,
    instruction: &Instruction,
) -> InstructionText {
    let frames = names.symbolizer().lines(image, instruction.address);
    let line = frames
        .iter()
        .find_map(|frame| Some(SourceLine { file: frame.file.as_deref()?.into(), line: frame.line? }));
    let reads = instruction.memory.iter().any(|operand| operand.access != Access::Write);
    let writes = instruction.memory.iter().any(|operand| operand.access != Access::Read);
    InstructionText {
        address: ImageAddress(instruction.address.0),
        text: instruction.text.clone(),
        memory_operand: instruction.memory.iter().find_map(|operand| operand.text.clone()),
        access: match (reads, writes) {
            (true, true) => Some("rw"),
            (true, false) => Some("r"),
            (false, true) => Some("w"),
            (false, false) => None,
        },
        comment: instruction.comment.clone(),
        line,
    }
}

/// The text of every source line of the routine, and a remark where files are missing.
fn source_texts(body: &RoutineBody, files: &mut SourceFiles) -> (HashMap<SourceLine, String>, Vec<Remark>) {
    let mut problems = Problems::default();
    let mut texts = HashMap::new();
    for line in body.instructions.iter().filter_map(|instruction| instruction.line.as_ref()) {
        if !texts.contains_key(line) {
            if let Some(text) = files.line(&line.file, line.line, &mut problems) {
                texts.insert(line.clone(), text.to_string());
            }
        }
    }
    (texts, names_missing(problems.iter()))
}

/// The first records of a routine, by a second walk: the first could not know yet where the routine lies.
fn records(
    capture: &Capture,
    walk: WalkOptions<'_>,
    image: attribution::ImageId,
    range: &Range<attribution::ImageAddress>,
    limit: usize,
) -> Result<RegisterView, ReportError> {
    let names = capture.event_names();
    let mut view = RegisterView::default();
    capture.walk(walk, &mut |pass, sample, located| {
        let resolved = located.place.and_then(|place| pass.map().resolved(place));
        let inside = resolved.filter(|at| at.image == Some(image) && range.contains(&at.address));
        if let Some(at) = inside {
            view.total += 1;
            if view.records.len() < limit {
                let event = names.get(sample.event.0).cloned().unwrap_or_default();
                view.records.push(RegisterRecord::new(sample, event, ImageAddress(at.address.0)));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(view)
}
