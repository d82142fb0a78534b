//! The order of a comparison: graphs, modes, measures, protocols.

use crate::error::Oo1Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The parameters of a generated graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Graph {
    /// Number of parts.
    pub parts: u64,
    /// Whether connections lead to parts nearby, nine times in ten.
    pub locality: bool,
    /// Its seed.
    #[serde(rename = "graph_seed")]
    pub seed: u64,
}

/// An enumeration whose values have names on the command line and in files.
macro_rules! named {
    ($(#[$about:meta])* $name:ident, $kind:literal, $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)?) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl FromStr for $name {
            type Err = Oo1Error;

            fn from_str(text: &str) -> Result<$name, Oo1Error> {
                $name::ALL.iter().copied().find(|value| value.name() == text).ok_or_else(|| {
                    let known: Vec<&str> = $name::ALL.iter().map(|value| value.name()).collect();
                    let reason = format!("there are {}", known.join(", "));
                    Oo1Error::BadArgument { kind: $kind, text: text.into(), reason }
                })
            }
        }
    };
}

named! {
    /// Layout of parts and connections.
    Layout, "layout",
    /// The complete benchmark: connections are objects, both directions can be walked.
    Oo1 = "oo1",
    /// The part in the P3L paper: three pointers to parts.
    Paper = "paper",
}

named! {
    /// The operation of a unit.
    Measure, "measure",
    /// Seven hops along the connections.
    Traversal = "traversal",
    /// Seven hops against them.
    Reverse = "reverse",
    /// 1000 parts by their ids.
    Lookup = "lookup",
    /// 100 new parts, committed.
    Insert = "insert",
}

named! {
    /// The units that a run has.
    Protocol, "protocol",
    /// 1 cold, 34 warm, 10 hot.
    Texas = "texas",
    /// 1 cold, 9 warm.
    Oo1 = "oo1",
    /// The paper's figure 1: 50 patterns.
    Figure1 = "figure1",
    /// The paper's figure 2: 50 patterns, each repeated at once.
    Figure2 = "figure2",
    /// The paper's figure 3: 50 patterns, then repeated.
    Figure3 = "figure3",
    /// 40 patterns repeatedly.
    Hot = "hot",
    /// 600 units, nine in ten of them of a hot set.
    HotSet = "hot-set",
}

named! {
    /// State of the store's files in the page cache before a run.
    PageCache, "state of the page cache",
    /// Nothing.
    Dropped = "dropped",
    /// All.
    Hot = "hot",
}

/// A contestant: `texas`, or `p3l-plugin+prefetch`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contestant {
    /// The mode.
    pub mode: String,
    /// Whether the closure of a pattern is prefetched.
    pub prefetch: bool,
}

const PREFETCH: &str = "+prefetch";

impl FromStr for Contestant {
    type Err = Oo1Error;

    fn from_str(text: &str) -> Result<Contestant, Oo1Error> {
        let (mode, prefetch) = match text.strip_suffix(PREFETCH) {
            Some(mode) => (mode, true),
            None => (text, false),
        };
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if mode.is_empty() || !mode.chars().all(legal) {
            let reason = "write MODE or MODE+prefetch".into();
            return Err(Oo1Error::BadArgument { kind: "mode", text: text.into(), reason });
        }
        Ok(Contestant { mode: mode.into(), prefetch })
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.mode, if self.prefetch { PREFETCH } else { "" })
    }
}

/// One table of the result: all contestants under the same conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // each is explained at its type
pub struct Cell {
    #[serde(flatten)]
    pub graph: Graph,
    pub layout: Layout,
    pub measure: Measure,
    pub protocol: Protocol,
    pub page_cache: PageCache,
    /// Memory limit of the process and its page cache, by a control group.
    pub memory_bytes: Option<u64>,
}

impl Cell {
    /// In a line.
    pub fn title(&self) -> String {
        let memory = self
            .memory_bytes
            .map_or_else(String::new, |bytes| format!(", in {:.0} MB of memory", bytes as f64 / 1e6));
        format!(
            "{}, protocol {}: {} parts {} locality, layout {}, page cache {}{memory}",
            self.measure.name(),
            self.protocol.name(),
            grouped(self.graph.parts),
            if self.graph.locality { "with" } else { "without" },
            self.layout.name(),
            self.page_cache.name(),
        )
    }
}

/// 2,000,000.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The order of a comparison.
#[derive(Clone, Debug)]
pub struct Order {
    /// The tables.
    pub cells: Vec<Cell>,
    /// The contestants in each.
    pub contestants: Vec<Contestant>,
    /// Number of rounds: in each, every mode runs twice.
    pub rounds: usize,
    /// The first number of the protocol, instead of the default.
    pub units: Option<u64>,
    /// Seed of the first round's patterns; each round has others.
    pub seed: u64,
    /// Time limit of a program.
    pub timeout: Duration,
}

impl Order {
    /// Maximum number of program runs.
    pub fn steps(&self) -> usize {
        self.cells.len() * self.contestants.len() * 2 * self.rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contestants_are_modes_with_or_without_prefetch() {
        let read = |text: &str| text.parse::<Contestant>();
        assert_eq!(read("texas").unwrap(), Contestant { mode: "texas".into(), prefetch: false });
        let prefetching = read("p3l-plugin+prefetch").unwrap();
        assert_eq!((prefetching.mode.as_str(), prefetching.prefetch), ("p3l-plugin", true));
        assert_eq!(prefetching.to_string(), "p3l-plugin+prefetch");
        for bad in ["", "+prefetch", "../texas", "p3l+x", "a b"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for protocol in Protocol::ALL {
            assert_eq!(protocol.name().parse::<Protocol>().unwrap(), *protocol);
        }
        let error = "cold".parse::<PageCache>().unwrap_err();
        assert_eq!(error.to_string(), "invalid state of the page cache 'cold': there are dropped, hot");
        assert_eq!(serde_json::to_string(&Protocol::HotSet).unwrap(), "\"hot-set\"");
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        let grouped: Vec<String> = [0, 100, 1000, 20_000, 2_000_000].map(grouped).into();
        assert_eq!(grouped, ["0", "100", "1,000", "20,000", "2,000,000"]);
    }
}
