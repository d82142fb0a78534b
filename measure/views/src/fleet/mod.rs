//! Captures as Parquet files, for queries over a fleet: many hosts, days and releases.
//!
//! ```text
//!   FOLDER/samples/ID.parquet     one row per sample, with all its names
//!   FOLDER/findings/ID.parquet    the strongest objects and routines of each event
//!   FOLDER/captures/ID.parquet    one row per event: conditions, totals, what the server counted
//! ```
//!
//! # Invariants
//!
//! 1. ID depends on the capture alone: exporting it again replaces its files, and adds no row.
//! 2. `samples`, `events` and `latency_cycles` of a row of `captures` are the sums over its rows of `samples`.
//! 3. The file of `captures` is written last: where it is, the other two are complete.
//! 4. Columns are only ever added; a changed meaning raises [`SCHEMA_VERSION`].

mod captures;
mod dictionary;
mod findings;
mod row;
mod samples;
mod table;

pub use captures::CAPTURE_COLUMNS;
pub use findings::FINDING_COLUMNS;
pub use samples::SAMPLE_COLUMNS;
pub use table::{ColumnKind, FleetColumn};

use crate::{write_file, CaptureIdentity, ReportError};
use findings::FindingTable;
use hardmeter_answers::{Activity, Answers, CodeMarks, Heading, Walk};
use hardmeter_samples::model::MissCause;
use parquet::errors::ParquetError;
use row::{Chunk, Constant, Row};
use samples::SampleTable;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender};
use table::{Batch, TableWriter};

/// The version of the three schemas, in each file's key-value metadata as `hardmeter.schema_version`.
pub const SCHEMA_VERSION: u32 = 1;

/// Chunks between the walk and the encoder: as many rows as the walk adds while the encoder writes a row group.
const CHUNKS: usize = 32;

/// The result of an export.
#[derive(Clone, Debug)]
pub struct FleetWritten {
    /// The id of the capture: the name of its three files.
    pub id: String,
    /// Rows in the table of samples.
    pub samples: u64,
    /// The conditions of the recording.
    pub heading: Heading,
    /// Parts of the capture that could not be read, one sentence each.
    pub unread: Vec<String>,
}

/// The sums over the exported samples of an event.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventSums {
    name: String,
    samples: u64,
    events: u64,
    latency: u64,
}

/// Writes a capture into the three folders of `folder`. `release` names what ran; by default it is the server with
/// its version.
///
/// # Errors
/// If the capture cannot be read, or the files cannot be written.
pub fn write_fleet(
    answers: &Answers,
    release: Option<&str>,
    folder: &Path,
) -> Result<FleetWritten, ReportError> {
    let capture = answers.capture();
    let facts = CaptureIdentity::of(capture, release)?;
    let file = |table: &str| -> io::Result<PathBuf> {
        let folder = folder.join(table);
        std::fs::create_dir_all(&folder)?;
        Ok(folder.join(format!("{}.parquet", facts.id)))
    };
    let mut findings = FindingTable::new(capture.line_size());
    let names = capture.event_names();
    let mut sums: Vec<EventSums> =
        names.iter().map(|name| EventSums { name: name.to_string(), ..EventSums::default() }).collect();
    let mut walk = write_file(&file("samples")?, |writer| {
        write_samples(answers, &facts, &mut findings, &mut sums, writer)
    })?;
    let heading = capture.heading(&walk);
    let batch = findings.batch(&facts, &sums, capture, &mut walk.pass);
    write_table(&file("findings")?, "findings", &FINDING_COLUMNS, batch)?;
    let filter = answers.filter().text();
    let batch = captures::batch(&facts, &heading, &capture.workload(), filter.as_deref(), &sums);
    write_table(&file("captures")?, "captures", &CAPTURE_COLUMNS, batch)?;
    let samples = sums.iter().map(|sums| sums.samples).sum();
    Ok(FleetWritten { id: facts.id, samples, heading, unread: walk.unread() })
}

/// Walks over the samples in this thread; another one makes columns of them, encodes and compresses.
fn write_samples(
    answers: &Answers,
    facts: &CaptureIdentity,
    findings: &mut FindingTable,
    sums: &mut [EventSums],
    writer: &mut (dyn Write + Send),
) -> Result<Walk, ReportError> {
    let capture = answers.capture();
    let activity = Activity::new(CodeMarks::new(capture.object_notes()));
    let mut table = SampleTable::new(facts, &capture.event_names(), activity);
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel::<Chunk>(CHUNKS);
        let (give_back, emptied) = channel::<Vec<Row>>();
        let constant = table.constant();
        let encoder = scope.spawn(move || encode(receive, give_back, &constant, writer));
        let stopped = || ReportError::Io(io::Error::other("the file's writer stopped"));
        let walk = answers.each_with_objects::<ReportError>(&mut |pass, sample, located| {
            let object = pass.object(sample);
            let statement = pass.statements().of_sample(sample);
            if let Some(sums) = sums.get_mut(sample.event.0) {
                sums.samples += 1;
                sums.events = sums.events.saturating_add(sample.period.0);
                let latency = sample.weight.map_or(0, |weight| weight.latency.0);
                sums.latency = sums.latency.saturating_add(latency);
            }
            findings.add(sample, located.place, object, statement, pass);
            table.add(sample, located, object, statement, pass);
            if table.is_full() {
                send.send(table.take(emptied.try_recv().ok())).map_err(|_| stopped())?;
            }
            Ok(ControlFlow::Continue(()))
        });
        let sent = walk.and_then(|walk| send.send(table.take(None)).map_err(|_| stopped()).map(|()| walk));
        drop(send);
        // The writer's error explains why it stopped.
        encoder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        sent
    })
}

/// Puts rows into columns, writes these, and gives the rows' memory back for the next ones.
fn encode(
    chunks: Receiver<Chunk>,
    give_back: Sender<Vec<Row>>,
    constant: &Constant,
    writer: &mut (dyn Write + Send),
) -> Result<(), ParquetError> {
    let mut table = TableWriter::new(writer, "samples", &SAMPLE_COLUMNS, SCHEMA_VERSION)?;
    let mut batch = Batch::new(&SAMPLE_COLUMNS);
    for Chunk { mut rows, texts } in chunks {
        batch.add_texts(texts);
        for row in rows.drain(..) {
            row.put(constant, &mut batch);
            if batch.is_full() {
                batch = table.write(batch)?;
            }
        }
        // After the last chunk the walk does not wait for it.
        let _ = give_back.send(rows);
    }
    table.write(batch)?;
    table.finish()
}

fn write_table(path: &Path, name: &str, columns: &[FleetColumn], batch: Batch) -> Result<(), ReportError> {
    write_file(path, |writer| {
        let mut table = TableWriter::new(writer, name, columns, SCHEMA_VERSION)?;
        table.write(batch)?;
        Ok(table.finish()?)
    })
}

fn cause_name(cause: MissCause) -> &'static str {
    match cause {
        MissCause::Cold => "cold",
        MissCause::Capacity => "capacity",
        MissCause::Conflict => "conflict",
        MissCause::Coherence => "coherence",
    }
}
