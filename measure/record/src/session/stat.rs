//! Counts without samples: no rings, no file, one number per event.

use super::choose::{self, Chosen};
use super::opened::{attachment, machine, simulated_workload};
use super::recorder::{Ending, LoopError};
use super::request::{check, Request, SessionError};
use super::server::RestartableServer;
use super::signals::{self, Caught, Signals};
use crate::pmu::attributes::{self, Common, Concession, KernelFeatures, Modes};
use crate::pmu::open::{self, OpenError};
use crate::pmu::plan::{Attachment, PlannedEvent};
use crate::pmu::syscall::{self, Place, Reading};
use crate::pmu::sysfs;
use crate::privileges;
use crate::softpmu::{self, SimulationConfig, SoftwarePmu};
use crate::target::Target;
use crate::workload::Workload;
use hardmeter_samples::model::{EventSource, MemoryEvent};
use serde::Serialize;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// One event's count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventStatistic {
    /// The event, with the modes that were counted.
    pub name: String,
    /// Number of occurrences, scaled to the whole time; `None` if it never had a counter.
    pub count: Option<u64>,
    /// Number of counted occurrences.
    pub counted: u64,
    /// The share of the time it had a counter, 0 to 1.
    pub running_share: f64,
    /// Whether `count` is extrapolated from a share of the time or of the cache lines.
    pub scaled: bool,
    /// One cache line in this number was simulated; 1: all.
    pub one_line_in: u32,
    /// The concessions made to open it.
    pub concessions: Vec<Concession>,
}

/// All counts of a run.
#[derive(Debug)]
pub struct StatReport {
    /// The source of the counts.
    pub source: EventSource,
    /// One per event.
    pub events: Vec<EventStatistic>,
    /// Its duration.
    pub duration: Duration,
    /// The reason for its end.
    pub ending: Ending,
    /// The command's exit status, if there was a command and it has ended.
    pub status: Option<ExitStatus>,
    /// Limits of the source for the user.
    pub notes: Vec<String>,
}

/// Counts until the command, the target or the user ends it.
///
/// A server that is to run on the software PMU is restarted by `server`, and restored afterwards.
///
/// # Errors
///
/// [`SessionError`] if the request contradicts itself, or no source can serve it.
pub fn stat(
    request: &Request,
    server: Option<&mut dyn RestartableServer>,
    announce: &mut dyn FnMut(&Chosen),
) -> Result<StatReport, SessionError> {
    check(request)?;
    let chosen = choose::choose_counting(request)?;
    announce(&chosen);
    match chosen.source {
        EventSource::Simulated => simulated(request, server),
        kind => by_kernel(request, &chosen, kind),
    }
}

struct Counter {
    name: String,
    descriptors: Vec<OwnedFd>,
    concessions: Vec<Concession>,
}

fn by_kernel(request: &Request, chosen: &Chosen, kind: EventSource) -> Result<StatReport, SessionError> {
    let user = privileges::invoking_user();
    let mut workload = match request.command.is_empty() {
        true => None,
        false => Some(Workload::prepare(&request.command, user.as_ref())?),
    };
    let attachment = attachment(&request.target, workload.as_ref())?;
    open::raise_file_limit();
    let by_exec = matches!(attachment, Attachment::Exec(..)) && request.delay.is_none();
    let counters = chosen
        .events
        .iter()
        .map(|event| open_counter(event, &attachment, by_exec))
        .collect::<Result<Vec<Counter>, OpenError>>()
        .map_err(|error| choose::fitting(error.into(), request, false))?;
    if let Some(user) = &user {
        user.drop_privileges().map_err(SessionError::Privileges)?;
    }
    let all = || counters.iter().flat_map(|counter| &counter.descriptors);
    let enable = || all().for_each(|descriptor| drop(syscall::enable(descriptor.as_fd())));
    let (ending, status, duration) = run(
        workload.as_mut(),
        request.delay,
        &mut || {
            if !by_exec {
                enable();
            }
        },
        &|| !matches!(attachment, Attachment::System) && all().all(has_hung_up),
    )?;
    all().for_each(|descriptor| drop(syscall::disable(descriptor.as_fd())));
    let events = counters
        .iter()
        .map(|counter| {
            let mut total = Reading::default();
            for descriptor in &counter.descriptors {
                total += syscall::read(descriptor.as_fd()).unwrap_or_default();
            }
            EventStatistic {
                name: counter.name.clone(),
                count: total.scaled(),
                counted: total.value,
                running_share: total.running_share(),
                scaled: total.running < total.enabled,
                one_line_in: 1,
                concessions: counter.concessions.clone(),
            }
        })
        .collect();
    Ok(StatReport { source: kind, events, duration, ending, status, notes: Vec::new() })
}

fn open_counter(event: &PlannedEvent, attachment: &Attachment, by_exec: bool) -> Result<Counter, OpenError> {
    let common = Common {
        callchains: false,
        inherit: *attachment != Attachment::System,
        enable_on_exec: by_exec,
        wakeup_watermark: Some(0),
        kernel: KernelFeatures::ALL,
    };
    let mut refusal = None;
    for encoding in &event.candidates {
        let attr = attributes::counting(encoding, event.modes, &common);
        // Without a ring one descriptor may follow a thread over all CPUs.
        let places: Vec<Place> = match attachment {
            Attachment::Exec(pid, _) => vec![Place { thread: Some(pid.0), cpu: None, cgroup: None }],
            Attachment::Threads(threads) => threads
                .iter()
                .map(|(_, tid)| Place { thread: Some(tid.0), cpu: None, cgroup: None })
                .collect(),
            Attachment::System => sysfs::online_cpus()
                .into_iter()
                .filter(|cpu| encoding.cpus.as_ref().is_none_or(|offered| offered.contains(cpu)))
                .map(|cpu| Place { thread: None, cpu: Some(cpu), cgroup: None })
                .collect(),
        };
        match open_all(event, &attr, &places) {
            Ok(counter) => return Ok(counter),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.expect("a resolved event has a candidate"))
}

fn open_all(
    event: &PlannedEvent,
    attr: &hardmeter_samples::perf_data::abi::PerfEventAttr,
    places: &[Place],
) -> Result<Counter, OpenError> {
    let mut descriptors = Vec::new();
    let mut concessions = Vec::new();
    let mut attr = *attr;
    let mut refused = (libc::ESRCH, Place { thread: None, cpu: None, cgroup: None });
    for place in places {
        match open::negotiate(&attr, *place) {
            Ok(opened) => {
                attr = opened.attr;
                concessions.extend(opened.concessions);
                descriptors.push(opened.first);
            }
            Err(errno @ (libc::ESRCH | libc::ENODEV)) => refused = (errno, *place),
            Err(errno) => return Err(OpenError::explain(&event.request.name, &attr, *place, errno)),
        }
    }
    if descriptors.is_empty() {
        return Err(OpenError::explain(&event.request.name, &attr, refused.1, refused.0));
    }
    let user_only = concessions.contains(&Concession::KernelMode);
    let modes = Modes { kernel: event.modes.kernel && !user_only, ..event.modes };
    Ok(Counter { name: event.request.recorded_name(modes), descriptors, concessions })
}

fn has_hung_up(descriptor: &OwnedFd) -> bool {
    signals::wait(&[descriptor.as_raw_fd()], Duration::ZERO).is_ok_and(|events| events[0].1)
}

/// Releases the command and waits for an end; calls `start` when measuring begins.
fn run(
    mut workload: Option<&mut Workload>,
    delay: Option<Duration>,
    start: &mut dyn FnMut(),
    target_ended: &dyn Fn() -> bool,
) -> Result<(Ending, Option<ExitStatus>, Duration), LoopError> {
    let signals = Signals::block()?;
    if delay.is_none() {
        start();
    }
    let clock = Instant::now();
    let mut measuring = delay.is_none().then_some(clock);
    if let Some(workload) = workload.as_deref_mut() {
        workload.release()?;
    }
    let ending = loop {
        if let Some(signal) = signals.take() {
            if let Some(workload) = workload.as_deref_mut() {
                workload.terminate();
                workload.wait();
            }
            break Ending::Signal(signal);
        }
        if let Some(workload) = workload.as_deref_mut() {
            if workload.try_wait().is_some() {
                break Ending::Command;
            }
        } else if target_ended() {
            break Ending::Target;
        }
        let mut timeout = Duration::from_millis(200);
        if let (None, Some(delay)) = (measuring, delay) {
            timeout = timeout.min(delay.saturating_sub(clock.elapsed()));
            if timeout.is_zero() {
                start();
                measuring = Some(Instant::now());
                continue;
            }
        }
        let mut waiting = vec![signals.descriptor()];
        waiting.extend(workload.as_deref().and_then(|workload| workload.pidfd().map(|fd| fd.as_raw_fd())));
        signals::wait(&waiting, timeout)?;
    };
    let duration = measuring.map_or(Duration::ZERO, |since| since.elapsed());
    Ok((ending, workload.and_then(|workload| workload.try_wait()), duration))
}

fn simulated(
    request: &Request,
    mut server: Option<&mut dyn RestartableServer>,
) -> Result<StatReport, SessionError> {
    let restarted = matches!(request.target, Target::Server(_));
    let _caught = restarted.then(Caught::install);
    let user = privileges::invoking_user();
    let wanted: Vec<MemoryEvent> =
        request.events.iter().filter_map(|event| MemoryEvent::from_name(&event.name)).collect();
    let pmu = SoftwarePmu::prepare(SimulationConfig {
        branches: wanted.contains(&MemoryEvent::BranchesMispredicted),
        set_sampling: request.set_sampling,
        interleave: request.interleave,
        measure_from_start: request.delay.is_none() && request.target == Target::Command,
        ..SimulationConfig::counting(machine(request)?)
    })?;
    let mut workload = simulated_workload(request, &pmu, &mut server, user.as_ref())?;
    if let (Some(user), false) = (&user, restarted) {
        user.drop_privileges().map_err(SessionError::Privileges)?;
    }
    let counted = run(workload.as_mut(), request.delay, &mut || pmu.start_measuring(), &|| false);
    pmu.stop_measuring();
    if let (Some(server), true) = (server, restarted) {
        server.restore()?;
    }
    let (ending, status, duration) = counted?;
    let counts = pmu.counts();
    let events = wanted
        .into_iter()
        .map(|event| {
            let count = counts.events.get(&event).copied();
            let one_line_in = if softpmu::follows_lines(event) { request.set_sampling } else { 1 };
            EventStatistic {
                name: event.name().to_string(),
                count,
                counted: count.unwrap_or(0) / u64::from(one_line_in),
                running_share: 1.0,
                scaled: one_line_in > 1,
                one_line_in,
                concessions: Vec::new(),
            }
        })
        .collect();
    Ok(StatReport { source: EventSource::Simulated, events, duration, ending, status, notes: pmu.notes() })
}
