//! A throwaway Apache with mod_split, optional PHP with its extensions, and an HTTP client.

// Each test file uses its part.
#![allow(dead_code)]

use super::common::tests_folder;
use hardmeter_servers::web::{Mpm, Php, WebPrograms, WebServer, WebSetup};
use hardmeter_servers::{Account, ServerFolder};
use hardmeter_split::model::{AppId, KindSnapshot, Snapshot};
use hardmeter_split::segment::Application;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// The applications of these tests.
pub const WEB: AppId = AppId(0xa1);
pub const PHP: AppId = AppId(0xa2);

/// A server of pages that a test writes.
pub struct Web {
    temporary: tempfile::TempDir,
    server: Option<WebServer>,
}

/// The modules' path after `make build-place`.
fn built(object: &str) -> PathBuf {
    let default = || tests_folder().join("../build/place");
    std::env::var_os("HARDMETER_PLACEMENT").map_or_else(default, PathBuf::from).join(object)
}

impl Web {
    /// `None`, with a message, if anything is missing.
    pub fn new(pages: &[(&str, &str)]) -> Option<Web> {
        if let Some(object) = ["apache/mod_split.so"].iter().find(|object| !built(object).exists()) {
            eprintln!("skipped: {} is not there; make build-place builds it", built(object).display());
            return None;
        }
        let temporary = tempfile::tempdir().unwrap();
        open(temporary.path());
        let web = Web { temporary, server: None };
        for folder in [web.documents(), web.segments(), web.objects()] {
            fs::create_dir(&folder).unwrap();
            open(&folder);
        }
        // Made by the server's own account.
        fs::set_permissions(web.segments(), fs::Permissions::from_mode(0o777)).unwrap();
        for (name, text) in pages {
            web.page(name, text.as_bytes());
        }
        Some(web)
    }

    /// A file to serve.
    pub fn page(&self, name: &str, text: &[u8]) {
        let path = self.documents().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        open(path.parent().unwrap());
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    /// Starts it, with the test's directives. `false`, with a message, if Apache or PHP is not installed.
    pub fn start(&mut self, mpm: Mpm, php: Php, account: Option<Account>, directives: &[&str]) -> bool {
        let Some(setup) = self.setup(mpm, php, account, directives) else { return false };
        self.server = Some(WebServer::start(&self.folder(), &setup, &|_| {}).unwrap());
        true
    }

    fn setup(&self, mpm: Mpm, php: Php, account: Option<Account>, directives: &[&str]) -> Option<WebSetup> {
        if let Err(error) = WebPrograms::find().and_then(|programs| programs.require(mpm, php)) {
            eprintln!("skipped: {error}");
            return None;
        }
        let mut setup = WebSetup::of(self.documents(), php);
        (setup.mpm, setup.workers, setup.account) = (mpm, 4, account);
        setup.modules.push(("split_module".into(), self.object("apache/mod_split.so")));
        for name in ["alias", "negotiation"] {
            setup.modules.push((
                format!("{name}_module"),
                WebPrograms::find().unwrap().modules.join(format!("mod_{name}.so")),
            ));
        }
        setup.directives = vec![
            "SplitEngine On".into(),
            format!("SplitDirectory {}", self.segments().display()),
            format!("SplitAppId {}", WEB.0),
            "SplitName shop".into(),
        ];
        setup.directives.extend(directives.iter().map(|line| (*line).to_owned()));
        if php != Php::None {
            setup.extensions =
                ["split", "split_mysqlnd"].map(|name| self.object(&format!("php/{name}.so"))).to_vec();
            setup.extensions.insert(0, "pdo_mysql".into());
            setup.extensions.insert(0, "pdo".into());
            setup.ini = vec![
                format!("split.directory={}", self.segments().display()).parse().unwrap(),
                format!("split.app_id={}", PHP.0).parse().unwrap(),
            ];
        }
        Some(setup)
    }

    /// A copy that the server's account can read, wherever the build folder is.
    pub fn object(&self, object: &str) -> PathBuf {
        let to = self.objects().join(Path::new(object).file_name().unwrap());
        fs::copy(built(object), &to)
            .unwrap_or_else(|error| panic!("{object}: {error}; make build-place builds it"));
        open(&to);
        to
    }

    /// Starts it to check its configuration, and stops it.
    pub fn configure(&mut self, mpm: Mpm, php: Php, directives: &[&str]) -> bool {
        let started = self.start(mpm, php, None, directives);
        if started {
            self.server.as_mut().unwrap().stop(&|_| {}).unwrap();
        }
        started
    }

    /// The same server as one process in the foreground, inside a checking tool.
    pub fn run_inside(&self, tool: &[String]) -> Child {
        let programs = WebPrograms::find().unwrap();
        let mut command = Command::new(&tool[0]);
        command.args(&tool[1..]).arg(programs.apache).arg("-X").arg("-d").arg(self.folder().path());
        command.arg("-f").arg(self.folder().path().join("httpd.conf"));
        self.server().account().apply(&mut command);
        command.env("PHP_INI_SCAN_DIR", "").spawn().unwrap()
    }

    pub fn server(&self) -> &WebServer {
        self.server.as_ref().expect("it was started")
    }

    pub fn address(&self) -> SocketAddr {
        self.server().address()
    }

    pub fn documents(&self) -> PathBuf {
        self.temporary.path().join("documents")
    }

    pub fn segments(&self) -> PathBuf {
        self.temporary.path().join("segments")
    }

    fn objects(&self) -> PathBuf {
        self.temporary.path().join("objects")
    }

    fn folder(&self) -> ServerFolder {
        ServerFolder::new(self.temporary.path().join("web"))
    }

    /// The application's segment, opened as the analyzer does.
    pub fn application(&self, app: AppId) -> Application {
        let path = self.segments().join(format!("app-{app}.segment"));
        Application::open(&path, app)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}", path.display(), self.server().log_tail()))
    }

    pub fn snapshot(&self, app: AppId) -> Snapshot {
        self.application(app).snapshot().unwrap().snapshot
    }

    /// Number of counted requests of each kind; files without the folder's name.
    pub fn counts(&self, app: AppId) -> BTreeMap<String, u64> {
        let folder = format!("{}/", self.documents().display());
        let name = |kind: &KindSnapshot| kind.label.strip_prefix(&folder).unwrap_or(&kind.label).to_owned();
        let kinds = self.snapshot(app).kinds;
        let counts =
            kinds.iter().map(|kind| (name(kind), kind.records.iter().map(|(_, record)| record.count).sum()));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Waits until these are the counts, since the last request may just be ending. Then they must not change.
    pub fn expect_counts(&self, app: AppId, expected: &[(&str, u64)]) {
        let expected: BTreeMap<String, u64> =
            expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        for _ in 0..30_000 {
            if self.counts(app) == expected {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(self.counts(app), expected, "{}", self.server().log_tail());
    }

    /// One request on a separate connection: status and body.
    pub fn get(&self, path: &str) -> (u16, String) {
        let answer = Connection::new(self.address()).get(path);
        (answer.status, answer.text())
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.stop(&|_| {});
        }
    }
}

fn open(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A kept connection.
pub struct Connection {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
}

pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Connection {
    pub fn new(address: SocketAddr) -> Connection {
        Connection { address, stream: connect(address) }
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    /// Sends a request and reads its answer. Apache's event MPM closes all idle kept connections at a moment in which
    /// every worker is busy, so a request that meets a closed connection is sent again, once, on a new one (RFC 9112,
    /// section 9.5). The server never read the first copy: it is counted once.
    pub fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let request = request(method, path, headers, body);
        let sent = self.stream.get_mut().write_all(request.as_bytes());
        let closed = match sent.and_then(|()| self.stream.fill_buf()) {
            Ok(bytes) => bytes.is_empty(),
            Err(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        };
        if closed {
            self.stream = connect(self.address);
            self.write(&request);
        }
        self.answer(method == "HEAD")
    }

    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        self.write(&request(method, path, headers, body));
    }

    pub fn write(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Reads this number of bytes.
    pub fn read(&mut self, bytes: usize) {
        let mut buffer = vec![0; bytes];
        self.stream.read_exact(&mut buffer).unwrap();
    }

    pub fn answer(&mut self, without_body: bool) -> Answer {
        let status = self.line();
        let status = status
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or_else(|| panic!("{status:?}"));
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line().to_ascii_lowercase();
            match line.split_once(": ") {
                None => break,
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("transfer-encoding", value)) => chunked = value == "chunked",
                Some(_) => {}
            }
        }
        let mut body = Vec::new();
        if without_body {
            return Answer { status, body };
        }
        if !chunked {
            body.resize(length, 0);
            self.stream.read_exact(&mut body).unwrap();
            return Answer { status, body };
        }
        loop {
            let size = usize::from_str_radix(&self.line(), 16).unwrap();
            let mut chunk = vec![0; size];
            self.stream.read_exact(&mut chunk).unwrap();
            body.append(&mut chunk);
            self.line();
            if size == 0 {
                return Answer { status, body };
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

fn connect(address: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    BufReader::new(stream)
}

fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: shop\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        request += &format!("Content-Length: {}\r\n", body.len());
    }
    request + &format!("\r\n{body}")
}
