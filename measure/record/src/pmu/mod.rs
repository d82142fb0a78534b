//! The processor's own performance counters, through `perf_event_open`.
//!
//! ```text
//! name --encoding--> type, config --attributes--> perf_event_attr --open--> descriptors, rings --recorder--> records
//!         |   |
//!      sysfs pfm
//! ```

pub mod attributes;
pub mod build_id;
mod encoded;
pub mod encoding;
pub mod filter;
pub mod latecomers;
pub mod members;
pub mod open;
pub mod pfm;
mod places;
pub mod plan;
pub mod recorder;
pub mod synthesize;
pub mod syscall;
pub mod sysfs;
