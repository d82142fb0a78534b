//! What a recording needs, from opening the source to the side files of a capture.

use super::choose::{self, Chosen};
use super::host;
use super::observer::{Attach, Observation, Observations, Observed};
use super::recorder::{Ending, Recorded};
use super::request::{Report, Request, SessionError, StatementChoice};
use super::server::{start_on, RestartableServer};
use crate::ghosts::{self, GhostError, GhostSource};
use crate::live::LiveSource;
use crate::pmu::attributes::Rate;
use crate::pmu::open::OpenError;
use crate::pmu::plan::{Attachment, SamplingPlan};
use crate::pmu::recorder::KernelSource;
use crate::privileges;
use crate::simulated::SimulatedSource;
use crate::softpmu::{self, Interleave, SimulationConfig, SoftPmuError, SoftwarePmu};
use crate::source::RecordSource;
use crate::target::{self, Target, TargetError};
use crate::usdt::StatementProbes;
use crate::workload::{Workload, WorkloadError};
use hardmeter_samples::machine::Machine;
use hardmeter_samples::model::{EventSource, Pid};
use hardmeter_samples::object_notes::ObjectNotes;
use hardmeter_samples::perf_data::CaptureHeader;
use hardmeter_samples::sidecar::{RequestedEvent, Sidecar, SidecarError};
use std::collections::BTreeSet;
use std::path::Path;

/// All that a recording needs, opened.
pub(super) struct Opened {
    pub(super) chosen: Chosen,
    pub(super) source: Box<dyn RecordSource>,
    pub(super) workload: Option<Workload>,
    /// The simulated machine.
    machine: Option<Machine>,
    pub(super) observation: Option<Observation>,
    /// Whether an observer was wanted.
    attached: bool,
    pub(super) header: CaptureHeader,
}

impl Opened {
    /// Opens the source, prepares the command, examines the server, and gives root up.
    pub(super) fn open(
        request: &Request,
        chosen: Chosen,
        server: &mut Option<&mut dyn RestartableServer>,
        attach: Option<Attach>,
        command_line: &[String],
    ) -> Result<Opened, SessionError> {
        let restarted =
            chosen.source == EventSource::Simulated && matches!(request.target, Target::Server(_));
        let user = privileges::invoking_user();
        let mut layouts = None;
        let (source, workload, machine) = match chosen.source {
            EventSource::Simulated => {
                let pmu = SoftwarePmu::prepare(simulation(request, &chosen)?)?;
                let workload = simulated_workload(request, &pmu, server, user.as_ref())?;
                let machine = pmu.machine().clone();
                (Box::new(SimulatedSource::new(pmu)) as Box<dyn RecordSource>, workload, Some(machine))
            }
            _ => {
                let workload = match request.command.is_empty() {
                    true => None,
                    false => Some(Workload::prepare(&request.command, user.as_ref())?),
                };
                let (source, machine) = by_kernel(request, &chosen, workload.as_ref(), &mut layouts)?;
                (source, workload, machine)
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
        Ok(Opened { chosen, source, workload, machine, observation, attached, header })
    }

    /// What the source says of a capture, for its side files.
    pub(super) fn describe(&self, request: &Request, recorded: &Recorded) -> Description {
        let source = &self.source;
        let mut sidecar = sidecar(request, &self.chosen, recorded);
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
        if let Some(machine) = &self.machine {
            sidecar.machine_name = Some(machine.name.clone());
            sidecar.machine = serde_json::to_value(machine).ok();
        }
        let unnamed = !self.attached && matches!(request.target, Target::Server(_));
        let delayed = request.delay.is_some();
        Description { sidecar, notes: source.notes(), source: self.chosen.source, unnamed, delayed }
    }
}

/// What a source says of a capture.
pub(super) struct Description {
    sidecar: Sidecar,
    notes: Vec<String>,
    source: EventSource,
    /// Whether the objects of a server have no names because the user wants it so.
    unnamed: bool,
    /// Whether measuring began later than the command.
    delayed: bool,
}

impl Description {
    /// Writes the side files of a capture.
    pub(super) fn store(
        self,
        output: &Path,
        recorded: Recorded,
        observations: Observations,
    ) -> Result<Report, SessionError> {
        let Description { mut sidecar, notes, source, unnamed, delayed } = self;
        let remarks = observations.remarks;
        let mut limits: Vec<String> = notes.iter().chain(&remarks).cloned().collect();
        if unnamed {
            limits.push(
                "the server's memory was not read, as requested: its objects have no names".to_string(),
            );
        }
        sidecar.notes.splice(0..0, limits);
        // With a delay they would include the time before the events were started.
        if !delayed {
            sidecar.workload.extend(observations.workload);
            sidecar.workload_databases = observations.workload_databases;
            sidecar.workload_limits = observations.workload_limits;
        }
        match sidecar.store(output).and_then(|()| store_objects(observations.notes.as_ref(), output)) {
            // The capture is complete without the side file; on a full disk it has priority.
            Err(SidecarError::Io { .. }) if recorded.ending == Ending::DiskFull => {}
            stored => stored?,
        }
        Ok(Report { recorded, source, notes, remarks })
    }
}

/// Opens a source of the kernel, with ghosts if they are wanted; also the layouts of the probes' events.
fn by_kernel(
    request: &Request,
    chosen: &Chosen,
    workload: Option<&Workload>,
    layouts: &mut Option<Vec<u8>>,
) -> Result<(Box<dyn RecordSource>, Option<Machine>), SessionError> {
    let plan = SamplingPlan {
        attachment: attachment(&request.target, workload)?,
        events: chosen.events.clone(),
        callchains: request.callchains,
        delayed: request.delay.is_some(),
        kind: chosen.source,
        cgroup: match &request.target {
            Target::Cgroup(cgroup) => Some(cgroup.clone()),
            _ => None,
        },
        wake_at_each_sample: chosen.live.as_ref().is_some_and(|(found, _)| found.with_readers),
    };
    let statements = match request.statements {
        StatementChoice::Probes => Some(StatementProbes::install(&processes(&plan.attachment))?),
        StatementChoice::Read | StatementChoice::None => None,
    };
    *layouts = statements.as_ref().and_then(|probes| probes.tracing_data().map(<[u8]>::to_vec));
    let refused = |error: OpenError| choose::fitting(error.into(), request, true);
    let live = match &chosen.live {
        Some((calibration, loads)) => {
            Some(LiveSource::open(&plan, statements, calibration.clone(), loads()).map_err(refused)?)
        }
        None if chosen.ghosts => None,
        None => return Ok((Box::new(KernelSource::open(&plan, statements).map_err(refused)?), None)),
    };
    Ok(match (chosen.ghosts, live) {
        (false, Some(live)) => (Box::new(live), None),
        (_, live) => {
            let (pmu, machine) = followed(request, chosen)?;
            (Box::new(GhostSource::open(pmu, live, &named(&request.target)?)?), Some(machine))
        }
    })
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
        Target::Cgroup(cgroup) => target::server_in(cgroup).map(Observed::Running),
        Target::System => None,
    }
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
        Target::Cgroup(cgroup) => {
            let processes = cgroup.processes().map_err(TargetError::from)?;
            // The others are helpers of the container.
            target::server_in(cgroup).map_or_else(|| processes.into_iter().collect(), |pid| vec![pid])
        }
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

/// The command of a simulated recording: on the PMU itself, or in addition to a server on it.
pub(super) fn simulated_workload(
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
        start_on(*server, pmu)?;
        return Ok(workload);
    }
    if let Some(user) = user {
        pmu.give_to(user.uid, user.gid)?;
    }
    Ok(Some(Workload::prepare_command(&pmu.command(&request.command)?, user)?))
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
pub(super) fn machine(request: &Request) -> Result<Machine, SoftPmuError> {
    let mut machine = softpmu::find_machine(&request.machine)?;
    if let Some(cores) = request.cores.filter(|cores| *cores != machine.cores) {
        machine
            .notes
            .push(format!("{cores} cores as asked for (--cores), where the machine has {}", machine.cores));
        machine.cores = cores;
    }
    Ok(machine)
}

/// The threads and CPUs of a target for the kernel's events.
pub(super) fn attachment(target: &Target, workload: Option<&Workload>) -> Result<Attachment, SessionError> {
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
            Attachment::Exec(Pid(workload.pid()), workload.process_name())
        }
        Target::Processes(processes) => all_threads(processes)?,
        Target::System => Attachment::System,
        Target::Cgroup(cgroup) => {
            let processes = cgroup.processes().map_err(TargetError::from)?.into_iter();
            let threads =
                |pid| target::threads(pid).unwrap_or_default().into_iter().map(move |tid| (pid, tid));
            Attachment::Threads(processes.flat_map(threads).collect())
        }
        Target::Server(folder) => all_threads(&[target::server_process(folder)?])?,
    })
}

/// The processes of an attachment that run already.
fn processes(attachment: &Attachment) -> Vec<Pid> {
    match attachment {
        Attachment::Exec(..) => Vec::new(),
        Attachment::Threads(threads) => {
            let processes: BTreeSet<Pid> = threads.iter().map(|(pid, _)| *pid).collect();
            processes.into_iter().collect()
        }
        Attachment::System => target::all_processes(),
    }
}

/// The side file without what the source and the observer know.
fn sidecar(request: &Request, chosen: &Chosen, recorded: &Recorded) -> Sidecar {
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
    sidecar.interval = request.interval;
    if let Some(delay) = request.delay {
        sidecar.notes.push(format!("measuring began {} s after the start", delay.as_secs_f64()));
    }
    sidecar
}
