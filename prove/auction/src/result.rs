//! The result of a run as a file: the input of reports and comparisons.

use crate::drive::{Arrivals, Driven, Mode};
use crate::mix::Mix;
use crate::record::{Kept, Times};
use crate::scenario::{PaperTimes, Scenario, Totals};
use crate::site::SiteState;
use crate::usage::{Counted, CpuSeconds};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format's name and version.
pub const FORMAT: &str = "hardmeter-auction";
const VERSION: u32 = 1;

/// The load of the site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Visited {
    /// A mix, by an open loop.
    OpenMix { mix: Mix, rate: f64, arrivals: Arrivals, connections: usize, visitors: usize },
    /// A mix, by this number of clients that wait for each answer.
    ClosedMix { mix: Mix, clients: usize },
    /// A scenario of the paper, at a scale of its clients.
    Scenario { scenario: Scenario, clients: usize, scale: f64 },
}

/// Times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// One interaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct InteractionResult {
    pub name: String,
    pub requests: u64,
    pub errors: u64,
    pub bytes: u64,
    pub latency_ms: Latency,
}

/// Processor time of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// By part of the site, in seconds.
    pub seconds: CpuSeconds,
    /// CPU time of the load generator, in seconds.
    pub generator_seconds: f64,
    /// CPU time of the servers (Apache, PHP, MariaDB) per request, in microseconds.
    pub servers_us_per_request: f64,
    /// Of Apache, and PHP as its module.
    pub apache_us_per_request: f64,
    /// Of PHP-FPM.
    pub fpm_us_per_request: f64,
    /// Of MariaDB.
    pub mariadb_us_per_request: f64,
    /// CPU time of the analyzer per request, in microseconds.
    pub analyzer_us_per_request: f64,
    /// CPU time of the load generator per request, in microseconds.
    pub generator_us_per_request: f64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`FORMAT`].
    pub format: String,
    /// Its version.
    pub version: u32,
    /// The load.
    pub visited: Visited,
    /// The site.
    pub site: SiteState,
    /// Seed of visitors and arrivals.
    pub seed: u64,
    /// From the first measured request to the last answer. For a scenario: the paper's response time.
    pub seconds: f64,
    /// Requests that count.
    pub requests: u64,
    /// Failed requests; refusals (a late bid) are not counted.
    pub errors: u64,
    /// Failures and refusals by kind.
    pub faults: BTreeMap<String, u64>,
    /// Times from when a request was due to its last byte.
    pub latency_ms: Latency,
    /// The same from when it was sent: what a closed loop would have reported.
    pub from_sending_ms: Latency,
    /// By interaction, in the order of their definition.
    pub interactions: Vec<InteractionResult>,
    /// Totals, as in the paper's table 6.
    pub totals: Totals,
    /// Statements that changed rows.
    pub writes: u64,
    /// The paper's totals, of a scenario.
    pub paper: Option<Totals>,
    /// The paper's times, of a scenario.
    pub paper_times: Option<PaperTimes>,
    /// Processor time.
    pub cpu: Cpu,
    /// The most requests that waited in the generator for a connection.
    pub longest_queue: usize,
    /// All times: the longest of a bucket in microseconds, and the count.
    pub histogram_us: Vec<(u64, u64)>,
}

impl RunResult {
    /// Combines the results of a run.
    pub fn new(
        visited: Visited,
        site: &SiteState,
        seed: u64,
        mode: &Mode,
        driven: &Driven,
        counted: Counted,
        cpu: CpuSeconds,
    ) -> RunResult {
        let record = &driven.record;
        let scenario = match &visited {
            Visited::Scenario { scenario, .. } => Some(*scenario),
            _ => None,
        };
        let clients = match mode {
            Mode::Closed { clients } => *clients as u64,
            Mode::Open { connections, .. } => *connections as u64,
        };
        let each = 1e6 / driven.answers.max(1) as f64;
        RunResult {
            format: FORMAT.into(),
            version: VERSION,
            visited,
            site: site.clone(),
            seed,
            seconds: driven.lasted.as_secs_f64(),
            requests: record.requests(),
            errors: record.errors(),
            faults: record.faults.iter().map(|(fault, &count)| (fault.name(), count)).collect(),
            latency_ms: Latency::of(&record.times),
            from_sending_ms: Latency::of(&record.from_sending),
            interactions: record
                .interactions
                .iter()
                .map(|(one, kept)| interaction(one.name(), kept))
                .collect(),
            totals: Totals {
                clients,
                files: record.requests() - record.errors(),
                statements: counted.statements,
                rows: counted.rows,
                bytes: record.bytes(),
            },
            writes: counted.writes,
            paper: scenario.map(Scenario::paper),
            paper_times: scenario.map(Scenario::paper_times),
            cpu: Cpu {
                seconds: cpu,
                generator_seconds: driven.own_cpu.as_secs_f64(),
                servers_us_per_request: cpu.servers() * each,
                apache_us_per_request: cpu.apache * each,
                fpm_us_per_request: cpu.fpm * each,
                mariadb_us_per_request: cpu.mariadb * each,
                analyzer_us_per_request: cpu.analyzer * each,
                generator_us_per_request: driven.own_cpu.as_secs_f64() * each,
            },
            longest_queue: driven.longest_queue,
            histogram_us: record.times.buckets(),
        }
    }
}

fn interaction(name: &str, kept: &Kept) -> InteractionResult {
    InteractionResult {
        name: name.into(),
        requests: kept.times.count(),
        errors: kept.faults,
        bytes: kept.bytes,
        latency_ms: Latency::of(&kept.times),
    }
}

impl Latency {
    /// The latencies of a histogram.
    pub fn of(times: &Times) -> Latency {
        let at = |share| times.quantile(share) as f64 / 1e3;
        Latency {
            mean: times.mean() / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: times.max() as f64 / 1e3,
        }
    }
}
