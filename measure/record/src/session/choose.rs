//! Which source a recording uses, and why.

use super::request::{Request, SessionError, StatementChoice};
use crate::events::memory::only_by_spe;
use crate::events::EventRequest;
use crate::ghosts;
use crate::live::{self, Budget, Calibration, LiveError, MakeLoadFinder};
use crate::pmu::attributes::{self, Common, KernelFeatures, Modes, Rate};
use crate::pmu::encoding::{event_type, Encoding, EncodingError, Resolver};
use crate::pmu::open::{self, OpenError};
use crate::pmu::plan::PlannedEvent;
use crate::pmu::syscall::Place;
use crate::target::{self, Target};
use hardmeter_samples::model::{EventSource, MemoryEvent, Period, STALL_EVENT};

/// The user's choice of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceChoice {
    /// The best that works.
    Auto,
    /// The processor's PMU, or the kernel's software events.
    Hardware,
    /// The software PMU.
    Simulated,
    /// The timer, with the load that was waited for.
    Live,
    /// The timer.
    Timer,
}

/// A decision.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The source.
    pub source: EventSource,
    /// The reason why this source was chosen, in a few words.
    pub reason: String,
    /// Events for the kernel; empty for simulation.
    pub events: Vec<PlannedEvent>,
    /// Events for the software PMU; empty for other sources.
    pub simulated: Vec<(MemoryEvent, Period)>,
    /// Whether the simulated events come from ghosts of running processes.
    pub ghosts: bool,
    /// The parameters of a live recording; `None` for other sources.
    pub live: Option<(Calibration, MakeLoadFinder)>,
}

/// Samples per second where time is sampled.
const TIMER_FREQUENCY: u64 = 1000;

/// The default sampling rate of an event.
///
/// Misses are rarer on lower levels, so the periods are chosen to give each level a similar number of samples; the
/// paper took 10,000 for both of its events. Rare events of the kernel are all recorded.
pub fn default_rate(name: &str, encoding: &Encoding) -> Rate {
    let period = match MemoryEvent::from_name(name) {
        Some(MemoryEvent::L1dMiss | MemoryEvent::L1iMiss | MemoryEvent::BranchesMispredicted) => 10_000,
        Some(MemoryEvent::DtlbMiss | MemoryEvent::ItlbMiss) => 5_000,
        Some(MemoryEvent::L2Miss | MemoryEvent::StlbMiss) => 2_000,
        Some(MemoryEvent::L3Miss) => 1_000,
        // Rare, and every sample concerns two processes.
        Some(MemoryEvent::CoherenceMiss | MemoryEvent::Invalidation) => 11,
        // Odd, so that loops of round length are not always sampled at the same instruction.
        Some(MemoryEvent::Loads | MemoryEvent::Stores | MemoryEvent::Instructions) => 1_000_003,
        None if encoding.event_type == event_type::SOFTWARE && encoding.config >= 2 => 1,
        None if encoding.event_type == event_type::BREAKPOINT => 1,
        None => return Rate::Frequency(TIMER_FREQUENCY),
    };
    // IBS counts operations: with a miss per thousand of them, the period of a miss count is far too short.
    Rate::Period(Period(if encoding.filter.is_some() { 250_007 } else { period }))
}

/// Decides for sampling.
pub(super) fn choose(request: &Request) -> Result<Chosen, SessionError> {
    decide(request, true)
}

/// Selects a source for counting: an event that can only be sampled (AMD IBS) is unsuitable.
pub(super) fn choose_counting(request: &Request) -> Result<Chosen, SessionError> {
    decide(request, false)
}

/// The remedy for missing hardware, adapted to this request: a running program cannot be simulated, and a timer does not count events.
pub(super) fn fitting(error: SessionError, request: &Request, sampling: bool) -> SessionError {
    let missing = match &error {
        SessionError::Open(error) => error.is_missing_hardware(),
        SessionError::Encoding(error) => matches!(error, EncodingError::NotHere(_)),
        _ => false,
    };
    let remedy = match (simulable(request), sampling) {
        _ if !missing => return error,
        (Ok(()), true) => return error,
        (Ok(()), false) => "use --source simulated; `hardmeter doctor` shows more".to_string(),
        (Err(why), true) => format!(
            "use --source timer for where time goes; this event needs a machine with a PMU, for {why}"
        ),
        (Err(why), false) => {
            format!(
                "use a machine with a PMU (see `hardmeter doctor`): {why}, and a timer does not count events"
            )
        }
    };
    SessionError::Contradiction { cause: error.to_string(), remedy }
}

fn decide(request: &Request, sampling: bool) -> Result<Chosen, SessionError> {
    decide_source(request, sampling).map_err(|error| fitting(error, request, sampling))
}

fn decide_source(request: &Request, sampling: bool) -> Result<Chosen, SessionError> {
    if request.ghosts {
        return follow(request);
    }
    let only_commands_and_events = simulable(request);
    match request.source {
        SourceChoice::Hardware => {
            let events = plan(request, sampling)?;
            Ok(chosen(EventSource::Hardware, "as asked", events))
        }
        SourceChoice::Timer => Ok(chosen(EventSource::Timer, "as asked", vec![timer(request)])),
        SourceChoice::Live => live(request, "as asked", sampling),
        SourceChoice::Simulated => {
            only_commands_and_events.map_err(|cause| SessionError::Contradiction {
                cause,
                remedy: match sampling {
                    true => "use --source hardware or --source timer".to_string(),
                    false => "use --source hardware: nothing else can count this".to_string(),
                },
            })?;
            simulate(request, "as asked".to_string())
        }
        SourceChoice::Auto if request.events.iter().any(|event| event.name == STALL_EVENT) => {
            live(request, "the event stall is its own", sampling)
        }
        SourceChoice::Auto => {
            let refused =
                match plan(request, sampling).and_then(|events| probe(&events, sampling).map(|()| events)) {
                    Ok(events) => {
                        let software = events.iter().all(|event| event.candidates[0].is_software());
                        let reason = if software {
                            "the kernel itself counts these"
                        } else {
                            "this machine's PMU offers it"
                        };
                        return Ok(chosen(EventSource::Hardware, reason, events));
                    }
                    Err(error) => error,
                };
            // An unknown name is the user's mistake, not the machine's.
            if request.events.iter().any(|event| MemoryEvent::from_name(&event.name).is_none()) {
                return Err(refused);
            }
            // A running program is measured in place. This does not apply to events that the user named and that a
            // restart can provide.
            let restartable = only_commands_and_events.is_ok() && !request.default_events;
            let why_not_live = match sampling && runs_already(request) && !restartable {
                true => match live(request, &format!("it runs already; no hardware: {refused}"), sampling) {
                    Ok(chosen) => return Ok(chosen),
                    Err(error) => format!("; {error}"),
                },
                false => String::new(),
            };
            match only_commands_and_events {
                Ok(()) if matches!(request.target, Target::Server(_)) => {
                    simulate(request, format!("the server is restarted for it; no hardware: {refused}"))
                }
                Ok(()) => simulate(request, format!("no hardware: {refused}")),
                Err(_) if !sampling => Err(refused), // time does not replace a count of misses
                Err(cause) => {
                    let reason =
                        format!(
                        "no hardware ({refused}), and {cause}: time is sampled instead of misses{why_not_live}"
                    );
                    Ok(chosen(EventSource::Timer, &reason, vec![timer(request)]))
                }
            }
        }
    }
}

fn chosen(source: EventSource, reason: &str, events: Vec<PlannedEvent>) -> Chosen {
    Chosen { source, reason: reason.to_string(), events, simulated: Vec::new(), ghosts: false, live: None }
}

/// Ghosts of running processes, beside stall samples where these are possible and not excluded.
fn follow(request: &Request) -> Result<Chosen, SessionError> {
    let contradiction = |cause: &str, remedy: &str| {
        Err(SessionError::Contradiction { cause: cause.to_string(), remedy: remedy.to_string() })
    };
    if !matches!(request.source, SourceChoice::Auto | SourceChoice::Live) {
        return contradiction(
            "--ghosts follows running processes, which needs source live",
            "leave --source out",
        );
    }
    if matches!(request.target, Target::Command | Target::System) {
        return contradiction(
            "--ghosts follows processes that run already",
            "name them with -p, or a server with --server; for a command use --source simulated",
        );
    }
    let events: Vec<EventRequest> = match request.default_events {
        true => [STALL_EVENT, "l1d-miss", "l2-miss", "stlb-miss", "coherence-miss", "invalidation"]
            .map(EventRequest::named)
            .to_vec(),
        false => request.events.clone(),
    };
    let mut simulated = Vec::new();
    for event in events.iter().filter(|event| event.name != STALL_EVENT) {
        let Some(known) = MemoryEvent::from_name(&event.name) else {
            return contradiction(
                &format!("the software PMU does not know the event {}", event.name),
                "`hardmeter events` lists what it knows",
            );
        };
        simulated.push(match event.rate.or(request.rate) {
            Some(Rate::Period(period)) => (known, period),
            _ => (known, ghosts::default_period(known)),
        });
    }
    if simulated.is_empty() {
        return contradiction("no event is named that ghosts could count", "add one, such as l2-miss");
    }
    let (mut clock, mut reason) = (None, "running processes are followed; time is not sampled".to_string());
    if let Some(stall) = events.iter().find(|event| event.name == STALL_EVENT) {
        let rate = request.rate.filter(|rate| matches!(rate, Rate::Frequency(_)));
        let asked = Request { events: vec![stall.clone()], rate, default_events: false, ..request.clone() };
        match live(&asked, "", true) {
            Ok(chosen) => {
                reason = "running processes are followed, and their time is sampled".to_string();
                clock = Some(chosen);
            }
            Err(error) if !request.default_events => return Err(error),
            Err(error) => reason = format!("{reason}: {error}"),
        }
    }
    let (events, live) = clock.map_or((Vec::new(), None), |chosen| (chosen.events, chosen.live));
    Ok(Chosen { source: EventSource::Live, reason, events, simulated, ghosts: true, live })
}

/// Whether the target already runs.
fn runs_already(request: &Request) -> bool {
    match &request.target {
        Target::Command => false,
        Target::Server(folder) => target::server_process(folder).is_ok(),
        Target::Processes(_) | Target::Cgroup(_) | Target::System => true,
    }
}

/// Stall samples, after a self-test.
fn live(request: &Request, reason: &str, sampling: bool) -> Result<Chosen, SessionError> {
    if !sampling {
        return Err(SessionError::Contradiction {
            cause: "source live counts nothing: it samples time".to_string(),
            remedy: "use --source hardware or --source simulated, or `hardmeter record`".to_string(),
        });
    }
    let others = request.events.iter().any(|event| event.name != STALL_EVENT) && !request.default_events;
    let mixed = request.events.iter().any(|event| event.name == STALL_EVENT);
    if others && (mixed || request.source == SourceChoice::Live) {
        return Err(SessionError::Contradiction {
            cause: "source live samples the event stall only".to_string(),
            remedy: "leave -e out, or take these events from --source hardware or --source simulated"
                .to_string(),
        });
    }
    let Some(loads) = request.loads else { return Err(LiveError::Architecture.into()) };
    let reads = request.statements == StatementChoice::Read && target::is_postgres(&request.target);
    let calibration = live::calibrate(reads)?;
    let asked = request.events.iter().find(|event| event.name == STALL_EVENT);
    let rate = match asked.and_then(|event| event.rate).or(request.rate) {
        Some(Rate::Frequency(hertz)) => Rate::Period(Period(1_000_000_000 / hertz.clamp(1, 1_000_000))),
        // A period in misses has no meaning for a clock.
        Some(period) if request.source == SourceChoice::Live || asked.is_some() => period,
        _ => Rate::Period(Period(budget(request).period(calibration.sample_cost_ns))),
    };
    let modes = asked.and_then(|event| event.modes).or(request.modes).unwrap_or(Modes::BOTH);
    let request = Request { rate: Some(rate), ..request.clone() }; // no cost needs to be measured for it
    let clock = PlannedEvent { request: EventRequest::named(STALL_EVENT), rate, modes, ..timer(&request) };
    let chosen = chosen(EventSource::Live, reason, vec![clock]);
    Ok(Chosen { live: Some((calibration, loads)), ..chosen })
}

/// Whether the software PMU can serve the request; if not, why not.
fn simulable(request: &Request) -> Result<(), String> {
    if let Some(event) = request.events.iter().find(|event| MemoryEvent::from_name(&event.name).is_none()) {
        return Err(format!("the software PMU does not know the event {}", event.name));
    }
    match request.target {
        Target::Command => Ok(()),
        Target::Server(_) if request.may_restart_server => Ok(()),
        Target::Server(_) => {
            Err("only a server made by `hardmeter server` may be restarted for it".to_string())
        }
        Target::Processes(_) => Err("a process that runs already cannot be simulated".to_string()),
        Target::Cgroup(_) => Err("processes of a cgroup run already and cannot be simulated".to_string()),
        Target::System => Err("the whole system cannot be simulated".to_string()),
    }
}

fn simulate(request: &Request, reason: String) -> Result<Chosen, SessionError> {
    let events = request
        .events
        .iter()
        .filter_map(|event| Some((MemoryEvent::from_name(&event.name)?, event)))
        .map(|(event, asked)| {
            let rate = asked.rate.or(request.rate);
            match rate.unwrap_or_else(|| simulated_rate(event)) {
                Rate::Period(period) => Ok((event, period)),
                Rate::Frequency(_) => Err(SessionError::Contradiction {
                    cause: "the software PMU has no frequency: its time is simulated".to_string(),
                    remedy: "give a period with -c".to_string(),
                }),
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Chosen {
        source: EventSource::Simulated,
        reason,
        events: Vec::new(),
        simulated: events,
        ghosts: false,
        live: None,
    })
}

/// Simulated programs run some ten times slower, and have that many fewer events in the same time.
fn simulated_rate(event: MemoryEvent) -> Rate {
    match default_rate(event.name(), &Encoding::default()) {
        Rate::Period(Period(period)) => Rate::Period(Period((period / 10).max(1) | 1)),
        frequency => frequency,
    }
}

/// What samples of time may cost.
fn budget(request: &Request) -> Budget {
    match request.interval {
        Some(_) => Budget::ALWAYS,
        None => Budget::ONCE,
    }
}

fn timer(request: &Request) -> PlannedEvent {
    let rate = request.rate.unwrap_or_else(|| match request.interval {
        None => Rate::Frequency(TIMER_FREQUENCY),
        Some(_) => {
            let period = budget(request).period(live::cost_of_timer_sample());
            Rate::Frequency((1_000_000_000 / period).max(1))
        }
    });
    let rate = match rate {
        // A period in misses has no meaning for a clock that counts nanoseconds.
        Rate::Period(_) if request.source != SourceChoice::Timer => Rate::Frequency(TIMER_FREQUENCY),
        rate => rate,
    };
    PlannedEvent {
        request: EventRequest::named("cpu-clock"),
        candidates: vec![Encoding { event_type: event_type::SOFTWARE, config: 0, ..Encoding::default() }],
        rate,
        modes: request.modes.unwrap_or(Modes::BOTH),
    }
}

/// The request's events for the kernel. `sampling` is false for counting only.
pub(super) fn plan(request: &Request, sampling: bool) -> Result<Vec<PlannedEvent>, SessionError> {
    let resolver = Resolver::this_machine();
    request
        .events
        .iter()
        .map(|event| {
            let candidates = resolver.resolve(event, sampling)?;
            let rate =
                event.rate.or(request.rate).unwrap_or_else(|| default_rate(&event.name, &candidates[0]));
            Ok(PlannedEvent {
                request: event.clone(),
                candidates,
                rate,
                modes: event.modes.or(request.modes).unwrap_or(Modes::BOTH),
            })
        })
        .collect()
}

/// Opens each event on this process and closes it, to test whether it works.
fn probe(events: &[PlannedEvent], sampling: bool) -> Result<(), SessionError> {
    for event in events {
        probe_event(event, sampling).map_err(SessionError::Open)?;
    }
    Ok(())
}

fn probe_event(event: &PlannedEvent, sampling: bool) -> Result<(), OpenError> {
    let mut refusal = None;
    for encoding in event.candidates.iter().filter(|encoding| !encoding.aux) {
        match probe_encoding(&event.request.name, encoding, sampling.then_some(event.rate), event.modes) {
            Ok(_) => return Ok(()),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.unwrap_or_else(|| only_by_spe(&event.request)))
}

/// Opens an event on this process, stopped, for sampling at a rate or for counting.
pub(crate) fn probe_encoding(
    name: &str,
    encoding: &Encoding,
    rate: Option<Rate>,
    modes: Modes,
) -> Result<open::Negotiated, OpenError> {
    let common = Common {
        callchains: false,
        inherit: true,
        enable_on_exec: false,
        wakeup_watermark: Some(4096),
        kernel: KernelFeatures { build_id: false, ..open::kernel_features() },
    };
    let attr = match rate {
        Some(rate) => attributes::sampling(encoding, rate, modes, &common),
        None => attributes::counting(encoding, modes, &common),
    };
    let place = Place { thread: Some(0), cpu: None, cgroup: None };
    open::negotiate(&attr, place).map_err(|errno| OpenError::explain(name, &attr, place, errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(events: &str, source: SourceChoice, target: Target) -> Request {
        let events = crate::events::parse_events(events).expect("events");
        Request { events, source, target, ..Request::of_tests() }
    }

    #[test]
    fn software_events_are_taken_from_the_kernel_everywhere() {
        let chosen = choose(&request("page-faults:u", SourceChoice::Auto, Target::Command));
        match chosen {
            Ok(chosen) => {
                assert_eq!(chosen.source, EventSource::Hardware);
                assert_eq!(chosen.events[0].rate, Rate::Period(Period(1)));
                assert_eq!(chosen.events[0].modes, Modes::USER);
            }
            Err(SessionError::Open(error)) => println!("skipped: {error}"), // a container that forbids the call
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_running_process_cannot_be_simulated() {
        let own = Target::Processes(vec![hardmeter_samples::model::Pid(1)]);
        let error = choose(&request("l1d-miss", SourceChoice::Simulated, own)).expect_err("impossible");
        assert!(error.to_string().contains("runs already"), "{error}");
        let error =
            choose(&request("cycles", SourceChoice::Simulated, Target::Command)).expect_err("impossible");
        assert!(error.to_string().contains("cycles"), "{error}");
    }

    #[test]
    fn a_remedy_fits_the_request() {
        let remedy = |events: &str, target: Target, sampling: bool| {
            let missing = SessionError::Encoding(EncodingError::NotHere("l1d-miss"));
            fitting(missing, &request(events, SourceChoice::Hardware, target), sampling).remedy()
        };
        let running = || Target::Processes(vec![hardmeter_samples::model::Pid(1)]);
        assert!(remedy("l1d-miss", Target::Command, true).contains("--source simulated"));
        assert!(remedy("l1d-miss", Target::Command, false).contains("--source simulated"));
        for (events, target) in [("l1d-miss", running()), ("cycles", Target::Command)] {
            let sampled = remedy(events, target.clone(), true);
            assert!(sampled.contains("--source timer") && !sampled.contains("simulated;"), "{sampled}");
            let counted = remedy(events, target, false);
            assert!(counted.contains("a timer does not count events"), "{counted}");
        }
    }

    #[test]
    fn a_simulation_takes_the_period_asked_for_and_no_frequency() {
        let mut wanted = request("l1d-miss/period=77/,l2-miss", SourceChoice::Simulated, Target::Command);
        wanted.rate = Some(Rate::Period(Period(500)));
        let chosen = choose(&wanted).expect("possible");
        assert_eq!(
            chosen.simulated,
            [(MemoryEvent::L1dMiss, Period(77)), (MemoryEvent::L2Miss, Period(500))]
        );
        wanted.rate = Some(Rate::Frequency(100));
        assert!(choose(&wanted).is_err());
    }

    #[test]
    fn the_timer_ignores_a_period_in_misses_only_when_it_is_a_stopgap() {
        let mut wanted = request("l1d-miss", SourceChoice::Timer, Target::Command);
        wanted.rate = Some(Rate::Period(Period(500_000)));
        assert_eq!(choose(&wanted).expect("possible").events[0].rate, Rate::Period(Period(500_000)));
        wanted.source = SourceChoice::Auto;
        assert_eq!(timer(&wanted).rate, Rate::Frequency(1000));
    }
}
