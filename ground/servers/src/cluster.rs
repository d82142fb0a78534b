//! One throwaway server: open, start, query, load, stop. Creation and removal are in [`mod@create`].

mod create;

use crate::account::{is_root, Account};
use crate::diagnose::diagnose;
use crate::engine::{Site, StopOutcome};
use crate::error::{io_error, ServerError};
use crate::folders::ServerFolder;
use crate::lock::FolderLock;
use crate::log::{self, Log};
use crate::process::{children, detach, ProcessIdentity};
use crate::programs::Programs;
use crate::settings::{merge, refuse_reserved, Setting};
use crate::state::{Loaded, State};
use hardmeter_samples::model::Pid;
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Receives a short description of the current step, each time it changes.
pub type Progress<'a> = &'a dyn Fn(&str);

/// Converts the server's command into one that runs it, for example inside a simulator.
///
/// The command must `exec` the server: the server's process id is the child's. It runs as the server's account,
/// which must be able to read everything it needs ([`Cluster::lend`]).
pub type Wrapper = Box<dyn Fn(Vec<OsString>) -> Command>;

/// Options of a start.
#[derive(Default)]
pub struct StartOptions {
    /// Wraps the server's command.
    pub wrapper: Option<Wrapper>,
    /// Time limit for accepting connections. By default a minute, with a wrapper ten: under a simulator PostgreSQL
    /// needs 10 to 60 seconds.
    pub patience: Option<Duration>,
    /// Polled while waiting: whether to give up.
    pub interrupted: Option<fn() -> bool>,
    /// Settings to change, for this start and later ones.
    pub settings: Vec<Setting>,
    /// Other programs to run it with, for this start and later ones; they must be able to read its data.
    pub programs: Option<Programs>,
}

/// Whether a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It runs; its first process.
    Running(Pid),
    /// It was stopped, or never started.
    Stopped,
    /// It was started and died without being stopped.
    Died(Pid),
}

/// One throwaway server.
#[derive(Debug)]
pub struct Cluster {
    folder: ServerFolder,
    state: State,
    programs: Programs,
    account: Account,
}

impl Cluster {
    /// Opens the server in a folder that Hardmeter made.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the folder holds no server, its state is damaged, or the server belongs to another
    /// user.
    pub fn open(folder: &ServerFolder) -> Result<Cluster, ServerError> {
        let state = State::read(folder)?;
        let account = if is_root() {
            Account::of_name(&state.account).ok_or_else(|| ServerError::Damaged {
                folder: folder.path().to_owned(),
                reason: format!("its account {} is gone", state.account),
            })?
        } else {
            let current = Account::for_server(&[])?;
            if current.name() != state.account {
                // Root's servers run as another account, but only root can have set that.
                let owner = if crate::engine::is_usual_account(&state) { "root" } else { &state.account };
                return Err(ServerError::NotYours {
                    folder: folder.path().to_owned(),
                    owner: owner.to_owned(),
                });
            }
            current
        };
        let programs =
            Programs { engine: state.engine, folder: state.programs.clone(), version: state.version.clone() };
        Ok(Cluster { folder: folder.clone(), state, programs, account })
    }

    /// The recorded state of the server.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The account that it runs as.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The folder.
    pub fn folder(&self) -> &ServerFolder {
        &self.folder
    }

    /// The programs that run it.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.state.socket_folder.join(self.state.engine.ways().socket_name(&self.state))
    }

    /// Whether it runs.
    pub fn status(&self) -> Status {
        match &self.state.process {
            None => Status::Stopped,
            Some(process) if process.is_alive() => Status::Running(process.pid),
            Some(process) => Status::Died(process.pid),
        }
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        matches!(self.status(), Status::Running(_))
    }

    /// Starts the server and waits until it accepts connections; returns its first process.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the server runs already, another process has the lock, or the server does not accept
    /// connections.
    pub fn start(&mut self, options: &StartOptions, progress: Progress) -> Result<Pid, ServerError> {
        let _lock = self.lock()?;
        match self.status() {
            Status::Running(pid) => {
                return Err(ServerError::AlreadyRunning { folder: self.folder.path().to_owned(), pid })
            }
            Status::Died(_) => {
                for path in self.state.engine.ways().leftovers(&self.site()) {
                    // It may be missing already, or the server may remove it: ignore errors.
                    let _ = std::fs::remove_file(path);
                }
            }
            Status::Stopped => {}
        }
        self.state.process = None;
        let before = (self.state.clone(), self.programs.clone());
        let begun = Instant::now();
        let mut started = self.launch(options, progress);
        while started.as_ref().is_err_and(orphans_remain) && begun.elapsed() < PATIENCE_WITH_ORPHANS {
            self.end_process(PATIENCE_WITH_BEGINNERS, &|_: &str| {});
            std::thread::sleep(Duration::from_millis(200));
            started = self.launch(options, progress);
        }
        if started.is_err() {
            self.end_process(PATIENCE_WITH_BEGINNERS, &|_: &str| {});
            // Forget a setting or program that failed: it would fail the next start, too.
            (self.state, self.programs) = before;
            // Report the error of the start. If this write fails, the server shows as died.
            let _ = self.state.write(&self.folder);
        }
        started
    }

    fn launch(&mut self, options: &StartOptions, progress: Progress) -> Result<Pid, ServerError> {
        self.programs = self.check_data(options.programs.as_ref().unwrap_or(&self.programs))?;
        self.state.programs.clone_from(&self.programs.folder);
        self.state.version.clone_from(&self.programs.version);
        self.ensure_socket_folder()?;
        if let Some(options) = self.state.engine.ways().client_options(&self.site()) {
            let path = self.folder.client_options();
            std::fs::write(&path, options).map_err(io_error("write", path))?;
        }
        refuse_reserved(&options.settings, self.state.engine.ways().reserved())?;
        merge(&mut self.state.settings, &options.settings);

        let log = Log::open(self.folder.log())?;
        let words = self.state.engine.ways().serve(&self.site());
        progress(&format!("starting {}", self.state.engine.title()));
        let mut command = match &options.wrapper {
            Some(wrapper) => wrapper(words),
            None => plain(words),
        };
        self.account.apply(&mut command);
        command.stdout(log.writer()?).stderr(log.writer()?);
        detach(&mut command);
        let program = command.get_program().to_owned();
        let mut child = command.spawn().map_err(io_error("run", &program))?;
        let pid = Pid(child.id() as i32);
        // Recorded before it is ready: after an interruption, `stop` still finds it.
        self.state.process = ProcessIdentity::of(pid);
        self.state.write(&self.folder)?;
        self.await_ready(&mut child, options, &log, progress)?;
        Ok(pid)
    }

    /// Stops the server: first by request, then by signal, finally by SIGKILL. Does nothing if it does not run.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if another process has the lock, or the server does not end.
    pub fn stop(&mut self, progress: Progress) -> Result<StopOutcome, ServerError> {
        let _lock = self.lock()?;
        let outcome = self.end_process(Duration::MAX, progress);
        self.state.process = None;
        self.state.write(&self.folder)?;
        Ok(outcome)
    }

    /// Runs SQL; returns the rows, one per line, with the separator of the engine's client.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the server does not run, or its client reports an error.
    pub fn query(&self, sql: &str) -> Result<String, ServerError> {
        self.require_running()?;
        let mut command = self.command(self.state.engine.ways().client(&self.site(), sql));
        let output = command.output().map_err(io_error("run", command.get_program()))?;
        if !output.status.success() {
            return Err(self.failed(
                "the query",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim().into(),
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Loads pgbench's tables; existing ones are replaced.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the server does not run, `scale` is not possible for the engine, or a statement fails.
    pub fn load_pgbench(&mut self, scale: u32, progress: Progress) -> Result<(), ServerError> {
        let _lock = self.lock()?;
        self.require_running()?;
        let mut command = self.command(self.state.engine.ways().load_pgbench(&self.site(), scale)?);
        // An interrupted load leaves incomplete tables: record the load at its end.
        self.state.loaded.retain(|loaded| loaded.workload != "pgbench");
        self.state.write(&self.folder)?;
        progress(&format!("loading pgbench, scale {scale}"));
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(io_error("run", command.get_program()))?;
        let mut said: Vec<String> = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                progress(&format!("loading pgbench, scale {scale}: {}", line.trim()));
                said.push(line);
                let kept = said.len().saturating_sub(10);
                said.drain(..kept);
            }
        }
        let status = child.wait().map_err(io_error("wait for", command.get_program()))?;
        if !status.success() {
            return Err(self.failed("loading pgbench", status, said.join("\n")));
        }
        self.state.loaded.push(Loaded { workload: "pgbench".into(), scale });
        self.state.write(&self.folder)
    }

    /// The server's first process and its children; threads are not listed.
    pub fn processes(&self) -> Vec<Pid> {
        match self.status() {
            Status::Running(pid) => std::iter::once(pid).chain(children(pid)).collect(),
            _ => Vec::new(),
        }
    }

    /// The processes that serve clients, by the server's own report; for a threaded server its one process.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the server does not run or does not answer.
    pub fn backends(&self) -> Result<Vec<Pid>, ServerError> {
        let pid = self.require_running()?;
        let Some(sql) = self.state.engine.ways().backends_sql() else { return Ok(vec![pid]) };
        Ok(self.query(sql)?.lines().filter_map(|line| line.trim().parse().ok().map(Pid)).collect())
    }

    /// A command that runs as the server's account, for tools that need its access rights.
    pub fn command(&self, words: Vec<OsString>) -> Command {
        let mut command = plain(words);
        self.account.apply(&mut command);
        command
    }

    /// Environment variables with which clients such as pgbench find the server; its programs are on PATH.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut environment = self.state.engine.ways().environment(&self.site());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.programs.folder.clone()).chain(std::env::split_paths(&path));
        environment.push(("PATH", std::env::join_paths(folders).unwrap_or(path)));
        environment
    }

    /// The last lines that the server printed.
    pub fn log_tail(&self) -> String {
        log::tail(&self.folder.log(), 0)
    }

    fn lock(&mut self) -> Result<FolderLock, ServerError> {
        let lock = FolderLock::take(&self.folder)?;
        // Another command may have been at work since this server was opened.
        self.state = State::read(&self.folder)?;
        Ok(lock)
    }

    fn site(&self) -> Site<'_> {
        Site { folder: &self.folder, programs: &self.programs, state: &self.state }
    }

    fn require_running(&self) -> Result<Pid, ServerError> {
        let folder = self.folder.path().to_owned();
        match self.status() {
            Status::Running(pid) => Ok(pid),
            Status::Stopped => Err(ServerError::NotRunning { folder }),
            Status::Died(pid) => Err(ServerError::Died { folder, pid, log: self.log_tail() }),
        }
    }

    /// Checks that the data folder is complete and that these programs still exist and match its version; returns
    /// their present state.
    fn check_data(&self, programs: &Programs) -> Result<Programs, ServerError> {
        let folder = self.folder.path().to_owned();
        let ways = self.state.engine.ways();
        let found = Programs::at(self.state.engine, &programs.folder).ok_or_else(|| {
            ServerError::ProgramsMissing {
                engine: ways.title(),
                searched: programs.folder.display().to_string(),
                package: ways.package(Some(&programs.version)),
            }
        })?;
        let made_by = match ways.data_version(&self.site()) {
            Ok(version) => version,
            Err(reason) => return Err(ServerError::Damaged { folder, reason }),
        };
        if made_by != found.data_version() {
            return Err(ServerError::DataVersion {
                folder,
                engine: ways.title(),
                made_by,
                programs: found.folder,
                found: found.version,
            });
        }
        self.account.require_reach(&self.folder.data())?;
        self.account.require_reach(&found.path(ways.server_program()))?;
        Ok(found)
    }

    fn await_ready(
        &self,
        child: &mut Child,
        options: &StartOptions,
        log: &Log,
        progress: Progress,
    ) -> Result<(), ServerError> {
        let pid = Pid(child.id() as i32);
        let title = self.state.engine.title();
        let usual = if options.wrapper.is_some() { 600 } else { 60 };
        let patience = options.patience.unwrap_or(Duration::from_secs(usual));
        let started = Instant::now();
        let mut pause = Duration::from_millis(5);
        loop {
            if let Some(status) =
                child.try_wait().map_err(io_error("wait for", self.programs.folder.clone()))?
            {
                return Err(self.failed(&format!("starting {title}"), status, log.tail()));
            }
            if self.state.engine.ways().is_ready(&self.site(), pid) {
                return Ok(());
            }
            if options.interrupted.is_some_and(|interrupted| interrupted()) {
                return Err(ServerError::Interrupted { what: format!("starting {title}") });
            }
            if started.elapsed() >= patience {
                let what = format!("starting {title}");
                return Err(ServerError::TimedOut { what, seconds: patience.as_secs(), log: log.tail() });
            }
            progress(&format!("waiting for {title}, {} s", started.elapsed().as_secs()));
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// Ends the recorded process, if it is alive, by the engine's steps, each for its time limit but at most
    /// `patience`, and then by SIGKILL.
    fn end_process(&self, patience: Duration, progress: Progress) -> StopOutcome {
        // A dead child is reaped here: as a zombie it keeps its number, and PostgreSQL would take it for a running
        // server.
        let gone = |process: &&ProcessIdentity| process.wait_until_gone(Duration::ZERO);
        let Some(process) = self.state.process.as_ref().filter(|process| !gone(process)) else {
            return StopOutcome::NotRunning;
        };
        for step in self.state.engine.ways().stop_steps() {
            progress(&format!("stopping {} ({:?})", self.state.engine.title(), step.outcome).to_lowercase());
            process.signal(step.signal);
            if process.wait_until_gone(step.patience.min(patience)) {
                return step.outcome;
            }
        }
        // List children before killing: without their parent they cannot be identified.
        let family: Vec<_> = children(process.pid).into_iter().filter_map(ProcessIdentity::of).collect();
        for member in family.iter().chain([process]) {
            member.signal(libc::SIGKILL);
        }
        for member in family.iter().chain([process]) {
            member.wait_until_gone(Duration::from_secs(10));
        }
        StopOutcome::Killed
    }

    fn failed(&self, what: &str, status: ExitStatus, log: String) -> ServerError {
        let remedy =
            diagnose(&log).unwrap_or_else(|| format!("the whole log is {}", self.folder.log().display()));
        ServerError::Failed { what: what.to_owned(), status: in_words(status), log, remedy }
    }
}

/// Time limit of each stop step for a server that never became ready: it has no data to write, and may not handle
/// signals yet.
const PATIENCE_WITH_BEGINNERS: Duration = Duration::from_secs(5);

/// How long processes of a killed server may take to notice; inside a simulator, seconds.
const PATIENCE_WITH_ORPHANS: Duration = Duration::from_secs(60);

/// Whether a start failed because processes of a dead server still hold its shared memory, as PostgreSQL reports.
fn orphans_remain(error: &ServerError) -> bool {
    error.to_string().contains("pre-existing shared memory block")
}

pub(crate) fn plain(words: Vec<OsString>) -> Command {
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

pub(crate) fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// Whether a path with a file name fits into a socket's address: 108 bytes with the terminating zero.
fn fits_socket(folder: &std::path::Path, name: &str) -> bool {
    const LONGEST: usize = 108 - 1;
    AsRef::<OsStr>::as_ref(&folder.join(name)).len() <= LONGEST
}

impl Cluster {
    /// Creates a folder for the socket that only the server's account and root may enter: in the server's folder,
    /// or with a short name in the temporary folder if that path is too long for a socket.
    fn ensure_socket_folder(&mut self) -> Result<(), ServerError> {
        let name = self.state.engine.ways().socket_name(&self.state);
        let inside = self.folder.socket();
        if fits_socket(&inside, &name) {
            self.state.socket_folder = inside;
            return Ok(());
        }
        if self.state.socket_folder.is_dir() && fits_socket(&self.state.socket_folder, &name) {
            return Ok(());
        }
        let temporary = std::env::temp_dir();
        let short: PathBuf = tempfile::Builder::new()
            .prefix("hardmeter-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&temporary)
            .map_err(io_error("make a folder for the socket in", temporary))?
            .keep();
        self.account.own(&short)?;
        self.state.socket_folder = short;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_socket_address_holds_107_bytes() {
        let name = ".s.PGSQL.5432"; // 13 bytes, and a slash before
        let folder = |length: usize| PathBuf::from("/".to_owned() + &"x".repeat(length - 1));
        assert!(fits_socket(&folder(93), name));
        assert!(!fits_socket(&folder(94), name));
        assert!(fits_socket(Path::new("/"), name));
    }

    #[test]
    fn an_end_is_told_in_words() {
        assert_eq!(in_words(ExitStatus::from_raw(0x100)), "exit status 1");
        assert_eq!(in_words(ExitStatus::from_raw(9)), "ended by signal 9");
    }
}
