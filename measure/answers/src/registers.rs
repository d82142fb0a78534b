//! Single records of an instruction with their registers, as the paper lists PEBS records; in 64 bits, and with
//! data address and latency, which the hardware of 2003 did not record.

use crate::code::ImageAddress;
use crate::column::Dimension;
use crate::top::Value;
use hardmeter_samples::model::{Register, Sample};
use serde::{Serialize, Serializer};
use serde_json::{json, Map, Value as Json};
use std::sync::Arc;

/// The registers shown, in the order of the paper's listing, the newer ones behind.
pub const REGISTER_ORDER: [Register; 18] = {
    // Flags and instruction pointer first, then the others as they are.
    let mut order = Register::GENERAL;
    order[0] = Register::Rflags;
    order[1] = Register::Rip;
    let (mut from, mut to) = (0, 2);
    while from < Register::GENERAL.len() {
        let register = Register::GENERAL[from];
        if !matches!(register, Register::Rflags | Register::Rip) {
            order[to] = register;
            to += 1;
        }
        from += 1;
    }
    order
};

/// One sample with its registers.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterRecord {
    /// The event.
    pub event: Arc<str>,
    /// The instruction, in its image's own numbering.
    pub address: ImageAddress,
    /// The recorded value of each register of [`REGISTER_ORDER`].
    pub registers: [Option<u64>; REGISTER_ORDER.len()],
    /// The data address.
    pub data_address: Option<u64>,
    /// Latency of the access in cycles.
    pub latency: Option<u64>,
    /// The level that answered.
    pub level: Value,
}

impl RegisterRecord {
    /// Copies a sample's registers; `address` is its instruction in the image's own numbering.
    pub fn new(sample: &Sample<'_>, event: Arc<str>, address: ImageAddress) -> Self {
        let register = |register: Register| {
            let recorded = sample.registers.or(sample.user_registers)?.get(register);
            // The sample's own address is exact; the register may be that of the interrupt.
            if register == Register::Rip {
                sample.ip.map(|ip| ip.0).or(recorded)
            } else {
                recorded
            }
        };
        RegisterRecord {
            event,
            address,
            registers: REGISTER_ORDER.map(register),
            data_address: sample.address.map(|address| address.0),
            latency: sample.weight.map(|weight| weight.latency.0),
            level: Value::of(Dimension::Level, sample, 64),
        }
    }

    /// Whether any register was recorded.
    pub fn has_registers(&self) -> bool {
        self.registers.iter().any(Option::is_some)
    }
}

impl Serialize for RegisterRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex = |value: Option<u64>| value.map(|value| format!("{value:#x}"));
        let registers: Map<String, Json> = REGISTER_ORDER
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
pub struct RegisterRecords {
    /// The records, in order of time.
    pub records: Vec<RegisterRecord>,
    /// All records there were.
    pub total: u64,
}
