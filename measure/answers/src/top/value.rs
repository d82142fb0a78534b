//! The value of a sample in a column: packed into a word while counting, text in the output.

use crate::column::Dimension;
use hardmeter_samples::model::{
    CpuMode, MemoryLevel, MemoryOperation, MissCause, Sample, Snoop, TlbOutcome, VirtualAddress,
};
use serde::{Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// A value shown in a grouping column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// The sample does not have the value.
    Absent,
    /// An address or line number of a cache line.
    Address(u64),
    /// A process, thread, processor, set.
    Number(i64),
    /// Anything with a name.
    Text(Arc<str>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Absent => f.pad("-"),
            Value::Address(address) => f.pad(&format!("{address:#x}")),
            Value::Number(number) => f.pad(&number.to_string()),
            Value::Text(text) => f.pad(text),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Absent => serializer.serialize_none(),
            // As text: JSON numbers lose bits above 2^53.
            Value::Address(_) => serializer.collect_str(self),
            Value::Number(number) => serializer.serialize_i64(*number),
            Value::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// The packed form of "unknown". No column has this value: addresses are lower.
pub(super) const ABSENT: u64 = u64::MAX;

/// Packs the sample's value in a column that does not need the code map.
pub(super) fn pack(dimension: Dimension, sample: &Sample<'_>, line_size: u32) -> u64 {
    let source = sample.data_source;
    let packed = match dimension {
        Dimension::Ip => sample.ip.map(|ip| ip.0),
        Dimension::Pid => sample.pid.map(|pid| pid.0 as u32 as u64),
        Dimension::Tid => sample.tid.map(|tid| tid.0 as u32 as u64),
        Dimension::Cpu => sample.cpu.map(|cpu| u64::from(cpu.0)),
        Dimension::Mode => Some(sample.mode as u64),
        Dimension::Level => source.map(|source| source.level() as u64),
        Dimension::Operation => source.map(|source| source.operation() as u64),
        Dimension::Tlb => source.map(|source| source.tlb() as u64),
        Dimension::Snoop => source.map(|source| source.snoop() as u64),
        Dimension::Latency => sample.weight.map(|weight| bucket(weight.latency.0)),
        Dimension::DataAddress => sample.address.map(|address| address.0),
        Dimension::CacheLine => sample.address.map(|address| address.cache_line(line_size).0),
        Dimension::Cause => sample.simulated().and_then(|detail| detail.cause).map(|cause| cause as u64),
        Dimension::Set => sample.simulated().map(|detail| u64::from(detail.set)),
        Dimension::Event
        | Dimension::Process
        | Dimension::Address
        | Dimension::Routine
        | Dimension::Line
        | Dimension::File
        | Dimension::Image
        | Dimension::Class
        | Dimension::Object
        | Dimension::Part
        | Dimension::Statement
        | Dimension::Role => unreachable!("packed by the caller, which has the pass"),
    };
    packed.unwrap_or(ABSENT)
}

/// Shows a packed value.
pub(super) fn unpack(dimension: Dimension, word: u64, line_size: u32) -> Value {
    if word == ABSENT {
        return Value::Absent;
    }
    match dimension {
        Dimension::Ip | Dimension::DataAddress => Value::Address(word),
        Dimension::CacheLine => Value::Address(line_address(word, line_size).0),
        Dimension::Pid | Dimension::Tid => Value::Number(i64::from(word as u32 as i32)),
        Dimension::Latency => Value::Text(bucket_text(word).into()),
        Dimension::Mode => Value::Text(mode_text(word).into()),
        Dimension::Level => Value::Text(level_text(word).into()),
        Dimension::Operation => Value::Text(operation_text(word).into()),
        Dimension::Tlb => Value::Text(tlb_text(word).into()),
        Dimension::Snoop => Value::Text(snoop_text(word).into()),
        Dimension::Cause => Value::Text(cause_text(word).into()),
        _ => Value::Number(word as i64),
    }
}

/// A line is shown by the address of its first byte.
fn line_address(line: u64, line_size: u32) -> VirtualAddress {
    VirtualAddress(line.wrapping_mul(u64::from(line_size)))
}

/// Latencies 0 and 1 are bucket 0, 2..3 bucket 1, 4..7 bucket 2, and so on.
fn bucket(latency: u64) -> u64 {
    u64::from(latency.max(1).ilog2())
}

fn bucket_text(bucket: u64) -> String {
    let low = if bucket == 0 { 0 } else { 1u64 << bucket };
    format!("{low}-{}", (2u128 << bucket) - 1)
}

// An enum is packed as its discriminant and found by it, so that no separate table can go out of date.
fn is<T: Copy>(word: u64, all: &[(T, &'static str)], number: impl Fn(T) -> u64) -> &'static str {
    all.iter().find(|(value, _)| number(*value) == word).map_or("unknown", |(_, text)| text)
}

fn mode_text(word: u64) -> &'static str {
    let all = [
        (CpuMode::Kernel, "kernel"),
        (CpuMode::User, "user"),
        (CpuMode::Hypervisor, "hypervisor"),
        (CpuMode::GuestKernel, "guest kernel"),
        (CpuMode::GuestUser, "guest user"),
    ];
    is(word, &all, |mode| mode as u64)
}

fn level_text(word: u64) -> &'static str {
    let all = [
        (MemoryLevel::L1, "L1"),
        (MemoryLevel::LineFillBuffer, "LFB"),
        (MemoryLevel::L2, "L2"),
        (MemoryLevel::L3, "L3"),
        (MemoryLevel::OtherCore, "other core"),
        (MemoryLevel::LocalDram, "DRAM"),
        (MemoryLevel::Remote, "remote node"),
        (MemoryLevel::PersistentMemory, "persistent memory"),
        (MemoryLevel::Uncached, "uncached"),
    ];
    is(word, &all, |level| level as u64)
}

fn operation_text(word: u64) -> &'static str {
    let all = [
        (MemoryOperation::Load, "load"),
        (MemoryOperation::Store, "store"),
        (MemoryOperation::Prefetch, "prefetch"),
        (MemoryOperation::Execute, "execute"),
    ];
    is(word, &all, |operation| operation as u64)
}

fn tlb_text(word: u64) -> &'static str {
    let all = [(TlbOutcome::L1Hit, "L1 hit"), (TlbOutcome::L2Hit, "L2 hit"), (TlbOutcome::Walk, "walk")];
    is(word, &all, |outcome| outcome as u64)
}

fn snoop_text(word: u64) -> &'static str {
    let all = [
        (Snoop::None, "none"),
        (Snoop::Hit, "hit"),
        (Snoop::Miss, "miss"),
        (Snoop::HitModified, "hit modified"),
        (Snoop::Forward, "forward"),
        (Snoop::Peer, "peer"),
    ];
    is(word, &all, |snoop| snoop as u64)
}

fn cause_text(word: u64) -> &'static str {
    let all = [
        (MissCause::Cold, "cold"),
        (MissCause::Capacity, "capacity"),
        (MissCause::Conflict, "conflict"),
        (MissCause::Coherence, "coherence"),
    ];
    is(word, &all, |cause| cause as u64)
}

/// Texts of a sample's values outside a table, in a list of records.
impl Value {
    /// A sample's value in a column that needs neither names of code nor of processes.
    pub fn of(dimension: Dimension, sample: &Sample<'_>, line_size: u32) -> Value {
        unpack(dimension, pack(dimension, sample, line_size), line_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;
    use hardmeter_samples::model::{Cycles, DataSource, Weight};

    #[test]
    fn latencies_fall_into_powers_of_two() {
        for (latency, text) in [(0, "0-1"), (1, "0-1"), (2, "2-3"), (70, "64-127"), (249, "128-255")] {
            assert_eq!(bucket_text(bucket(latency)), text, "{latency}");
        }
        assert_eq!(bucket_text(bucket(u64::MAX)), "9223372036854775808-18446744073709551615");
    }

    #[test]
    fn a_sample_is_described() {
        let mut sample = sample(0, -1, 0x401000);
        sample.data_source = Some(DataSource(0x10650100842)); // L3 hit after a page walk, from a real capture
        sample.weight = Some(Weight { latency: Cycles(249), ..Weight::default() });
        sample.address = Some(VirtualAddress(0x7f01));
        let text = |dimension| Value::of(dimension, &sample, 64).to_string();
        assert_eq!(text(Dimension::Level), "L3");
        assert_eq!(text(Dimension::Tlb), "walk");
        assert_eq!(text(Dimension::Operation), "load");
        assert_eq!(text(Dimension::Snoop), "none");
        assert_eq!(text(Dimension::Latency), "128-255");
        assert_eq!(text(Dimension::CacheLine), "0x7f00");
        assert_eq!(text(Dimension::Pid), "-1");
        assert_eq!(text(Dimension::Mode), "user");
        assert_eq!(text(Dimension::Cause), "-", "only a simulator knows");
    }
}
