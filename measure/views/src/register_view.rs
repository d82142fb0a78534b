//! The records behind an instruction, register by register: the paper's listing of PEBS records, in 64 bits and with
//! what the hardware of 2003 did not tell, the data address and the latency.

use crate::layout::{Align, Cut, Style, TextTable, Tone};
use crate::number::counted;
use hardmeter_answers::{Dimension, ImageAddress, Value};
use hardmeter_samples::model::{Register, Sample};
use serde::{Serialize, Serializer};
use serde_json::{json, Map, Value as Json};
use std::fmt::Write;
use std::sync::Arc;

/// The registers shown, in the order of the paper's listing, the newer ones behind.
const ORDER: [Register; 18] = [
    Register::Rflags,
    Register::Rip,
    Register::Rax,
    Register::Rbx,
    Register::Rcx,
    Register::Rdx,
    Register::Rsi,
    Register::Rdi,
    Register::Rbp,
    Register::Rsp,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// One sample with its registers.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterRecord {
    event: Arc<str>,
    address: ImageAddress,
    registers: [Option<u64>; ORDER.len()],
    data_address: Option<u64>,
    latency: Option<u64>,
    level: Value,
}

impl RegisterRecord {
    /// Takes a sample's registers; `address` is its instruction in the image's own numbering.
    pub fn new(sample: &Sample<'_>, event: Arc<str>, address: ImageAddress) -> Self {
        let register = |register: Register| {
            let recorded = sample.registers.or(sample.user_registers)?.get(register);
            // The sample's own address is the exact one; the register may be the interrupt's.
            if register == Register::Rip {
                sample.ip.map(|ip| ip.0).or(recorded)
            } else {
                recorded
            }
        };
        RegisterRecord {
            event,
            address,
            registers: ORDER.map(register),
            data_address: sample.address.map(|address| address.0),
            latency: sample.weight.map(|weight| weight.latency.0),
            level: Value::of(Dimension::Level, sample, 64),
        }
    }

    fn has_registers(&self) -> bool {
        self.registers.iter().any(Option::is_some)
    }
}

impl Serialize for RegisterRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex = |value: Option<u64>| value.map(|value| format!("{value:#x}"));
        let registers: Map<String, Json> = ORDER
            .iter()
            .zip(self.registers)
            .map(|(register, value)| (register.name().to_string(), json!(hex(value))))
            .collect();
        json!({
            "event": &*self.event,
            "address": self.address,
            "registers": registers,
            "data_address": hex(self.data_address),
            "latency": self.latency,
            "level": self.level,
        })
        .serialize(serializer)
    }
}

/// The records of a routine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RegisterView {
    /// The records kept, in order of time.
    pub records: Vec<RegisterRecord>,
    /// All records there were.
    pub total: u64,
}

impl RegisterView {
    /// The listing as text. Wider than a terminal, and never cut: a cut register is none.
    pub fn render(&self, style: Style) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}",
            style.paint(
                Tone::Title,
                &format!("first {} of {}", self.records.len(), counted(self.total, "record"))
            )
        );
        if !self.records.iter().any(RegisterRecord::has_registers) {
            text.push_str(
                "  the capture holds no registers: a timer records none; record a memory event (hardmeter events)\n",
            );
            return text;
        }
        let names: Vec<&str> = ORDER.iter().map(|register| register.name()).collect();
        let _ = writeln!(text, "# each record is: {{{}, data address, latency, level}}", names.join(", "));
        let _ = writeln!(text, "# rip is the address that the process saw; those above are the image's own");
        let mut columns = vec![("event".to_string(), Align::Left, Cut::Never)];
        columns.extend(names.iter().map(|name| (name.to_string(), Align::Right, Cut::Never)));
        columns.extend(["data address", "latency"].map(|name| (name.to_string(), Align::Right, Cut::Never)));
        columns.push(("level".to_string(), Align::Left, Cut::Never));
        let mut grid = TextTable::new(columns);
        let cell = |text: String| (text, Tone::Plain);
        let hex = |value: Option<u64>, digits: usize| {
            cell(value.map_or("-".to_string(), |value| format!("{value:0digits$x}")))
        };
        for record in &self.records {
            let mut row = vec![cell(record.event.to_string())];
            row.extend(
                ORDER
                    .iter()
                    .zip(record.registers)
                    .map(|(register, value)| hex(value, if *register == Register::Rflags { 8 } else { 16 })),
            );
            row.push(hex(record.data_address, 16));
            row.push(cell(record.latency.map_or("-".to_string(), |latency| latency.to_string())));
            row.push(cell(record.level.to_string()));
            grid.row(row);
        }
        text.push_str(&grid.render(Style { width: None, ..style }, 2));
        text
    }
}
