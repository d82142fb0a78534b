//! `hardmeter split metrics`.

use super::folder::{state, Folder};
use super::interruption;
use crate::commands::{CommandError, Outcome};
use crate::terminal;
use hardmeter_split::segment::monotonic_ns;
use hardmeter_split::view::metrics::text;
use hardmeter_split::view::serve::Listener;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Print the analyzer's state as OpenMetrics, or serve it over HTTP on loopback.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Served are /metrics (OpenMetrics), / (the page of `split report`) and /state.json, to this machine only.\n\n\
                        Example:\n  hardmeter split metrics\n  hardmeter split metrics --listen 127.0.0.1:9464"
)]
pub(super) struct Metrics {
    #[command(flatten)]
    folder: Folder,
    /// Serve at this loopback address until interrupted; port 0 selects a free one.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

impl Metrics {
    pub(super) fn run(&self) -> Result<Outcome, CommandError> {
        let Some(address) = self.listen else {
            terminal::print(&text(&state(&self.folder)?, monotonic_ns()))?;
            return Ok(Outcome::Complete);
        };
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        interruption::watch(move || told.store(true, Ordering::Relaxed));
        let listener = Listener::open(address).map_err(|error| {
            CommandError::new(error, "listen on 127.0.0.1 or [::1], with a port that is free")
        })?;
        let address = listener.address().unwrap_or(address);
        eprintln!("hardmeter: serving http://{address}/ and http://{address}/metrics");
        let directory = self.folder.path();
        while !stop.load(Ordering::Relaxed) {
            listener.serve_one(&directory, Duration::from_millis(250), monotonic_ns);
        }
        Ok(Outcome::Complete)
    }
}
