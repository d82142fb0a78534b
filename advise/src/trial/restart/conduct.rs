//! A trial that restarts the server itself for each block.
//!
//! Invariants:
//! 1. The lock is held, a watchdog watches, and the entry is in the ledger before the first line is written.
//! 2. Each block restarts the server, with the change or without: both kinds of block begin with an empty buffer
//!    pool, and what fills it (the warm-up) is left out.
//! 3. Every way out leaves a server that runs with the settings of before, or is the watchdog's to bring there.

use super::super::conduct::{Conducted, Order, TryProgress};
use super::super::control::{Control, Lock};
use super::super::course::{Course, Server};
use super::super::ending::Changed;
use super::super::fresh::FreshLoad;
use super::super::ledger::{Begin, Ledger};
use super::super::load::Load;
use super::super::measure::{is_own, Measure, Ran, Source};
use super::super::outcome::Undone;
use super::super::setting::SettingSwitch;
use super::super::undo::{system_identifier, undo_all};
use super::super::watchdog::Watchdog;
use super::super::{Switch, TryError, Wanted};
use super::revive::restart_lock;
use super::switch::{restart_command, RestartSwitch};
use hardmeter_session::{Stop, Target};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Settings that can be tried with restarts.
#[derive(Clone, Debug)]
pub struct RestartPlan {
    /// The settings, and the restart.
    pub switch: RestartSwitch,
    /// Seconds at the begin of a block that are left out.
    pub warm_up: f64,
}

impl RestartPlan {
    /// Reads from the server what the trial needs. `command` restarts it; without one it is found. Changes nothing.
    ///
    /// # Errors
    /// If the server does not run on this machine, a setting may not be tried, or a restart would do more than that.
    pub fn new(
        target: &Target,
        wanted: &[Wanted],
        command: Option<&str>,
        warm_up: f64,
        ledger: &Ledger,
    ) -> Result<RestartPlan, TryError> {
        let mut control = Control::open(target, &Stop::new())?;
        let mut settings = Vec::new();
        for one in wanted {
            let Wanted::Setting { name, value } = one else {
                return Err(TryError::Restart {
                    what: "an index needs no restart".into(),
                    remedy: "leave out --restart".into(),
                });
            };
            settings.push(SettingSwitch::of_restart(&mut control, name, value)?);
        }
        nothing_pends(&mut control)?;
        files_are_sound(&mut control)?;
        let elsewhere = || TryError::Restart {
            what: "the server's processes or its data folder cannot be seen here".into(),
            remedy: "run this on the server's machine, as root or as its account".into(),
        };
        let postmaster = Source::find(&mut control)?.postmaster().ok_or_else(elsewhere)?;
        let data = control.value("asking for the data folder", "SHOW data_directory")?.unwrap_or_default();
        let data = PathBuf::from(data);
        // A server that does not start is brought back by a file in this folder: here it must be the same one.
        let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        let here = identity(&data).ok_or_else(elsewhere)?;
        if identity(Path::new(&format!("/proc/{postmaster}/cwd"))) != Some(here) {
            return Err(elsewhere());
        }
        let program = fs::read_link(format!("/proc/{postmaster}/exe")).map_err(|_| elsewhere())?;
        let programs = program.parent().unwrap_or(Path::new("/"));
        let command = command.map_or_else(|| restart_command(postmaster, &data, programs), str::to_owned);
        let switch = RestartSwitch { settings, data, command, log: ledger.beside("restart.log") };
        Ok(RestartPlan { switch, warm_up })
    }
}

/// # Errors
/// If a restart would bring other changes, too.
fn nothing_pends(control: &mut Control) -> Result<(), TryError> {
    // The server leaves the mark on a setting whose line was removed again, and a session that reads pg_file_settings
    // sets it for lines that the command line overrides.
    const PENDING: &str = "SELECT string_agg(name, ', ' ORDER BY name) FROM pg_catalog.pg_settings s \
        WHERE pending_restart AND source NOT IN ('command line', 'environment variable', 'override') \
        AND coalesce((SELECT bool_or(error IS NOT NULL) FROM pg_catalog.pg_file_settings f \
            WHERE lower(f.name) = lower(s.name)), source = 'configuration file')";
    match control.value("looking for changes that wait for a restart", PENDING)? {
        Some(names) => Err(TryError::Restart {
            what: format!(
                "a restart would also change {names}: its new value waits for one (pending_restart)"
            ),
            remedy: "restart the server in a quiet hour or take that change back; what a killed trial left: \
                     hardmeter tune undo"
                .into(),
        }),
        None => Ok(()),
    }
}

/// # Errors
/// If the server might not start again with its files.
fn files_are_sound(control: &mut Control) -> Result<(), TryError> {
    // A good line for a setting of the command line counts as an error there, too.
    const ERRORS: &str =
        "SELECT string_agg(concat_ws(' ', sourcefile, 'line', sourceline, name) || ': ' || error, \
        '; ' ORDER BY seqno) FROM pg_catalog.pg_file_settings f WHERE error IS NOT NULL \
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_settings s WHERE lower(s.name) = lower(f.name) \
        AND s.source IN ('command line', 'environment variable', 'override'))";
    match control.value("looking for errors in the configuration files", ERRORS)? {
        Some(errors) => Err(TryError::Restart {
            what: format!("the server may not start again with its configuration files: {errors}"),
            remedy: "correct these lines, and reload; pg_file_settings.error shows what is left".into(),
        }),
        None => Ok(()),
    }
}

/// Conducts a trial on the server itself, which is restarted for each block. `watchdog` is as in `conduct`.
///
/// # Errors
/// If it cannot begin, or ended early; then the error reports whether the change was undone.
pub fn conduct_with_restarts(
    order: &Order,
    (plan, target): (&RestartPlan, &Target),
    (ledger, watchdog): (&Ledger, &dyn Fn(&str) -> Command),
    load: &Load,
    stop: &Stop,
    progress: TryProgress,
) -> Result<Conducted, TryError> {
    let undone = undo_all(target, ledger)?;
    let leftovers = undone.iter().map(|(entry, _)| entry.begin.entry).collect();
    let Some(_lock) = restart_lock(ledger, Duration::from_secs(2))? else {
        return Err(TryError::TrialRuns { pid: "with restarts".into() });
    };
    let mut control = Control::open(target, &Stop::new())?;
    control.lock_within(Lock::Trial, Duration::from_secs(2))?;
    let token = order.token();
    let watching = Watchdog::start(watchdog(&token))?;
    let entry = ledger.begin(Begin {
        server: system_identifier(&mut control)?,
        target: target.description().to_owned(),
        database: target.database().to_owned(),
        switches: vec![Switch::Restart(plan.switch.clone())],
        ..order.begin(token)
    })?;
    let is_per_block = load.is_per_block();
    let course = Course { order, ledger, entry, is_per_block, is_own, stop, progress, watching, leftovers };
    let (warm_up, log) = (plan.warm_up, ledger.beside("load.log"));
    course.run(&mut Restarting {
        plan,
        target,
        fresh: FreshLoad { order, load, replay: None, warm_up, stop, log },
        control,
        source: None,
    })
}

struct Restarting<'a> {
    plan: &'a RestartPlan,
    target: &'a Target,
    fresh: FreshLoad<'a>,
    control: Control,
    /// The source of the last block.
    source: Option<Source>,
}

impl Changed for Restarting<'_> {
    fn keep(&mut self) -> Option<String> {
        self.plan.switch.to(true, &mut self.control).ok().map(|()| "it gained".to_owned())
    }

    fn undo(&mut self) -> Result<Undone, TryError> {
        match self.control.reopen() {
            // The session has ended with a server that did not start.
            Err(TryError::Session(_)) => {
                self.plan.switch.revive()?;
                self.control.reopen()?;
            }
            reopened => reopened?,
        }
        self.plan.switch.restore(&mut self.control)
    }
}

impl Server for Restarting<'_> {
    fn block(&mut self, on: bool) -> Result<Ran, TryError> {
        self.fresh.order.guards.memory()?;
        self.fresh.order.guards.lag(&mut self.control)?;
        self.plan.switch.to(on, &mut self.control)?;
        let source = Source::find(&mut self.control)?;
        let ran = self.fresh.block(self.target, &source, &mut self.control);
        self.source = Some(source);
        ran
    }

    fn measures(&self) -> Vec<Measure> {
        self.source.as_ref().map_or(Vec::new(), Source::measures)
    }

    fn texts(&mut self, ids: &[String]) -> Result<BTreeMap<String, String>, TryError> {
        match &self.source {
            Some(source) => source.texts(&mut self.control, ids),
            None => Ok(BTreeMap::new()),
        }
    }

    fn remarks(&self) -> Vec<String> {
        let warm_up = self.plan.warm_up;
        vec![format!("the server was restarted for each block; its first {warm_up} s are left out")]
    }
}
