//! One row per sample as CSV, for spreadsheets, data frames and databases.

use crate::ReportError;
use hardmeter_answers::{CodeMap, Dimension, Located, Pass, Value};
use hardmeter_samples::model::Sample;
use std::io::Write;
use std::sync::Arc;

/// Columns that need only the sample, as in the tables of `hardmeter report`.
const OWN: [Dimension; 11] = [
    Dimension::Pid,
    Dimension::Tid,
    Dimension::Cpu,
    Dimension::Mode,
    Dimension::Ip,
    Dimension::DataAddress,
    Dimension::Operation,
    Dimension::Level,
    Dimension::Tlb,
    Dimension::Snoop,
    Dimension::Cause,
];

/// Writes samples as rows.
pub struct SampleRows<W: Write> {
    writer: csv::Writer<W>,
    events: Vec<Arc<str>>,
    line_size: u32,
}

impl<W: Write> SampleRows<W> {
    /// Begins with the names of the columns.
    ///
    /// # Errors
    ///
    /// [`ReportError::Csv`] if the writer fails.
    pub fn new(writer: W, events: Vec<Arc<str>>, line_size: u32) -> Result<Self, ReportError> {
        let mut writer = csv::Writer::from_writer(writer);
        let mut head = vec!["time_ns", "event", "period", "process"];
        head.extend(OWN.iter().map(|dimension| dimension.name()));
        head.extend(["set", "locked", "latency", "physical-address", "image", "address", "routine", "line"]);
        writer.write_record(head)?;
        Ok(SampleRows { writer, events, line_size })
    }

    /// Writes a sample.
    ///
    /// # Errors
    ///
    /// [`ReportError::Csv`] if the writer fails.
    pub fn add<M: CodeMap>(
        &mut self,
        sample: &Sample<'_>,
        located: Located,
        pass: &mut Pass<M>,
    ) -> Result<(), ReportError> {
        let text = |value: Option<String>| value.unwrap_or_default();
        let own = |dimension| match Value::of(dimension, sample, self.line_size) {
            Value::Absent => String::new(),
            value => value.to_string(),
        };
        let mut row = vec![
            text(sample.time.map(|time| time.to_string())),
            self.events.get(sample.event.0).map_or(String::new(), |name| name.to_string()),
            sample.period.to_string(),
            text(located.process.map(|id| pass.process_name(id).to_string())),
        ];
        row.extend(OWN.map(own));
        row.push(own(Dimension::Set));
        row.push(text(sample.data_source.map(|source| u8::from(source.locked()).to_string())));
        row.push(text(sample.weight.map(|weight| weight.latency.to_string())));
        row.push(text(sample.physical_address.map(|address| address.to_string())));
        let code = match located.place {
            Some(place) => [
                text(pass.map().image(place.image).map(|image| image.path)),
                pass.map().address(place).to_string(),
                pass.map().routine(place).to_string(),
                text(pass.map().line(place).map(|line| line.to_string())),
            ],
            None => Default::default(),
        };
        row.extend(code);
        self.writer.write_record(row)?;
        Ok(())
    }

    /// Returns the writer, with everything written.
    ///
    /// # Errors
    ///
    /// [`ReportError::Io`] if the writer fails.
    pub fn finish(self) -> Result<W, ReportError> {
        self.writer.into_inner().map_err(|error| error.into_error().into())
    }
}
