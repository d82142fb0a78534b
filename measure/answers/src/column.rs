//! The columns a table can be grouped by, and those it can show.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A property of a sample that samples can be grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// The event.
    Event,
    /// The instruction's address in its image's own numbering (what `objdump` prints).
    Address,
    /// The virtual address of the instruction.
    Ip,
    /// The routine.
    Routine,
    /// The source line.
    Line,
    /// The source file.
    File,
    /// The program or library.
    Image,
    /// The process or thread by name.
    Process,
    /// The process by number.
    Pid,
    /// The thread by number.
    Tid,
    /// The processor.
    Cpu,
    /// User or kernel.
    Mode,
    /// Which level served the access.
    Level,
    /// The latency, in powers of two.
    Latency,
    /// Load, store, prefetch.
    Operation,
    /// The TLB level or page walk that served the translation.
    Tlb,
    /// The result of snooping.
    Snoop,
    /// The data address.
    DataAddress,
    /// The cache line of the data address.
    CacheLine,
    /// The reason why the line was missing (simulated captures).
    Cause,
    /// The cache set (simulated captures).
    Set,
    /// The class of the object at the data address: "table", "lightweight lock".
    Class,
    /// The object of the data address: class and name.
    Object,
    /// The part of the object: "line pointers", "field state".
    Part,
    /// The statement that the process executed.
    Statement,
    /// The role of the process in its server: "client backend".
    Role,
}

impl Dimension {
    /// Every dimension with its name on the command line.
    pub const ALL: [(Dimension, &'static str); 26] = [
        (Dimension::Event, "event"),
        (Dimension::Address, "address"),
        (Dimension::Ip, "ip"),
        (Dimension::Routine, "routine"),
        (Dimension::Line, "line"),
        (Dimension::File, "file"),
        (Dimension::Image, "image"),
        (Dimension::Process, "process"),
        (Dimension::Pid, "pid"),
        (Dimension::Tid, "tid"),
        (Dimension::Cpu, "cpu"),
        (Dimension::Mode, "mode"),
        (Dimension::Level, "level"),
        (Dimension::Latency, "latency"),
        (Dimension::Operation, "operation"),
        (Dimension::Tlb, "tlb"),
        (Dimension::Snoop, "snoop"),
        (Dimension::DataAddress, "data-address"),
        (Dimension::CacheLine, "cache-line"),
        (Dimension::Cause, "cause"),
        (Dimension::Set, "set"),
        (Dimension::Class, "class"),
        (Dimension::Object, "object"),
        (Dimension::Part, "part"),
        (Dimension::Statement, "statement"),
        (Dimension::Role, "role"),
    ];

    /// The name on the command line and in the table's head.
    pub fn name(self) -> &'static str {
        Dimension::ALL.iter().find(|(dimension, _)| *dimension == self).expect("every dimension is listed").1
    }

    /// Whether the instruction's place determines the value: such columns add no rows beside `Address`.
    pub fn follows_from_address(self) -> bool {
        matches!(self, Dimension::Routine | Dimension::Line | Dimension::File | Dimension::Image)
    }

    /// Whether the data address has to be named for the value.
    pub fn needs_object(self) -> bool {
        matches!(self, Dimension::Class | Dimension::Object | Dimension::Part)
    }

    /// Whether the value needs the side file of the server's objects.
    pub fn needs_notes(self) -> bool {
        self.needs_object() || self == Dimension::Role
    }

    /// Whether the instruction's place is needed for the value.
    pub fn needs_place(self) -> bool {
        self == Dimension::Address || self.follows_from_address()
    }

    /// The columns that accompany a single grouping column if the user names no columns: as in the papers'
    /// tables, routine and line beside the address.
    pub fn with_companions(self) -> Vec<Dimension> {
        match self {
            Dimension::Address => vec![Dimension::Address, Dimension::Routine, Dimension::Line],
            Dimension::Routine => vec![Dimension::Routine, Dimension::Image],
            Dimension::Line => vec![Dimension::Line, Dimension::Routine],
            Dimension::Pid => vec![Dimension::Pid, Dimension::Process],
            Dimension::Tid => vec![Dimension::Tid, Dimension::Process],
            other => vec![other],
        }
    }
}

/// A figure computed of a group of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Samples.
    Count,
    /// Their share of all the event's samples.
    Share,
    /// The 95 % interval of the share.
    Interval,
    /// Events the samples stand for: the sum of their periods.
    Events,
    /// Sum of the latencies.
    TotalLatency,
    /// Its share of the latency of all the event's samples; of the stall time if latencies are exposed ones.
    Stall,
    /// Mean latency.
    MeanLatency,
    /// Median latency.
    MedianLatency,
}

impl Measure {
    /// Every measure with its name on the command line.
    pub const ALL: [(Measure, &'static str); 8] = [
        (Measure::Count, "count"),
        (Measure::Share, "share"),
        (Measure::Interval, "interval"),
        (Measure::Events, "events"),
        (Measure::TotalLatency, "total-latency"),
        (Measure::Stall, "stall"),
        (Measure::MeanLatency, "mean-latency"),
        (Measure::MedianLatency, "median-latency"),
    ];

    /// The name on the command line and in the table's head.
    pub fn name(self) -> &'static str {
        Measure::ALL.iter().find(|(measure, _)| *measure == self).expect("every measure is listed").1
    }
}

/// A column shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A grouping column.
    Dimension(Dimension),
    /// A figure.
    Measure(Measure),
}

impl Shown {
    /// The name on the command line and in the table's head.
    pub fn name(self) -> &'static str {
        match self {
            Shown::Dimension(dimension) => dimension.name(),
            Shown::Measure(measure) => measure.name(),
        }
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The order of rows, largest first; ties by address, so that the order is the same in every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// A measure.
    #[default]
    Count,
    /// Estimated events.
    Events,
    /// Sum of latencies.
    TotalLatency,
    /// Mean latency.
    MeanLatency,
    /// Median latency.
    MedianLatency,
    /// The grouping columns themselves, ascending: addresses in code order, latencies from fast to slow.
    Key,
}

/// An unknown column name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown column \"{name}\"; known: {known}")]
pub struct UnknownColumn {
    name: String,
    known: String,
}

/// The value of a name.
pub(crate) fn find<T: Copy>(name: &str, all: &[(T, &'static str)]) -> Result<T, UnknownColumn> {
    all.iter().find(|(_, known)| *known == name).map(|(value, _)| *value).ok_or_else(|| UnknownColumn {
        name: name.to_string(),
        known: all.iter().map(|(_, known)| *known).collect::<Vec<_>>().join(", "),
    })
}

impl FromStr for Dimension {
    type Err = UnknownColumn;

    fn from_str(name: &str) -> Result<Self, UnknownColumn> {
        // perf's names for the same columns.
        match name {
            "symbol" | "sym" => Ok(Dimension::Routine),
            "dso" => Ok(Dimension::Image),
            "comm" => Ok(Dimension::Process),
            "srcline" => Ok(Dimension::Line),
            "mem" => Ok(Dimension::Level),
            _ => find(name, &Dimension::ALL),
        }
    }
}

impl FromStr for Measure {
    type Err = UnknownColumn;

    fn from_str(name: &str) -> Result<Self, UnknownColumn> {
        find(name, &Measure::ALL)
    }
}

impl FromStr for SortBy {
    type Err = UnknownColumn;

    fn from_str(name: &str) -> Result<Self, UnknownColumn> {
        const ALL: [(SortBy, &str); 6] = [
            (SortBy::Count, "count"),
            (SortBy::Events, "events"),
            (SortBy::TotalLatency, "total-latency"),
            (SortBy::MeanLatency, "mean-latency"),
            (SortBy::MedianLatency, "median-latency"),
            (SortBy::Key, "key"),
        ];
        find(name, &ALL)
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Dimension {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_column() {
        for (dimension, name) in Dimension::ALL {
            assert_eq!(name.parse::<Dimension>(), Ok(dimension));
            assert_eq!(dimension.name(), name);
        }
        for (measure, name) in Measure::ALL {
            assert_eq!(name.parse::<Measure>(), Ok(measure));
        }
        let error = "colour".parse::<Dimension>().unwrap_err().to_string();
        assert!(error.starts_with("unknown column \"colour\"; known: event, address,"), "{error}");
    }
}
