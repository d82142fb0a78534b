//! A trial on a copy, from the base backup to the removal.
//!
//! Invariants:
//! 1. The lock is held, a watchdog watches, and the entry is in the ledger before the folder is made.
//! 2. Each block restarts the server, with the change or without: both kinds of block begin with an empty
//!    buffer pool, and what fills it (the warm-up) is left out.
//! 3. Every way out removes the copy, closes the entry, and then releases the watchdog.

use super::super::conduct::{Conducted, Order, TryProgress};
use super::super::control::Control;
use super::super::course::{Course, Server};
use super::super::ending::Changed;
use super::super::file_lock::FileLock;
use super::super::fresh::FreshLoad;
use super::super::ledger::{Begin, Ledger};
use super::super::load::Load;
use super::super::measure::{is_own, Measure, Ran, Source};
use super::super::outcome::Undone;
use super::super::undo::system_identifier;
use super::super::watchdog::Watchdog;
use super::super::{Switch, TryError, Wanted};
use super::original::{settings_of, Original};
use super::place::{close_abandoned, remove, unusable, CopySwitch, LOCK};
use super::replay::ReplayPlan;
use super::server::CopyServer;
use hardmeter_session::{Stop, Target};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A copy that can be made.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    /// The folder of the copy, and the changes on it.
    pub switch: CopySwitch,
    /// Seconds at the begin of a block that are left out.
    pub warm_up: f64,
    /// The server that is copied.
    target: Target,
    original: Original,
}

impl CopyPlan {
    /// Reads from the server what a copy needs, and checks the free space below `parent`. Creates nothing.
    ///
    /// # Errors
    /// If the server's processes are not visible here, space is insufficient, or a setting may not be tried.
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
    let Some(_lock) = FileLock::take(ledger.beside(LOCK), Duration::from_secs(2))? else {
        return Err(TryError::TrialRuns { pid: "of a copy".into() });
    };
    let watching = Watchdog::start(watchdog(&plan.switch.token))?;
    let entry = ledger.begin(begin(order, plan)?)?;
    let is_per_block = load.is_per_block();
    let course = Course { order, ledger, entry, is_per_block, is_own, stop, progress, watching, leftovers };
    let (warm_up, log) = (plan.warm_up, ledger.beside("load.log"));
    course.run(&mut Copying {
        plan,
        fresh: FreshLoad { order, load, replay, warm_up, stop, log },
        server: None,
        target: plan.target.clone(),
        texts: None,
    })
}

fn begin(order: &Order, plan: &CopyPlan) -> Result<Begin, TryError> {
    let mut control = Control::open(&plan.target, &Stop::new())?;
    Ok(Begin {
        server: system_identifier(&mut control)?,
        target: format!("a copy of {}", plan.target.description()),
        database: plan.target.database().to_owned(),
        switches: vec![Switch::Copy(plan.switch.clone())],
        postmaster: Some(plan.original.postmaster),
        ..order.begin(plan.switch.token.clone())
    })
}

struct Copying<'a> {
    plan: &'a CopyPlan,
    fresh: FreshLoad<'a>,
    server: Option<CopyServer>,
    /// The copy, once it exists.
    target: Target,
    /// Reads the texts of the statements of the last block.
    texts: Option<(Source, Control)>,
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

impl Server for Copying<'_> {
    fn prepare(&mut self, progress: TryProgress) -> Result<(), TryError> {
        let folder = &self.plan.switch.folder;
        progress("copying the server", 0.0);
        self.plan.switch.create()?;
        self.plan.original.back_up(&self.plan.target, folder, self.fresh.stop)?;
        let server = CopyServer::prepare(&self.plan.original, folder)?;
        self.target = server.target(&self.plan.target);
        self.server = Some(server);
        self.takes_effect()
    }

    /// Starts the server with or without the change, gives it the load, and measures behind the warm-up.
    fn block(&mut self, on: bool) -> Result<Ran, TryError> {
        let mut control = self.started(on)?;
        let source = Source::find(&mut control)?;
        let ran = self.fresh.block(&self.target, &source, &mut control)?;
        self.texts = Some((source, control));
        Ok(ran)
    }

    fn measures(&self) -> Vec<Measure> {
        self.texts.as_ref().map_or(Vec::new(), |(source, _)| source.measures())
    }

    fn texts(&mut self, ids: &[String]) -> Result<BTreeMap<String, String>, TryError> {
        match &mut self.texts {
            Some((source, control)) => source.texts(control, ids),
            None => Ok(BTreeMap::new()),
        }
    }

    fn remarks(&self) -> Vec<String> {
        let warm_up = self.plan.warm_up;
        let copy = format!("on a copy that was restarted for each block; its first {warm_up} s are left out");
        std::iter::once(copy).chain(self.fresh.replay.map(ReplayPlan::in_words)).collect()
    }
}

impl Copying<'_> {
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
        server.start(settings, self.fresh.stop)?;
        Control::open(&self.target, &Stop::new())
    }
}
