//! The load generator: one thread, one epoll set.
//!
//! *Open loop*: requests are due at times that do not depend on answers. A request without a free connection waits
//! in the driver's queue, and its time begins when it was due: a stall of the server affects all requests that fall
//! due meanwhile, not only the outstanding ones (no coordinated omission). *Closed loop*: a fixed number of
//! clients; each sends its next request after its answer.

use crate::connection::{Connection, Progress};
use crate::error::AuctionError;
use crate::interaction::Interaction;
use crate::random::{Part, Stream};
use crate::record::{Fault, Record};
use crate::visit::Visits;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::{
    clock_gettime, timerfd_create, timerfd_settime, ClockId, Itimerspec, TimerfdClockId, TimerfdFlags,
    TimerfdTimerFlags, Timespec,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Arrival times of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Independent arrivals: exponential intervals.
    Poisson,
    /// At equal distances.
    Fixed,
}

/// Open or closed loop.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Mode {
    /// Requests per second, and connections; visitors take turns in the order of their last request.
    Open { rate: f64, arrivals: Arrivals, connections: usize, visitors: usize, seed: u64 },
    /// Number of clients, a connection each.
    Closed { clients: usize },
}

/// Parameters of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The site.
    pub address: SocketAddr,
    /// Open or closed loop.
    pub mode: Mode,
    /// Duration of the requests before the measurement.
    pub warmup: Duration,
    /// Duration of the measurement; `None`: until the visitors have no more requests.
    pub duration: Option<Duration>,
    /// Time limit of an answer, and of the wait for the last ones.
    pub patience: Duration,
}

/// Receives the progress of a run.
pub trait Watcher {
    /// Called when requests begin to count.
    ///
    /// # Errors
    ///
    /// An error ends the run.
    fn begins(&mut self) -> Result<(), AuctionError>;
    /// Called several times a second with the number of answers so far.
    ///
    /// # Errors
    ///
    /// An error ends the run.
    fn looks(&mut self, answers: u64, elapsed: Duration) -> Result<(), AuctionError>;
    /// Called when the last answer has arrived.
    ///
    /// # Errors
    ///
    /// An error ends the run.
    fn ends(&mut self) -> Result<(), AuctionError>;
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Driven {
    /// Times and faults of what counted.
    pub record: Record,
    /// Time from the first counted request to the last answer.
    pub lasted: Duration,
    /// CPU time of the generator during that time.
    pub own_cpu: Duration,
    /// Answers received during the measurement, to any request: the divisor of CPU times.
    pub answers: u64,
    /// The most requests that waited in the generator for a connection.
    pub longest_queue: usize,
}

/// A request under way.
struct Job {
    visitor: usize,
    interaction: Interaction,
    due: Instant,
    sent: Instant,
}

const TIMER: u64 = u64::MAX;
const LOOKS_EVERY: Duration = Duration::from_millis(200);
/// A client that could not connect tries again after this.
const TRIES_AGAIN_AFTER: Duration = Duration::from_millis(50);
const BUFFER: usize = 128 << 10;

/// Drives a site as planned.
///
/// # Errors
///
/// [`AuctionError`] if the watcher reports one, or the driver cannot start.
pub fn drive(
    plan: &Plan,
    visits: &mut dyn Visits,
    watcher: &mut dyn Watcher,
) -> Result<Driven, AuctionError> {
    Driver::new(plan, visits)?.run(watcher)
}

fn system(what: &'static str) -> impl Fn(rustix::io::Errno) -> AuctionError {
    move |error| AuctionError::System { what, source: error.into() }
}

struct Driver<'a> {
    plan: &'a Plan,
    visits: &'a mut dyn Visits,
    epoll: OwnedFd,
    timer: OwnedFd,
    connections: Vec<Connection>,
    jobs: Vec<Option<Job>>,
    /// Connections without a request, the one that waits longest first.
    idle: VecDeque<usize>,
    /// The due times of requests that found no free connection.
    queue: VecDeque<Instant>,
    /// Waiting visitors.
    visitors: VecDeque<usize>,
    visitors_made: usize,
    /// Clients that try again at a time.
    later: VecDeque<(Instant, usize)>,
    under_way: usize,
    /// Time from which requests count.
    counts_from: Option<Instant>,
    driven: Driven,
}

impl<'a> Driver<'a> {
    fn new(plan: &'a Plan, visits: &'a mut dyn Visits) -> Result<Driver<'a>, AuctionError> {
        let (connections, visitors) = match plan.mode {
            Mode::Open { connections, visitors, .. } => (connections.max(1), visitors.max(1)),
            Mode::Closed { clients } => (clients.max(1), 0),
        };
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(system("make an epoll set"))?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(system("make a timer"))?;
        let both = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), both).map_err(system("wait for a timer"))?;
        Ok(Driver {
            plan,
            visits,
            epoll,
            timer,
            connections: (0..connections).map(|_| Connection::default()).collect(),
            jobs: (0..connections).map(|_| None).collect(),
            idle: (0..connections).collect(),
            queue: VecDeque::new(),
            visitors: (0..visitors).collect(),
            visitors_made: visitors,
            later: VecDeque::new(),
            under_way: 0,
            counts_from: None,
            driven: Driven::default(),
        })
    }

    fn run(mut self, watcher: &mut dyn Watcher) -> Result<Driven, AuctionError> {
        let mut buffer = vec![0; BUFFER];
        let mut events: Vec<Event> = Vec::with_capacity(256);
        let start = Instant::now();
        let counts_from = start + self.plan.warmup;
        let end = self.plan.duration.map(|duration| counts_from + duration);
        let mut arrivals = match self.plan.mode {
            Mode::Open { rate, arrivals, seed, .. } => Some(Schedule::new(start, rate, arrivals, seed)),
            Mode::Closed { .. } => None,
        };
        if let Mode::Closed { clients } = self.plan.mode {
            self.idle.clear();
            for client in 0..clients.max(1) {
                self.ask(client, client, start)?;
            }
        }
        let mut own_cpu = thread_cpu();
        let mut next_look = start;
        loop {
            let now = Instant::now();
            let over = end.is_some_and(|end| now >= end);
            if self.counts_from.is_none() && now >= counts_from {
                watcher.begins()?;
                own_cpu = thread_cpu();
                self.counts_from = Some(counts_from);
                self.driven.answers = 0;
            }
            if let Some(schedule) = arrivals.as_mut() {
                while schedule.due <= now && end.is_none_or(|end| schedule.due < end) {
                    self.queue.push_back(schedule.due);
                    schedule.advance();
                }
                self.driven.longest_queue = self.driven.longest_queue.max(self.queue.len());
                self.serve_queue()?;
            }
            self.serve_later(now, over)?;
            if now >= next_look {
                watcher.looks(self.driven.answers, now - start)?;
                self.give_up_on_late(now);
                next_look = now + LOOKS_EVERY;
            }
            let nothing_left = self.under_way == 0 && self.queue.is_empty() && self.later.is_empty();
            let no_more = over || (arrivals.is_none() && end.is_none());
            if nothing_left && no_more && self.counts_from.is_some() {
                break;
            }
            if end.is_some_and(|end| now >= end + self.plan.patience) {
                self.give_up_on_all(now);
                break;
            }
            let due = arrivals.as_ref().map(|schedule| schedule.due).filter(|_| !over);
            let later = self.later.front().map(|&(at, _)| at);
            let wake = [due, later, Some(next_look)].into_iter().flatten().min().unwrap_or(next_look);
            self.sleep_until(wake, &mut events)?;
            for event in &events {
                let number = event.data.u64();
                if number != TIMER {
                    let flags = event.flags;
                    let progress = self.connections[number as usize].happened(flags, &mut buffer);
                    self.settle(number as usize, progress, over)?;
                }
            }
        }
        let ended = Instant::now();
        self.driven.own_cpu = thread_cpu().saturating_sub(own_cpu);
        self.driven.lasted = ended.saturating_duration_since(counts_from);
        watcher.ends()?;
        Ok(self.driven)
    }

    /// Gives requests that are due to connections that are free.
    fn serve_queue(&mut self) -> Result<(), AuctionError> {
        while let (Some(&due), Some(&connection)) = (self.queue.front(), self.idle.front()) {
            self.queue.pop_front();
            self.idle.pop_front();
            let visitor = self.visitors.pop_front().unwrap_or_else(|| {
                self.visitors_made += 1;
                self.visitors_made - 1
            });
            self.ask(connection, visitor, due)?;
        }
        Ok(())
    }

    fn serve_later(&mut self, now: Instant, over: bool) -> Result<(), AuctionError> {
        while let Some(&(at, connection)) = self.later.front() {
            if at > now && !over {
                break;
            }
            self.later.pop_front();
            if !over {
                self.ask(connection, connection, now)?;
            }
        }
        Ok(())
    }

    /// Sends a visitor's next request. A visitor without one leaves.
    fn ask(&mut self, connection: usize, visitor: usize, due: Instant) -> Result<(), AuctionError> {
        let request = self.connections[connection].request();
        let Some(interaction) = self.visits.next(visitor, request) else {
            self.connections[connection].close();
            return Ok(());
        };
        let sent = Instant::now();
        self.jobs[connection] = Some(Job { visitor, interaction, due, sent });
        self.under_way += 1;
        let mut progress = self.send(connection)?;
        if progress == Progress::Closed {
            progress = self.send_again(connection)?;
        }
        // Process the failure later: the event of the broken connection may still come or never.
        if let Progress::Failed(fault) = progress {
            self.end_job(connection, Instant::now(), Some(fault));
            self.connections[connection].close();
            self.rest(connection, visitor);
        }
        Ok(())
    }

    fn send(&mut self, connection: usize) -> Result<Progress, AuctionError> {
        self.connections[connection]
            .send(&self.epoll, connection, self.plan.address)
            .map_err(system("open a connection"))
    }

    /// Sends the same request on a new connection, which is not a kept one, so that this happens once.
    fn send_again(&mut self, connection: usize) -> Result<Progress, AuctionError> {
        self.connections[connection].close();
        self.send(connection)
    }

    /// Deals with what happened on a connection.
    fn settle(&mut self, connection: usize, progress: Progress, over: bool) -> Result<(), AuctionError> {
        let fault = match progress {
            Progress::Waiting => return Ok(()),
            Progress::Closed => {
                let progress = self.send_again(connection)?;
                return self.settle(connection, progress, over);
            }
            Progress::Complete => match self.connections[connection].answer.status() {
                200 => None,
                422 => Some(Fault::Refused),
                status => Some(Fault::Status(status)),
            },
            Progress::Failed(fault) => {
                self.connections[connection].close();
                Some(fault)
            }
        };
        let now = Instant::now();
        let Some(visitor) = self.end_job(connection, now, fault) else { return Ok(()) };
        let closed_loop = matches!(self.plan.mode, Mode::Closed { .. });
        match (closed_loop, fault) {
            (true, Some(Fault::Connect | Fault::CutOff | Fault::BadAnswer)) => self.rest(connection, visitor),
            (true, _) if !over => self.ask(connection, visitor, now)?,
            (true, _) => {}
            (false, _) => self.rest(connection, visitor),
        }
        Ok(())
    }

    /// Records the end of a request; returns its visitor.
    fn end_job(&mut self, connection: usize, now: Instant, fault: Option<Fault>) -> Option<usize> {
        let job = self.jobs[connection].take()?;
        self.under_way -= 1;
        self.driven.answers += 1;
        let answer = &self.connections[connection].answer;
        match fault {
            None => self.visits.shown(job.visitor, job.interaction, answer.body()),
            Some(_) => self.visits.failed(job.visitor),
        }
        if self.counts_from.is_some_and(|from| job.due >= from) {
            let (due, sent) = (now - job.due, now - job.sent);
            self.driven.record.ended(job.interaction, due, sent, answer.bytes(), fault);
        }
        Some(job.visitor)
    }

    /// A connection is free, and its visitor waits for his turn; in a closed loop he continues after a pause.
    fn rest(&mut self, connection: usize, visitor: usize) {
        match self.plan.mode {
            Mode::Open { .. } => {
                self.idle.push_back(connection);
                self.visitors.push_back(visitor);
            }
            Mode::Closed { .. } => self.later.push_back((Instant::now() + TRIES_AGAIN_AFTER, connection)),
        }
    }

    fn give_up_on_late(&mut self, now: Instant) {
        for connection in 0..self.jobs.len() {
            let late = self.jobs[connection].as_ref().is_some_and(|job| now > job.sent + self.plan.patience);
            if late {
                self.connections[connection].close();
                if let Some(visitor) = self.end_job(connection, now, Some(Fault::TimedOut)) {
                    self.rest(connection, visitor);
                }
            }
        }
    }

    /// The end: requests without an answer are counted with their time so far.
    fn give_up_on_all(&mut self, now: Instant) {
        for connection in 0..self.jobs.len() {
            self.end_job(connection, now, Some(Fault::TimedOut));
        }
        let from = self.counts_from.unwrap_or(now);
        for due in self.queue.drain(..).filter(|due| *due >= from) {
            // It was never sent: its page depends on answers that never came.
            let waited = now - due;
            self.driven.record.ended(Interaction::Home, waited, waited, 0, Some(Fault::TimedOut));
        }
    }

    /// Waits for an event, at most until `wake`. The timer is exact to microseconds, unlike epoll_wait's time
    /// limit.
    fn sleep_until(&mut self, wake: Instant, events: &mut Vec<Event>) -> Result<(), AuctionError> {
        events.clear();
        let left = wake.saturating_duration_since(Instant::now());
        let poll = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = if left.is_zero() {
            Some(&poll)
        } else {
            let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).map_err(system("set a timer"))?;
            None
        };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(system("wait for answers")(error)),
        }
    }
}

/// The times at which requests are due.
struct Schedule {
    start: Instant,
    gap: f64,
    arrivals: Arrivals,
    stream: Stream,
    /// Seconds from the start to the next arrival; not rounded, so that errors do not accumulate.
    at: f64,
    due: Instant,
}

impl Schedule {
    fn new(start: Instant, rate: f64, arrivals: Arrivals, seed: u64) -> Schedule {
        let stream = Stream::of(seed, Part::Arrivals);
        let gap = 1.0 / rate.max(1e-3);
        Schedule { start, gap, arrivals, stream, at: 0.0, due: start }
    }

    fn advance(&mut self) {
        self.at += match self.arrivals {
            Arrivals::Poisson => self.stream.exponential() * self.gap,
            Arrivals::Fixed => self.gap,
        };
        self.due = self.start + Duration::from_secs_f64(self.at);
    }
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
