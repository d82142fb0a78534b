//! What the user asks for, and why it may not be possible.

use super::choose::SourceChoice;
use super::recorder::{LoopError, Recorded};
use crate::cgroup::CgroupError;
use crate::events::EventRequest;
use crate::ghosts::GhostError;
use crate::live::{LiveError, MakeLoadFinder};
use crate::pmu::attributes::{Modes, Rate};
use crate::pmu::encoding::EncodingError;
use crate::pmu::open::OpenError;
use crate::softpmu::{Interleave, SoftPmuError};
use crate::target::{self, Target, TargetError};
use crate::usdt::UsdtError;
use crate::workload::WorkloadError;
use hardmeter_samples::model::EventSource;
use hardmeter_samples::sidecar::SidecarError;
use std::ffi::OsString;
use std::time::Duration;

/// The user's request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The events.
    pub events: Vec<EventRequest>,
    /// The rate of events that do not specify one.
    pub rate: Option<Rate>,
    /// The modes of events that do not specify any; `None`: all that are allowed.
    pub modes: Option<Modes>,
    /// The source.
    pub source: SourceChoice,
    /// The target.
    pub target: Target,
    /// The command to run; empty for none.
    pub command: Vec<OsString>,
    /// Start measuring so long after the command.
    pub delay: Option<Duration>,
    /// Record call chains.
    pub callchains: bool,
    /// The simulated machine: `this`, a name, or a file.
    pub machine: String,
    /// Classify simulated misses as cold, capacity or conflict.
    pub causes: bool,
    /// Simulate one cache line in this many.
    pub set_sampling: u32,
    /// Record the heap block of each access and where it was allocated: only for a command on the software PMU.
    pub heap: bool,
    /// Number of cores to simulate, independent of the machine.
    pub cores: Option<u32>,
    /// How often the threads of a simulated process take turns.
    pub interleave: Interleave,
    /// Whether a targeted server may be restarted, which the software PMU needs.
    pub may_restart_server: bool,
    /// How to determine the statements that a server's processes execute. The software PMU always reads statements.
    pub statements: StatementChoice,
    /// Whether the user named no event, so that the source may choose.
    pub default_events: bool,
    /// Whether the target's running processes are followed, and their misses simulated.
    pub ghosts: bool,
    /// Creates the finder of loads for timer samples; without it there is no source `live`.
    pub loads: Option<MakeLoadFinder>,
    /// A new capture begins after this time; see [`record_series`](super::record_series).
    pub interval: Option<Duration>,
}

/// How the kernel's sources determine the statement that a server's process executes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatementChoice {
    /// Statements are not recorded.
    #[default]
    None,
    /// Source `live` reads the process's memory at each sample; other sources do not support it.
    Read,
    /// By the server's own probes (see [`crate::usdt`]).
    Probes,
}

/// The reason why a recording could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// An event's name.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// An event could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The software PMU.
    #[error(transparent)]
    SoftPmu(#[from] SoftPmuError),
    /// Source `live` cannot be used.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The target cannot be followed.
    #[error(transparent)]
    Ghosts(#[from] GhostError),
    /// The probes that report statements.
    #[error("statements cannot be recorded: {0}")]
    Statements(#[from] UsdtError),
    /// The recording itself.
    #[error(transparent)]
    Loop(#[from] LoopError),
    /// The sidecar.
    #[error(transparent)]
    Sidecar(#[from] SidecarError),
    /// The options contradict each other.
    #[error("{cause}")]
    Contradiction {
        /// The contradiction.
        cause: String,
        /// The remedy.
        remedy: String,
    },
    /// Interrupted by the user.
    #[error("signal {0} came before the recording began; the server is as it was")]
    Interrupted(i32),
    /// Captures of a series could not be written, one after the other.
    #[error("{failures} captures in a row could not be written; the last because: {cause}")]
    SeriesFailed {
        /// How many.
        failures: u32,
        /// The last one's reason.
        cause: String,
    },
    /// Root could not be given up.
    #[error("cannot give up root: {0}")]
    Privileges(std::io::Error),
}

impl From<WorkloadError> for SessionError {
    fn from(error: WorkloadError) -> Self {
        SessionError::Loop(error.into())
    }
}

impl SessionError {
    /// The remedy; empty if the message contains it.
    pub fn remedy(&self) -> String {
        match self {
            SessionError::Encoding(error) => error.remedy(),
            SessionError::Open(error) => error.remedy.clone(),
            SessionError::Live(error) => error.remedy(),
            SessionError::Ghosts(error) => error.remedy().to_string(),
            SessionError::Target(error) => error.remedy().to_string(),
            SessionError::Statements(error) => error.remedy().to_string(),
            SessionError::Loop(LoopError::Workload(error)) => error.remedy().to_string(),
            SessionError::Contradiction { remedy, .. } => remedy.clone(),
            SessionError::SeriesFailed { .. } => {
                "free space where the captures go, or keep fewer of them (--keep)".to_string()
            }
            _ => String::new(),
        }
    }
}

/// A finished recording.
#[derive(Debug)]
pub struct Report {
    /// The result of the recording loop.
    pub recorded: Recorded,
    /// The source that was used.
    pub source: EventSource,
    /// Limits of the source for the user.
    pub notes: Vec<String>,
    /// Information about the profiled server that is missing, and why.
    pub remarks: Vec<String>,
}

/// Whether a request contradicts itself, or its target is missing.
pub(super) fn check(request: &Request) -> Result<(), SessionError> {
    let contradiction = |cause: &str, remedy: &str| {
        Err(SessionError::Contradiction { cause: cause.to_string(), remedy: remedy.to_string() })
    };
    if request.interval.is_some() && request.ghosts {
        return contradiction(
            "--interval does not work with --ghosts: the follower reports how its stretches ended, and what they stand \
             for, once at the end of a recording",
            "leave --ghosts out; or record one after the other: while hardmeter record --ghosts -o \
             pg-$(date -u +%Y%m%dT%H%M%S).data --server DIR -- sleep 600; do :; done",
        );
    }
    if request.events.is_empty() {
        return contradiction("no event is named", "name some with -e; `hardmeter events` lists them");
    }
    if request.cores.is_some_and(|cores| !(1..=64).contains(&cores)) {
        return contradiction(
            "a machine is simulated with 1 to 64 cores",
            "give --cores a number from 1 to 64",
        );
    }
    if request.command.is_empty() && request.target == Target::Command {
        return contradiction(
            "there is nothing to profile",
            "give a command after `--`, or a process with -p, a server with --server, or -a for everything",
        );
    }
    // Before any announcement: report a missing target first.
    match &request.target {
        Target::Processes(processes) => {
            processes.iter().try_for_each(|pid| target::threads(*pid).map(drop))?
        }
        // A server that will be restarted anyway need not run now.
        Target::Server(_)
            if request.may_restart_server
                && matches!(request.source, SourceChoice::Auto | SourceChoice::Simulated) => {}
        Target::Server(folder) => drop(target::server_process(folder)?),
        Target::Cgroup(cgroup) => {
            if cgroup.processes().map_err(TargetError::from)?.is_empty() {
                return Err(TargetError::from(CgroupError::Empty(cgroup.folder().to_path_buf())).into());
            }
        }
        Target::Command | Target::System => {}
    }
    Ok(())
}

#[cfg(test)]
impl Request {
    /// A request for a command, which tests adapt.
    pub(crate) fn of_tests() -> Request {
        Request {
            events: vec![EventRequest::named("l1d-miss")],
            rate: None,
            modes: None,
            source: SourceChoice::Auto,
            target: Target::Command,
            command: vec!["true".into()],
            delay: None,
            callchains: false,
            machine: "this".into(),
            causes: false,
            set_sampling: 1,
            heap: false,
            cores: None,
            interleave: Default::default(),
            may_restart_server: false,
            statements: StatementChoice::None,
            default_events: false,
            loads: None,
            ghosts: false,
            interval: None,
        }
    }
}
