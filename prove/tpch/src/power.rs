//! The power run: one stream of queries, each by every variant in turn.
//!
//! A **block** is one pass through the queries. Within it every query is run twice by every variant, the second
//! time in mirrored order (A B B A), one run right after the other: drift of the machine affects all equally. The
//! order of each block is drawn. The figure of a block is a ratio within it, so that intervals of its median over
//! blocks, and the verdict on a variant ([`hardmeter_evidence::Trial`]), need no assumption about the noise.

use crate::error::TpchError;
use crate::load::Data;
use crate::parameters::{Parameters, Source};
use crate::queries::Query;
use crate::refresh::{self, Refresh, SETS};
use crate::report::{Failure, QueryRuns, RefreshRuns, Report, Runs, Verdict};
use crate::variants::{Preset, Variant};
use hardmeter_evidence::Coin;
use hardmeter_session::Stop;
use hardmeter_session::{Answer, Session, Target};
use std::time::Duration;

/// The clock of the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// CPU time of the backend: less disturbed by other users of the machine.
    Cpu,
    /// Wall time, the only measure of the gain by parallel workers.
    Wall,
}

/// The parameters of a power run.
#[derive(Clone, Debug)]
pub struct PowerOrder {
    /// The variants; ratios are to the first.
    pub variants: Vec<Variant>,
    /// The stream.
    pub queries: Vec<Query>,
    /// The origin of the parameters.
    pub source: Source,
    /// The settings that all variants share.
    pub preset: Preset,
    /// The clock of the times.
    pub clock: Clock,
    /// Number of measured blocks.
    pub blocks: usize,
    /// Number of unmeasured passes before, with every variant once.
    pub warm_up: usize,
    /// Time limit of a query.
    pub timeout: Duration,
    /// Whether the refresh functions are run at the end of each block. They change the data.
    pub refresh: bool,
}

/// Receives the progress of a run.
pub trait RunProgress {
    /// The number of finished runs and of all runs; this one begins.
    fn step(&self, done: usize, of: usize, what: &str);
}

/// Runs it.
///
/// # Errors
///
/// [`TpchError`] if a variant is not possible, data is missing, a statement fails, or `stop` was requested.
pub fn run(
    target: &Target,
    order: &PowerOrder,
    stop: &Stop,
    progress: &dyn RunProgress,
) -> Result<Report, TpchError> {
    let names: Vec<&str> = order.variants.iter().map(|variant| variant.name.as_str()).collect();
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            let reason = "another has the same name".to_owned();
            return Err(TpchError::BadVariant { text: (*name).into(), reason });
        }
    }
    let mut first = Session::open(target, stop)?;
    let data = Data::of(&mut first)?;
    let version = first.query("asking for the version", "SHOW server_version")?;
    drop(first);
    let mut sessions = Vec::new();
    for variant in &order.variants {
        let mut session = Session::open(target, stop)?;
        order.preset.apply(&mut session)?;
        variant.apply(&mut session)?;
        session.set_timeout(order.timeout)?;
        sessions.push(session);
    }
    // One clock for all: if one backend's CPU time is unavailable, none is used.
    let cpu_known = order.clock == Clock::Cpu && sessions.iter().all(|session| session.cpu().is_some());
    if !cpu_known {
        sessions.iter_mut().for_each(Session::leave_cpu);
    }
    let mut stream = Stream {
        order,
        data,
        sessions,
        queries: order.queries.iter().map(|query| QueryState::new(*query, order, data)).collect(),
        refreshes: [Refresh::Insert, Refresh::Delete]
            .map(|refresh| RefreshRuns { refresh, variants: vec![Runs::default(); order.variants.len()] }),
        turns: (0..order.variants.len()).collect(),
        done: 0,
        progress,
    };
    for _ in 0..order.warm_up {
        stream.pass(Pass::WarmUp)?;
    }
    let mut coin = Coin::new(match order.source {
        Source::Validation => 1,
        Source::Seed(seed) => seed,
    });
    for _ in 0..order.blocks {
        stream.turns = turns(order.variants.len(), &mut coin);
        stream.pass(Pass::Block)?;
        if order.refresh {
            stream.refresh()?;
        }
    }
    let refreshes = if order.refresh { stream.refreshes.into() } else { Vec::new() };
    let queries = stream.queries.into_iter().map(|state| state.runs).collect();
    let server = version.single().unwrap_or("of an unknown version").to_owned();
    Ok(Report::new(order, data, server, cpu_known, queries, refreshes))
}

/// The order of variants for the queries of a block: drawn, then mirrored.
fn turns(variants: usize, coin: &mut Coin) -> Vec<usize> {
    let mut turns: Vec<usize> = (0..variants).collect();
    coin.shuffle(&mut turns);
    turns.extend_from_within(..);
    turns[variants..].reverse();
    turns
}

#[derive(Clone, Copy)]
enum Pass {
    WarmUp,
    Block,
}

struct QueryState {
    runs: QueryRuns,
    sql: String,
    /// The first variant's first answer, valid while the data are unchanged.
    reference: Option<Answer>,
}

impl QueryState {
    fn new(query: Query, order: &PowerOrder, data: Data) -> QueryState {
        QueryState {
            runs: QueryRuns::new(query, order.variants.len()),
            sql: query.sql(&Parameters::of(query, order.source, data.scale)),
            reference: None,
        }
    }

    /// Adds the answers of a pass: each with its variant.
    fn take(&mut self, answers: Vec<(usize, Answer)>) {
        if self.reference.is_none() {
            let of_first = answers.iter().find(|(variant, _)| *variant == 0);
            self.reference = of_first.map(|(_, answer)| answer.clone());
        }
        let Some(reference) = &self.reference else { return };
        self.runs.rows = reference.rows.len();
        self.runs.digest = reference.digest();
        for (variant, answer) in &answers {
            let verdict = Verdict::of(answer, reference);
            let so_far = &mut self.runs.answers[*variant];
            *so_far = (*so_far).max(verdict);
        }
    }
}

struct Stream<'a> {
    order: &'a PowerOrder,
    data: Data,
    sessions: Vec<Session>,
    queries: Vec<QueryState>,
    refreshes: [RefreshRuns; 2],
    /// The order of variants in this pass.
    turns: Vec<usize>,
    done: usize,
    progress: &'a dyn RunProgress,
}

impl Stream<'_> {
    fn pass(&mut self, pass: Pass) -> Result<(), TpchError> {
        for at in 0..self.queries.len() {
            if self.queries[at].runs.failure.is_none() {
                self.query(at, pass)?;
            }
        }
        Ok(())
    }

    /// One query, by all variants.
    fn query(&mut self, at: usize, pass: Pass) -> Result<(), TpchError> {
        let turns = self.turns.clone();
        let query = self.queries[at].runs.query;
        let mut answers = Vec::with_capacity(turns.len());
        let mut costs = Vec::with_capacity(turns.len());
        for variant in turns {
            let what = format!("{query} in variant {}", self.order.variants[variant].name);
            self.step(&what);
            match self.sessions[variant].measured(&what, &self.queries[at].sql) {
                Ok((answer, cost)) => {
                    answers.push((variant, answer));
                    costs.push((variant, cost));
                }
                Err(error) if error.ends_session() => return Err(error.into()),
                // The others can still be measured; this one is left out of all totals, with a message.
                Err(error) => {
                    let variant = self.order.variants[variant].name.clone();
                    let (reason, remedy) = (error.to_string(), error.remedy());
                    self.queries[at].runs.failure = Some(Failure { variant, reason, remedy });
                    return Ok(());
                }
            }
        }
        self.queries[at].take(answers);
        if let Pass::Block = pass {
            for (variant, runs) in self.queries[at].runs.variants.iter_mut().enumerate() {
                runs.push_block(costs.iter().filter(|(of, _)| *of == variant).map(|(_, cost)| *cost));
            }
        }
        Ok(())
    }

    /// Runs the refresh functions in all variants, each pair with its own update set.
    fn refresh(&mut self) -> Result<(), TpchError> {
        let mut costs: [Vec<(usize, _)>; 2] = [Vec::new(), Vec::new()];
        for variant in self.turns.clone() {
            self.step(&format!("RF1, RF2 in variant {}", self.order.variants[variant].name));
            let (pair, after) = refresh::run_pair(&mut self.sessions[variant], self.data)?;
            self.data = after;
            for (costs, (_, cost)) in costs.iter_mut().zip(pair) {
                costs.push((variant, cost));
            }
        }
        for (refresh, costs) in self.refreshes.iter_mut().zip(costs) {
            for (variant, runs) in refresh.variants.iter_mut().enumerate() {
                runs.push_block(costs.iter().filter(|(of, _)| *of == variant).map(|(_, cost)| *cost));
            }
        }
        // The data have changed: compare the next block's answers among themselves.
        for state in &mut self.queries {
            state.reference = None;
        }
        Ok(())
    }

    fn step(&mut self, what: &str) {
        self.progress.step(self.done, self.order.steps(), what);
        self.done += 1;
    }
}

impl PowerOrder {
    /// Number of runs of one query or one pair of refresh functions.
    pub fn steps(&self) -> usize {
        let per_block = 2 * (self.queries.len() + usize::from(self.refresh));
        self.variants.len() * (self.warm_up * self.queries.len() + self.blocks * per_block)
    }

    /// Checks that there are enough update sets for these data.
    ///
    /// # Errors
    ///
    /// [`TpchError::NoUpdateSet`] if more are needed than there are.
    pub fn check_refreshes(&self, data: Data) -> Result<(), TpchError> {
        let needed = if self.refresh { self.blocks * 2 * self.variants.len() } else { 0 };
        if data.refreshes as usize + needed > SETS as usize {
            return Err(TpchError::NoUpdateSet { available: SETS });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_mirrored_and_each_variant_begins_now_and_then() {
        let mut coin = Coin::new(1);
        assert_eq!(turns(1, &mut coin), [0, 0]);
        let mut first = [0; 3];
        for _ in 0..60 {
            let turns = turns(3, &mut coin);
            let mut forth = turns[..3].to_vec();
            assert!(turns.iter().eq(turns.iter().rev()), "{turns:?}");
            first[forth[0]] += 1;
            forth.sort_unstable();
            assert_eq!(forth, [0, 1, 2]);
        }
        // 20 each on average; below 8 has a probability of one in two thousand, and this seed always gives the same.
        assert!(first.iter().all(|times| *times >= 8), "{first:?}");
    }

    #[test]
    fn steps_are_counted_in_advance() {
        let order = PowerOrder {
            variants: vec!["a=".parse().unwrap(), "b=".parse().unwrap()],
            queries: Query::list("1,6,18").unwrap(),
            source: Source::Validation,
            preset: Preset::Server,
            clock: Clock::Cpu,
            blocks: 5,
            warm_up: 1,
            timeout: Duration::from_secs(1),
            refresh: true,
        };
        // Warm-up 2 x 3; a block 2 x 2 x (3 + 1).
        assert_eq!(order.steps(), 6 + 5 * 16);
        let data = |refreshes| Data { scale: crate::Scale::ONE, refreshes };
        assert!(order.check_refreshes(data(980)).is_ok());
        assert!(order.check_refreshes(data(981)).is_err());
    }
}
