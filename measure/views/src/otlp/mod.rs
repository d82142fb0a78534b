//! OpenTelemetry's profiles signal (OTLP), for backends of continuous profiling.
//!
//! Every event of the capture becomes two profiles: its samples (`l1d-miss_samples`) and the events they stand for
//! (`l1d-miss`), and a third one if latencies were recorded (`l1d-miss_latency`, cycles). Their totals are those of the
//! pprof export. Samples are grouped by call path and by these attributes:
//!
//! ```text
//!   thread.name              the process or thread
//!   db.query.text            the statement, without constants      hardmeter.statement.id   its id
//!   hardmeter.object         class and name of the data's object   hardmeter.cause          why the line was missing
//! ```

#[cfg(test)]
#[path = "../../tests/hand/mod.rs"]
mod hand;
mod proto;

use crate::labelled::{object_text, LabelSums, LabelledStacks, Labels};
use crate::CaptureIdentity;
use hardmeter_answers::{CodeMap, EventHeading, Heading, ImageId, Pass, Place, StackId};
use hardmeter_samples::model::EventIndex;
use prost::Message;
use proto::{
    AnyValue, Function, InstrumentationScope, KeyValue, KeyValueAndUnit, Line, Link, Location, Mapping,
    Profile, ProfilesData, ProfilesDictionary, Resource, ResourceProfiles, Sample, ScopeProfiles, Stack,
    ValueType,
};
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};
use std::io::{self, Write};

/// Writes all call paths of a capture as a `ProfilesData` message, which is an `ExportProfilesServiceRequest` too.
///
/// # Errors
///
/// The error of `writer`.
pub fn write_otlp<M: CodeMap>(
    stacks: &LabelledStacks,
    pass: &mut Pass<M>,
    heading: &Heading,
    identity: &CaptureIdentity,
    writer: &mut dyn Write,
) -> io::Result<()> {
    let mut tables = Tables::new();
    let mut profiles = Vec::new();
    let groups = stacks.groups();
    for (number, event) in heading.events.iter().enumerate() {
        let here = |(of, ..): &&(EventIndex, Labels, LabelSums)| of.0 == number;
        let rows: Vec<(i32, Vec<i32>, LabelSums)> = groups
            .iter()
            .filter(here)
            .map(|(_, labels, sums)| {
                (tables.stack(labels.stack, stacks, pass), tables.labels(labels, pass), *sums)
            })
            .collect();
        if !rows.is_empty() {
            profiles.extend(tables.profiles(event, &rows, heading, identity));
        }
    }
    let scope = InstrumentationScope { name: "hardmeter".into(), version: env!("CARGO_PKG_VERSION").into() };
    let data = ProfilesData {
        resource_profiles: vec![ResourceProfiles {
            resource: Some(resource(identity)),
            scope_profiles: vec![ScopeProfiles { scope: Some(scope), profiles }],
        }],
        dictionary: Some(tables.dictionary),
    };
    writer.write_all(&data.encode_to_vec())
}

/// The recorded program.
fn resource(identity: &CaptureIdentity) -> Resource {
    let mut attributes = Vec::new();
    let mut add = |key: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let value = AnyValue { string_value: Some(value.into()) };
            attributes.push(KeyValue { key: key.into(), value: Some(value) });
        }
    };
    let server = identity.server.as_deref().and_then(|server| server.rsplit_once(' '));
    add("host.name", identity.host.as_deref());
    add("service.name", Some(server.map_or("unknown_service", |(name, _)| name)));
    add("service.version", identity.release.as_deref().or(server.map(|(_, version)| version)));
    add("hardmeter.capture", Some(&identity.id));
    add("hardmeter.source", Some(&identity.source));
    Resource { attributes }
}

/// The tables that all profiles share; entry 0 of each is the zero value.
struct Tables {
    dictionary: ProfilesDictionary,
    strings: FxHashMap<String, i32>,
    attributes: FxHashMap<(i32, String), i32>,
    mappings: FxHashMap<ImageId, i32>,
    functions: FxHashMap<(ImageId, String), i32>,
    locations: FxHashMap<Place, i32>,
    stacks: FxHashMap<StackId, i32>,
}

/// Appends to a table; returns the index.
fn push<T>(table: &mut Vec<T>, entry: T) -> i32 {
    table.push(entry);
    i32::try_from(table.len() - 1).unwrap_or(i32::MAX)
}

impl Tables {
    fn new() -> Tables {
        Tables {
            dictionary: ProfilesDictionary {
                mapping_table: vec![Mapping::default()],
                location_table: vec![Location::default()],
                function_table: vec![Function::default()],
                link_table: vec![Link::default()],
                string_table: vec![String::new()],
                attribute_table: vec![KeyValueAndUnit::default()],
                stack_table: vec![Stack::default()],
            },
            strings: FxHashMap::from_iter([(String::new(), 0)]),
            attributes: FxHashMap::default(),
            mappings: FxHashMap::default(),
            functions: FxHashMap::default(),
            locations: FxHashMap::default(),
            stacks: FxHashMap::from_iter([(StackId::ROOT, 0)]),
        }
    }

    fn string(&mut self, text: &str) -> i32 {
        if let Some(index) = self.strings.get(text) {
            return *index;
        }
        let index = push(&mut self.dictionary.string_table, text.to_string());
        self.strings.insert(text.to_string(), index);
        index
    }

    fn attribute(&mut self, key: &str, value: &str) -> i32 {
        let key = self.string(key);
        if let Some(index) = self.attributes.get(&(key, value.to_string())) {
            return *index;
        }
        let any = AnyValue { string_value: Some(value.to_string()) };
        let entry = KeyValueAndUnit { key_strindex: key, value: Some(any) };
        let index = push(&mut self.dictionary.attribute_table, entry);
        self.attributes.insert((key, value.to_string()), index);
        index
    }

    fn labels<M: CodeMap>(&mut self, labels: &Labels, pass: &mut Pass<M>) -> Vec<i32> {
        let mut indices = Vec::new();
        if let Some(process) = labels.process {
            indices.push(self.attribute("thread.name", &pass.process_name(process)));
        }
        if let Some(statement) = labels.statement {
            indices.push(self.attribute("db.query.text", &pass.statements().text(statement)));
            indices.push(self.attribute("hardmeter.statement.id", &statement.to_string()));
        }
        if let Some(object) = labels.object.and_then(|object| object_text(object, pass)) {
            indices.push(self.attribute("hardmeter.object", &object));
        }
        if let Some(cause) = labels.cause {
            indices.push(self.attribute("hardmeter.cause", cause.name()));
        }
        indices
    }

    fn stack<M: CodeMap>(&mut self, stack: StackId, stacks: &LabelledStacks, pass: &mut Pass<M>) -> i32 {
        if let Some(index) = self.stacks.get(&stack) {
            return *index;
        }
        let places: Vec<Place> = stacks.stacks().frames(stack).collect();
        let location_indices = places.into_iter().map(|place| self.location(place, pass)).collect();
        let index = push(&mut self.dictionary.stack_table, Stack { location_indices });
        self.stacks.insert(stack, index);
        index
    }

    fn location<M: CodeMap>(&mut self, place: Place, pass: &mut Pass<M>) -> i32 {
        if let Some(index) = self.locations.get(&place) {
            return *index;
        }
        let routine = pass.map().routine(place).to_string();
        let line = pass.map().line(place);
        let mapping_index = self.mapping(place.image, pass);
        let file = line.as_ref().map_or("", |line| &*line.file);
        let function_index = self.function(place.image, &routine, file);
        let kind = self.attribute("profile.frame.type", "native");
        let location = Location {
            mapping_index,
            address: pass.map().address(place).0,
            lines: vec![Line { function_index, line: line.as_ref().map_or(0, |line| i64::from(line.line)) }],
            attribute_indices: vec![kind],
        };
        let index = push(&mut self.dictionary.location_table, location);
        self.locations.insert(place, index);
        index
    }

    fn function(&mut self, image: ImageId, name: &str, file: &str) -> i32 {
        if let Some(index) = self.functions.get(&(image, name.to_string())) {
            return *index;
        }
        let (name_strindex, filename_strindex) = (self.string(name), self.string(file));
        let function = Function { name_strindex, system_name_strindex: name_strindex, filename_strindex };
        let index = push(&mut self.dictionary.function_table, function);
        self.functions.insert((image, name.to_string()), index);
        index
    }

    /// Images as mappings of the whole address range: addresses are in the image's own numbering.
    fn mapping<M: CodeMap>(&mut self, image: ImageId, pass: &mut Pass<M>) -> i32 {
        if let Some(index) = self.mappings.get(&image) {
            return *index;
        }
        let Some(description) = pass.map().image(image) else { return 0 };
        let build = description.build_id.as_deref();
        let attribute_indices =
            build.map(|build| self.attribute("process.executable.build_id.gnu", build)).into_iter().collect();
        let filename_strindex = self.string(&description.path);
        let mapping = Mapping { memory_limit: u64::MAX, filename_strindex, attribute_indices };
        let index = push(&mut self.dictionary.mapping_table, mapping);
        self.mappings.insert(image, index);
        index
    }

    /// The profiles of an event, one for each kind of value.
    fn profiles(
        &mut self,
        event: &EventHeading,
        rows: &[(i32, Vec<i32>, LabelSums)],
        heading: &Heading,
        identity: &CaptureIdentity,
    ) -> Vec<Profile> {
        type Value = fn(&LabelSums) -> u64;
        let mut kinds: Vec<(String, &str, Value)> = vec![
            (event.name.clone(), "count", |sums| sums.events),
            (format!("{}_samples", event.name), "count", |sums| sums.samples),
        ];
        if event.totals.with_latency > 0 {
            kinds.push((format!("{}_latency", event.name), "cycles", |sums| sums.latency));
        }
        let profile = |(name, unit, value): (String, &str, Value)| {
            let samples = rows.iter().map(|(stack, attributes, sums)| Sample {
                stack_index: *stack,
                attribute_indices: attributes.clone(),
                values: vec![i64::try_from(value(sums)).unwrap_or(i64::MAX)],
            });
            Profile {
                samples: samples.collect(),
                time_unix_nano: identity.started_ns.unwrap_or(0),
                duration_nano: heading.duration_ns.unwrap_or(0),
                period_type: Some(self.value_type(&event.name, "count")),
                period: event.period.and_then(|period| i64::try_from(period).ok()).unwrap_or(0),
                profile_id: Sha256::digest(format!("{} {name}", identity.id))[..16].to_vec(),
                sample_type: Some(self.value_type(&name, unit)),
            }
        };
        kinds.into_iter().map(profile).collect()
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { type_strindex: self.string(kind), unit_strindex: self.string(unit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_answers::{Answers, AnswersError};
    use std::collections::BTreeMap;
    use std::ops::ControlFlow;

    fn exported(release: Option<&str>) -> ProfilesData {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let answers = Answers::open(hand::write(folder.path())).expect("opened");
        let mut stacks = LabelledStacks::default();
        let mut walk = answers
            .each_with_objects::<AnswersError>(&mut |pass, sample, located| {
                let object = pass.object(sample);
                stacks.add(sample, located, object, pass);
                Ok(ControlFlow::Continue(()))
            })
            .expect("walked");
        let heading = answers.capture().heading(&walk);
        let identity = CaptureIdentity::of(answers.capture(), release).expect("read");
        let mut bytes = Vec::new();
        write_otlp(&stacks, &mut walk.pass, &heading, &identity, &mut bytes).expect("written");
        ProfilesData::decode(&bytes[..]).expect("it decodes")
    }

    /// Eight samples of period 10 and latency 100, of the statements and objects of the capture made by hand.
    #[test]
    fn totals_and_attributes_by_hand() {
        let data = exported(Some("3.2"));
        let dictionary = data.dictionary.expect("a dictionary");
        let text = |index: i32| dictionary.string_table[index as usize].as_str();
        let resource = &data.resource_profiles[0];
        let profiles = &resource.scope_profiles[0].profiles;
        let totals: Vec<(&str, &str, i64)> = profiles
            .iter()
            .map(|profile| {
                let kind = profile.sample_type.as_ref().expect("a type");
                let total = profile.samples.iter().flat_map(|sample| &sample.values).sum();
                (text(kind.type_strindex), text(kind.unit_strindex), total)
            })
            .collect();
        let expected =
            [("l2-miss", "count", 80), ("l2-miss_samples", "count", 8), ("l2-miss_latency", "cycles", 800)];
        assert_eq!(totals, expected);
        let mut by_statement: BTreeMap<&str, i64> = BTreeMap::new();
        for sample in &profiles[1].samples {
            for attribute in &sample.attribute_indices {
                let attribute = &dictionary.attribute_table[*attribute as usize];
                let value = attribute.value.as_ref().and_then(|value| value.string_value.as_deref());
                if text(attribute.key_strindex) == "db.query.text" {
                    *by_statement.entry(value.expect("text")).or_default() += sample.values[0];
                }
            }
        }
        let expected = [("SELECT a FROM t WHERE k = $1", 4), ("UPDATE t SET a = a + $1", 2)];
        assert_eq!(by_statement, BTreeMap::from(expected));
        let ids: Vec<&[u8]> = profiles.iter().map(|profile| profile.profile_id.as_slice()).collect();
        assert!(ids.iter().all(|id| id.len() == 16) && ids[0] != ids[1], "{ids:?}");
        let service = resource.resource.as_ref().expect("a resource").attributes.iter();
        let versions: Vec<_> = service.filter(|pair| pair.key == "service.version").collect();
        let version = versions[0].value.as_ref().and_then(|value| value.string_value.as_deref());
        assert_eq!(version, Some("3.2"));
    }

    #[test]
    fn the_first_entry_of_each_table_is_the_zero_value() {
        let dictionary = exported(None).dictionary.expect("a dictionary");
        assert_eq!(dictionary.string_table[0], "");
        assert_eq!(dictionary.mapping_table[0], Mapping::default());
        assert_eq!(dictionary.location_table[0], Location::default());
        assert_eq!(dictionary.function_table[0], Function::default());
        assert_eq!(dictionary.link_table, [Link::default()]);
        assert_eq!(dictionary.attribute_table[0], KeyValueAndUnit::default());
        assert_eq!(dictionary.stack_table[0], Stack::default());
        let stacks = dictionary.stack_table.len() as i32;
        let locations = dictionary.location_table.len() as i32;
        assert!(stacks > 1 && locations > 1);
        let used = dictionary.stack_table.iter().flat_map(|stack| &stack.location_indices);
        assert!(used.into_iter().all(|location| (1..locations).contains(location)));
    }
}
