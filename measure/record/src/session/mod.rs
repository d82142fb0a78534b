//! A recording from beginning to end: source, target, file.
//!
//! ```text
//! request --choose--> source ------\
//!    \--> workload (held back) -----+--> recorder loop --> hardmeter.data, hardmeter.data.json
//!          privileges dropped here -/         \--> observer --> hardmeter.data.objects
//! ```

mod captures;
mod choose;
mod host;
mod images;
mod observer;
mod opened;
mod population;
mod recorder;
mod request;
mod series;
mod server;
mod signals;
mod stat;
mod tally;

pub(crate) use choose::probe_encoding;
pub use choose::{default_rate, Chosen, SourceChoice};
pub use observer::{Attach, Attached, Observations, ObservedAccess, SampleObserver};
pub use recorder::{Ending, LoopError, Progress, Recorded};
pub use request::{Report, Request, SessionError, StatementChoice};
pub use series::{record_series, CaptureEnd, Series, SeriesReport};
pub use server::{RestartableServer, ServerTrouble, Wrapper};
pub use stat::{stat, EventStatistic, StatReport};
pub use tally::Tally;

use crate::target::Target;
use hardmeter_samples::model::EventSource;
use observer::Observation;
use opened::Opened;
use recorder::{Part, Stage, When};
use request::check;
use signals::{Caught, Signals};
use std::path::Path;

/// Records into `output`. `announce` receives the chosen source and the reason before anything runs.
///
/// A server that is to run on the software PMU is restarted by `server`, and restored afterwards. The observations
/// of `attach` are written into a side file of the capture.
///
/// # Errors
///
/// [`SessionError`] if the request contradicts itself, no source can serve it, or the recording cannot be
/// completed.
pub fn record(
    request: &Request,
    mut server: Option<&mut dyn RestartableServer>,
    attach: Option<Attach>,
    output: &Path,
    command_line: &[String],
    announce: &mut dyn FnMut(&Chosen),
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, SessionError> {
    check(request)?;
    let chosen = choose::choose(request)?;
    if request.heap && (chosen.source != EventSource::Simulated || request.target != Target::Command) {
        return Err(SessionError::Contradiction {
            cause: "heap blocks are recorded only for a command on the software PMU".to_string(),
            remedy: "add --source simulated and give the program as the command, or leave --heap out"
                .to_string(),
        });
    }
    announce(&chosen);
    let restarted = chosen.source == EventSource::Simulated && matches!(request.target, Target::Server(_));
    let _caught = restarted.then(Caught::install);
    let mut opened = Opened::open(request, chosen, &mut server, attach, command_line)?;
    let recorded = Signals::block().map_err(LoopError::from).and_then(|signals| {
        let preamble = opened.source.preamble();
        let mut stage = Stage {
            source: opened.source.as_mut(),
            workload: opened.workload.as_mut(),
            signals: &signals,
            observation: opened.observation.as_mut(),
            population: None,
            progress,
            begun: false,
        };
        let (header, delay) = (&opened.header, request.delay);
        recorder::record(
            &mut stage,
            Part { output, header, preamble, when: When { delay, goes_on: false, until: None } },
        )
    });
    let observations = opened.observation.take().map(Observation::finish).unwrap_or_default();
    // The server is restored however the recording ended; if that fails, the capture is still complete.
    let restored = match server {
        Some(server) if restarted => server.restore(),
        _ => Ok(()),
    };
    let unfinished = recorded?;
    let description = opened.describe(request, &unfinished.recorded);
    let report = description.store(output, unfinished.finish()?, observations)?;
    restored?;
    Ok(report)
}
