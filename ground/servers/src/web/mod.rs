//! Throwaway web servers: Apache 2.4, with PHP as its module or by PHP-FPM. They do not affect services or
//! configuration of the system.
//!
//! ```text
//! DIR/web.json     what runs, and where it listens                                         (Hardmeter's)
//! DIR/server.log   what the programs printed                                               (Hardmeter's)
//! DIR/httpd.conf   DIR/php.ini   DIR/fpm.conf     rewritten at each start                  (Hardmeter's)
//! DIR/run/         process ids, Apache's and PHP's logs, PHP's socket      (of the server's account)
//! ```
//!
//! Unlike a database server it opens a network port, since HTTP clients need one: a free one, on 127.0.0.1 only.

mod config;
mod programs;
mod setup;

pub use programs::WebPrograms;
pub use setup::{Mpm, Php, WebSetup};

use crate::account::Account;
use crate::cluster::{in_words, plain, Progress};
use crate::engine::{words, StopOutcome};
use crate::error::{io_error, ServerError};
use crate::folders::ServerFolder;
use crate::lock::FolderLock;
use crate::log::{self, Log};
use crate::process::{children, detach, ProcessIdentity};
use config::Places;
use hardmeter_samples::model::Pid;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// Time limit of a start.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time limit of an orderly end: Apache does not wait for clients, PHP-FPM finishes its current page.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// Another program may take the port between the search for a free one and Apache's bind.
const PORTS_TRIED: usize = 3;

/// The recorded state of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WebState {
    format: u32,
    mpm: Mpm,
    php: Php,
    account: String,
    documents: PathBuf,
    port: u16,
    apache: Option<ProcessIdentity>,
    fpm: Option<ProcessIdentity>,
}

const FORMAT: u32 = 1;

/// One throwaway web server.
#[derive(Debug)]
pub struct WebServer {
    folder: ServerFolder,
    account: Account,
    state: WebState,
}

impl WebServer {
    /// Makes a server in a new or empty folder, or again in one that held a stopped server of Hardmeter, and
    /// starts it.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if a program or module is missing, the folder holds something else, or a server does not
    /// start.
    pub fn start(
        folder: &ServerFolder,
        setup: &WebSetup,
        progress: Progress,
    ) -> Result<WebServer, ServerError> {
        let programs = WebPrograms::find()?;
        programs.require(setup.mpm, setup.php)?;
        let account = match &setup.account {
            Some(account) => account.clone(),
            None => Account::for_server(&["www-data", "nobody"])?,
        };
        prepare(folder, &account)?;
        let _lock = FolderLock::take(folder)?;
        account.require_reach(folder.path())?;
        account.require_reach(&setup.documents)?;
        for (_, file) in &setup.modules {
            account.require_reach(file)?;
        }
        for file in setup.extensions.iter().filter(|file| file.is_absolute()) {
            account.require_reach(file)?;
        }
        let mut server = WebServer {
            folder: folder.clone(),
            state: WebState {
                format: FORMAT,
                mpm: setup.mpm,
                php: setup.php,
                account: account.name().to_owned(),
                documents: setup.documents.clone(),
                port: 0,
                apache: None,
                fpm: None,
            },
            account,
        };
        let mut started = server.launch(setup, &programs, progress);
        for _ in 1..PORTS_TRIED {
            if !started.as_ref().is_err_and(|error| error.to_string().contains("Address already in use")) {
                break;
            }
            server.end_all(libc::SIGTERM);
            started = server.launch(setup, &programs, progress);
        }
        if started.is_err() {
            server.end_all(libc::SIGTERM);
            // Report the error of the start.
            let _ = server.write_state();
        }
        started.map(|()| server)
    }

    /// Opens the server in a folder that was started before.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the folder holds no web server, or it belongs to another user.
    pub fn open(folder: &ServerFolder) -> Result<WebServer, ServerError> {
        let state = read_state(folder)?;
        let current = Account::for_server(&[&state.account])?;
        if current.name() != state.account {
            return Err(ServerError::NotYours { folder: folder.path().to_owned(), owner: state.account });
        }
        Ok(WebServer { folder: folder.clone(), account: current, state })
    }

    /// Its listening address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.state.port))
    }

    /// Whether all of it runs.
    pub fn is_running(&self) -> bool {
        let alive =
            |process: &Option<ProcessIdentity>| process.as_ref().is_some_and(ProcessIdentity::is_alive);
        alive(&self.state.apache) && (self.state.php != Php::Fpm || alive(&self.state.fpm))
    }

    /// The account that it runs as.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The folder.
    pub fn folder(&self) -> &ServerFolder {
        &self.folder
    }

    /// The folder that is served.
    pub fn documents(&self) -> &Path {
        &self.state.documents
    }

    /// Apache's first process, and its children.
    pub fn apache_processes(&self) -> Vec<Pid> {
        family(self.state.apache.as_ref())
    }

    /// PHP-FPM's first process, and its children. None where PHP is a module.
    pub fn fpm_processes(&self) -> Vec<Pid> {
        family(self.state.fpm.as_ref())
    }

    /// The last lines of its logs: output of the programs, then Apache's and PHP's own logs.
    pub fn log_tail(&self) -> String {
        log_tail(&self.folder.log(), 0, &places(&self.folder))
    }

    /// Stops the server: by request, then by SIGKILL. Does nothing if it does not run.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if another process has the lock, or the state cannot be written.
    pub fn stop(&mut self, progress: Progress) -> Result<StopOutcome, ServerError> {
        let _lock = FolderLock::take(&self.folder)?;
        progress("stopping Apache");
        let outcome = self.end_all(libc::SIGTERM);
        self.write_state()?;
        Ok(outcome)
    }

    /// Kills all processes of the server at once, as a crash would.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if another process has the lock.
    pub fn kill(&mut self) -> Result<(), ServerError> {
        let _lock = FolderLock::take(&self.folder)?;
        self.end_all(libc::SIGKILL);
        self.write_state()
    }

    /// Removes a stopped server.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the folder holds no web server, it runs, or a file cannot be removed.
    pub fn remove(folder: &ServerFolder) -> Result<(), ServerError> {
        let server = WebServer::open(folder)?;
        if let Some(process) = server.state.apache.as_ref().filter(|process| process.is_alive()) {
            return Err(ServerError::AlreadyRunning { folder: folder.path().to_owned(), pid: process.pid });
        }
        fs::remove_dir_all(folder.path()).map_err(io_error("remove", folder.path()))
    }

    fn launch(
        &mut self,
        setup: &WebSetup,
        programs: &WebPrograms,
        progress: Progress,
    ) -> Result<(), ServerError> {
        let places = places(&self.folder);
        let port = free_port()?;
        self.state.port = port;
        let write = |path: PathBuf, text: String| {
            fs::write(&path, text).map_err(io_error("write", &path))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).map_err(io_error("open", &path))
        };
        write(places.httpd_conf(), config::httpd(setup, programs, &places, port)?)?;
        write(places.php_ini(), config::php_ini(setup)?)?;
        let log = Log::open(self.folder.log())?;

        if let (Php::Fpm, Some(program)) = (setup.php, &programs.fpm) {
            let socket = places.fpm_socket();
            if socket.as_os_str().len() > LONGEST_SOCKET {
                return Err(ServerError::Unsupported {
                    what: format!("{} is too long for a socket", socket.display()),
                    remedy: "choose a folder with a shorter name with --dir".into(),
                });
            }
            write(places.fpm_conf(), config::fpm(setup, &places)?)?;
            let _ = fs::remove_file(&socket); // of an earlier run, if any
            progress("starting PHP-FPM");
            let options = words!["-F", "-c", places.php_ini(), "-y", places.fpm_conf()];
            let mut child = self.spawn(program, options, setup, &log)?;
            self.state.fpm = ProcessIdentity::of(Pid(child.id() as i32));
            self.write_state()?;
            self.await_ready("PHP-FPM", &mut child, &log, || UnixStream::connect(&socket).is_ok())?;
        }

        progress("starting Apache");
        let _ = fs::remove_file(places.apache_pid()); // of an earlier run, if any
        let options = words!["-d", self.folder.path(), "-f", places.httpd_conf(), "-DFOREGROUND"];
        let mut child = self.spawn(&programs.apache, options, setup, &log)?;
        let pid = Pid(child.id() as i32);
        self.state.apache = ProcessIdentity::of(pid);
        self.write_state()?;
        let address = self.address();
        let all = config::process_count(setup.mpm, setup.workers);
        self.await_ready("Apache", &mut child, &log, || {
            let written = fs::read_to_string(places.apache_pid());
            // Compare process ids, in case another server has the port. Wait for all processes: none may start
            // later, during a measurement.
            written.is_ok_and(|text| text.trim() == pid.to_string())
                && children(pid).len() >= all
                && TcpStream::connect(address).is_ok()
        })
    }

    fn spawn(
        &self,
        program: &Path,
        options: Vec<OsString>,
        setup: &WebSetup,
        log: &Log,
    ) -> Result<Child, ServerError> {
        let mut command = plain([words![program], options].concat());
        self.account.apply(&mut command);
        // Only our own php.ini counts.
        command.env("PHP_INI_SCAN_DIR", "").env_remove("PHPRC");
        command.envs(setup.environment.iter().map(|(name, value)| (name, value)));
        command.stdout(log.writer()?).stderr(log.writer()?);
        detach(&mut command);
        command.spawn().map_err(io_error("run", program))
    }

    fn await_ready(
        &self,
        title: &'static str,
        child: &mut Child,
        log: &Log,
        ready: impl Fn() -> bool,
    ) -> Result<(), ServerError> {
        let begun = Instant::now();
        let tail = || log_tail(log.path(), log.before(), &places(&self.folder));
        let what = format!("starting {title}");
        while !ready() {
            if let Some(status) = child.try_wait().map_err(io_error("wait for", title))? {
                let remedy =
                    format!("fix what it reports; its configuration is in {}", self.folder.path().display());
                return Err(ServerError::Failed { what, status: in_words(status), log: tail(), remedy });
            }
            if begun.elapsed() >= PATIENCE {
                return Err(ServerError::TimedOut { what, seconds: PATIENCE.as_secs(), log: tail() });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends Apache before PHP: in the other order the last requests would fail.
    fn end_all(&mut self, signal: libc::c_int) -> StopOutcome {
        let outcomes = [self.state.apache.take(), self.state.fpm.take()].map(|process| end(process, signal));
        let killed = outcomes.contains(&StopOutcome::Killed);
        let clean = outcomes.contains(&StopOutcome::Clean);
        match (killed, clean) {
            (true, _) => StopOutcome::Killed,
            (false, true) => StopOutcome::Clean,
            (false, false) => StopOutcome::NotRunning,
        }
    }

    fn write_state(&self) -> Result<(), ServerError> {
        let path = state_path(&self.folder);
        let text = serde_json::to_string_pretty(&self.state).expect("plain data is always JSON");
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(self.folder.path())?;
            std::io::Write::write_all(&mut file, text.as_bytes())?;
            file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(io_error("write", &path))
    }
}

/// A socket's address has 108 bytes with the closing zero.
const LONGEST_SOCKET: usize = 107;

fn end(process: Option<ProcessIdentity>, signal: libc::c_int) -> StopOutcome {
    let Some(process) = process else { return StopOutcome::NotRunning };
    if process.wait_until_gone(Duration::ZERO) {
        // It was killed: its children continue and keep the port.
        let orphans: Vec<_> = process.orphans().into_iter().filter_map(ProcessIdentity::of).collect();
        orphans.iter().for_each(|orphan| orphan.signal(libc::SIGKILL));
        for orphan in &orphans {
            orphan.wait_until_gone(Duration::from_secs(10));
        }
        return if orphans.is_empty() { StopOutcome::NotRunning } else { StopOutcome::Killed };
    }
    // List children before killing: without their parent they cannot be identified.
    let members: Vec<_> = children(process.pid).into_iter().filter_map(ProcessIdentity::of).collect();
    let mut outcome = StopOutcome::Killed;
    if signal != libc::SIGKILL {
        process.signal(signal);
        // A process stopped by SIGSTOP handles no signal until it continues.
        process.signal(libc::SIGCONT);
        if process.wait_until_gone(STOP_PATIENCE) {
            outcome = StopOutcome::Clean;
        }
    }
    for member in members.iter().chain([&process]) {
        member.signal(libc::SIGKILL);
    }
    for member in members.iter().chain([&process]) {
        member.wait_until_gone(Duration::from_secs(10));
    }
    outcome
}

fn family(first: Option<&ProcessIdentity>) -> Vec<Pid> {
    let first = first.filter(|process| process.is_alive()).map(|process| process.pid);
    first.map_or_else(Vec::new, |pid| std::iter::once(pid).chain(children(pid)).collect())
}

fn places(folder: &ServerFolder) -> Places {
    Places { folder: folder.path().to_owned(), run: folder.path().join("run") }
}

fn state_path(folder: &ServerFolder) -> PathBuf {
    folder.path().join("web.json")
}

fn read_state(folder: &ServerFolder) -> Result<WebState, ServerError> {
    let path = state_path(folder);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(ServerError::NoServer { folder: folder.path().to_owned() })
        }
        Err(error) => return Err(io_error("read", path)(error)),
    };
    let state: Result<WebState, _> = serde_json::from_str(&text);
    match state {
        Ok(state) if state.format == FORMAT => Ok(state),
        Ok(state) => Err(damaged(folder, format!("web.json is of format {}", state.format))),
        Err(error) => Err(damaged(folder, format!("web.json cannot be read ({error})"))),
    }
}

fn damaged(folder: &ServerFolder, reason: String) -> ServerError {
    ServerError::Damaged { folder: folder.path().to_owned(), reason }
}

/// The folder exists, is Hardmeter's, holds no running server, and the account owns its part of it.
fn prepare(folder: &ServerFolder, account: &Account) -> Result<(), ServerError> {
    let path = folder.path();
    fs::create_dir_all(path).map_err(io_error("make", path))?;
    match WebServer::open(folder) {
        Ok(server) => {
            if let Some(process) = server.state.apache.as_ref().filter(|process| process.is_alive()) {
                return Err(ServerError::AlreadyRunning { folder: path.to_owned(), pid: process.pid });
            }
        }
        Err(ServerError::NoServer { .. }) => {
            if fs::read_dir(path).map_err(io_error("read", path))?.next().is_some() {
                return Err(ServerError::Foreign { folder: path.to_owned() });
            }
        }
        Err(error) => return Err(error),
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(io_error("open", path))?;
    let run = places(folder).run;
    fs::create_dir_all(&run).map_err(io_error("make", &run))?;
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).map_err(io_error("close", &run))?;
    account.own(&run)
}

fn free_port() -> Result<u16, ServerError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(io_error("find a free port of", "127.0.0.1"))
}

/// The output of the programs after byte `from`, then the end of their own logs.
fn log_tail(path: &Path, from: u64, places: &Places) -> String {
    let parts = [log::tail(path, from), log::tail(&places.error_log(), 0), log::tail(&places.fpm_log(), 0)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}
