//! The configuration files of a throwaway web server, as text. No I/O in this module.

use super::programs::WebPrograms;
use super::setup::{Mpm, Php, WebSetup};
use crate::error::ServerError;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The folders of one server.
pub(super) struct Places {
    /// The server's folder.
    pub folder: PathBuf,
    /// Writable for the account: process ids, logs, PHP's socket.
    pub run: PathBuf,
}

impl Places {
    pub fn apache_pid(&self) -> PathBuf {
        self.run.join("apache.pid")
    }

    pub fn error_log(&self) -> PathBuf {
        self.run.join("apache.log")
    }

    pub fn fpm_log(&self) -> PathBuf {
        self.run.join("fpm.log")
    }

    pub fn fpm_socket(&self) -> PathBuf {
        self.run.join("php.sock")
    }

    pub fn httpd_conf(&self) -> PathBuf {
        self.folder.join("httpd.conf")
    }

    pub fn php_ini(&self) -> PathBuf {
        self.folder.join("php.ini")
    }

    pub fn fpm_conf(&self) -> PathBuf {
        self.folder.join("fpm.conf")
    }
}

/// Threads of one process, where processes have threads.
const THREADS: u32 = 16;
/// All clients of a closed loop may connect at once.
const BACKLOG: u32 = 4096;

/// Apache's configuration, restricted to what the pages need.
pub(super) fn httpd(
    setup: &WebSetup,
    programs: &WebPrograms,
    places: &Places,
    port: u16,
) -> Result<String, ServerError> {
    let mut text = String::from("# Made by hardmeter for one throwaway server; rewritten at each start.\n");
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    line(format!("ServerRoot {}", quoted(&places.folder)?));
    line("ServerName 127.0.0.1".into());
    line(format!("Listen 127.0.0.1:{port}"));
    line(format!("ListenBacklog {BACKLOG}"));
    line(format!("DefaultRuntimeDir {}", quoted(&places.run)?));
    line(format!("PidFile {}", quoted(&places.apache_pid())?));
    line(format!("ErrorLog {}", quoted(&places.error_log())?));
    line("LogLevel warn".into());
    // Do not reveal versions; allow any number of requests on one connection.
    for words in ["ServerTokens Prod", "ServerSignature Off", "TraceEnable Off", "Timeout 300"] {
        line(words.into());
    }
    for words in ["KeepAlive On", "MaxKeepAliveRequests 0", "KeepAliveTimeout 300"] {
        line(words.into());
    }

    let mpm = format!("mod_mpm_{}.so", setup.mpm.name());
    let mut modules = vec![
        (format!("mpm_{}_module", setup.mpm.name()), programs.module(&mpm)?),
        ("authz_core_module".into(), programs.module("mod_authz_core.so")?),
        ("dir_module".into(), programs.module("mod_dir.so")?),
        ("mime_module".into(), programs.module("mod_mime.so")?),
        ("env_module".into(), programs.module("mod_env.so")?),
    ];
    match (setup.php, &programs.php_module) {
        (Php::Module, Some(module)) => modules.push(("php_module".into(), module.clone())),
        (Php::Fpm, _) => {
            modules.push(("proxy_module".into(), programs.module("mod_proxy.so")?));
            modules.push(("proxy_fcgi_module".into(), programs.module("mod_proxy_fcgi.so")?));
        }
        _ => {}
    }
    for (name, file) in modules.iter().chain(&setup.modules) {
        line(format!("LoadModule {} {}", word(name)?, quoted(file)?));
    }
    for words in processes(setup.mpm, setup.workers.max(1)) {
        line(words);
    }

    let documents = quoted(&setup.documents)?;
    line(format!("DocumentRoot {documents}"));
    line("<Directory />\n  AllowOverride None\n  Require all denied\n</Directory>".into());
    line(format!("<Directory {documents}>\n  Require all granted\n</Directory>"));
    line("DirectoryIndex index.html index.php".into());
    line("TypesConfig /dev/null".into());
    line(
        "AddType text/html .html\nAddType text/css .css\nAddType image/svg+xml .svg\nAddDefaultCharset utf-8"
            .into(),
    );
    match setup.php {
        Php::None => {}
        Php::Module => {
            line(format!("PHPIniDir {}", quoted(&places.folder)?));
            line("<FilesMatch \"\\.php$\">\n  SetHandler application/x-httpd-php\n</FilesMatch>".into());
        }
        Php::Fpm => {
            let socket = plain(&places.fpm_socket())?;
            line(format!(
                "<FilesMatch \"\\.php$\">\n  SetHandler \"proxy:unix:{socket}|fcgi://localhost\"\n</FilesMatch>"
            ));
        }
    }
    for directive in &setup.directives {
        line(directive.clone());
    }
    Ok(text)
}

/// The number of Apache processes for this number of workers, without the first.
pub(super) fn process_count(mpm: Mpm, workers: u32) -> usize {
    let workers = workers.max(1);
    let each = if mpm == Mpm::Prefork { 1 } else { workers.min(THREADS) };
    workers.div_ceil(each) as usize
}

/// A fixed number of workers from the start to the end, so that none starts or ends during a measurement.
fn processes(mpm: Mpm, workers: u32) -> Vec<String> {
    if mpm == Mpm::Prefork {
        return vec![
            format!("ServerLimit {workers}"),
            format!("StartServers {workers}"),
            format!("MinSpareServers {workers}"),
            format!("MaxSpareServers {}", workers + 1),
            format!("MaxRequestWorkers {workers}"),
            "MaxConnectionsPerChild 0".into(),
        ];
    }
    let threads = workers.min(THREADS);
    let servers = workers.div_ceil(threads);
    let all = servers * threads;
    vec![
        format!("ServerLimit {servers}"),
        format!("StartServers {servers}"),
        format!("ThreadLimit {threads}"),
        format!("ThreadsPerChild {threads}"),
        format!("MinSpareThreads {all}"),
        format!("MaxSpareThreads {}", all + threads),
        format!("MaxRequestWorkers {all}"),
        "MaxConnectionsPerChild 0".into(),
    ]
}

/// PHP's settings; the system's files are not read.
pub(super) fn php_ini(setup: &WebSetup) -> Result<String, ServerError> {
    let mut text = String::from("; Made by hardmeter for one throwaway server.\n");
    for fixed in [
        "error_reporting = E_ALL",
        "display_errors = Off",
        "log_errors = On",
        "html_errors = Off",
        "expose_php = Off",
        "default_charset = UTF-8",
        "memory_limit = 256M",
        "max_execution_time = 300",
        "output_buffering = 0",
        "date.timezone = UTC",
        "zend_extension = opcache",
        "opcache.memory_consumption = 32",
        "opcache.jit = disable",
        // Pages do not change while a server runs.
        "opcache.validate_timestamps = 0",
        "extension = mysqlnd",
        "extension = mysqli",
    ] {
        text.push_str(fixed);
        text.push('\n');
    }
    for extension in &setup.extensions {
        let _ = writeln!(text, "extension = \"{}\"", plain(extension)?);
    }
    for setting in &setup.ini {
        if setting.value.contains('"') {
            let reason = "its value has a quotation mark, which PHP's settings cannot hold";
            return Err(ServerError::BadSetting { setting: setting.name.clone(), reason });
        }
        let _ = writeln!(text, "{} = \"{}\"", setting.name, setting.value);
    }
    Ok(text)
}

/// PHP-FPM's configuration: one pool, with as many processes as Apache has workers.
pub(super) fn fpm(setup: &WebSetup, places: &Places) -> Result<String, ServerError> {
    let (log, socket) = (plain(&places.fpm_log())?, plain(&places.fpm_socket())?);
    Ok(format!(
        "; Made by hardmeter for one throwaway server.\n\
         [global]\nerror_log = {log}\nlog_level = warning\ndaemonize = no\n\
         [pages]\nlisten = {socket}\nlisten.backlog = {BACKLOG}\npm = static\npm.max_children = {}\n\
         clear_env = no\ncatch_workers_output = yes\n",
        setup.workers.max(1)
    ))
}

/// A path in quotation marks. Apache and PHP have different escapes and variables in quotes: a path that needs them
/// is refused.
fn quoted(path: &Path) -> Result<String, ServerError> {
    Ok(format!("\"{}\"", plain(path)?))
}

fn plain(path: &Path) -> Result<String, ServerError> {
    let text = path.to_str().filter(|text| !text.contains(|c: char| c.is_control() || "\"\\$%|".contains(c)));
    text.map(str::to_owned).ok_or_else(|| ServerError::Unsupported {
        what: format!("{} has characters that Apache's configuration cannot hold", path.display()),
        remedy: "use a path of letters, digits and - _ . /".into(),
    })
}

fn word(name: &str) -> Result<&str, ServerError> {
    match !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        true => Ok(name),
        false => Err(ServerError::BadSetting {
            setting: name.to_owned(),
            reason: "it is not the name of a module",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Setting;

    #[test]
    fn workers_are_processes_or_threads_and_never_fewer_than_asked() {
        let prefork = processes(Mpm::Prefork, 24).join("\n");
        assert!(prefork.contains("StartServers 24") && prefork.contains("MaxRequestWorkers 24"));
        let event = processes(Mpm::Event, 24).join("\n");
        assert!(event.contains("ThreadsPerChild 16") && event.contains("MaxRequestWorkers 32"), "{event}");
        assert_eq!((process_count(Mpm::Prefork, 24), process_count(Mpm::Event, 24)), (24, 2));
        assert!(processes(Mpm::Worker, 4).join("\n").contains("ThreadsPerChild 4"));
    }

    #[test]
    fn paths_that_would_mean_something_else_are_refused() {
        for bad in ["/a\"b", "/a\nb", "/${HOME}", "/a%{b}", "/a|b", "/a\\b"] {
            assert!(quoted(Path::new(bad)).is_err(), "{bad}");
        }
        assert_eq!(quoted(Path::new("/var/tmp/a b")).unwrap(), "\"/var/tmp/a b\"");
        assert!(word("split_module").is_ok());
        assert!(word("a /etc/passwd\nListen").is_err());
    }

    #[test]
    fn extensions_come_after_those_that_they_need() {
        let mut setup = WebSetup::of("/pages", Php::Module);
        setup.extensions.push("/build/split_mysqlnd.so".into());
        setup.ini.push(Setting::new("auction.socket", "/run/a b.sock"));
        let text = php_ini(&setup).unwrap();
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(at("extension = mysqlnd\n") < at("extension = \"/build/split_mysqlnd.so\"\n"));
        assert!(text.contains("auction.socket = \"/run/a b.sock\"\n"));
        setup.ini.push(Setting::new("x", "a\"b"));
        assert!(php_ini(&setup).is_err());
    }
}
