//! A row of `samples` on its way from the walk to the encoder's thread, which puts it into columns: filling the
//! columns takes as long as reading the samples does.

use super::table::Batch;
use hardmeter_samples::model::{DataSource, Sample};
use parquet::data_type::ByteArray;

/// Rows of a chunk.
pub(super) const CHUNK: usize = 1 << 12;

/// Rows, with the texts that are new in them.
pub(super) struct Chunk {
    pub(super) rows: Vec<Row>,
    pub(super) texts: Vec<ByteArray>,
}

/// The columns that are the same in all rows of a capture. Texts are numbers here and below.
#[derive(Clone, Copy)]
pub(super) struct Constant {
    pub(super) capture: u32,
    pub(super) host: Option<u32>,
    pub(super) release: Option<u32>,
    pub(super) source: u32,
    pub(super) recorded_at: Option<i64>,
    pub(super) exposed: bool,
}

/// The names of a place of code.
#[derive(Clone, Copy)]
pub(super) struct Code {
    pub(super) image: Option<u32>,
    pub(super) build_id: Option<u32>,
    pub(super) address: u64,
    pub(super) routine: u32,
    pub(super) file: Option<u32>,
    pub(super) line: Option<i32>,
    pub(super) instruction: Option<u32>,
}

/// A data source as text.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) operation: Option<u32>,
    pub(super) level: Option<u32>,
    pub(super) tlb: Option<u32>,
    pub(super) snoop: Option<u32>,
}

/// The object at the data address.
#[derive(Clone, Copy)]
pub(super) struct DataObject {
    /// Class, name, instance, part.
    pub(super) names: [Option<u32>; 4],
    pub(super) origin: u64,
    pub(super) sure: bool,
}

/// What is looked up for a sample.
#[derive(Clone, Copy)]
pub(super) struct Names {
    pub(super) event: u32,
    pub(super) mode: u32,
    pub(super) process: Option<u32>,
    pub(super) role: Option<u32>,
    pub(super) code: Option<Code>,
    pub(super) source: Option<Source>,
    pub(super) cause: Option<u32>,
    pub(super) object: Option<DataObject>,
    /// Id and text.
    pub(super) statement: Option<(u32, u32)>,
    pub(super) operator: Option<u32>,
    pub(super) phase: Option<u32>,
}

/// A sample with its names.
pub(super) struct Row {
    names: Names,
    time: Option<u64>,
    period: u64,
    pid: Option<i32>,
    tid: Option<i32>,
    cpu: Option<i32>,
    ip: Option<u64>,
    address: Option<u64>,
    physical_address: Option<u64>,
    locked: Option<bool>,
    set: Option<i64>,
    latency: Option<u64>,
    whole: Option<u64>,
    page_size: Option<u64>,
    exact_ip: bool,
}

impl Row {
    pub(super) fn new(sample: &Sample<'_>, names: Names, set: Option<i64>) -> Row {
        Row {
            names,
            time: sample.time.map(|time| time.0),
            period: sample.period.0,
            pid: sample.pid.map(|pid| pid.0),
            tid: sample.tid.map(|tid| tid.0),
            cpu: sample.cpu.map(|cpu| cpu.0 as i32),
            ip: sample.ip.map(|ip| ip.0),
            address: sample.address.map(|address| address.0),
            physical_address: sample.physical_address.map(|address| address.0),
            locked: sample.data_source.map(DataSource::locked),
            set,
            latency: sample.weight.map(|weight| weight.latency.0),
            whole: sample.weight.map(|weight| weight.instruction_latency.0).filter(|cycles| *cycles > 0),
            page_size: sample.data_page_size.map(|size| size.0),
            exact_ip: sample.exact_ip,
        }
    }

    /// Puts the row into the columns of `samples`.
    pub(super) fn put(&self, constant: &Constant, row: &mut Batch) {
        let Names { code, source, object, .. } = &self.names;
        row.begin();
        row.text(Some(constant.capture));
        row.text(constant.host);
        row.text(constant.release);
        row.text(Some(constant.source));
        row.whole(constant.recorded_at);
        row.bits(self.time);
        row.text(Some(self.names.event));
        row.bits(Some(self.period));
        row.short(self.pid);
        row.short(self.tid);
        row.short(self.cpu);
        row.text(Some(self.names.mode));
        row.text(self.names.process);
        row.text(self.names.role);
        row.bits(self.ip);
        row.text(code.and_then(|code| code.image));
        row.text(code.and_then(|code| code.build_id));
        row.bits(code.map(|code| code.address));
        row.text(code.map(|code| code.routine));
        row.text(code.and_then(|code| code.file));
        row.short(code.and_then(|code| code.line));
        row.text(code.and_then(|code| code.instruction));
        row.bits(self.address);
        row.bits(self.physical_address);
        row.text(source.and_then(|source| source.operation));
        row.text(source.and_then(|source| source.level));
        row.text(source.and_then(|source| source.tlb));
        row.text(source.and_then(|source| source.snoop));
        row.flag(self.locked);
        row.text(self.names.cause);
        row.whole(self.set);
        for level in 0..4 {
            row.text(object.and_then(|object| object.names[level]));
        }
        row.bits(object.map(|object| object.origin));
        row.flag(object.map(|object| object.sure));
        row.text(self.names.statement.map(|(id, _)| id));
        row.text(self.names.statement.map(|(_, text)| text));
        row.text(self.names.operator);
        row.text(self.names.phase);
        row.bits(self.latency);
        row.bits(self.latency.filter(|_| constant.exposed));
        row.bits(self.whole);
        row.bits(self.page_size);
        row.flag(Some(self.exact_ip));
        row.end();
    }
}
