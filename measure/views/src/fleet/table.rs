//! A Parquet table, written row group by row group.
//!
//! ```text
//!  rows ──> Batch (columns in memory; texts as numbers) ── full ──> TableWriter ──> pages, row group, file
//! ```
//!
//! # Invariants
//!
//! 1. Between [`Batch::begin`] and [`Batch::end`] every column gets exactly one value, in the order of the schema.
//! 2. A number of a text is the same in all batches of a file: a batch brings the texts that are new in it.
//! 3. Memory is bounded by the rows of a batch and by the distinct texts, not by the rows of the file.

use super::dictionary::{DictionaryEncoder, TextColumn, LEVEL};
use parquet::basic::{
    Compression, ConvertedType, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel,
};
use parquet::data_type::{BoolType, ByteArray, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use rustc_hash::FxHashMap;
use std::io::Write;
use std::sync::Arc;

/// Rows of a row group: what DuckDB and Spark scan with one task.
pub(super) const ROWS: usize = 1 << 17;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// UTF-8 text, in a dictionary.
    Text,
    /// A whole number of 32 bits.
    Short,
    /// A whole number of 64 bits.
    Whole,
    /// An unsigned whole number of 64 bits: an address.
    Address,
    /// A number with a fraction.
    Real,
    /// Yes or no.
    Flag,
    /// Microseconds since 1970, in UTC.
    Moment,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct FleetColumn {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: ColumnKind,
    /// Whether every row has a value.
    pub required: bool,
    /// Whether most rows have a value of their own, so that a dictionary would be as long as the column.
    pub spread: bool,
    /// Its meaning, for the documentation.
    pub meaning: &'static str,
}

pub(super) const fn required(name: &'static str, kind: ColumnKind, meaning: &'static str) -> FleetColumn {
    FleetColumn { name, kind, required: true, spread: false, meaning }
}

pub(super) const fn optional(name: &'static str, kind: ColumnKind, meaning: &'static str) -> FleetColumn {
    FleetColumn { name, kind, required: false, spread: false, meaning }
}

impl FleetColumn {
    /// The same column, if most rows have a value of their own.
    pub(super) const fn spread(self) -> FleetColumn {
        FleetColumn { spread: true, ..self }
    }

    fn parquet_type(&self) -> Result<Type, ParquetError> {
        let (physical, logical, converted) = match self.kind {
            ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String), ConvertedType::UTF8),
            ColumnKind::Short => (Physical::INT32, None, ConvertedType::NONE),
            ColumnKind::Whole => (Physical::INT64, None, ConvertedType::NONE),
            ColumnKind::Address => (Physical::INT64, Some(unsigned()), ConvertedType::UINT_64),
            ColumnKind::Real => (Physical::DOUBLE, None, ConvertedType::NONE),
            ColumnKind::Flag => (Physical::BOOLEAN, None, ConvertedType::NONE),
            ColumnKind::Moment => (Physical::INT64, Some(moment()), ConvertedType::TIMESTAMP_MICROS),
        };
        let repetition = if self.required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        Type::primitive_type_builder(self.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .with_converted_type(converted)
            .build()
    }
}

fn unsigned() -> LogicalType {
    LogicalType::integer(64, false)
}

fn moment() -> LogicalType {
    LogicalType::timestamp(true, TimeUnit::MICROS)
}

/// The texts of a file, numbered in order of appearance.
#[derive(Debug, Default)]
pub(super) struct Texts {
    numbers: FxHashMap<Box<str>, u32>,
    new: Vec<ByteArray>,
}

impl Texts {
    /// The number of a text.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(text.into(), number);
        self.new.push(text.as_bytes().to_vec().into());
        number
    }

    /// The texts that are new since the last call.
    pub(super) fn take_new(&mut self) -> Vec<ByteArray> {
        std::mem::take(&mut self.new)
    }

    /// The number of a text that may be missing; an empty one is missing too.
    pub(super) fn some(&mut self, text: Option<&str>) -> Option<u32> {
        text.filter(|text| !text.is_empty()).map(|text| self.number(text))
    }
}

/// The values of a column; those that are missing have no entry.
#[derive(Debug)]
enum Values {
    Text(Vec<u32>),
    Short(Vec<i32>),
    Whole(Vec<i64>),
    Real(Vec<f64>),
    Flag(Vec<bool>),
}

#[derive(Debug)]
struct Column {
    values: Values,
    /// 1 for each row with a value, 0 for each without; empty where every row has one.
    defined: Vec<i16>,
    required: bool,
}

/// Rows in memory.
#[derive(Debug)]
pub(super) struct Batch {
    columns: Vec<Column>,
    rows: usize,
    next: usize,
    texts: Vec<ByteArray>,
}

impl Batch {
    pub(super) fn new(columns: &[FleetColumn]) -> Batch {
        let column = |column: &FleetColumn| Column {
            values: match column.kind {
                ColumnKind::Text => Values::Text(Vec::new()),
                ColumnKind::Short => Values::Short(Vec::new()),
                ColumnKind::Whole | ColumnKind::Address | ColumnKind::Moment => Values::Whole(Vec::new()),
                ColumnKind::Real => Values::Real(Vec::new()),
                ColumnKind::Flag => Values::Flag(Vec::new()),
            },
            defined: Vec::new(),
            required: column.required,
        };
        Batch { columns: columns.iter().map(column).collect(), rows: 0, next: 0, texts: Vec::new() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= ROWS
    }

    pub(super) fn begin(&mut self) {
        debug_assert_eq!(self.next, 0, "the row before is complete");
    }

    pub(super) fn end(&mut self) {
        assert_eq!(self.next, self.columns.len(), "a value for each column");
        self.next = 0;
        self.rows += 1;
    }

    /// The column of the next value.
    fn column(&mut self, defined: bool) -> &mut Values {
        let column = &mut self.columns[self.next];
        self.next += 1;
        match column.required {
            true => assert!(defined, "a required column has a value"),
            false => column.defined.push(i16::from(defined)),
        }
        &mut column.values
    }

    pub(super) fn text(&mut self, value: Option<u32>) {
        match (self.column(value.is_some()), value) {
            (Values::Text(values), Some(value)) => values.push(value),
            (Values::Text(_), None) => {}
            _ => unreachable!("a column of text"),
        }
    }

    pub(super) fn short(&mut self, value: Option<i32>) {
        match (self.column(value.is_some()), value) {
            (Values::Short(values), Some(value)) => values.push(value),
            (Values::Short(_), None) => {}
            _ => unreachable!("a column of short numbers"),
        }
    }

    pub(super) fn whole(&mut self, value: Option<i64>) {
        match (self.column(value.is_some()), value) {
            (Values::Whole(values), Some(value)) => values.push(value),
            (Values::Whole(_), None) => {}
            _ => unreachable!("a column of whole numbers"),
        }
    }

    /// A count or an address: its bits.
    pub(super) fn bits(&mut self, value: Option<u64>) {
        self.whole(value.map(|value| value as i64));
    }

    pub(super) fn real(&mut self, value: Option<f64>) {
        match (self.column(value.is_some()), value) {
            (Values::Real(values), Some(value)) => values.push(value),
            (Values::Real(_), None) => {}
            _ => unreachable!("a column of real numbers"),
        }
    }

    pub(super) fn flag(&mut self, value: Option<bool>) {
        match (self.column(value.is_some()), value) {
            (Values::Flag(values), Some(value)) => values.push(value),
            (Values::Flag(_), None) => {}
            _ => unreachable!("a column of flags"),
        }
    }

    /// Takes all rows out, and keeps the memory of the columns.
    pub(super) fn clear(&mut self) {
        for column in &mut self.columns {
            column.defined.clear();
            match &mut column.values {
                Values::Text(values) => values.clear(),
                Values::Short(values) => values.clear(),
                Values::Whole(values) => values.clear(),
                Values::Real(values) => values.clear(),
                Values::Flag(values) => values.clear(),
            }
        }
        self.rows = 0;
    }

    /// Adds the texts that are new; call it before the batch is written.
    pub(super) fn add_texts(&mut self, mut texts: Vec<ByteArray>) {
        self.texts.append(&mut texts);
    }
}

/// Writes a table into a file.
pub(super) struct TableWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    texts: Vec<ByteArray>,
    dictionary: DictionaryEncoder,
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a table.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn new(
        file: W,
        name: &str,
        columns: &[FleetColumn],
        version: u32,
    ) -> Result<TableWriter<W>, ParquetError> {
        let note = |key: &str, value: String| KeyValue { key: key.to_string(), value: Some(value) };
        let mut properties = WriterProperties::builder();
        for column in columns.iter().filter(|column| column.spread) {
            let path = ColumnPath::from(column.name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let properties = properties
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
            // Row groups are skipped by their statistics; those of each page would cost more than they save.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_created_by(format!("hardmeter version {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(vec![
                note("hardmeter.table", name.to_string()),
                note("hardmeter.schema_version", version.to_string()),
            ]))
            .build();
        let writer = SerializedFileWriter::new(file, schema(name, columns)?, Arc::new(properties))?;
        Ok(TableWriter { writer, texts: Vec::new(), dictionary: DictionaryEncoder::new()? })
    }

    /// Writes a batch as a row group, and returns it without rows.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(&mut self, mut batch: Batch) -> Result<Batch, ParquetError> {
        self.texts.append(&mut batch.texts);
        if batch.rows == 0 {
            return Ok(batch);
        }
        let descriptors = self.writer.schema_descr().columns().to_vec();
        let mut group = self.writer.next_row_group()?;
        for (column, descriptor) in batch.columns.iter().zip(descriptors) {
            let defined = (!column.required).then_some(column.defined.as_slice());
            match &column.values {
                Values::Text(numbers) => {
                    let column = TextColumn { numbers, defined, texts: &self.texts };
                    let (chunk, closed) = self.dictionary.encode(&column, descriptor)?;
                    group.append_column(&chunk, closed)?;
                }
                Values::Short(values) => write_column::<Int32Type, W>(&mut group, values, defined)?,
                Values::Whole(values) => write_column::<Int64Type, W>(&mut group, values, defined)?,
                Values::Real(values) => write_column::<DoubleType, W>(&mut group, values, defined)?,
                Values::Flag(values) => write_column::<BoolType, W>(&mut group, values, defined)?,
            }
        }
        group.close()?;
        batch.clear();
        Ok(batch)
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn finish(mut self) -> Result<(), ParquetError> {
        self.writer.finish().map(|_| ())
    }
}

fn schema(name: &str, columns: &[FleetColumn]) -> Result<TypePtr, ParquetError> {
    let fields: Result<Vec<TypePtr>, ParquetError> =
        columns.iter().map(|column| Ok(Arc::new(column.parquet_type()?))).collect();
    Ok(Arc::new(Type::group_type_builder(name).with_fields(fields?).build()?))
}

fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    defined: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("fewer columns in the schema than in the rows".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, defined, None)?;
    column.close()
}
