//! Parameters of a throwaway web server.

use crate::account::Account;
use crate::settings::Setting;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How Apache distributes work over processes and threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mpm {
    /// A process for each connection: required by PHP as a module.
    #[default]
    Prefork,
    /// Processes of many threads, a thread for each connection.
    Worker,
    /// As worker, but idle connections occupy no thread.
    Event,
}

impl Mpm {
    /// Its name, as in `mod_mpm_NAME.so`.
    pub fn name(self) -> &'static str {
        match self {
            Mpm::Prefork => "prefork",
            Mpm::Worker => "worker",
            Mpm::Event => "event",
        }
    }
}

/// How PHP's pages are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Php {
    /// No PHP.
    #[default]
    None,
    /// Inside Apache's processes (mod_php).
    Module,
    /// In processes of PHP's own (PHP-FPM), behind a unix socket.
    Fpm,
}

/// Parameters of a web server. The default serves files with 8 processes.
#[derive(Clone, Debug)]
pub struct WebSetup {
    /// How Apache distributes work.
    pub mpm: Mpm,
    /// How PHP is executed.
    pub php: Php,
    /// The document root; the account must be able to read it.
    pub documents: PathBuf,
    /// Number of concurrent requests: processes or threads of Apache, and processes of PHP-FPM.
    pub workers: u32,
    /// Additional modules of Apache: name (`split_module`) and file.
    pub modules: Vec<(String, PathBuf)>,
    /// Lines for Apache's configuration, after all others.
    pub directives: Vec<String>,
    /// Settings of PHP.
    pub ini: Vec<Setting>,
    /// Extensions of PHP, after mysqlnd and mysqli, in this order: names, or paths.
    pub extensions: Vec<PathBuf>,
    /// Environment of Apache and of PHP-FPM.
    pub environment: Vec<(String, String)>,
    /// The account of the server; `None`: `www-data` or `nobody` for root, else the current user. Set it if the web
    /// server must reach another server's files: only MariaDB's own account can use the socket of a throwaway
    /// MariaDB.
    pub account: Option<Account>,
}

impl WebSetup {
    /// A server of plain files, or also of PHP's pages, in the suitable form: prefork with the module, event with
    /// FPM.
    pub fn of(documents: impl Into<PathBuf>, php: Php) -> WebSetup {
        WebSetup {
            mpm: if php == Php::Fpm { Mpm::Event } else { Mpm::Prefork },
            php,
            documents: documents.into(),
            workers: 8,
            modules: Vec::new(),
            directives: Vec::new(),
            ini: Vec::new(),
            extensions: Vec::new(),
            environment: Vec::new(),
            account: None,
        }
    }
}
