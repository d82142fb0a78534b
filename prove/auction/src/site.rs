//! The site's servers: MariaDB and Apache with PHP, all as one account, in one folder; with placement's modules on
//! request.
//!
//! ```text
//! DIR/site.json   what is there                      DIR/pages/     what is served
//! DIR/database/   MariaDB (hardmeter-servers)        DIR/split/     segments of placement, where it is on
//! DIR/web/        Apache and PHP (hardmeter-servers)
//! ```

use crate::analyzer::Analyzer;
use crate::error::AuctionError;
use crate::load::{connect, load};
use crate::pages::write_pages;
use crate::population::Population;
use crate::split::{Split, SplitModules};
use crate::usage::{cpu_of, CpuSeconds};
use hardmeter_servers::web::{Mpm, Php, WebPrograms, WebServer, WebSetup};
use hardmeter_servers::{
    Cluster, Engine, Programs, ProgramsWanted, ServerError, ServerFolder, Setting, StartOptions,
};
use mysql::Conn;
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The parameters of a site.
#[derive(Clone, Debug)]
pub struct SiteSetup {
    /// How PHP is executed.
    pub php: Php,
    /// Apache's MPM; `None`: the one that suits PHP.
    pub mpm: Option<Mpm>,
    /// Number of requests served concurrently.
    pub workers: u32,
    /// Rows of the database.
    pub population: Population,
    /// Bytes of a picture.
    pub picture_bytes: usize,
    /// Placement.
    pub split: Split,
    /// Placement's modules, if it is on.
    pub modules: Option<SplitModules>,
    /// Additional settings of MariaDB.
    pub database_settings: Vec<Setting>,
}

/// The recorded state of a site, for other commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteState {
    format: u32,
    /// How PHP is executed.
    pub php: Php,
    /// Apache's MPM.
    pub mpm: Mpm,
    /// Number of requests served concurrently.
    pub workers: u32,
    /// Rows of the database as it was loaded.
    pub population: Population,
    /// Placement.
    pub split: Split,
}

const FORMAT: u32 = 1;
/// Apache's, PHP's and MariaDB's application ids: small, so that comments in statements are short.
pub(crate) const APP_IDS: [u32; 3] = [1, 2, 3];

/// A running site. Dropped, it stops, unless it is to [stay](Site::stay).
pub struct Site {
    folder: PathBuf,
    state: SiteState,
    database: Cluster,
    web: WebServer,
    analyzer: Option<Analyzer>,
    stays: bool,
}

impl Site {
    /// Checks that the required programs are installed.
    ///
    /// # Errors
    ///
    /// [`AuctionError`] with the package to install.
    pub fn require(php: Php, mpm: Option<Mpm>) -> Result<(), AuctionError> {
        Programs::find(Engine::Mariadb, &ProgramsWanted::default())?;
        WebPrograms::find()?.require(mpm.unwrap_or(usual_mpm(php)), php)?;
        Ok(())
    }

    /// Makes the servers in a new or empty folder, fills the database, and starts all.
    ///
    /// # Errors
    ///
    /// [`AuctionError`] if a program is missing, the folder is not empty, or a server does not start.
    pub fn start(folder: &Path, setup: &SiteSetup, progress: &dyn Fn(&str)) -> Result<Site, AuctionError> {
        Site::require(setup.php, setup.mpm)?;
        let folder = std::path::absolute(folder).map_err(io("find", folder))?;
        fs::create_dir_all(&folder).map_err(io("make", &folder))?;
        if fs::read_dir(&folder).map_err(io("read", &folder))?.next().is_some() {
            return Err(ServerError::Foreign { folder }.into());
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).map_err(io("open", &folder))?;
        let programs = Programs::find(Engine::Mariadb, &ProgramsWanted::default())?;
        let mut database = Cluster::create(&ServerFolder::new(folder.join("database")), &programs, progress)?;
        let mpm = setup.mpm.unwrap_or(usual_mpm(setup.php));
        let mut web_setup = WebSetup::of(folder.join("pages"), setup.php);
        (web_setup.mpm, web_setup.workers) = (mpm, setup.workers);
        // Only its own account can use MariaDB's socket.
        web_setup.account = Some(database.account().clone());
        let socket = database.socket();
        web_setup.ini.push(setting("auction.socket", &socket.to_string_lossy()));
        web_setup.extensions.clear();

        let mut settings = database_settings(setup.workers);
        if let (true, Some(modules)) = (setup.split.is_on(), &setup.modules) {
            let segments = segments(&folder);
            fs::create_dir(&segments).map_err(io("make", &segments))?;
            let (uid, gid) = database.account().ids();
            std::os::unix::fs::chown(&segments, Some(uid), Some(gid)).map_err(io("give away", &segments))?;
            fs::set_permissions(&segments, fs::Permissions::from_mode(0o700))
                .map_err(io("close", &segments))?;
            let plugin = database.lend(&modules.mariadb)?;
            settings.extend(modules.database_settings(&segments, &plugin));
            for module in modules.web_files(setup.php) {
                database.account().can_reach(module).then_some(()).ok_or_else(|| AuctionError::Missing {
                    what: format!("the servers' account cannot read {}", module.display()),
                    remedy: "build placement where others may read it, or open the folders on the way".into(),
                })?;
            }
            modules.set_up_web(&mut web_setup, &segments);
        }
        settings.extend(setup.database_settings.iter().cloned());
        database.start(&StartOptions { settings, ..StartOptions::default() }, progress)?;
        let started = write_pages(&folder.join("pages"), setup.picture_bytes)
            .and_then(|()| load(&socket, &setup.population, progress))
            .and_then(|()| {
                Ok(WebServer::start(&ServerFolder::new(folder.join("web")), &web_setup, progress)?)
            });
        let web = match started {
            Ok(web) => web,
            Err(error) => {
                // Report the error of the start.
                let _ = database.stop(&|_| {});
                return Err(error);
            }
        };
        let state = SiteState {
            format: FORMAT,
            php: setup.php,
            mpm,
            workers: setup.workers,
            population: setup.population,
            split: setup.split.clone(),
        };
        let site = Site { folder, state, database, web, analyzer: None, stays: false };
        let path = site.folder.join("site.json");
        let text = serde_json::to_string_pretty(&site.state).expect("plain data is always JSON");
        fs::write(&path, text).map_err(io("write", &path))?;
        Ok(site)
    }

    /// Opens the site that runs in a folder; it continues to run when this value is dropped.
    ///
    /// # Errors
    ///
    /// [`AuctionError`] if the folder holds no site, or its servers belong to another user.
    pub fn open(folder: &Path) -> Result<Site, AuctionError> {
        let folder = std::path::absolute(folder).map_err(io("find", folder))?;
        let path = folder.join("site.json");
        let text = fs::read_to_string(&path).map_err(io("read", &path))?;
        let state: SiteState = serde_json::from_str(&text).map_err(|error| AuctionError::Missing {
            what: format!("{} cannot be read ({error})", path.display()),
            remedy: "make the site again: hardmeter auction start --dir a new folder".into(),
        })?;
        let database = Cluster::open(&ServerFolder::new(folder.join("database")))?;
        let web = WebServer::open(&ServerFolder::new(folder.join("web")))?;
        Ok(Site { folder, state, database, web, analyzer: None, stays: true })
    }

    /// Runs `hardmeter split analyze` until this value is dropped; no effect if placement is off.
    ///
    /// # Errors
    ///
    /// [`AuctionError`] if the analyzer cannot be started.
    pub fn analyze(&mut self, hardmeter: &Path) -> Result<(), AuctionError> {
        if let Some(policy) = self.state.split.policy() {
            self.analyzer = Some(Analyzer::start(hardmeter, &segments(&self.folder), policy, &self.folder)?);
        }
        Ok(())
    }

    /// Keeps the site running when this value is dropped.
    pub fn stay(&mut self) {
        self.stays = true;
    }

    /// Its state.
    pub fn state(&self) -> &SiteState {
        &self.state
    }

    /// Apache's listening address.
    pub fn address(&self) -> SocketAddr {
        self.web.address()
    }

    /// Apache and PHP.
    pub fn web(&self) -> &WebServer {
        &self.web
    }

    /// MariaDB.
    pub fn database(&self) -> &Cluster {
        &self.database
    }

    /// A connection to the database as its superuser.
    ///
    /// # Errors
    ///
    /// [`AuctionError`] if the server does not accept the connection.
    pub fn connect(&self) -> Result<Conn, AuctionError> {
        connect(&self.database.socket())
    }

    /// The segments' folder, if placement is on.
    pub fn segments(&self) -> Option<PathBuf> {
        self.state.split.is_on().then(|| segments(&self.folder))
    }

    /// CPU time of all its processes so far.
    pub fn cpu(&self) -> CpuSeconds {
        let seconds = |pids: Vec<i32>| cpu_of(pids).as_secs_f64();
        CpuSeconds {
            apache: seconds(self.web.apache_processes().into_iter().map(|pid| pid.0).collect()),
            fpm: seconds(self.web.fpm_processes().into_iter().map(|pid| pid.0).collect()),
            mariadb: seconds(self.database.processes().into_iter().map(|pid| pid.0).collect()),
            analyzer: seconds(self.analyzer.iter().map(Analyzer::pid).collect()),
        }
    }

    /// Checks that the servers still run.
    ///
    /// # Errors
    ///
    /// [`AuctionError::Gone`] with the server and its log.
    pub fn check(&mut self, elapsed: Duration) -> Result<(), AuctionError> {
        let gone = |who, log| Err(AuctionError::Gone { who, seconds: elapsed.as_secs_f64(), log });
        if !self.database.is_running() {
            return gone("MariaDB", self.database.log_tail());
        }
        if !self.web.is_running() {
            return gone("Apache", self.web.log_tail());
        }
        match &mut self.analyzer {
            Some(analyzer) => analyzer.check(),
            None => Ok(()),
        }
    }

    /// Stops all servers; the folder is kept.
    ///
    /// # Errors
    ///
    /// [`AuctionError`] if a server does not stop.
    pub fn stop(&mut self) -> Result<(), AuctionError> {
        // The analyzer first: it restores affinities while the servers exist.
        self.analyzer = None;
        let web = self.web.stop(&|_| {});
        self.database.stop(&|_| {})?;
        web?;
        Ok(())
    }

    /// Stops a site and removes its folder.
    ///
    /// # Errors
    ///
    /// [`AuctionError`] if the folder holds no site, or a server does not stop.
    pub fn remove(folder: &Path) -> Result<(), AuctionError> {
        Site::open(folder)?.stop()?;
        fs::remove_dir_all(folder).map_err(io("remove", folder))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.analyzer = None;
        if !self.stays {
            // Errors cannot be reported here; remaining servers can be found by their folder.
            let _ = self.stop();
        }
    }
}

fn usual_mpm(php: Php) -> Mpm {
    if php == Php::Fpm {
        Mpm::Event
    } else {
        Mpm::Prefork
    }
}

fn segments(folder: &Path) -> PathBuf {
    folder.join("split")
}

pub(crate) fn setting(name: &str, value: &str) -> Setting {
    Setting { name: name.to_owned(), value: value.to_owned() }
}

/// MariaDB for a site of this size: all data in memory, commits are written but not awaited. CPU time is measured;
/// waiting for a disk would only add noise.
fn database_settings(workers: u32) -> Vec<Setting> {
    [
        ("innodb_buffer_pool_size", "512M"),
        ("innodb_log_file_size", "256M"),
        ("innodb_flush_log_at_trx_commit", "2"),
        ("default_time_zone", "+00:00"),
        ("skip_name_resolve", "1"),
        ("thread_cache_size", &workers.to_string()),
        ("max_connections", &(workers + 50).to_string()),
        // The query cache would hide the rows of cached statements.
        ("query_cache_type", "0"),
    ]
    .map(|(name, value)| setting(name, value))
    .to_vec()
}

fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> AuctionError + 'a {
    move |source| AuctionError::Io { action, path: path.to_owned(), source }
}
