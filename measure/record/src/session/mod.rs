//! A recording from beginning to end: source, target, file.
//!
//! ```text
//! request --choose--> source ------\
//!    \--> workload (held back) -----+--> recorder loop --> hardmeter.data, hardmeter.data.json
//!          privileges dropped here -/         \--> observer --> hardmeter.data.objects
//! ```

mod choose;
mod host;
mod images;
mod observer;
mod recorder;
mod server;
mod signals;
mod stat;
mod tally;

pub(crate) use choose::probe_encoding;
pub use choose::{default_rate, Chosen, SourceChoice};
pub use observer::{Attach, Attached, Observations, ObservedAccess, SampleObserver};
pub use recorder::{Ending, LoopError, Progress, Recorded};
pub use server::{RestartableServer, ServerTrouble, Wrapper};
pub use stat::{stat, EventStatistic, StatReport};
pub use tally::Tally;

use crate::events::EventRequest;
use crate::ghosts::{self, GhostError, GhostSource};
use crate::live::{LiveError, LiveSource, MakeLoadFinder};
use crate::pmu::attributes::{Modes, Rate};
use crate::pmu::encoding::EncodingError;
use crate::pmu::open::OpenError;
use crate::pmu::plan::{Attachment, SamplingPlan};
use crate::pmu::recorder::KernelSource;
use crate::privileges;
use crate::simulated::SimulatedSource;
use crate::softpmu::{self, Interleave, SimulationConfig, SoftPmuError, SoftwarePmu};
use crate::source::RecordSource;
use crate::target::{self, Target, TargetError};
use crate::usdt::{StatementProbes, UsdtError};
use crate::workload::{Workload, WorkloadError};
use hardmeter_samples::machine::Machine;
use hardmeter_samples::model::{EventSource, Pid};
use hardmeter_samples::object_notes::ObjectNotes;
use hardmeter_samples::perf_data::CaptureHeader;
use hardmeter_samples::sidecar::{RequestedEvent, Sidecar, SidecarError};
use observer::{Observation, Observed};
use signals::Caught;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
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
    let user = privileges::invoking_user();
    let mut layouts = None;
    let (mut source, mut workload, machine): (Box<dyn RecordSource>, Option<Workload>, _) = 'opened: {
        match chosen.source {
            EventSource::Simulated => {
                let pmu = SoftwarePmu::prepare(simulation(request, &chosen)?)?;
                let workload = simulated_workload(request, &pmu, &mut server, user.as_ref())?;
                let machine = pmu.machine().clone();
                (Box::new(SimulatedSource::new(pmu)), workload, Some(machine))
            }
            kind => {
                let workload = match request.command.is_empty() {
                    true => None,
                    false => Some(Workload::prepare(&request.command, user.as_ref())?),
                };
                let plan = SamplingPlan {
                    attachment: attachment(&request.target, workload.as_ref())?,
                    events: chosen.events.clone(),
                    callchains: request.callchains,
                    delayed: request.delay.is_some(),
                    kind,
                    wake_at_each_sample: chosen.live.as_ref().is_some_and(|(found, _)| found.with_readers),
                };
                let statements = match request.statements {
                    StatementChoice::Probes => Some(StatementProbes::install(&processes(&plan.attachment))?),
                    StatementChoice::Read | StatementChoice::None => None,
                };
                layouts = statements.as_ref().and_then(|probes| probes.tracing_data().map(<[u8]>::to_vec));
                let refused = |error: OpenError| choose::fitting(error.into(), request, true);
                let live = match &chosen.live {
                    Some((calibration, loads)) => Some(
                        LiveSource::open(&plan, statements, calibration.clone(), loads()).map_err(refused)?,
                    ),
                    None if chosen.ghosts => None,
                    None => {
                        let kernel = KernelSource::open(&plan, statements).map_err(refused)?;
                        break 'opened (Box::new(kernel), workload, None);
                    }
                };
                match (chosen.ghosts, live) {
                    (false, Some(live)) => (Box::new(live), workload, None),
                    (_, live) => {
                        let (pmu, machine) = followed(request, &chosen)?;
                        let source = GhostSource::open(pmu, live, &named(&request.target)?)?;
                        (Box::new(source), workload, Some(machine))
                    }
                }
            }
        }
    };
    // Before rights are given up: reading the server's memory may need them.
    let observed = observed(&request.target, workload.as_ref());
    let attached = attach.is_some();
    let mut observation =
        attach.zip(observed).map(|(attach, who)| Observation::begin(who, attach, &source.attributes()));
    // A simulated program waits for its recorder; a real one must not.
    if let Some(observation) = observation.as_mut().filter(|_| source.kind() == EventSource::Simulated) {
        observation.drop_nothing();
    }
    if let (Some(user), false) = (&user, restarted) {
        user.drop_privileges().map_err(SessionError::Privileges)?;
        if let Some(observation) = &observation {
            observation.rights_dropped();
        }
    }
    let mut header = CaptureHeader { tracing_data: layouts, ..host::header(command_line) };
    // The header of a live recording describes the processor that it ran on.
    if let Some(machine) = machine.as_ref().filter(|_| chosen.source == EventSource::Simulated) {
        header = host::simulated(header, machine);
    }
    let recorded = recorder::record(
        source.as_mut(),
        workload.as_mut(),
        output,
        &header,
        request.delay,
        observation.as_mut(),
        progress,
    );
    let observations = observation.map(Observation::finish).unwrap_or_default();
    // The server is restored however the recording ended; if that fails, the capture is still complete.
    let restored = match server {
        Some(server) if restarted => server.restore(),
        _ => Ok(()),
    };
    let recorded = recorded?;
    let (notes, remarks) = (source.notes(), observations.remarks);
    let mut limits: Vec<String> = notes.iter().chain(&remarks).cloned().collect();
    if !attached && matches!(request.target, Target::Server(_)) {
        limits.push("the server's memory was not read, as requested: its objects have no names".to_string());
    }
    let mut sidecar = sidecar(request, &chosen, &recorded, &limits);
    sidecar.simulated_cycles = source.simulated_cycles();
    sidecar.one_line_in = source.one_line_in();
    sidecar.latency = source.latency_kind();
    sidecar.hidden_latency = source.hidden_latency();
    sidecar.statements = source.statements();
    sidecar.reuse = source.reuse();
    sidecar.page_walks = source.page_walks();
    sidecar.stall = source.stall();
    sidecar.times = source.times();
    sidecar.ghosts = source.ghosts();
    // With a delay they would include the time before the events were started.
    if request.delay.is_none() {
        sidecar.workload.extend(observations.workload);
        sidecar.workload_databases = observations.workload_databases;
        sidecar.workload_limits = observations.workload_limits;
    }
    if let Some(machine) = machine {
        sidecar.machine_name = Some(machine.name.clone());
        sidecar.machine = serde_json::to_value(&machine).ok();
    }
    match sidecar.store(output).and_then(|()| store_objects(observations.notes.as_ref(), output)) {
        // The capture is complete without the side file; on a full disk it has priority.
        Err(SidecarError::Io { .. }) if recorded.ending == Ending::DiskFull => {}
        stored => stored?,
    }
    restored?;
    Ok(Report { recorded, source: chosen.source, notes, remarks })
}

/// Writes the observations of the server's objects as a side file, or removes the side file of an earlier
/// recording with the same name.
fn store_objects(notes: Option<&ObjectNotes>, output: &Path) -> Result<(), SidecarError> {
    let path = ObjectNotes::path_for(output);
    match notes {
        Some(notes) => notes.store(output),
        None => match std::fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(SidecarError::Io { path, source })
            }
            _ => Ok(()),
        },
    }
}

/// The process to observe: the server's first, or one that may become a server.
fn observed(target: &Target, workload: Option<&Workload>) -> Option<Observed> {
    match target {
        Target::Command => workload.map(|workload| Observed::Command(Pid(workload.pid()))),
        Target::Processes(processes) => processes.first().copied().map(Observed::Running),
        Target::Server(folder) => target::server_process(folder).ok().map(Observed::Running),
        Target::System => None,
    }
}

/// The command of a simulated recording: on the PMU itself, or in addition to a server on it.
fn simulated_workload(
    request: &Request,
    pmu: &SoftwarePmu,
    server: &mut Option<&mut dyn RestartableServer>,
    user: Option<&privileges::Identity>,
) -> Result<Option<Workload>, SessionError> {
    if let (Target::Server(_), Some(server)) = (&request.target, server) {
        let workload = match request.command.is_empty() {
            true => None,
            false => Some(Workload::prepare(&request.command, user)?),
        };
        server::start_on(*server, pmu)?;
        return Ok(workload);
    }
    if let Some(user) = user {
        pmu.give_to(user.uid, user.gid)?;
    }
    Ok(Some(Workload::prepare_command(&pmu.command(&request.command)?, user)?))
}

/// The software PMU for ghosts, and the machine that it simulates: with cores for processes followed at once and for
/// each kind of helper, however many the machine has.
fn followed(request: &Request, chosen: &Chosen) -> Result<(SoftwarePmu, Machine), SessionError> {
    let config = simulation(request, chosen)?;
    let machine = config.machine.clone();
    let cores = Machine { cores: ghosts::simulated_cores(), ..machine.clone() };
    let pmu = SoftwarePmu::for_followers(SimulationConfig {
        machine: cores,
        callchain_depth: 0,
        interleave: Interleave::Coarse, // a ghost is one thread
        ..config
    })?;
    Ok((pmu, machine))
}

/// The processes that a target names; they must have one thread each.
fn named(target: &Target) -> Result<Vec<Pid>, SessionError> {
    let processes = match target {
        Target::Processes(processes) => processes.clone(),
        Target::Server(folder) => vec![target::server_process(folder)?],
        Target::Command | Target::System => Vec::new(),
    };
    for pid in &processes {
        let threads = target::threads(*pid)?.len();
        if threads > 1 {
            return Err(GhostError::Threads { pid: *pid, threads }.into());
        }
    }
    Ok(processes)
}

/// The configuration of the software PMU for a request.
fn simulation(request: &Request, chosen: &Chosen) -> Result<SimulationConfig, SoftPmuError> {
    Ok(SimulationConfig {
        machine: machine(request)?,
        events: chosen.simulated.clone(),
        callchain_depth: if request.callchains { 64 } else { 0 },
        causes: request.causes,
        heap: request.heap,
        set_sampling: request.set_sampling,
        branches: false,
        // A server starts fast; the recorder starts the simulation when everything is ready.
        measure_from_start: request.delay.is_none() && request.target == Target::Command,
        interleave: request.interleave,
    })
}

/// The machine to simulate, with the requested number of cores.
fn machine(request: &Request) -> Result<Machine, SoftPmuError> {
    let mut machine = softpmu::find_machine(&request.machine)?;
    if let Some(cores) = request.cores.filter(|cores| *cores != machine.cores) {
        machine
            .notes
            .push(format!("{cores} cores as asked for (--cores), where the machine has {}", machine.cores));
        machine.cores = cores;
    }
    Ok(machine)
}

fn check(request: &Request) -> Result<(), SessionError> {
    let contradiction = |cause: &str, remedy: &str| {
        Err(SessionError::Contradiction { cause: cause.to_string(), remedy: remedy.to_string() })
    };
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
        Target::Command | Target::System => {}
    }
    Ok(())
}

/// The threads and CPUs of a target for the kernel's events.
fn attachment(target: &Target, workload: Option<&Workload>) -> Result<Attachment, SessionError> {
    // Children may end at any time; the processes named by the user must exist.
    let all_threads = |named: &[Pid]| -> Result<Attachment, TargetError> {
        let mut all = Vec::new();
        for pid in target::families(named.iter().copied()) {
            match target::threads(pid) {
                Ok(threads) => all.extend(threads.into_iter().map(|tid| (pid, tid))),
                Err(error) if named.contains(&pid) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(Attachment::Threads(all))
    };
    Ok(match target {
        Target::Command => {
            let workload = workload.ok_or(WorkloadError::Empty)?;
            Attachment::Exec(hardmeter_samples::model::Pid(workload.pid()))
        }
        Target::Processes(processes) => all_threads(processes)?,
        Target::System => Attachment::System,
        Target::Server(folder) => all_threads(&[target::server_process(folder)?])?,
    })
}

/// The processes of an attachment that run already.
fn processes(attachment: &Attachment) -> Vec<Pid> {
    match attachment {
        Attachment::Exec(_) => Vec::new(),
        Attachment::Threads(threads) => {
            let processes: BTreeSet<Pid> = threads.iter().map(|(pid, _)| *pid).collect();
            processes.into_iter().collect()
        }
        Attachment::System => target::all_processes(),
    }
}

fn sidecar(request: &Request, chosen: &Chosen, recorded: &Recorded, notes: &[String]) -> Sidecar {
    let mut sidecar = Sidecar::new(chosen.source);
    sidecar.events = chosen
        .events
        .iter()
        .map(|event| (event.request.name.clone(), event.rate))
        .chain(
            chosen.simulated.iter().map(|(event, period)| (event.name().to_string(), Rate::Period(*period))),
        )
        .map(|(name, rate)| match rate {
            Rate::Period(period) => RequestedEvent { name, period: Some(period), frequency: None },
            Rate::Frequency(hertz) => RequestedEvent { name, period: None, frequency: Some(hertz) },
        })
        .collect();
    for count in &recorded.counts {
        if let Some(value) = count.reading.scaled() {
            sidecar.counts.insert(count.name.clone(), value);
        }
    }
    sidecar.instructions = recorded
        .counts
        .iter()
        .find(|count| count.name.split(':').next() == Some("instructions"))
        .and_then(|count| count.reading.scaled());
    sidecar.wall_start = Some(recorded.started);
    sidecar.wall_duration = Some(recorded.duration);
    sidecar.lost = recorded.tally.lost_records + recorded.tally.lost_samples;
    sidecar.throttled = recorded.tally.throttled;
    sidecar.notes = notes.to_vec();
    if let Some(delay) = request.delay {
        sidecar.notes.push(format!("measuring began {} s after the start", delay.as_secs_f64()));
    }
    sidecar
}
