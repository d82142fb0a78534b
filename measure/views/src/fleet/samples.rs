//! The table `samples`: one row per sample, with all its names.

use super::row::{Chunk, Code, Constant, DataObject, Names, Row, Source, CHUNK};
use super::table::{optional, required, ColumnKind, FleetColumn, Texts};
use crate::CaptureIdentity;
use hardmeter_answers::why::Cause;
use hardmeter_answers::{
    Activity, CodeMap, Dimension, Instructions, Located, Object, Pass, Place, SymbolNames, Value,
};
use hardmeter_samples::model::{CpuMode, DataSource, Sample, StatementId};
use hardmeter_samples::object_notes::TextId;
use rustc_hash::FxHashMap;

/// The columns, in their order.
pub const SAMPLE_COLUMNS: [FleetColumn; 46] = [
    required("capture", ColumnKind::Text, "id of the capture: joins the three tables"),
    optional("host", ColumnKind::Text, "name of the recorded machine"),
    optional("release", ColumnKind::Text, "--release of the export, else the server with its version"),
    required("source", ColumnKind::Text, "hardware, simulated, live, timer, imported"),
    optional("recorded_at", ColumnKind::Moment, "when the recording began"),
    optional("time_ns", ColumnKind::Whole, "time of the sample by the capture's clock").spread(),
    required("event", ColumnKind::Text, "l1d-miss, l2-miss, stall ..."),
    required(
        "events",
        ColumnKind::Whole,
        "events that the sample stands for: its period (ns where `unit` is ns)",
    ),
    optional("pid", ColumnKind::Short, "process"),
    optional("tid", ColumnKind::Short, "thread"),
    optional("cpu", ColumnKind::Short, "processor"),
    required("mode", ColumnKind::Text, "user, kernel, hypervisor, guest user, guest kernel, unknown"),
    optional("process", ColumnKind::Text, "name of the process or thread"),
    optional("role", ColumnKind::Text, "its role in the server: client backend, checkpointer"),
    optional("ip", ColumnKind::Address, "virtual address of the instruction"),
    optional("image", ColumnKind::Text, "program or library"),
    optional("build_id", ColumnKind::Text, "its build id"),
    optional("address", ColumnKind::Address, "the instruction in the image's own numbering"),
    optional("routine", ColumnKind::Text, "its routine; in brackets where it has no name"),
    optional("source_file", ColumnKind::Text, "its source file"),
    optional("source_line", ColumnKind::Short, "its line"),
    optional("instruction", ColumnKind::Text, "its text, AT&T syntax"),
    optional("data_address", ColumnKind::Address, "virtual address of the data").spread(),
    optional("physical_address", ColumnKind::Address, "physical address of the data").spread(),
    optional("operation", ColumnKind::Text, "load, store, prefetch, execute"),
    optional("level", ColumnKind::Text, "level that served it: L1, L2, L3, DRAM"),
    optional("tlb", ColumnKind::Text, "what served the translation"),
    optional("snoop", ColumnKind::Text, "result of the snoop"),
    optional("locked", ColumnKind::Flag, "whether it was a locked access"),
    optional("cause", ColumnKind::Text, "why the line was missing, where it was simulated"),
    optional("cache_set", ColumnKind::Whole, "set of the cache, where it was simulated"),
    optional("object_class", ColumnKind::Text, "table, index, lightweight lock"),
    optional("object_name", ColumnKind::Text, "name of the object"),
    optional("object_instance", ColumnKind::Text, "block, partition, slot"),
    optional("object_part", ColumnKind::Text, "line pointers, field state"),
    optional("object_origin", ColumnKind::Address, "start of the whole object: of the page"),
    optional("object_sure", ColumnKind::Flag, "whether it was certainly there at that moment"),
    optional("statement_id", ColumnKind::Text, "id of the statement, 16 hexadecimal digits: as in JSON"),
    optional("statement", ColumnKind::Text, "its text without constants"),
    optional("operator", ColumnKind::Text, "operator of the plan (needs call chains)"),
    optional("phase", ColumnKind::Text, "phase of the transaction (needs call chains)"),
    optional("latency_cycles", ColumnKind::Whole, "latency of the access: what `report` adds up"),
    optional("exposed_cycles", ColumnKind::Whole, "the part for which the core stalled, where it is known"),
    optional("whole_cycles", ColumnKind::Whole, "latency of the whole instruction, where it is known"),
    optional("data_page_bytes", ColumnKind::Whole, "size of the page of the data"),
    required("exact_ip", ColumnKind::Flag, "whether the instruction is exact, not one behind it"),
];

/// Makes rows of samples. Every name is looked up once.
pub(super) struct SampleTable {
    texts: Texts,
    rows: Vec<Row>,
    events: Vec<u32>,
    constant: Constant,
    activity: Activity,
    instructions: Instructions,
    places: FxHashMap<Place, Code>,
    processes: Vec<Option<u32>>,
    /// By number of an object's text.
    object_texts: Vec<Option<Option<u32>>>,
    sources: FxHashMap<DataSource, Source>,
    modes: FxHashMap<CpuMode, u32>,
    statements: FxHashMap<StatementId, (u32, u32)>,
}

impl SampleTable {
    pub(super) fn new(
        facts: &CaptureIdentity,
        events: &[impl AsRef<str>],
        activity: Activity,
    ) -> SampleTable {
        let mut texts = Texts::default();
        let constant = Constant {
            capture: texts.number(&facts.id),
            host: texts.some(facts.host.as_deref()),
            release: texts.some(facts.release.as_deref()),
            source: texts.number(&facts.source),
            recorded_at: facts.recorded_at_us,
            exposed: facts.exposed,
        };
        SampleTable {
            events: events.iter().map(|event| texts.number(event.as_ref())).collect(),
            constant,
            rows: Vec::with_capacity(CHUNK),
            activity,
            instructions: Instructions::default(),
            places: FxHashMap::default(),
            processes: Vec::new(),
            object_texts: Vec::new(),
            sources: FxHashMap::default(),
            modes: FxHashMap::default(),
            statements: FxHashMap::default(),
            texts,
        }
    }

    /// The columns that are the same in all rows.
    pub(super) fn constant(&self) -> Constant {
        self.constant
    }

    /// True if the rows so far fill a chunk.
    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= CHUNK
    }

    /// The rows so far. The next ones are put into `emptied`, the memory of a chunk that was written.
    pub(super) fn take(&mut self, emptied: Option<Vec<Row>>) -> Chunk {
        let emptied = emptied.unwrap_or_else(|| Vec::with_capacity(CHUNK));
        Chunk { rows: std::mem::replace(&mut self.rows, emptied), texts: self.texts.take_new() }
    }

    /// Adds the row of a sample.
    pub(super) fn add(
        &mut self,
        sample: &Sample<'_>,
        located: Located,
        object: Option<Object>,
        statement: Option<StatementId>,
        pass: &mut Pass<SymbolNames>,
    ) {
        let (operator, phase) = self.activity.of_sample(sample, located, pass);
        let role = pass.objects().role_of(sample);
        let [operator, phase, role] = [operator, phase, role].map(|id| self.object_text(id?, pass));
        let process = located.process.map(|id| {
            let number = id.0 as usize;
            if number >= self.processes.len() {
                self.processes.resize(number + 1, None);
            }
            let texts = &mut self.texts;
            *self.processes[number].get_or_insert_with(|| texts.number(&pass.process_name(id)))
        });
        let statement = statement.map(|id| self.statement(id, pass));
        let source = sample.data_source.map(|source| self.source(source, sample));
        let detail = sample.simulated();
        let cause = detail.as_ref().and_then(Cause::told).map(|cause| self.texts.number(cause.name()));
        let object = object.map(|object| {
            let path = object.path;
            let names = [path.class, path.name, path.instance, path.part];
            DataObject {
                names: names.map(|id| self.object_text(id, pass)),
                origin: object.origin.0,
                sure: object.stable,
            }
        });
        let mode = self.mode(sample);
        let event = self.events.get(sample.event.0).copied();
        let event = event.unwrap_or_else(|| self.texts.number("unknown"));
        let code = located.place.map(|place| self.code(place, pass));
        let names =
            Names { event, mode, process, role, code, source, cause, object, statement, operator, phase };
        self.rows.push(Row::new(sample, names, detail.map(|detail| i64::from(detail.set))));
    }

    /// The names of a place, looked up at its first sample.
    fn code(&mut self, place: Place, pass: &mut Pass<SymbolNames>) -> Code {
        if let Some(known) = self.places.get(&place) {
            return *known;
        }
        let map = pass.map();
        let image = map.image(place.image);
        let line = map.line(place);
        let resolved = map.resolved(place).and_then(|resolved| resolved.image);
        let build = resolved.and_then(|image| map.symbolizer().build_id(image)).map(|id| id.to_string());
        let code = Code {
            image: self.texts.some(image.as_ref().map(|image| image.path.as_str())),
            build_id: self.texts.some(build.as_deref()),
            address: map.address(place).0,
            routine: self.texts.number(&map.routine(place).to_string()),
            file: self.texts.some(line.as_ref().map(|line| &*line.file)),
            line: line.as_ref().and_then(|line| i32::try_from(line.line).ok()),
            instruction: self.texts.some(self.instructions.text(map, place).as_deref()),
        };
        self.places.insert(place, code);
        code
    }

    fn object_text(&mut self, id: TextId, pass: &mut Pass<SymbolNames>) -> Option<u32> {
        let number = id.0 as usize;
        if number >= self.object_texts.len() {
            self.object_texts.resize(number + 1, None);
        }
        let texts = &mut self.texts;
        *self.object_texts[number].get_or_insert_with(|| texts.some(Some(pass.objects().text(id))))
    }

    fn statement(&mut self, id: StatementId, pass: &Pass<SymbolNames>) -> (u32, u32) {
        let texts = &mut self.texts;
        let both = || (texts.number(&id.to_string()), texts.number(&pass.statements().text(id)));
        *self.statements.entry(id).or_insert_with(both)
    }

    fn source(&mut self, source: DataSource, sample: &Sample<'_>) -> Source {
        if let Some(known) = self.sources.get(&source) {
            return *known;
        }
        let mut text = |dimension| match Value::of(dimension, sample, 64) {
            Value::Absent => None,
            value => self.texts.some(Some(&value.to_string())),
        };
        let found = Source {
            operation: text(Dimension::Operation),
            level: text(Dimension::Level),
            tlb: text(Dimension::Tlb),
            snoop: text(Dimension::Snoop),
        };
        self.sources.insert(source, found);
        found
    }

    fn mode(&mut self, sample: &Sample<'_>) -> u32 {
        let texts = &mut self.texts;
        let text = || texts.number(&Value::of(Dimension::Mode, sample, 64).to_string());
        *self.modes.entry(sample.mode).or_insert_with(text)
    }
}
