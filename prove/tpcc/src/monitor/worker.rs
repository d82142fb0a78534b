//! The loop of one thread of the driver.
//!
//! Its time is a [`Moments`], its server a [`Backend`]: with a clock that only the backend moves on, the whole loop runs in
//! virtual time, which is how it is tested.

use super::connections::Connections;
use super::logs::Writers;
use super::queues::{Queues, Waiting};
use super::retries::{judge, Delays, Later};
use super::shared::Shared;
use super::Patience;
use crate::backend::Backend;
use crate::error::TpccError;
use crate::measure::{interval, Ending, Measured, Recorder};
use crate::order::RunOrder;
use crate::terminals::Source;
use crate::time::{Clock, Micros};
use crate::work::{Completion, Failure, FailureKind, Input, Kind, Outcome, Work};

/// A thread looks up at least so often, whether the run is over.
const LOOK_UP: Micros = Micros(100_000);

/// Time limit for outstanding work after a request to stop.
const STOP_PATIENCE: Micros = Micros::seconds(1);

/// Minimum number of consecutive failures before the run is ended.
const STREAK: u32 = 10;

/// The clock of a run.
pub(super) trait Moments {
    fn now(&self) -> Micros;
}

impl Moments for Clock {
    fn now(&self) -> Micros {
        Clock::now(self)
    }
}

/// The number of the thread, and the run's name.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub order: &'a RunOrder,
    pub number: u32,
    pub patience: Patience,
    pub shared: &'a Shared,
}

/// One thread's loop.
pub(super) struct Worker<'a, M> {
    time: M,
    backend: &'a mut dyn Backend,
    source: &'a mut dyn Source,
    recorder: Recorder,
    writers: Writers,
    shared: &'a Shared,
    state: State,
}

/// The results of a thread.
#[derive(Debug)]
pub(super) struct Counted {
    pub recorder: Recorder,
    /// Work taken in but neither answered nor done at the end of the run.
    pub abandoned: u32,
}

/// The state of a thread's loop.
struct State {
    retries: u32,
    patience: Patience,
    queues: Queues,
    connections: Connections,
    later: Later,
    delays: Delays,
    /// Consecutive failures of writing transactions: number, start, last reason.
    failing: Option<(u32, Micros, String)>,
    abandoned: u32,
    /// Reused buffers.
    fresh: Vec<Work>,
    done: Vec<Completion>,
}

impl<'a, M: Moments> Worker<'a, M> {
    pub fn new(
        place: Place<'a>,
        time: M,
        backend: &'a mut dyn Backend,
        source: &'a mut dyn Source,
        writers: Writers,
    ) -> Worker<'a, M> {
        let connections = backend.connections();
        let Place { order, number, patience, shared } = place;
        Worker {
            time,
            backend,
            source,
            recorder: Recorder::new(interval(order)),
            writers,
            shared,
            state: State {
                retries: order.retries,
                patience,
                queues: Queues::new(order, connections),
                connections: Connections::new(connections),
                later: Later::default(),
                delays: Delays::new(order.seed.wrapping_add(u64::from(number))),
                failing: None,
                abandoned: 0,
                fresh: Vec::new(),
                done: Vec::new(),
            },
        }
    }

    /// Runs until the end of the run, then completes outstanding work; returns the counts.
    pub fn run(mut self) -> Counted {
        if let Err(error) = self.work().and_then(|()| self.wind_up()).and_then(|()| self.writers.flush()) {
            self.shared.end(self.time.now(), Ending::Failed { reason: error.to_string() });
        }
        Counted { recorder: self.recorder, abandoned: self.state.abandoned }
    }

    /// The run until its end, which may come early.
    fn work(&mut self) -> Result<(), TpccError> {
        let mut flushed = Micros::ZERO;
        loop {
            let now = self.time.now();
            if now >= self.shared.ended() {
                return Ok(());
            }
            self.take_in(now);
            // Before new work is submitted: an attempt may block, which would delay sending it.
            let now = self.reconnect(now);
            self.give_out(now);
            if let Some(reason) = self.hopeless(now) {
                self.shared.end(now, Ending::Failed { reason });
                return Ok(());
            }
            if now >= flushed + Micros::seconds(1) {
                self.writers.flush()?;
                flushed = now;
            }
            let moments = [
                self.source.next_due(),
                self.state.later.next(),
                self.state.connections.next_attempt(),
                Some(self.shared.ended()),
            ];
            let until = moments.into_iter().flatten().fold(now + LOOK_UP, Micros::min);
            self.wait(until)?;
        }
    }

    /// After the end no terminal sends. Outstanding work and deferred deliveries, whose terminals had their
    /// answers, are completed but not counted.
    fn wind_up(&mut self) -> Result<(), TpccError> {
        let patience = match self.shared.ending() {
            Ending::Complete => {
                self.state.abandoned += self.state.queues.keep_deliveries();
                self.state.patience.winding_up
            }
            Ending::Interrupted => STOP_PATIENCE,
            Ending::Failed { .. } => Micros::ZERO,
        };
        if patience < self.state.patience.winding_up {
            self.state.abandoned += self.state.queues.clear();
        }
        self.state.abandoned += self.state.later.clear();
        let until = self.time.now() + patience;
        loop {
            let now = self.time.now();
            self.give_out(now);
            let idle = self.state.connections.busy() == 0;
            if now >= until || idle {
                // All connections may be lost, with deliveries still queued.
                self.state.abandoned += self.state.queues.clear() + self.state.connections.busy();
                return Ok(());
            }
            self.wait(until.min(now + LOOK_UP))?;
        }
    }

    /// Queues requests that are due, and retries.
    fn take_in(&mut self, now: Micros) {
        let state = &mut self.state;
        self.source.due(now, &mut self.recorder, &mut state.fresh);
        for work in state.fresh.drain(..) {
            let mut queued = now;
            if let Input::Delivery(_) = work.input {
                // The terminal's part of it is done once it is queued (clause 2.7.2.1).
                queued = self.time.now();
                self.recorder.completed(
                    &Measured {
                        kind: Kind::Delivery,
                        due: work.due,
                        entered: work.entered,
                        dispatched: work.entered,
                        answered: queued,
                        rolled_back: false,
                    },
                    &work.input,
                );
                self.source.answered(work.terminal, Kind::Delivery, queued);
            }
            state.queues.push(Waiting { work, queued, tries: 0 });
        }
        while let Some(waiting) = state.later.pop(now) {
            state.queues.push_again(waiting);
        }
    }

    /// Submits waiting work to free connections.
    fn give_out(&mut self, now: Micros) {
        let State { queues, connections, .. } = &mut self.state;
        if queues.length() == 0 {
            return;
        }
        let backend = &mut *self.backend;
        connections.give(
            queues.shared(),
            |connection| queues.pop(connection, now),
            |connection, work| backend.submit(connection, work, now),
        );
        if queues.length() > 0 {
            self.recorder.waiting(now, queues.length());
        }
    }

    /// At most one attempt, since it may block. Returns the time afterwards.
    fn reconnect(&mut self, begun: Micros) -> Micros {
        let state = &mut self.state;
        let Some(connection) = state.connections.to_reconnect(begun) else { return begun };
        let outcome = self.backend.reconnect(connection).map_err(|error| error.to_string());
        let now = self.time.now();
        state.connections.attempted(outcome, begun, now, &mut state.delays);
        now
    }

    /// The reason to end, if continuing is useless.
    fn hopeless(&self, now: Micros) -> Option<String> {
        let patience = self.state.patience.without_success;
        let seconds = patience.as_seconds();
        if let Some((since, refusal)) = self.state.connections.none_since() {
            if now.saturating_sub(since) >= patience {
                return Some(format!("no connection could be had for {seconds} s: {refusal}"));
            }
        }
        match &self.state.failing {
            Some((failures, since, reason))
                if *failures >= STREAK && now.saturating_sub(*since) >= patience =>
            {
                Some(format!("nothing was written for {seconds} s, every attempt failed: {reason}"))
            }
            _ => None,
        }
    }

    /// Waits, and handles the completed work.
    fn wait(&mut self, until: Micros) -> Result<(), TpccError> {
        let mut done = std::mem::take(&mut self.state.done);
        let waited = self.backend.wait(Some(until), &mut done);
        // Even those that arrived with an error were acknowledged.
        self.writers.acknowledged(&done)?;
        let ended = self.shared.ended();
        for completion in done.drain(..) {
            self.settle(completion, ended)?;
        }
        self.state.done = done;
        waited
    }

    fn settle(&mut self, completion: Completion, ended: Micros) -> Result<(), TpccError> {
        let Completion { connection, work, dispatched, answered, outcome } = completion;
        let (kind, terminal) = (work.input.kind(), work.terminal);
        let counts = answered < ended;
        let state = &mut self.state;
        let failure = match outcome {
            Outcome::Failed(failure) => failure,
            outcome => {
                let under_way = state.connections.done(connection);
                if kind != Kind::OrderStatus && kind != Kind::StockLevel {
                    state.failing = None;
                }
                if let Input::Delivery(delivery) = &work.input {
                    let orders = match outcome {
                        Outcome::Delivered { orders } => orders,
                        // A system without data.
                        _ => [0; 10],
                    };
                    if counts {
                        self.recorder.delivered(under_way.queued, answered, &orders);
                    }
                    return self.writers.delivered(delivery, under_way.queued, Ok(&orders), answered);
                }
                if counts {
                    let Work { due, entered, .. } = work;
                    let rolled_back = outcome == Outcome::RolledBack;
                    self.recorder.completed(
                        &Measured { kind, due, entered, dispatched, answered, rolled_back },
                        &work.input,
                    );
                    self.source.answered(terminal, kind, answered);
                }
                return Ok(());
            }
        };
        let under_way = match failure.kind {
            FailureKind::ConnectionLost => state.connections.lose(connection, answered, &mut state.delays),
            _ => state.connections.done(connection),
        };
        let (failure, again) = judge(kind, failure, under_way.tries, state.retries);
        if counts {
            self.recorder.failed(kind, &failure, answered, again);
            state.note_failure(kind, &failure, answered);
        }
        if again && counts {
            let at = answered + state.delays.retry(under_way.tries);
            state.later.push(at, Waiting { work, queued: under_way.queued, tries: under_way.tries + 1 });
            return Ok(());
        }
        match &work.input {
            Input::Delivery(delivery) => {
                self.writers.delivered(delivery, under_way.queued, Err(&failure.code), answered)
            }
            _ if counts => {
                self.source.answered(terminal, kind, answered);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl State {
    fn note_failure(&mut self, kind: Kind, failure: &Failure, at: Micros) {
        if matches!(kind, Kind::OrderStatus | Kind::StockLevel) {
            return;
        }
        let (failures, _, reason) = self.failing.get_or_insert((0, at, String::new()));
        *failures += 1;
        // The text is needed once, when patience ends; the first one is sufficient.
        if reason.is_empty() {
            *reason = format!("{}: {} ({})", kind.name(), failure.message, failure.code);
        }
    }
}
