//! Throwaway web servers: pages served by the module and by FPM, no process left behind, clear errors.

use hardmeter_samples::model::Pid;
use hardmeter_servers::web::{Mpm, Php, WebPrograms, WebServer, WebSetup};
use hardmeter_servers::{ServerError, ServerFolder, Setting, StopOutcome};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

struct Site {
    server: WebServer,
    _folder: tempfile::TempDir,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.server.stop(&|_| {});
    }
}

/// True if the process has ended; an unreaped one counts as ended.
fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"))
}

fn signal(pid: Pid, signal: libc::c_int) {
    // SAFETY: a server of this test, which lives as long as the test holds it.
    assert_eq!(unsafe { libc::kill(pid.0, signal) }, 0);
}

fn can(mpm: Mpm, php: Php) -> bool {
    match WebPrograms::find().and_then(|programs| programs.require(mpm, php)) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("skipped: {error}: {}", error.remedy());
            false
        }
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let pages = folder.path().join("pages");
    fs::create_dir(&pages).unwrap();
    fs::write(pages.join("index.html"), "<p>a file</p>").unwrap();
    fs::write(
        pages.join("sum.php"),
        "<?php echo PHP_SAPI, ' ', 6 * 7, ' ', extension_loaded('mysqli') ? 'mysqli' : 'none', ' ', \
         get_cfg_var('house.word'), ' ', getenv('SPLIT_DIRECTORY'), ' ', posix_geteuid();",
    )
    .unwrap();
    folder
}

fn start(
    folder: tempfile::TempDir,
    change: impl FnOnce(&mut WebSetup),
    php: Php,
) -> Result<Site, ServerError> {
    let mut setup = WebSetup::of(folder.path().join("pages"), php);
    setup.workers = 3;
    setup.ini.push("house.word=well kept".parse::<Setting>().unwrap());
    setup.extensions.push("posix".into());
    setup.environment.push(("SPLIT_DIRECTORY".into(), "/var/tmp/split".into()));
    change(&mut setup);
    let server = WebServer::start(&ServerFolder::new(folder.path().join("web")), &setup, &|_| {})?;
    Ok(Site { server, _folder: folder })
}

fn get(server: &WebServer, path: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn answers(php: Php, sapi: &str) {
    let site = start(folder(), |_| {}, php).unwrap();
    let server = &site.server;
    assert!(server.is_running());
    let text = get(server, "/sum.php");
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    // SAFETY: no preconditions.
    let own = unsafe { libc::geteuid() };
    let line = text.lines().find(|line| line.contains(sapi)).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(&format!("{sapi} 42 mysqli well kept /var/tmp/split ")), "{text}");
    assert!(own != 0 || !line.ends_with(" 0"), "PHP does not run as root: {text}");
    assert!(get(server, "/").contains("<p>a file</p>"));
    assert!(get(server, "/none.html").starts_with("HTTP/1.1 404"));
}

#[test]
fn pages_are_answered_by_the_module_in_processes_that_end_with_it() {
    if !can(Mpm::Prefork, Php::Module) {
        return;
    }
    answers(Php::Module, "apache2handler");
    let mut site = start(folder(), |_| {}, Php::Module).unwrap();
    let processes = site.server.apache_processes();
    assert_eq!(processes.len(), 4, "the first and three workers: {processes:?}");
    assert!(site.server.fpm_processes().is_empty());
    // Opened by its folder, as another command would.
    let again = WebServer::open(site.server.folder()).unwrap();
    assert_eq!((again.address(), again.is_running()), (site.server.address(), true));
    let setup = WebSetup::of(again.documents(), Php::Module);
    let error = WebServer::start(again.folder(), &setup, &|_| {}).unwrap_err();
    assert!(matches!(error, ServerError::AlreadyRunning { .. }), "{error}");

    assert_eq!(site.server.stop(&|_| {}).unwrap(), StopOutcome::Clean);
    assert!(TcpStream::connect(site.server.address()).is_err(), "nobody listens any more");
    assert!(processes.iter().all(|&pid| is_gone(pid)));
    assert_eq!(site.server.stop(&|_| {}).unwrap(), StopOutcome::NotRunning);
    WebServer::remove(site.server.folder()).unwrap();
    assert!(!site.server.folder().path().exists());
}

#[test]
fn pages_are_answered_by_fpm_and_a_killed_server_leaves_nothing() {
    if !can(Mpm::Event, Php::Fpm) {
        return;
    }
    answers(Php::Fpm, "fpm-fcgi");
    let mut site = start(folder(), |setup| setup.mpm = Mpm::Worker, Php::Fpm).unwrap();
    let fpm = site.server.fpm_processes();
    assert_eq!(fpm.len(), 4, "the first and three workers");
    let all = [site.server.apache_processes(), fpm].concat();
    // Apache's first process is killed; its children continue as orphans.
    signal(all[0], libc::SIGKILL);
    while !is_gone(all[0]) {
        std::thread::yield_now();
    }
    assert!(!site.server.is_running() && !is_gone(all[1]));
    site.server.kill().unwrap();
    assert!(!site.server.is_running());
    assert!(all.iter().all(|&pid| is_gone(pid)), "{all:?}");
}

#[test]
fn faults_name_what_is_wrong() {
    if !can(Mpm::Prefork, Php::Module) {
        return;
    }
    let error = start(folder(), |setup| setup.directives.push("NoSuchDirective on".into()), Php::Module);
    let text = error.err().expect("it cannot start").to_string();
    assert!(text.contains("starting Apache failed") && text.contains("NoSuchDirective"), "{text}");

    let taken = folder();
    fs::create_dir(taken.path().join("web")).unwrap();
    fs::write(taken.path().join("web/thesis.tex"), "").unwrap();
    let error = start(taken, |_| {}, Php::Module).err().expect("the folder is somebody else's");
    assert!(matches!(error, ServerError::Foreign { .. }), "{error}");
    let error = start(folder(), |setup| setup.mpm = Mpm::Event, Php::Module).err().expect("not safe");
    assert!(error.remedy().contains("prefork"), "{error}");
}
