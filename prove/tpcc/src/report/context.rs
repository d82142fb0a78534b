//! Published records, for context only: this program's figures are not TPC results.
//!
//! Numbers are from the literature and the vendors' reports; two are from memory and are marked so.

/// A published record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// The year.
    pub year: u16,
    /// System and machine.
    pub system: &'static str,
    /// Its figure: tpmC, which Hardmeter does not measure.
    pub figure: f64,
    /// Whether the number was read, or is from memory.
    pub read: bool,
}

/// Published records.
pub const RECORDS: [Record; 6] = [
    Record { year: 2001, system: "one node of 128 CPUs (Fujitsu)", figure: 455_818.0, read: true },
    Record { year: 2001, system: "a cluster of 32 nodes with 8 CPUs", figure: 709_220.0, read: false },
    Record { year: 2019, system: "OceanBase", figure: 60_880_000.0, read: true },
    Record { year: 2020, system: "OceanBase", figure: 707_000_000.0, read: false },
    Record { year: 2023, system: "TDSQL", figure: 814_000_000.0, read: true },
    Record { year: 2025, system: "PolarDB, 2,340 nodes", figure: 2_055_000_000.0, read: true },
];
