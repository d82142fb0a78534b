//! How a core hides miss latency: the parameters of the time model (`measure/simulate/sim/timing.h`).
//!
//! ```toml
//! [core]                      # optional: without it, every miss costs its whole latency
//! reorder_window = 512        # instructions in flight behind the oldest one
//! fill_buffers = 16           # lines that the first data cache waits for at a time
//! store_buffer = 112          # stores that wait for their lines
//! prefetch = ["next-line", "stride", "stream", "adjacent"]
//! stream_distance = 20        # lines that "stream" runs ahead at most
//! line_cycles = 8             # least cycles between two lines from memory, for one core
//! source = "where these numbers are from"
//! ```

use serde::{Deserialize, Serialize};

/// A prefetcher; none crosses a page boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefetcher {
    /// Into the first level: the line after two consecutive missed lines.
    NextLine,
    /// Into the first level: the next address of an instruction that misses at a constant distance.
    Stride,
    /// Into the second level: lines ahead of misses that proceed through a page in one direction.
    Stream,
    /// Into the second level: the other line of an aligned pair.
    Adjacent,
}

impl Prefetcher {
    /// Its bit in `enum hm_prefetchers` of `measure/simulate/sim/segment.h`.
    pub fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The parameters of a core that determine how much latency it hides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreModel {
    /// Instructions in flight behind the oldest one.
    pub reorder_window: u32,
    /// Lines that the first data cache waits for at a time.
    pub fill_buffers: u32,
    /// Stores that wait for their lines.
    pub store_buffer: u32,
    /// Its prefetchers.
    #[serde(default)]
    pub prefetch: Vec<Prefetcher>,
    /// Maximum number of lines that [`Prefetcher::Stream`] runs ahead.
    #[serde(default)]
    pub stream_distance: u32,
    /// Least cycles between two lines from memory.
    #[serde(default)]
    pub line_cycles: u32,
    /// The source of the numbers.
    pub source: String,
}

impl CoreModel {
    /// The largest number of fill buffers that can be simulated.
    pub const MOST_FILL_BUFFERS: u32 = 64;

    /// The parameters of an Intel server core since Sapphire Rapids: assumed for a machine without a description.
    pub fn assumed() -> CoreModel {
        CoreModel {
            reorder_window: 512,
            fill_buffers: 16,
            store_buffer: 112,
            prefetch: vec![
                Prefetcher::NextLine,
                Prefetcher::Stride,
                Prefetcher::Stream,
                Prefetcher::Adjacent,
            ],
            stream_distance: 20,
            line_cycles: 8,
            source: "assumed: as sapphire-rapids".to_string(),
        }
    }

    /// The first invalid parameter, if any.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.reorder_window == 0 || self.reorder_window > 65_536 {
            return Some("reorder_window must be 1 to 65536");
        }
        if self.fill_buffers == 0 || self.fill_buffers > Self::MOST_FILL_BUFFERS {
            return Some("fill_buffers must be 1 to 64");
        }
        if self.store_buffer > 65_536 {
            return Some("store_buffer must be at most 65536");
        }
        if self.prefetch.contains(&Prefetcher::Stream) && !(1..=63).contains(&self.stream_distance) {
            return Some("stream_distance must be 1 to 63 where \"stream\" prefetches");
        }
        None
    }

    /// The prefetchers as a bit mask: `enum hm_prefetchers`.
    pub fn prefetchers(&self) -> u32 {
        self.prefetch.iter().fold(0, |bits, prefetcher| bits | prefetcher.bit())
    }
}
