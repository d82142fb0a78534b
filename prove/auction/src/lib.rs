//! An auction site modelled on RUBiS, and its load: PHP pages on Apache, tables in MariaDB, mixes for browsing and bidding, the
//! paper's two scenarios, and a load generator with an open loop.
//!
//! The load of `place`: a web server and a database server on one machine, with requests of very different kinds.
//!
//! ```text
//!  visit, scenario ── requests ──> drive ── HTTP ──> Apache + PHP (site/) ── SQL ──> MariaDB (schema, population, load)
//!       ^                            │
//!       └────── pages' links ────────┴──> record ──> result (JSON), with the CPU time of each server (usage)
//! ```
//!
//! Out of scope: placement (`place/`), making servers (`ground/servers/`).
//!
//! ```
//! use hardmeter_auction::{stationary, Mix};
//!
//! let writes = |mix| stationary(mix).iter().filter(|(page, _)| page.writes()).map(|(_, share)| share).sum::<f64>();
//! assert_eq!(writes(Mix::Browsing), 0.0);
//! assert!((0.10..0.20).contains(&writes(Mix::Bidding)));
//! ```

mod analyzer;
mod connection;
mod drive;
mod error;
mod http;
mod interaction;
mod links;
mod load;
mod mix;
mod pages;
mod population;
mod random;
mod record;
mod report;
mod result;
mod run;
mod scenario;
mod schema;
mod site;
mod split;
mod usage;
mod visit;
mod words;

pub use connection::allow_connections;
pub use drive::{drive, Arrivals, Driven, Mode, Plan, Watcher};
pub use error::AuctionError;
pub use interaction::Interaction;
pub use load::{connect, load};
pub use mix::{stationary, Mix};
pub use population::Population;
pub use record::{Fault, Kept, Record, Times};
pub use report::report;
pub use result::{Cpu, InteractionResult, Latency, RunResult, Visited};
pub use run::{run, Order, Told};
pub use scenario::{Clients, PaperTimes, Scenario, Totals};
pub use schema::{Table, DATABASE};
pub use site::{Site, SiteSetup, SiteState};
pub use split::{Split, SplitModules};
pub use usage::{process_cpu, Counted, CpuSeconds};
pub use visit::{Visitors, Visits};
