//! The server's traffic, run again on the copy: the statements that pg_stat_statements counted, as often as each was
//! called, with parameters that are drawn from the columns they are compared with.
//!
//! Limits: transactions are not rebuilt (each statement commits alone), clients have no think time, and a
//! statement whose parameters cannot be drawn is left out. How much of the execution time is covered is
//! printed.

use super::super::control::Control;
use super::super::TryError;
use super::fill::{Filler, Template};
use crate::Look;
use hardmeter_session::{Session, Stop, Target};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The statements to replay.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    statements: Vec<(Template, f64)>,
    sessions: usize,
    /// The part of the execution time that is replayed, 0 to 1.
    covered: f64,
}

/// Maximum number of sessions.
const MOST_SESSIONS: f64 = 64.0;
/// Maximum number of statements, the most expensive first.
const MOST_STATEMENTS: usize = 100;
/// Statements that cover a smaller share of the execution time do not represent the traffic.
const LEAST_COVERED: f64 = 0.5;

impl ReplayPlan {
    /// Plans the replay of the statements of a look. Parameter values are drawn from the server's tables.
    ///
    /// # Errors
    /// If the statements are not counted, or too few of them can be run again.
    pub fn of(look: &Look, target: &Target) -> Result<ReplayPlan, TryError> {
        let nothing = |why: String| TryError::Copy {
            what: format!("the server's traffic cannot be replayed: {why}"),
            remedy: "give a load: hardmeter tune try ... --copy -- LOAD".into(),
        };
        if !look.counted {
            return Err(nothing("pg_stat_statements is not installed".into()));
        }
        let mut control = Control::open(target, &Stop::new())?;
        control.run("reading only", "SET default_transaction_read_only = on")?;
        let mut filler = Filler::default();
        let (mut statements, mut covered, mut total) = (Vec::new(), 0.0, 0.0);
        for statement in look.statements.iter().take(MOST_STATEMENTS) {
            let calls = statement.counts.as_ref().map_or(0.0, |counts| counts.calls);
            if calls <= 0.0 || !is_work(&statement.text) {
                continue;
            }
            total += statement.share;
            let template = match filler.template(&mut control, &statement.text)? {
                Some(template) => Some(template),
                // Without a sample of the column, the literals of one execution are used.
                None => {
                    let example = statement.example.as_ref().filter(|text| is_work(text));
                    let example = example.filter(|text| !text.contains('$'));
                    example.map(|text| Template::fixed(text))
                }
            };
            if let Some(template) = template {
                covered += statement.share;
                statements.push((template, calls));
            }
        }
        let covered = if total > 0.0 { covered / total } else { 0.0 };
        if covered < LEAST_COVERED {
            return Err(nothing(format!(
                "values are known for statements with {:.0} % of the execution time",
                covered * 100.0
            )));
        }
        let sessions = look.active_backends.round().clamp(1.0, MOST_SESSIONS) as usize;
        Ok(ReplayPlan { statements, sessions, covered })
    }

    /// A description of the replayed statements, for the result.
    pub fn in_words(&self) -> String {
        format!(
            "load: {} statements of the server's traffic ({:.0} % of its execution time), replayed by {} sessions, each \
             statement a transaction of its own",
            self.statements.len(),
            self.covered * 100.0,
            self.sessions
        )
    }
}

/// Statements that read or write rows; statements that end or prepare a transaction are not replayed.
fn is_work(text: &str) -> bool {
    let word: String = text.trim_start().chars().take_while(|one| one.is_ascii_alphabetic()).collect();
    ["select", "insert", "update", "delete", "with", "merge", "values"]
        .contains(&word.to_lowercase().as_str())
}

/// Sessions that replay until it is dropped.
pub(in super::super) struct Replay {
    ends: Arc<AtomicBool>,
    errors: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    stop: Stop,
}

impl Replay {
    /// Starts it on a copy.
    ///
    /// # Errors
    /// If no session can be opened there.
    pub(in super::super) fn start(plan: &ReplayPlan, target: &Target) -> Result<Replay, TryError> {
        let stop = Stop::new();
        let mut replay =
            Replay { ends: Arc::default(), errors: Arc::default(), threads: Vec::new(), stop: stop.clone() };
        for number in 0..plan.sessions {
            let mut session = Session::open(&target.clone().named("hardmeter replay"), &stop)?;
            session.leave_cpu();
            let (plan, ends, errors) = (plan.clone(), replay.ends.clone(), replay.errors.clone());
            replay.threads.push(std::thread::spawn(move || {
                work(&plan, &mut session, number as u64 + 1, &ends, &errors);
            }));
        }
        Ok(replay)
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        self.stop.ask(); // cancels what still runs
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(plan: &ReplayPlan, session: &mut Session, seed: u64, ends: &AtomicBool, errors: &AtomicU64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let total: f64 = plan.statements.iter().map(|(_, calls)| calls).sum();
    let mut usable: Vec<bool> =
        plan.statements.iter().enumerate().map(|(at, (template, _))| template.prepare(session, at)).collect();
    while !ends.load(Ordering::SeqCst) && usable.iter().any(|one| *one) {
        let mut point = dice.unit() * total;
        let chosen = plan.statements.iter().position(|(_, calls)| {
            point -= calls;
            point < 0.0
        });
        let at = chosen.unwrap_or(0);
        if !usable[at] {
            continue;
        }
        let sql = plan.statements[at].0.execution(at, &mut dice);
        match session.query("replaying a statement", &sql) {
            Ok(_) => {}
            Err(error) if error.ends_session() => return,
            // For example a duplicate key: the next values may succeed.
            Err(_) => {
                if errors.fetch_add(1, Ordering::SeqCst) > 10_000 {
                    usable[at] = false;
                }
            }
        }
    }
}

/// Random numbers, the same for the same seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// The next one.
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// At least 0, below 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of these.
    pub(super) fn of<'a>(&mut self, values: &'a [String]) -> Option<&'a str> {
        let at = (self.unit() * values.len() as f64) as usize;
        values.get(at).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_is_replayed() {
        assert!(
            is_work("  SELECT 1")
                && is_work("update t set a = $1")
                && is_work("WITH a AS (SELECT 1) SELECT 2")
        );
        assert!(!is_work("BEGIN") && !is_work("COMMIT") && !is_work("SET a = 1") && !is_work("VACUUM t"));
    }

    #[test]
    fn dice_are_even() {
        let mut dice = Dice(7);
        let n = 10_000;
        let mean = (0..n).map(|_| dice.unit()).sum::<f64>() / f64::from(n);
        assert!((0.47..0.53).contains(&mean), "{mean}");
    }
}
