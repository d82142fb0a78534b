//! `hardmeter split analyze`.

use super::folder::Folder;
use super::interruption;
use crate::commands::{CommandError, Outcome};
use crate::terminal::print;
use hardmeter_evidence::envelope::envelope;
use hardmeter_split::daemon::{self, DaemonError, Options, Stop};
use hardmeter_split::policy::{self, Admission};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Run the analyzer: read the servers' measurements, decide, and check whether it helps. Until interrupted.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Policies: observe (report only, the default), soft (servers with class queues route requests), lazy (threads move \
                        when the class changes), paper (affinity at each start, restored at each end), time (time slices as \
                        long as requests take, long kinds in the background; Linux 6.12 and newer), admit (a limited number of long \
                        requests at once, the others wait for their turn; PostgreSQL).\n\n\
                        Examples:\n  hardmeter split analyze --policy soft\n  hardmeter split analyze --policy time --admit 2\n  hardmeter split analyze --once > state.json"
)]
pub(super) struct Analyze {
    #[command(flatten)]
    folder: Folder,
    /// The policy of decisions.
    #[arg(long, value_name = "POLICY", default_value = "observe", value_parser = clap::builder::PossibleValuesParser::new(policy::NAMES))]
    policy: String,
    /// How many long requests run at once in each PostgreSQL, with policy time or admit: a number, or `auto`, one for
    /// each processor, which is the default of admit. They wait at most as long as `split.admission_timeout` says.
    #[arg(long, value_name = "N", value_parser = places)]
    admit: Option<Admission>,
    /// Polling interval: 1s, 500ms [default: as the servers request, else 1s].
    #[arg(long, value_name = "TIME", value_parser = time)]
    interval: Option<Duration>,
    /// Poll for one interval, print the state as JSON, and end. Finds no sets for the probe.
    #[arg(long, conflicts_with = "seconds")]
    once: bool,
    /// End after this many seconds.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Place without checking whether it helps.
    #[arg(long)]
    no_guard: bool,
    /// Do not look for the occupancy probe's sets.
    #[arg(long)]
    no_probe: bool,
    /// Record every section into this file, for `hardmeter split simulate`.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How long to keep the segment of a server that has ended.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time, hide = true)]
    grace: Duration,
    /// Decides the order of the guard's epochs, and where the probe looks.
    #[arg(long, value_name = "N", default_value_t = 1, hide = true)]
    seed: u64,
}

impl Analyze {
    pub(super) fn run(&self) -> Result<Outcome, CommandError> {
        // Drop privileges before other threads start, because each thread has its own.
        daemon::drop_rights().map_err(|error| {
            CommandError::new(format!("rights that are not needed cannot be given up: {error}"), "")
        })?;
        let stop = Arc::new(Stop::default());
        let told = Arc::clone(&stop);
        interruption::watch(move || told.set());
        let once = self.interval.unwrap_or(Duration::from_secs(1));
        let options = Options {
            directory: self.folder.path(),
            policy: self.policy.clone(),
            admission: self.admit,
            interval: self.interval,
            limit: if self.once { Some(once) } else { self.seconds.map(Duration::from_secs) },
            guard: !self.no_guard,
            probe: !self.no_probe && !self.once,
            trace: self.trace.clone(),
            grace: self.grace,
            seed: self.seed,
        };
        let state = daemon::run(&options, &stop)?;
        if self.once {
            let state = envelope("split-state", 1, serde_json::json!(state));
            print(&format!("{state:#}\n"))?;
        }
        Ok(Outcome::Complete)
    }
}

impl From<DaemonError> for CommandError {
    fn from(error: DaemonError) -> CommandError {
        CommandError::new(&error, error.remedy())
    }
}

/// "2", "auto".
fn places(text: &str) -> Result<Admission, String> {
    if text == "auto" {
        return Ok(Admission::Processors);
    }
    text.parse().map(Admission::Places).map_err(|_| "a number from 1 on, or auto".into())
}

/// "1s", "250ms", "1.5s".
fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        _ => return Err("a time such as 1s or 250ms".into()),
    };
    let seconds = number.parse::<f64>().map_err(|_| "a time such as 1s or 250ms".to_string())? * unit;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_has_a_number_or_is_automatic() {
        assert_eq!(places("auto"), Ok(Admission::Processors));
        assert_eq!(places("3"), Ok(Admission::Places(3.try_into().unwrap())));
        for wrong in ["0", "-1", "many", ""] {
            assert!(places(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        for wrong in ["1", "s", "-1s", "1m", "NaNs"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
