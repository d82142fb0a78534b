//! One routine, instruction by instruction.

use super::inquiry::{Inquiry, Needs, Scope};
use crate::annotate::{annotate, Annotation, InstructionText, PlaceCounts, RoutineBody};
use crate::capture::{names_missing, Walk};
use crate::code::{CodeMap, ImageAddress, SourceLine};
use crate::error::AnswersError;
use crate::heading::Heading;
use crate::pass::{Located, Pass};
use crate::registers::{RegisterRecord, RegisterRecords};
use crate::remark::Remark;
use crate::routine_search::{find_routine, RoutineWanted};
use crate::symbols::{image_number, SymbolNames};
use hardmeter_samples::model::{EventIndex, Sample};
use hardmeter_symbols::{
    self as attribution, Access, Instruction, Problems, SourceFiles, SourceOptions, Syntax,
};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

/// The routine to show, and how.
#[derive(Clone, Debug)]
pub struct AnnotateQuestion {
    /// The routine, by name or address.
    pub wanted: RoutineWanted,
    /// Assembler syntax of the instructions.
    pub syntax: Syntax,
    /// The folders of source files.
    pub sources: SourceOptions,
    /// The number of records to show with their registers, which needs a second walk.
    pub registers: Option<usize>,
}

impl AnnotateQuestion {
    /// The routine in AT&T syntax, with its source where debug information names it.
    pub fn new(wanted: RoutineWanted) -> AnnotateQuestion {
        AnnotateQuestion { wanted, syntax: Syntax::Att, sources: SourceOptions::default(), registers: None }
    }
}

/// A routine, instruction by instruction.
#[derive(Clone, Debug, Serialize)]
pub struct AnnotateAnswer {
    /// Conditions of the recording.
    pub heading: Heading,
    /// The names of the annotation's events.
    pub events: Vec<String>,
    /// The instructions with their samples.
    pub annotation: Annotation,
    /// Source text by line, where the files were found.
    #[serde(serialize_with = "as_list")]
    pub sources: HashMap<SourceLine, String>,
    /// Records with registers, if requested.
    pub registers: Option<RegisterRecords>,
    /// Warnings about this answer.
    pub remarks: Vec<Remark>,
    /// Parts of the capture that could not be read, one sentence each.
    pub unread: Vec<String>,
}

/// JSON's keys are text: lines are listed with their text, in order.
fn as_list<S: Serializer>(sources: &HashMap<SourceLine, String>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut list: Vec<(&SourceLine, &String)> = sources.iter().collect();
    list.sort();
    serializer.collect_seq(list)
}

/// Counts samples by place; the routine is found when all are in.
pub(crate) struct AnnotateInquiry {
    counts: PlaceCounts,
    question: AnnotateQuestion,
}

impl AnnotateInquiry {
    pub(crate) fn new(question: &AnnotateQuestion) -> AnnotateInquiry {
        AnnotateInquiry { counts: PlaceCounts::default(), question: question.clone() }
    }
}

impl Inquiry for AnnotateInquiry {
    type Answer = AnnotateAnswer;

    fn needs(&self) -> Needs {
        Needs { places: true, objects: false }
    }

    fn add(&mut self, _: &mut Pass<SymbolNames>, sample: &Sample<'_>, located: Located) {
        self.counts.add(sample, located);
    }

    fn finish(self, scope: &Scope<'_>, walk: &mut Walk) -> Result<AnnotateAnswer, AnswersError> {
        let question = self.question;
        let (heading, unread) = (scope.capture.heading(walk), walk.unread());
        let names = walk.pass.map();
        let found = find_routine(&question.wanted, names, &self.counts)?;
        let body = disassembled(names, found.image, &found.name, found.range.clone(), question.syntax)?;
        let all = (0..scope.capture.events().len()).map(EventIndex);
        let events: Vec<EventIndex> = all.filter(|event| scope.wants(*event)).collect();
        let mut files = SourceFiles::new(question.sources);
        let (sources, missing) = source_texts(&body, &mut files);
        let annotation = annotate(body, &self.counts, &events, names);
        let mut remarks = walk.remarks(None);
        remarks.extend(found.remark);
        remarks.extend(missing);
        let registers = match question.registers {
            Some(limit) => Some(records(scope, found.image, &found.range, limit)?),
            None => None,
        };
        let name = |event: &EventIndex| scope.capture.events()[event.0].name.clone();
        Ok(AnnotateAnswer {
            heading,
            events: events.iter().map(name).collect(),
            annotation,
            sources,
            registers,
            remarks,
            unread,
        })
    }
}

fn disassembled(
    names: &mut SymbolNames,
    image: attribution::ImageId,
    name: &str,
    range: Range<attribution::ImageAddress>,
    syntax: Syntax,
) -> Result<RoutineBody, AnswersError> {
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

/// The text of every source line of the routine, and a warning where source files are missing.
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

/// The first records of a routine. Needs a second walk: the routine's range is known only after the first.
fn records(
    scope: &Scope<'_>,
    image: attribution::ImageId,
    range: &Range<attribution::ImageAddress>,
    limit: usize,
) -> Result<RegisterRecords, AnswersError> {
    let names = scope.capture.event_names();
    let mut view = RegisterRecords::default();
    scope.capture.walk::<AnswersError>(scope.walk(true), &mut |pass, sample, located| {
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
