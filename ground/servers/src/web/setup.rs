//! What a throwaway web server shall be.

use crate::account::Account;
use crate::settings::Setting;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How Apache divides its work among processes and threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mpm {
    /// A process for each connection: the only one that PHP as a module works in.
    #[default]
    Prefork,
    /// Processes of many threads, a thread for each connection.
    Worker,
    /// The same, but connections without a request cost no thread.
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

/// How PHP's pages are run.
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

/// What a web server shall be. The default serves files, by 8 processes.
#[derive(Clone, Debug)]
pub struct WebSetup {
    /// How Apache divides its work.
    pub mpm: Mpm,
    /// How PHP is run.
    pub php: Php,
    /// The folder that is served; the account must be able to read it.
    pub documents: PathBuf,
    /// How many requests are worked on at once: processes or threads of Apache, and processes of PHP-FPM.
    pub workers: u32,
    /// Modules of Apache beside those that the pages need: name (`split_module`) and file.
    pub modules: Vec<(String, PathBuf)>,
    /// Lines for Apache's configuration, after all others.
    pub directives: Vec<String>,
    /// Settings of PHP.
    pub ini: Vec<Setting>,
    /// Extensions of PHP, after mysqlnd and mysqli, in this order: names, or paths.
    pub extensions: Vec<PathBuf>,
    /// Environment of Apache and of PHP-FPM.
    pub environment: Vec<(String, String)>,
    /// The account that it runs as; `None`: `www-data` or `nobody` for root, else the current user. To be named where the server must
    /// reach what is another server's: the socket of a throwaway MariaDB is closed to all but its own account.
    pub account: Option<Account>,
}

impl WebSetup {
    /// A server of plain files, or of PHP's pages too, in the way that fits: prefork with the module, event with FPM.
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
