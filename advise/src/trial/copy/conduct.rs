//! A trial on a copy, from the base backup to the removal.
//!
//! Invariants:
//! 1. The lock is held, a watchdog watches, and the entry is in the ledger before the folder is made.
//! 2. Each block restarts the server, with the change or without: both kinds of block begin with an empty
//!    buffer pool, and what fills it (the warm-up) is left out.
//! 3. Every way out removes the copy, closes the entry, and then releases the watchdog.

use super::super::conduct::{Conducted, Order, TryProgress};
use super::super::control::Control;
use super::super::ending::{end, Changed};
use super::super::ledger::{now, Begin, Ledger};
use super::super::load::{Load, Running};
use super::super::measure::{is_idle, Block, Mix, Source};
use super::super::outcome::Undone;
use super::super::pause::{check, pause};
use super::super::rounds::Rounds;
use super::super::undo::system_identifier;
use super::super::watchdog::Watchdog;
use super::super::{Switch, TrialResult, TryError, Wanted};
use super::original::{settings_of, Original};
use super::place::{close_abandoned, remove, unusable, CopyLock, CopySwitch};
use super::replay::{Replay, ReplayPlan};
use super::server::CopyServer;
use hardmeter_session::{Stop, Target};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A copy that may be made.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    /// Where, and what is changed there.
    pub switch: CopySwitch,
    /// Seconds at the begin of a block that are left out.
    pub warm_up: f64,
    /// The server that is copied.
    target: Target,
    original: Original,
}

impl CopyPlan {
    /// Asks the server what a copy takes, and whether there is room for it below `parent`. Nothing is made.
    ///
    /// # Errors
    /// If the server's processes are not seen here, the room does not suffice, or a setting may not be tried.
    pub fn new(
        target: &Target,
        wanted: &[Wanted],
        parent: &Path,
        warm_up: f64,
        seed: u64,
    ) -> Result<CopyPlan, TryError> {
        let mut control = Control::open(target, &Stop::new())?;
        let settings = settings_of(&mut control, wanted)?;
        let original = Original::read(&mut control)?;
        let parent = parent.canonicalize().map_err(|error| unusable(parent, &error))?;
        original.fits(&parent)?;
        let token = format!("{}-{seed}", std::process::id());
        let folder = parent.join(format!("hardmeter-copy-{token}"));
        // The kernel's limit for the path of a socket.
        if folder.as_os_str().len() > 75 {
            return Err(TryError::Copy {
                what: format!("{} is too long a path for a socket", folder.display()),
                remedy: "name a folder with a shorter path: --copy DIR".into(),
            });
        }
        let switch = CopySwitch { folder, token, settings };
        Ok(CopyPlan { switch, warm_up, target: target.clone(), original })
    }
}

/// Conducts a trial on a copy of the server. `watchdog` is as in `conduct`; `replay` is the load where
/// `load` is the server's own traffic.
///
/// # Errors
/// If it cannot begin, or ended early; then the copy has been removed.
pub fn conduct_on_copy(
    order: &Order,
    plan: &CopyPlan,
    ledger: &Ledger,
    watchdog: &dyn Fn(&str) -> Command,
    (load, replay): (&Load, Option<&ReplayPlan>),
    stop: &Stop,
    progress: TryProgress,
) -> Result<Conducted, TryError> {
    let left = close_abandoned(ledger, None, Duration::from_secs(2), "removed before the next trial")?;
    let leftovers = left.iter().map(|(entry, _)| entry.begin.entry).collect();
    let Some(_lock) = CopyLock::take(ledger, Duration::from_secs(2))? else {
        return Err(TryError::TrialRuns { pid: "of a copy".into() });
    };
    let watching = Watchdog::start(watchdog(&plan.switch.token))?;
    let entry = ledger.begin(begin(order, plan)?)?;
    let mut copy = Copying {
        order,
        plan,
        load,
        replay,
        stop,
        progress,
        watching: Some(watching),
        log: ledger.beside("load.log"),
        server: None,
        target: plan.target.clone(),
        texts: None,
        done: 0,
    };
    let begun = Instant::now();
    let measured = copy.measure();
    let measured = measured.map(|result| TrialResult { seconds: begun.elapsed().as_secs_f64(), ..result });
    let watching = copy.watching.take();
    let (closed, note, result) = end(&mut copy, false, (ledger, entry), measured, watching)?;
    Ok(Conducted { entry, result, closed, note, leftovers })
}

fn begin(order: &Order, plan: &CopyPlan) -> Result<Begin, TryError> {
    let mut control = Control::open(&plan.target, &Stop::new())?;
    Ok(Begin {
        entry: 0,
        token: plan.switch.token.clone(),
        at: now(),
        server: system_identifier(&mut control)?,
        target: format!("a copy of {}", plan.target.description()),
        database: plan.target.database().to_owned(),
        remedy: order.remedy.clone(),
        finding: order.finding.clone(),
        evidence: order.evidence.clone(),
        predicted: order.predicted,
        switches: vec![Switch::Copy(plan.switch.clone())],
        backends: Vec::new(),
        run: order.run.clone(),
        postmaster: Some(plan.original.postmaster),
    })
}

struct Copying<'a> {
    order: &'a Order,
    plan: &'a CopyPlan,
    load: &'a Load,
    replay: Option<&'a ReplayPlan>,
    stop: &'a Stop,
    progress: TryProgress<'a>,
    watching: Option<Watchdog>,
    log: std::path::PathBuf,
    server: Option<CopyServer>,
    /// The copy, once it is there.
    target: Target,
    /// Reads the texts of statements: of the block that ended last.
    texts: Option<(Source, Control)>,
    done: u32,
}

impl Changed for Copying<'_> {
    /// A copy is never kept.
    fn keep(&mut self) -> Option<String> {
        None
    }

    fn undo(&mut self) -> Result<Undone, TryError> {
        self.server = None; // stops it
        remove(&self.plan.switch)
    }

    fn note(&self) -> String {
        "on a copy, which is removed".into()
    }
}

/// A load that works on the copy.
enum Working {
    Command(Running),
    Replay(#[allow(dead_code)] Replay), // it works until it is dropped
}

impl Working {
    fn failures(&self) -> u64 {
        match self {
            Working::Command(running) => running.failures(),
            Working::Replay(_) => 0,
        }
    }

    fn failure(&self) -> TryError {
        match self {
            Working::Command(running) => running.failure(),
            Working::Replay(_) => TryError::Answer { what: "a replayed statement".into() },
        }
    }
}

impl Copying<'_> {
    fn measure(&mut self) -> Result<TrialResult, TryError> {
        let folder = &self.plan.switch.folder;
        (self.progress)("copying the server", 0.0);
        self.plan.switch.create()?;
        self.plan.original.back_up(&self.plan.target, folder, self.stop)?;
        let server = CopyServer::prepare(&self.plan.original, folder)?;
        self.target = server.target(&self.plan.target);
        self.server = Some(server);
        self.takes_effect()?;

        let mut first = Vec::new();
        for _ in 0..self.order.pace.first_blocks {
            let (block, failed) = self.block(false, "first part, nothing changed")?;
            if let Some(failure) = failed {
                return Err(failure);
            }
            first.push(block);
        }
        let (source, mix) = self.mix(&first)?;
        let mut rounds = Rounds::new(self.order, &source, mix, &first)?;
        while let Some(on) = rounds.next() {
            let what = if on { "with the change" } else { "as found" };
            let (block, failed) = self.block(on, what)?;
            rounds.observe(on, block, failed.is_some())?;
            if let (Some(failure), true) = (failed, rounds.failed_as_found()) {
                return Err(failure);
            }
            if rounds.unusable() >= 5 {
                return Err(TryError::NoLoad { seconds: 10.0 * self.order.pace.block });
            }
        }
        let texts = match &mut self.texts {
            Some((source, control)) => source.texts(control, &rounds.compared())?,
            None => Default::default(),
        };
        let mut result = rounds.result(&texts);
        result.remarks.push(format!(
            "on a copy that was restarted for each block; its first {} s are left out",
            self.plan.warm_up
        ));
        if self.load.is_per_block() {
            result.remarks.push("one run of the load counts as one transaction".into());
        }
        if let Some(replay) = self.replay {
            result.remarks.push(replay.in_words());
        }
        Ok(result)
    }

    /// Starts the copy once with the change, and once without.
    ///
    /// # Errors
    /// If it does not start, or has the values of the server either way.
    fn takes_effect(&mut self) -> Result<(), TryError> {
        let settings = &self.plan.switch.settings;
        let mut changed = self.started(true)?;
        for setting in settings {
            let sql = format!("SELECT current_setting({})", super::super::control::literal(&setting.name));
            let value = changed.value("reading the setting", &sql)?.unwrap_or_default();
            if value == setting.was {
                return Err(TryError::Already { what: format!("{} is {value}", setting.name) });
            }
        }
        drop(changed);
        let mut control = self.started(false)?;
        for setting in settings {
            let sql = format!("SELECT current_setting({})", super::super::control::literal(&setting.name));
            let value = control.value("reading the setting", &sql)?.unwrap_or_default();
            if value != setting.was {
                return Err(TryError::NoEffect { name: setting.name.clone(), value });
            }
        }
        Ok(())
    }

    fn started(&mut self, on: bool) -> Result<Control, TryError> {
        self.texts = None;
        let settings = if on { self.plan.switch.settings.as_slice() } else { &[] };
        let Some(server) = &mut self.server else {
            return Err(TryError::Answer { what: "starting the copy".into() });
        };
        server.stop();
        server.start(settings, self.stop)?;
        Control::open(&self.target, &Stop::new())
    }

    /// The statements of the first part.
    fn mix(&mut self, first: &[Block]) -> Result<(Source, Mix), TryError> {
        let mix = Mix::of(first);
        let ids: Vec<String> = mix.0.keys().cloned().collect();
        let Some((source, control)) = &mut self.texts else {
            return Err(TryError::Answer { what: "reading the first part".into() });
        };
        let texts = source.texts(control, &ids)?;
        let mix = mix.without_own(&texts);
        if !self.load.is_per_block() && is_idle(first, &mix) {
            return Err(TryError::NoLoad { seconds: first.iter().map(|block| block.seconds).sum() });
        }
        Ok((source.clone(), mix))
    }

    /// Starts the server with or without the change, gives it the load, and measures behind the warm-up. A load that
    /// fails is returned beside the block.
    fn block(&mut self, on: bool, what: &str) -> Result<(Block, Option<TryError>), TryError> {
        let most = self.order.pace.first_blocks + 2 * self.order.pace.most_rounds;
        (self.progress)(what, f64::from(self.done) / f64::from(most));
        self.done += 1;
        check(self.stop)?;
        if !self.watching.as_mut().is_some_and(Watchdog::watches) {
            return Err(TryError::Watchdog { reason: "it has ended during the trial".into() });
        }
        let mut control = self.started(on)?;
        let source = Source::find(&mut control)?;
        let (block, failed) = match self.load.is_per_block() {
            true => self.run_of_load(&source, &mut control)?,
            false => self.part_of_load(&source, &mut control)?,
        };
        self.texts = Some((source, control));
        Ok((block, failed))
    }

    fn part_of_load(
        &self,
        source: &Source,
        control: &mut Control,
    ) -> Result<(Block, Option<TryError>), TryError> {
        let working = match self.replay {
            Some(plan) => Working::Replay(Replay::start(plan, &self.target)?),
            None => Working::Command(Running::start(&self.load.at(&self.target), self.log.clone())?),
        };
        self.sleep(self.plan.warm_up)?;
        let before = source.read(control)?;
        self.sleep(self.order.pace.block)?;
        let block = source.read(control)?.since(&before);
        let failed = (working.failures() > 0).then(|| working.failure());
        Ok((block, failed))
    }

    /// One run warms up, the next is measured.
    fn run_of_load(
        &self,
        source: &Source,
        control: &mut Control,
    ) -> Result<(Block, Option<TryError>), TryError> {
        let running = Running::start(&self.load.at(&self.target), self.log.clone())?;
        let run = || -> Result<Option<TryError>, TryError> {
            let succeeded = running.run_block(self.stop)?.ok_or(TryError::Interrupted)?;
            Ok((!succeeded).then(|| running.failure()))
        };
        if let Some(failure) = run()? {
            return Ok((Block::default(), Some(failure)));
        }
        let before = source.read(control)?;
        let begin = Instant::now();
        let failed = run()?;
        let seconds = begin.elapsed().as_secs_f64();
        // The sessions that just ended write down what they counted.
        self.sleep(0.1)?;
        let block = source.read(control)?.since(&before);
        Ok((Block { seconds, transactions: 1.0, rollbacks: 0.0, ..block }, failed))
    }

    fn sleep(&self, seconds: f64) -> Result<(), TryError> {
        pause(seconds, self.stop, Some(&self.order.guards))
    }
}
