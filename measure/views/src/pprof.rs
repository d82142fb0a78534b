//! The profile format of `pprof` (and of Parca, Pyroscope, Polar Signals): gzipped Protocol Buffers.
//!
//! Every event of the capture becomes two sample types: its samples (`l1d-miss_samples`) and the events they stand
//! for (`l1d-miss`), and a third if latencies were recorded (`l1d-miss_latency`, cycles). Choose with `pprof
//! -sample_index`.
//!
//! Samples have the labels `process`, `statement`, `statement_id`, `object` and `cause`, where they are known.

use crate::labelled::{object_text, LabelledStacks, Labels};
use crate::protobuf::Message;
use flate2::write::GzEncoder;
use flate2::Compression;
use hardmeter_answers::{CodeMap, Heading, ImageId, Pass, Place};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Field numbers of `profile.proto`.
mod field {
    pub const SAMPLE_TYPE: u64 = 1;
    pub const SAMPLE: u64 = 2;
    pub const MAPPING: u64 = 3;
    pub const LOCATION: u64 = 4;
    pub const FUNCTION: u64 = 5;
    pub const STRING_TABLE: u64 = 6;
    pub const DURATION_NANOS: u64 = 10;
    pub const COMMENT: u64 = 13;
    pub const DEFAULT_SAMPLE_TYPE: u64 = 14;
}

/// Writes all call paths of a capture as a gzipped profile.
///
/// # Errors
///
/// The error of `writer`.
pub fn write_pprof<M: CodeMap>(
    stacks: &LabelledStacks,
    pass: &mut Pass<M>,
    heading: &Heading,
    writer: &mut dyn Write,
) -> io::Result<()> {
    let mut profile = Profile::default();
    let bytes = profile.build(stacks, pass, heading);
    let mut encoder = GzEncoder::new(writer, Compression::default());
    encoder.write_all(&bytes)?;
    encoder.finish().map(|_| ())
}

struct Strings {
    numbers: FxHashMap<String, u64>,
    list: Vec<String>,
}

impl Default for Strings {
    // Number 0 must be the empty string.
    fn default() -> Self {
        Strings { numbers: FxHashMap::from_iter([(String::new(), 0)]), list: vec![String::new()] }
    }
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.list.len() as u64;
        self.list.push(text.to_string());
        self.numbers.insert(text.to_string(), number);
        number
    }
}

#[derive(Default)]
struct Profile {
    message: Message,
    strings: Strings,
    locations: FxHashMap<Place, u64>,
    functions: FxHashMap<(ImageId, String), u64>,
    mappings: BTreeMap<ImageId, u64>,
}

impl Profile {
    fn build<M: CodeMap>(
        &mut self,
        stacks: &LabelledStacks,
        pass: &mut Pass<M>,
        heading: &Heading,
    ) -> Vec<u8> {
        // Index of each event's first value in a sample's list of values.
        let mut starts = Vec::new();
        let mut width = 0;
        for event in &heading.events {
            starts.push(width);
            self.sample_type(&format!("{}_samples", event.name), "count");
            self.sample_type(&event.name, "count");
            width += 2;
            if event.totals.with_latency > 0 {
                self.sample_type(&format!("{}_latency", event.name), "cycles");
                width += 1;
            }
        }
        // Paths with the same labels are one sample with the values of all its events.
        let mut samples: BTreeMap<Labels, Vec<u64>> = BTreeMap::new();
        for (event, labels, sums) in stacks.groups() {
            let Some(start) = starts.get(event.0).copied() else { continue };
            let values = samples.entry(labels).or_insert_with(|| vec![0; width]);
            values[start] += sums.samples;
            values[start + 1] += sums.events;
            if heading.events[event.0].totals.with_latency > 0 {
                values[start + 2] += sums.latency;
            }
        }
        for (labels, values) in samples {
            let frames = stacks.stacks().frames(labels.stack);
            let locations: Vec<u64> = frames.map(|place| self.location(place, pass)).collect();
            let mut sample = Message::default();
            sample.numbers(1, &locations);
            sample.numbers(2, &values);
            self.labels(&mut sample, &labels, pass);
            self.message.message(field::SAMPLE, &sample);
        }
        self.conditions(heading);
        let mut message = std::mem::take(&mut self.message);
        self.strings.list.iter().for_each(|text| message.text(field::STRING_TABLE, text));
        message.into_bytes()
    }

    /// Labels, for `pprof -tagfocus` and its views by tag.
    fn labels<M: CodeMap>(&mut self, sample: &mut Message, labels: &Labels, pass: &mut Pass<M>) {
        let statement = labels.statement.map(|statement| pass.statements().text(statement).to_string());
        let texts = [
            ("process", labels.process.map(|process| pass.process_name(process).to_string())),
            ("statement", statement),
            ("statement_id", labels.statement.map(|statement| statement.to_string())),
            ("object", labels.object.and_then(|object| object_text(object, pass))),
            ("cause", labels.cause.map(|cause| cause.name().to_string())),
        ];
        for (key, text) in texts.into_iter().filter_map(|(key, text)| Some((key, text?))) {
            let mut label = Message::default();
            label.number(1, self.strings.number(key));
            label.number(2, self.strings.number(&text));
            sample.message(3, &label);
        }
    }

    fn sample_type(&mut self, kind: &str, unit: &str) {
        let mut value_type = Message::default();
        value_type.number(1, self.strings.number(kind));
        value_type.number(2, self.strings.number(unit));
        self.message.message(field::SAMPLE_TYPE, &value_type);
    }

    fn conditions(&mut self, heading: &Heading) {
        self.message.number(field::DURATION_NANOS, heading.duration_ns.unwrap_or(0));
        if let Some(event) = heading.events.first() {
            let default = self.strings.number(&event.name);
            self.message.number(field::DEFAULT_SAMPLE_TYPE, default);
        }
        let comments = heading.command.iter().chain(&heading.machine).chain(&heading.limits);
        for comment in comments.cloned().collect::<Vec<_>>() {
            let comment = self.strings.number(&comment);
            self.message.number(field::COMMENT, comment);
        }
    }

    fn location<M: CodeMap>(&mut self, place: Place, pass: &mut Pass<M>) -> u64 {
        if let Some(id) = self.locations.get(&place) {
            return *id;
        }
        let routine = pass.map().routine(place).to_string();
        let line = pass.map().line(place);
        let mapping = self.mapping(place.image, pass);
        let file = line.as_ref().map_or("", |line| &*line.file);
        let function = self.function(place.image, &routine, file);
        let id = self.locations.len() as u64 + 1;
        self.locations.insert(place, id);
        let mut line_message = Message::default();
        line_message.number(1, function);
        line_message.number(2, line.as_ref().map_or(0, |line| u64::from(line.line)));
        let mut location = Message::default();
        location.number(1, id);
        location.number(2, mapping);
        location.number(3, pass.map().address(place).0);
        location.message(4, &line_message);
        self.message.message(field::LOCATION, &location);
        id
    }

    fn function(&mut self, image: ImageId, name: &str, file: &str) -> u64 {
        let next = self.functions.len() as u64 + 1;
        let id = *self.functions.entry((image, name.to_string())).or_insert(next);
        if id == next {
            let mut function = Message::default();
            function.number(1, id);
            function.number(2, self.strings.number(name));
            function.number(3, self.strings.number(name));
            function.number(4, self.strings.number(file));
            self.message.message(field::FUNCTION, &function);
        }
        id
    }

    /// Images as mappings of the whole address range: addresses are in the image's own numbering.
    fn mapping<M: CodeMap>(&mut self, image: ImageId, pass: &mut Pass<M>) -> u64 {
        let Some(description) = pass.map().image(image) else { return 0 };
        let next = self.mappings.len() as u64 + 1;
        let id = *self.mappings.entry(image).or_insert(next);
        if id == next {
            let mut mapping = Message::default();
            mapping.number(1, id);
            mapping.number(3, u64::MAX);
            mapping.number(5, self.strings.number(&description.path));
            mapping.number(6, self.strings.number(description.build_id.as_deref().unwrap_or("")));
            for has in 7..=9 {
                mapping.number(has, 1); // functions, files, lines are present: pprof need not resolve symbols
            }
            self.message.message(field::MAPPING, &mapping);
        }
        id
    }
}
